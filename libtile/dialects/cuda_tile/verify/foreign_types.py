# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Invariants of the types of other dialects that stand among those of cuda_tile: tiles of the inner dialects."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.types import MAX_TILE_ELEMENTS, is_element_type
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import type_text as shown


def problem_of(type_: Attribute) -> str | None:
    """What is wrong with a type of another dialect; None if nothing is known to be."""
    if isinstance(type_, TensorType):
        return _tensor(type_)
    return type_.problem() if isinstance(type_, ParsedData) else None


def _tensor(type_: TensorType) -> str | None:
    """A tile of the inner dialects."""
    element, shape = type_.element_type, type_.get_shape()
    if not is_element_type(element):
        return f"expects tiles of numbers, indices or pointers, but got {shown(type_)}"
    problem = inner_sizes_problem(shape)
    if problem is None and isinstance(element, ParsedData):
        problem = element.problem()
    if problem is None and not isinstance(type_.encoding, NoneAttr):
        check = getattr(type_.encoding, "problem_of", None)
        problem = f"expects a layout, but got {shown(type_.encoding)}" if check is None else check(shape)
    return problem


def inner_sizes_problem(shape: Sequence[int]) -> str | None:
    """What is wrong with the sizes of a tile of the inner dialects, in their documents' words; None if nothing."""
    got = f"[{', '.join('?' if size < 0 else str(size) for size in shape)}]"
    if any(size <= 0 for size in shape):
        return f"all dimensions must be positive constants, got {got}"
    if any(size & (size - 1) for size in shape):
        return f"all dimensions must be powers of two, got {got}"
    return f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements" if prod(shape) > MAX_TILE_ELEMENTS else None
