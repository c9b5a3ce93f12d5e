# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A metaclass for classes of ops, attributes and types, by which they are classes as any other.

xDSL's bases are abstract (`abc.ABC`), and what derives from an abstract class is one as well: it takes longer to make,
and whether an object is of it is found out by code of `abc`'s own, which asks all subclasses of the class where the
answer is no. There are some hundred of ours, and a tool's process makes them all to use a few.

Given up are two things of abstract classes. Other classes cannot be registered with these, which is a TypeError; and
one that lacks a method is instantiated all the same, which a test looks for.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any


class PlainClass(ABCMeta):
    """The metaclass; xDSL's bases have `ABCMeta`, from which that of a subclass has to derive."""

    def __new__(mcls, name: str, bases: tuple[type, ...], members: dict[str, Any], **options: Any) -> Any:
        return type.__new__(mcls, name, bases, members, **options)

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def register(cls, subclass: type) -> Any:
        raise TypeError(f"{cls.__name__} is no abstract class, with which others could be registered")
