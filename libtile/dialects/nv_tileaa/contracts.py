# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules that ops of both inner dialects share: numbers that cannot be negative, what regions yield, what they capture,
and which read-modify-writes an element type has."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.element_types import is_float, is_integer
from libtile.ir.places import ops_of
from libtile.ir.tile_form import TileOp, is_token, type_text

BITWISE = ("and", "or", "xor")
UNSIGNED = ("umin", "umax")

NAMED_BARRIERS = 16
"""Barriers of a CTA, of which number 0 is that of all its warps (PTX ISA, "bar")."""


def require_at_least(op: TileOp, least: int, *names: str) -> None:
    """Integer attributes, and the entries of arrays of them, are not below `least`; VerifyException."""
    for name in names:
        attr = op.properties.get(name)
        for value in attr.data if isinstance(attr, ArrayAttr) else (attr,):
            if isinstance(value, IntegerAttr) and value.value.data < least:
                raise VerifyException(f"expects {name} of at least {least}, but got {value.value.data}")


def require_at_most(op: TileOp, most: int, *names: str) -> None:
    """Integer attributes are not above `most`; VerifyException."""
    for name in names:
        attr = op.properties.get(name)
        if isinstance(attr, IntegerAttr) and attr.value.data > most:
            raise VerifyException(f"expects {name} of at most {most}, but got {attr.value.data}")


def require_power_of_two(op: TileOp, *names: str) -> None:
    """Integer attributes are powers of two, where they are given; VerifyException."""
    for name in names:
        attr = op.properties.get(name)
        if isinstance(attr, IntegerAttr) and (attr.value.data <= 0 or attr.value.data.bit_count() != 1):
            raise VerifyException(f"expects {name} to be a power of two, but got {attr.value.data}")


def require_yields(op: TileOp, expected: Sequence[Attribute]) -> None:
    """Every region that is not empty yields values of these types; VerifyException."""
    for region in op.regions:
        for block in region.blocks:
            last = block.last_op
            _require_types("the region to yield {}", expected, last.operands if last is not None else [])


def require_yields_together(op: TileOp, expected: Sequence[Attribute]) -> None:
    """What the regions yield, one after the other, are values of these types; VerifyException."""
    last = [block.last_op for region in op.regions for block in region.blocks]
    _require_types("the regions to yield {} together", expected, [v for end in last if end for v in end.operands])


def require_arguments(block: Block, expected: Sequence[Attribute]) -> None:
    """A region's arguments have these types; VerifyException."""
    _require_types("a region with arguments {}", expected, block.args)


def _require_types(what: str, expected: Sequence[Attribute], values: Sequence[SSAValue]) -> None:
    given = [value.type for value in values]
    if given != list(expected):
        wanted, found = (f"({', '.join(map(type_text, types))})" for types in (expected, given))
        raise VerifyException(f"expects {what.format(wanted)}, but got {found}")


def require_no_captures(region: Region, what: str) -> None:
    """Nothing in a region uses a value from outside of it; VerifyException."""
    inside: set[Operation | Block] = set(ops_of(region))
    inside |= {block for op in ops_of(region) for r in op.regions for block in r.blocks} | set(region.blocks)
    for op in ops_of(region):
        for value in op.operands:
            if value.owner not in inside:
                raise VerifyException(f"expects the region of {what} to capture no values, but '{op.name}' uses one")


def require_mode(mode: str, element: Attribute, attribute: str = "rmw_mode") -> None:
    """A read-modify-write, named by an attribute, that the element type has; VerifyException."""
    if is_float(element) and mode in (*BITWISE, *UNSIGNED):
        raise VerifyException(f"{attribute} '{mode}' needs integers, but got {type_text(element)}")
    if is_integer(element) and mode == "addf":
        raise VerifyException(f"{attribute} 'addf' needs floats, but got {type_text(element)}")


def require_order(op: TileOp, semantic: str) -> None:
    """What orders other accesses (with acquire or release) takes part in the order of tokens: it gives one;
    VerifyException."""
    ordered = semantic in ("acquire", "release", "acq_rel")
    if ordered and not (op.results and is_token(op.results[-1].type)):
        raise VerifyException(f"expects a token result with mem_semantic {semantic}")


def require_token_result(op: TileOp) -> None:
    """What takes a token gives one; VerifyException."""
    if op.group("token") and not (op.results and is_token(op.results[-1].type)):
        raise VerifyException("expects a token result with a token operand")
