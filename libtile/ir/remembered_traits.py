# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that know which traits their class has, once that has been asked."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from xdsl.ir import Operation

C = TypeVar("C", bound=type[Operation])


def remembers_traits(cls: C) -> C:
    """Have a base of ops, and what derives from it, remember their traits, which are those of their declaration.

    For each question xDSL goes through all traits of a class, and asks of each whether it is of an abstract class. A
    dozen passes ask it of every op. The base has a class method `complete`, which is called before traits are looked
    for, of which a class may have all only then. It is not another base, for which Python would look up 61 names when
    it makes any class of ops.
    """
    cls.has_trait = classmethod(_has_trait)  # type: ignore[assignment, arg-type]
    cls.get_trait = classmethod(_trait)  # type: ignore[assignment, arg-type]
    cls.get_traits_of_type = classmethod(_get_traits_of_type)  # type: ignore[assignment]
    return cls


@cache
def _has_trait(cls: Any, trait: Any, *, value_if_unregistered: bool = True) -> bool:
    return _trait(cls, trait) is not None


def _get_traits_of_type(cls: Any, trait_type: Any) -> list[Any]:
    return list(_traits_of_type(cls, trait_type))


_FIND_TRAIT: Any = vars(Operation)["get_trait"].__func__
_FIND_TRAITS: Any = vars(Operation)["get_traits_of_type"].__func__


@cache
def _trait(cls: Any, trait: Any) -> Any:
    cls.complete()
    return _FIND_TRAIT(cls, trait)


@cache
def _traits_of_type(cls: Any, kind: Any) -> tuple[Any, ...]:
    cls.complete()
    return tuple(_FIND_TRAITS(cls, kind))
