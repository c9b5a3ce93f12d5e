# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that know which traits their class has, once that has been asked."""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.ir import Operation
from xdsl.traits import OpTrait, OpTraitInvT

from libtile.ir.plain_class import PlainClass


class RemembersTraits(Operation, metaclass=PlainClass):
    """Base of ops that remember their traits, which are those of their declaration.

    For each question xDSL goes through all traits of a class, and asks of each whether it is of an abstract class. A
    dozen passes ask it of every op.
    """

    @classmethod
    def has_trait(cls, trait: type[OpTrait] | OpTrait, *, value_if_unregistered: bool = True) -> bool:
        wanted: Any = trait
        return _trait(cls, wanted) is not None

    @classmethod
    def get_trait(cls, trait: type[OpTraitInvT] | OpTraitInvT) -> OpTraitInvT | None:
        wanted: Any = trait
        found: OpTraitInvT | None = _trait(cls, wanted)
        return found

    @classmethod
    def get_traits_of_type(cls, trait_type: type[OpTraitInvT]) -> list[OpTraitInvT]:
        wanted: Any = trait_type
        return list(_traits_of_type(cls, wanted))

    @classmethod
    def complete(cls) -> None:
        """Called before traits are looked for, of which a class may have all only now."""


@cache
def _trait(cls: type[RemembersTraits], trait: Any) -> Any:
    cls.complete()
    return super(RemembersTraits, cls).get_trait(trait)


@cache
def _traits_of_type(cls: type[RemembersTraits], kind: Any) -> tuple[Any, ...]:
    cls.complete()
    return tuple(super(RemembersTraits, cls).get_traits_of_type(kind))
