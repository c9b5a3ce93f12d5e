# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The short way to an op gives what IRDL's builder gives, and leaves to it what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i1, i32
from xdsl.irdl import IRDLOperation

import libtile
from libtile.dialects import arith, scf
from libtile.ir import deferred_op, op_parts

SOFTMAX = Path(__file__).resolve().parents[2] / "examples" / "softmax.bc"


def test_ops_of_a_compilation_are_as_irdl_makes_them(monkeypatch):
    made: list[str] = []

    def both(cls, operands, result_types, properties, regions):
        parts = op_parts.parts_of(cls, operands, result_types, properties, regions)
        if parts is not None and not regions:
            op = cls.__new__(cls)
            IRDLOperation.__init__(op, operands=operands, result_types=result_types, properties=properties)
            assert list(op.operands) == parts.operands
            assert list(op.result_types) == parts.result_types
            assert list(op.properties.items())[: len(parts.properties)] == list(parts.properties.items())
            op.drop_all_references()
            made.append(cls.name)
        return parts

    monkeypatch.setattr(deferred_op, "parts_of", both)
    libtile.compile(SOFTMAX, emit="llvm")
    assert len(made) > 20
    assert {"nv_tileaa.constant", "nv_tileaa.make_memref"} <= set(made)


def _constant():
    return arith.ConstantOp(IntegerAttr(1, i32))


def test_ops_stand_for_their_results():
    assert arith.AddiOp(_constant(), _constant()).lhs.type == i32


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"operands": [None, None], "result_types": [i32]}, "passed Sequence to non-variadic .* 0 'lhs'"),
        ({"operands": [], "result_types": [i32]}, "Expected 2 operand"),
        ({"operands": [[], []], "result_types": [i32]}, "passed Sequence to non-variadic .* 0 'lhs'"),
    ],
)
def test_what_is_wrong_irdl_says(given, words):
    with pytest.raises(ValueError, match=words):
        arith.AddiOp.build(**given)
    op = arith.AddiOp.__new__(arith.AddiOp)
    with pytest.raises(ValueError, match=words):
        deferred_op.DeferredOp.__init__(op, **given)


def test_groups_have_their_sizes():
    sizes = op_parts.segments((1, 0, 2))
    assert sizes == DenseArrayBase.from_list(i32, (1, 0, 2))
    assert op_parts.sizes_of(sizes) == (1, 0, 2) == op_parts.sizes_of(DenseArrayBase.from_list(i32, [1, 0, 2]))


def test_regions_that_are_lists_are_irdls():
    condition = arith.ConstantOp(IntegerAttr(1, i1))
    assert len(scf.IfOp(condition, [], [scf.YieldOp()], [scf.YieldOp()]).regions) == 2
