"""Classes of ops, attributes and types are none of Python's abstract ones, and lack no method for that."""

from abc import ABCMeta
from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation

from libtile.dialects import arith, nv_tileaa, nv_tileas, scf, tensor  # noqa: F401  (their classes are asked for)
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, TokenType
from libtile.ir.deferred_op import DeferredOp
from libtile.ir.plain_class import PlainClass

BASES = {"DeclaresOperands", "PredicateAttr"}
"""Classes that only others derive from, which have the methods that these lack."""


def below(cls: type) -> Iterator[type]:
    for derived in type.__subclasses__(cls):
        yield derived
        yield from below(derived)


def ours() -> list[type]:
    list(OPS.values())
    return [c for base in (Attribute, Operation) for c in set(below(base)) if c.__module__.startswith("libtile.")]


def test_no_class_lacks_a_method():
    classes = ours()
    assert len(classes) > 400
    lacking = {
        cls.__name__: missing
        for cls in classes
        if (missing := [n for n in dir(cls) if getattr(getattr(cls, n, None), "__isabstractmethod__", False)])
    }
    assert set(lacking) == BASES, lacking


def test_they_are_plain():
    abstract = [cls.__name__ for cls in ours() if type(cls) is ABCMeta]
    assert abstract == ["Fnv8E5M3FNUType"]  # of parameters, as IRDL declares them
    assert "__abstractmethods__" not in vars(TileType)


def test_they_answer_what_they_are():
    type_ = TileType((4,), IntegerType(32))
    assert isinstance(type_, TileType) and isinstance(type_, Attribute)
    assert not isinstance(type_, TokenType) and not isinstance(type_, Operation)
    assert issubclass(arith.AddiOp, DeferredOp) and not issubclass(arith.AddiOp, CudaTileOp)
    assert issubclass(OPS["addi"], CudaTileOp) and issubclass(OPS["addi"], Operation)


def test_none_are_registered_with_them():
    class Base(metaclass=PlainClass):
        pass

    with pytest.raises(TypeError, match="Base is no abstract class"):
        Base.register(int)
    assert not isinstance(1, Base)
