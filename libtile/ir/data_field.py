# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names for the parameters of types and attributes that hold a tuple: `shape = DataField[tuple[int, ...]](0)`."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T", covariant=True)


class DataField(Generic[T]):
    """What stands at a place of the `data` of the object."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...

    @overload
    def __get__(self, owner: Any, cls: type) -> T: ...

    def __get__(self, owner: Any, cls: type) -> Self | T:
        if owner is None:
            return self
        value: T = owner.data[self.index]
        return value
