# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What classes remember of traits and of other classes is what would be found without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import IsTerminator, MemoryEffect, NoMemoryEffect, OpTrait, Pure

from libtile.dialects import arith, nv_tileaa, nv_tileas, scf, tensor  # noqa: F401  (their classes are asked for)
from libtile.dialects.cuda_tile.ops import OPS
from libtile.ir import light
from libtile.ir.deferred_op import DeferredOp
from libtile.ir.operands import DeclaresOperands

BASES = (DeferredOp, DeclaresOperands)


def below(cls: type[Operation]) -> Iterator[type[Operation]]:
    for derived in type.__subclasses__(cls):
        yield derived
        yield from below(derived)


def test_each_op_has_the_traits_that_xdsl_finds() -> None:
    list(OPS.values())
    found = [
        c for base in BASES for c in set(below(base)) if c.__module__.startswith("libtile.") and hasattr(c, "name")
    ]
    kinds = {kind for cls in found for trait in cls.traits for kind in type(trait).__mro__ if issubclass(kind, OpTrait)}
    assert len(found) > 300 and len(kinds) > 20
    for cls in found:
        for kind in kinds:
            expected = [trait for trait in cls.traits if isinstance(trait, kind)]
            assert cls.get_traits_of_type(kind) == expected, (cls, kind)
            assert cls.get_trait(kind) in (expected or [None])
            assert cls.has_trait(kind) == bool(expected)


def test_a_class_is_asked_for_its_traits_when_it_has_all_of_them() -> None:
    class Base(DeferredOp):
        name = "test.base"
        traits = traits_def(IsTerminator())

    class Derived(Base):
        name = "test.derived"
        traits = traits_def(Pure())

    assert Derived.has_trait(IsTerminator) and Derived.has_trait(NoMemoryEffect) and Derived.has_trait(Pure())
    assert Derived.get_traits_of_type(MemoryEffect) == [Pure()]


def test_a_form_without_xdsl_is_asked_anew_when_it_stands_for_another_class(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = light.IntegerType
    monkeypatch.setattr(ours, "of_it", {})
    monkeypatch.setattr(ours, "other", ())
    assert not isinstance(IntegerType(32), ours)
    light.stand_for(IntegerType)
    assert isinstance(IntegerType(32), ours) and not isinstance(3, ours)


def test_an_op_of_xdsls_own_keeps_its_way_of_finding_traits() -> None:
    @irdl_op_definition
    class Foreign(IRDLOperation):
        name = "test.foreign"
        traits = traits_def(Pure())

    assert not issubclass(Foreign, BASES) and Foreign.has_trait(Pure)
