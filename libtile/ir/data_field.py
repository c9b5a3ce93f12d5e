# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and attributes that hold Python values, and names for the parameters of those that hold a tuple:
`shape = DataField[tuple[int, ...]](0)`."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

from xdsl.ir import Data
from xdsl.utils.runtime_final import runtime_final

T = TypeVar("T", covariant=True)
D = TypeVar("D", bound=type[Data[Any]])


def data_definition(cls: D) -> D:
    """What `irdl_attr_definition` does for a class of `Data`, at once: that asks first whether it is a class of
    `ParametrizedAttribute`, for which Python asks all subclasses of this."""
    return runtime_final(cls)


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
