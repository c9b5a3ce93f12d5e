# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names for the parameters of types and attributes that hold a tuple: `shape = DataField[tuple[int, ...]](0)`."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from typing import Any, Generic, Self, TypeVar, overload

    T = TypeVar("T", covariant=True)

    class DataField(Generic[T]):
        """What stands at a place of the `data` of the object."""

        def __init__(self, index: int): ...

        @overload
        def __get__(self, owner: None, cls: type) -> Self: ...

        @overload
        def __get__(self, owner: Any, cls: type) -> T: ...

        def __get__(self, owner: Any, cls: type) -> Self | T: ...
else:

    class DataField:
        """What stands at a place of the `data` of the object.

        An object that has members of its own gets it as one of these, where Python finds it without this function.
        """

        __slots__ = ("index", "name")

        def __init__(self, index):
            self.index = index

        def __set_name__(self, cls, name):
            self.name = name

        def __class_getitem__(cls, parameter):
            return cls

        def __get__(self, owner, cls):
            if owner is None:
                return self
            found = owner.data[self.index]
            if cls.__dictoffset__:
                owner.__dict__[self.name] = found
            return found
