# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the ops that make, cut and rearrange tiles (Tile IR specification, section Operations, group Core)."""

from __future__ import annotations

from typing import cast

from libtile.dialects.cuda_tile.forms import CudaTileOp, DenseElementsAttr, TileType
from libtile.dialects.cuda_tile.type_forms import bit_width, is_number
from libtile.dialects.cuda_tile.verify.report import Report, dims, fail, quoted, rule
from libtile.ir.forms import OpResult, SSAValue


def tile(value: SSAValue) -> TileType:
    """The type of a value that its op's declaration says is a tile."""
    return cast(TileType, value.type)


@rule("broadcast")
def broadcast(op: CudaTileOp, report: Report) -> None:
    source, result = tile(op._operands[0]).shape, tile(op.results[0]).shape
    if any(s not in (r, 1) for s, r in zip(source, result)):
        fail(
            op,
            "expects the shape of source tile to be compatible with that of the result tile, "
            f"but got: {dims(source)} and {dims(result)}",
        )


@rule("cat")
def concatenate(op: CudaTileOp, report: Report) -> None:
    lhs, rhs, result = (tile(v).shape for v in (*op._operands, *op.results))
    dim, rank = op.attribute_value("dim"), len(lhs)
    if not 0 <= dim < rank:
        fail(op, f"expect dim to be [0, {rank}), but got: {dim}")
    total = lhs[dim] + rhs[dim]
    if total != result[dim]:
        fail(op, f"invalid concat at position {dim}, expected: {total} but got: {result[dim]}")
    for index in range(rank):
        if index == dim:
            continue
        for name, other in (("rhs", rhs), ("result", result)):
            if lhs[index] != other[index]:
                fail(
                    op,
                    f"expect lhs and {name} shapes to match at non-concat position {index}, "
                    f"expected: {lhs[index]} but got: {other[index]}",
                )


@rule("global")
def global_(op: CudaTileOp, report: Report) -> None:
    if op.attribute_value("value").type.rank != 1:
        fail(op, "type must have rank 1")


@rule("iota")
def iota(op: CudaTileOp, report: Report) -> None:
    type_ = tile(op.results[0])
    if type_.rank != 1:
        fail(op, "expects result type to be 1-d tile")
    count = type_.shape[0]
    if count > 1 << bit_width(type_.element_type):
        fail(
            op,
            f"the number of elements {count} exceeds the maximum value of element type {quoted(type_.element_type)}",
        )


@rule("permute")
def permute(op: CudaTileOp, report: Report) -> None:
    source, result = tile(op._operands[0]).shape, tile(op.results[0]).shape
    permutation, rank = op.attribute_value("permutation"), len(source)
    if rank < 2:
        fail(op, f"expects at least rank 2, but got: {rank}")
    if len(permutation) != rank:
        fail(op, f"expect permutation size ({len(permutation)}) to equal the rank of the source ({rank})")
    if len(set(permutation)) != rank:
        fail(op, "expect permutation elements to be unique")
    for index, source_dim in enumerate(permutation):
        if not 0 <= source_dim < rank:
            fail(op, f"permutation element at index {index} ({source_dim}) is out of bound [0, {rank})")
    for index, source_dim in enumerate(permutation):
        if result[index] != source[source_dim]:
            fail(
                op,
                f"result shape invalid at index {index}, expected: {source[source_dim]}, but got: {result[index]}",
            )


@rule("reshape")
def reshape(op: CudaTileOp, report: Report) -> None:
    if tile(op._operands[0]).num_elements != tile(op.results[0]).num_elements:
        fail(op, "expected source tile and result tile to have the same number of elements")


@rule("select")
def select(op: CudaTileOp, report: Report) -> None:
    if is_number(tile(op.results[0]).element_type, "f4E2M1FN"):
        fail(op, "cannot operate on sub-byte type F4E2M1FN")


# -- packing --------------------------------------------------------------------------------------------------------


def _packed_bits(type_: TileType) -> int:
    """Bits that a tile takes when it is packed: tf32 has the storage of f32."""
    width = 32 if is_number(type_.element_type, "tf32") else bit_width(type_.element_type)
    return width * type_.num_elements


@rule("pack", "unpack")
def pack(op: CudaTileOp, report: Report) -> None:
    source, result = tile(op._operands[0]), tile(op.results[0])
    if source.rank != 1:
        fail(op, "expects source and result to be rank-1 tiles")
    if bit_width(source.element_type) == bit_width(result.element_type):
        fail(op, "expects source and result to have different element type widths")
    source_bits, result_bits = _packed_bits(source), _packed_bits(result)
    if source_bits % 8:
        fail(op, "expects source tile to be byte-aligned")
    if result_bits % 8:
        fail(op, "expects result tile to be byte-aligned")
    if source_bits != result_bits:
        fail(
            op,
            "expects source and result to have the same size in bytes, but got source tile size "
            f"{source_bits // 8} bytes and result tile size {result_bits // 8} bytes",
        )


# -- slices ---------------------------------------------------------------------------------------------------------


@rule("extract")
def extract(op: CudaTileOp, report: Report) -> None:
    whole, part = tile(op._operands[0]), tile(op.results[0])
    if whole.element_type != part.element_type:
        fail(op, "source and result element type do not match")
    for index, (size, step) in enumerate(zip(whole.shape, part.shape)):
        if size % step:
            fail(
                op,
                f"source dimension {index} size ({size}) must be evenly divisible by "
                f"result dimension {index} size ({step})",
            )
    _slice_indices(op, report, op.operand_group("indices"), whole.shape, part.shape)


@rule("insert")
def insert(op: CudaTileOp, report: Report) -> None:
    part, whole = tile(op._operands[0]), tile(op.results[0])
    if whole.element_type != part.element_type:
        fail(op, "source and result element type do not match")
    if whole.rank != part.rank:
        fail(op, "source and result must have the same rank")
    for index, (size, step) in enumerate(zip(whole.shape, part.shape)):
        if size % step:
            fail(
                op,
                f"result dimension {index} size ({size}) must be evenly divisible by "
                f"source dimension {index} size ({step})",
            )
    _slice_indices(op, report, op.operand_group("indices"), whole.shape, part.shape)


def _slice_indices(
    op: CudaTileOp, report: Report, indices: tuple[SSAValue, ...], whole: tuple[int, ...], part: tuple[int, ...]
) -> None:
    """One index per dimension; a constant one that no slice has is warned about."""
    if len(indices) != len(whole):
        fail(op, f"expected {len(whole)} indices, but got {len(indices)}")
    for number, (index, size, step) in enumerate(zip(indices, whole, part)):
        value = constant_index(index)
        if value is None:
            continue
        name = f"{op.spec.name} index {number}"
        if value < 0:
            report.warn(op, f"{name} has negative value {value}, which may cause undefined behavior")
        last = size // step - 1
        if value > last:
            report.warn(op, f"{name} value {value} may be out of bounds (max valid index: {last})")


def constant_index(value: SSAValue) -> int | None:
    """The signed value of an i32 constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, CudaTileOp) or value.op.spec.name != "constant":
        return None
    attr = value.op.attribute_value("value")
    if not isinstance(attr, DenseElementsAttr) or not is_number(attr.type.element_type, "i32") or not attr.is_splat:
        return None
    return int.from_bytes(attr.raw, "little", signed=True)


__all__ = ["constant_index", "tile"]
