# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of matrix products, in the order and the words of the dialect's verifier."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.element_types import SCALES, bit_width, is_float, is_integer
from libtile.dialects.nv_tileaa.target import lacks_block_scaling
from libtile.ir.tile_form import TileOp, element_of, shape_of


def check_dot(op: TileOp) -> None:
    """Element types, signedness, ranks, shapes and scale factors of `D = A * B + C`; VerifyException."""
    a, b, c = (v.type for v in op.operands[:3])
    d = op.results[0].type
    check_dot_elements(op, [element_of(t) for t in (a, b, c, d)])
    check_dot_shapes(shape_of(a), shape_of(b), shape_of(c), shape_of(d))
    sfa, sfb = (op.group(name) for name in ("sfa", "sfb"))
    if bool(sfa) != bool(sfb):
        raise VerifyException("expects both SFA and SFB to be present")
    if sfa:
        _check_scales(op)


def check_dot_elements(op: TileOp, elements: list[Attribute]) -> None:
    """The element types of A, B, C and D, and what says whether integers are signed; VerifyException."""
    all_int, all_float = all(map(is_integer, elements)), all(map(is_float, elements))
    if not all_int and not all_float:
        raise VerifyException("expected the element types of A, B, C, and D to be either all integers or all floats.")
    if all_int:
        _check_integers(op, elements)
    else:
        check_no_signs(op)
        _check_pair(op, elements)
        _check_accumulator(elements)


def check_no_signs(op: TileOp) -> None:
    """Floats have no signedness, which nothing would be made of; VerifyException."""
    for operand in ("A", "B"):
        if f"signedness_{operand.lower()}" in op.properties:
            raise VerifyException(f"expects no signedness of #{operand}, whose elements are floats")


def _check_integers(op: TileOp, elements: list[Attribute]) -> None:
    widths = [bit_width(e) for e in elements[:2]]
    if widths[0] != widths[1]:
        raise VerifyException(f"expects #A and #B have same bit width but got {widths[0]} vs {widths[1]}")
    for operand in ("A", "B"):
        if f"signedness_{operand.lower()}" not in op.properties:
            raise VerifyException(f"expect signedness attribute for operand {operand}")
    if widths[0] not in (4, 8):
        raise VerifyException(f"expects #A and #B of integers of 4 or 8 bits, but got {widths[0]} bits")
    for element in elements[2:]:
        if element != i32:
            raise VerifyException(f"expects #C element type to be i32, but got {element}")


_EIGHT_BITS = (Float8E4M3FNType, Float8E5M2Type)


def _check_pair(op: TileOp, elements: list[Attribute]) -> None:
    """Both factors are of one type; the two 8-bit floats that are no scales go together."""
    a, b, c, d = elements
    if a != b and not (isinstance(a, _EIGHT_BITS) and isinstance(b, _EIGHT_BITS)):
        raise VerifyException(f"expects #A and #B of a legal pair of element types, but got {a} and {b}")
    if c != d:
        raise VerifyException(f"expects the result to have the element type of #C, but got {d} and {c}")


_OWN_ACCUMULATOR = (Float64Type, Float16Type)
"""Operand types whose accumulator may be of the same type: tensor cores have f64 products in f64, and f16 ones in f16
(PTX ISA, "mma": f16 accumulators; Tile IR specification, `mmaf`)."""


def _check_accumulator(elements: list[Attribute]) -> None:
    a, _, c, _ = elements
    if isinstance(a, Float4E2M1FNType):
        if not isinstance(c, Float32Type | Float16Type):
            raise VerifyException(f"expects #C element type to be either f32 or f16, but got {c}")
    elif not isinstance(c, Float32Type) and not (isinstance(c, _OWN_ACCUMULATOR) and _accumulates(a, c)):
        raise VerifyException(f"expects #C element type to be f32, but got {c}")


def _accumulates(a: Attribute, c: Attribute) -> bool:
    """Whether Tile IR has a product of this type with an accumulator other than f32."""
    if isinstance(c, Float64Type):
        return isinstance(a, Float64Type)
    return isinstance(a, Float16Type) or bit_width(a) == 8


def check_dot_shapes(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], d: tuple[int, ...]) -> None:
    """Shapes of `D = A * B + C`, with a batch dimension or without; VerifyException."""
    rank = len(d)
    if rank not in (2, 3):
        raise VerifyException(f"expects rank-2 or rank-3 tensor for result, but got ({rank})")
    if len(a) != rank or len(b) != rank or a[-1] != b[-2] or a[:-2] != b[:-2]:
        raise VerifyException("expects the shape of operand #A and #B to be compatible")
    if c != d or c != (*a[:-1], b[-1]):
        raise VerifyException("expects the shape of operand #C is compatible with operands #A and #B")


def check_scaled_dot(op: TileOp) -> None:
    """Types and shapes of a product of block-scaled operands without an instruction of its own; VerifyException."""
    a, b, c, sfa, sfb = (v.type for v in op.operands)
    d = op.results[0].type
    packed = "packed" in op.properties
    if packed and any(element_of(t) != i8 for t in (a, b)):
        raise VerifyException("expects tiles of i8 as #A and #B that are packed")
    if (not packed and not all(is_float(element_of(t)) for t in (a, b))) or not isinstance(element_of(c), Float32Type):
        raise VerifyException("expects floats as #A and #B, and f32 as #C")
    check_dot_shapes(shape_of(a), shape_of(b), shape_of(c), shape_of(d))
    _check_scale_types(op)
    _check_scale_shapes(shape_of(a), shape_of(b), shape_of(sfa), shape_of(sfb), 2 if packed else 1)


def _check_scale_shapes(
    a: tuple[int, ...], b: tuple[int, ...], sfa: tuple[int, ...], sfb: tuple[int, ...], together: int = 1
) -> None:
    """Factors for blocks of operands of which so many elements are `together` in one of a tile."""
    blocks = sfa[-1] if sfa else 0
    if sfa != (*a[:-1], blocks) or blocks < 1 or a[-1] * together % blocks:
        raise VerifyException("expects the shape of SFA to be that of #A with one element for each block")
    if sfb != (*b[:-2], blocks, b[-1]):
        raise VerifyException("expects the shape of SFB to be that of #B with one element for each block")


def _check_scale_types(op: TileOp) -> None:
    for name in ("sfa", "sfb"):
        element = element_of(op.group(name)[0].type)
        if not isinstance(element, SCALES):
            raise VerifyException(f"expects {name.upper()} of a scale type, but got {element}")


def _check_scales(op: TileOp) -> None:
    _check_scale_types(op)
    a, b, _, sfa, sfb = (shape_of(v.type) for v in op.operands)
    _check_scale_shapes(a, b, sfa, sfb)
    lacking = lacks_block_scaling(op)
    if lacking is not None:
        raise VerifyException(f"block-scaled MMA requires a target that supports block-scaled MMA, but got {lacking}")
