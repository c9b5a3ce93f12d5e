# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the matrix multiplications: shapes, and which element types go together.

Tile IR specification, section Operations: mmaf, mmai, mmaf_scaled (tables of supported data types).
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, TileType
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES
from libtile.dialects.cuda_tile.verify.report import Report, dims, fail, rule
from libtile.dialects.cuda_tile.verify.tiles import tile

ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f8E4M3FN": ("f16", "f32"),
    "f8E5M2": ("f16", "f32"),
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f32": ("f32",),
    "f64": ("f64",),
}
"""The accumulator types of mmaf by operand type."""

SCALED_OPERANDS: dict[str, tuple[str, ...]] = {
    "f8E4M3FN": ("f4E2M1FN",),
    "f8E8M0FNU": ("f8E4M3FN", "f8E5M2", "f4E2M1FN"),
    "fnv8E5M3FNU": ("f4E2M1FN",),
}
"""The operand types of mmaf_scaled by scale type."""

BLOCK_SIZES: dict[tuple[str, str], tuple[int, ...]] = {
    ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "f8E8M0FNU"): (16, 32),
    ("f4E2M1FN", "fnv8E5M3FNU"): (16, 32),
}
"""How many elements along K share a scale, by operand and scale type; 32 for the 8-bit operands."""


def _match(op: CudaTileOp, prefix: str, a: tuple[str, TileType, int], b: tuple[str, TileType, int]) -> None:
    """Two dimensions, given as (operand's name, its type, dimension), have the same size."""
    (a_name, a_type, a_dim), (b_name, b_type, b_dim) = a, b
    if a_type.shape[a_dim] != b_type.shape[b_dim]:
        fail(
            op,
            f"{prefix}shape error: dim {a_dim} of {a_name} ({a_type.shape[a_dim]}) and dim {b_dim} of {b_name} "
            f"({b_type.shape[b_dim]}) must match, but got {a_name} shape ({dims(a_type.shape)}) and "
            f"{b_name} shape ({dims(b_type.shape)})",
        )


def _shapes(op: CudaTileOp) -> tuple[int, int]:
    """Check M, N, K and the batch of lhs, rhs and acc; returns the numbers of the row and column dimensions."""
    lhs, rhs, acc = (tile(v) for v in op._operands[:3])
    if lhs.rank not in (2, 3):
        fail(op, "operands must be 2D or 3D tiles")
    row, column = (1, 2) if lhs.rank == 3 else (0, 1)
    if row:
        _match(op, "", ("lhs", lhs, 0), ("rhs", rhs, 0))
        _match(op, "", ("lhs", lhs, 0), ("acc", acc, 0))
    # The reference's messages about these three have a second blank behind "op".
    _match(op, " ", ("lhs", lhs, column), ("rhs", rhs, row))
    _match(op, " ", ("lhs", lhs, row), ("acc", acc, row))
    _match(op, " ", ("rhs", rhs, column), ("acc", acc, column))
    return row, column


@rule("mmaf")
def mmaf(op: CudaTileOp, report: Report) -> None:
    _shapes(op)
    operand = NUMBER_NAMES[tile(op._operands[0]).element_type]
    acc = NUMBER_NAMES[tile(op._operands[2]).element_type]
    allowed = ACCUMULATORS.get(operand)
    if allowed is None:
        fail(op, f"unsupported input element type: '{operand}'")
    if acc not in allowed:
        listed = ", ".join(f"'{name}'" for name in allowed)
        fail(
            op,
            f"unsupported combination of element types. Input type '{operand}' expects accumulator/result type "
            f"to be one of {{{listed}}}, but got '{acc}'",
        )


@rule("mmai")
def mmai(op: CudaTileOp, report: Report) -> None:
    _shapes(op)


@rule("mmaf_scaled")
def mmaf_scaled(op: CudaTileOp, report: Report) -> None:
    row, column = _shapes(op)
    lhs, rhs, _, lhs_scale, rhs_scale = (tile(v) for v in op._operands)
    if row:
        _match(op, "", ("lhs", lhs, 0), ("lhs_scale", lhs_scale, 0))
        _match(op, "", ("rhs", rhs, 0), ("rhs_scale", rhs_scale, 0))
    _match(op, "", ("lhs", lhs, row), ("lhs_scale", lhs_scale, row))
    _match(op, "", ("rhs", rhs, column), ("rhs_scale", rhs_scale, column))
    _match(op, "", ("lhs_scale", lhs_scale, column), ("rhs_scale", rhs_scale, row))
    _scale_type(op, lhs, lhs_scale)
    _block_size(op, lhs, lhs_scale, column)


def _scale_type(op: CudaTileOp, lhs: TileType, scale: TileType) -> None:
    operand, scale_name = NUMBER_NAMES[lhs.element_type], NUMBER_NAMES[scale.element_type]
    allowed = SCALED_OPERANDS[scale_name]
    if operand not in allowed:
        listed = ", ".join(f"'{name}'" for name in allowed)
        expected = f"one of {{{listed}}}" if len(allowed) > 1 else listed
        fail(
            op,
            f"unsupported combination of element types. Scale type '{scale_name}' expects lhs and rhs element "
            f"types to be {expected}, but got '{operand}'",
        )


def _block_size(op: CudaTileOp, lhs: TileType, scale: TileType, column: int) -> None:
    k, scale_k = lhs.shape[column], scale.shape[column]
    if k % scale_k:
        fail(
            op,
            f"shape error: dim {column} of lhs_scale ({scale_k}) must be a divisor of dim {column} of lhs ({k}), "
            f"but got lhs_scale shape ({dims(scale.shape)}) and lhs shape ({dims(lhs.shape)})",
        )
    size = k // scale_k
    operand, scale_name = NUMBER_NAMES[lhs.element_type], NUMBER_NAMES[scale.element_type]
    allowed = BLOCK_SIZES.get((operand, scale_name))
    if allowed is None:
        what, allowed = "f8 element type requires", (32,)
    else:
        what = f"{operand} element type with {scale_name} scales requires"
    if size not in allowed:
        fail(
            op,
            f"shape error: {what} block scale factor of lhs_scale and rhs_scale to be "
            f"{' or '.join(map(str, allowed))}, but got {size}",
        )
