# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of numbers, which are values: the same one for the same number, made and verified once. xDSL takes some
hundred steps for each. The latest few thousand are kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType

index = IndexType()


@lru_cache(maxsize=4096, typed=True)
def integer(value: int, type_: IntegerType | IndexType) -> IntegerAttr[Any]:
    """An integer of a type."""
    return IntegerAttr(value, type_)


def integers(values: Sequence[int], type_: IntegerType) -> DenseArrayBase[Any]:
    """A dense array of integers of a type."""
    return _array(tuple(values), type_)


@lru_cache(maxsize=1024)
def _array(values: tuple[int, ...], type_: IntegerType) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(type_, values)


def numbers_of(array: DenseArrayBase[Any]) -> tuple[int, ...]:
    """The integers in a dense array, which keeps them: it holds bytes."""
    members = array.__dict__
    found: tuple[int, ...] | None = members.get("_numbers")
    if found is None:
        found = members["_numbers"] = tuple(map(int, array.get_values()))
    return found


__all__ = ["index", "integer", "integers", "numbers_of"]
