# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules broken at random get diagnostics: the verifier never fails on what it is there to find."""

from __future__ import annotations

import random

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from dialects.building import TOKEN, tile, view
from dialects.verify_cases import CASES
from libtile.asm.module import diagnose
from libtile.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DenseElementsAttr,
    DivByAttr,
    EnumAttr,
    OptimizationHintsAttr,
)
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS, CudaTileOp
from libtile.dialects.cuda_tile.types import GatherScatterViewType, PartitionViewType, TileType, i1, i32

VIEW = view("f32", [4], [1])
TYPES: list[Attribute] = [
    tile("f32", 4), tile("i32"), tile("i1"), tile("ptr<f32>"), tile("f32", 3), tile("f4E2M1FN", 2), TOKEN, VIEW, i32,
    PartitionViewType((4,), VIEW, (0,)), GatherScatterViewType((4,), VIEW, 3), TileType((2,), IntegerType(7)),
    FunctionType.from_lists([], []),
]  # fmt: skip
ATTRIBUTES: list[Attribute] = [
    IntegerAttr(3, 32), IntegerAttr(-1, 64), StringAttr("x"), UnitAttr(), ArrayAttr([]), ArrayAttr([UnitAttr()]),
    DenseArrayBase.from_list(i32, [9, 9]), DenseArrayBase.from_list(i32, []), DenseArrayBase.from_list(i1, [1]),
    DivByAttr(3, 1, None), BoundedAttr(3, 1), EnumAttr("RoundingMode", "approx"), EnumAttr("Signedness", "signed"),
    OptimizationHintsAttr({"x": {"y": UnitAttr()}}), FunctionType.from_lists([i32], []),
    DenseElementsAttr(tile("f32", 4), b"\0"),
]  # type: ignore[list-item]  # fmt: skip


def values(ops: list[Operation]) -> list[SSAValue]:
    return [result for op in ops for result in op.results]


def drop_property(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if op.properties:
        op.properties.pop(r.choice(list(op.properties)))


def set_property(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if isinstance(op, CudaTileOp):
        op.properties[r.choice([*(a.name for a in op.spec.attributes), SEGMENTS])] = r.choice(ATTRIBUTES)


def change_operand(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if op.operands and values(ops):
        op.operands[r.randrange(len(op.operands))] = r.choice(values(ops))


def drop_operand(op: Operation, ops: list[Operation], r: random.Random) -> None:
    op.operands = list(op.operands)[:-1]


def add_operand(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if values(ops):
        op.operands = [*op.operands, r.choice(values(ops))]


def change_type(op: Operation, ops: list[Operation], r: random.Random) -> None:
    for result in op.results:
        if isinstance(result, OpResult):
            result._type = r.choice(TYPES)


def change_region(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if op.regions:
        region = r.choice(op.regions)
        if region.first_block is not None and r.random() < 0.5:
            region.first_block.insert_arg(r.choice(TYPES), 0)
        else:
            region.add_block(Block())


def move(op: Operation, ops: list[Operation], r: random.Random) -> None:
    block, following = op.parent, op.next_op
    if block is not None and following is not None:
        op.detach()
        block.insert_op_after(op, following)


def change_op(op: Operation, ops: list[Operation], r: random.Random) -> None:
    if op.parent is None:
        return
    other = r.choice(list(OPS.values())).create(
        operands=list(op.operands),
        result_types=[result.type for result in op.results],
        properties=op.properties,
        regions=[op.detach_region(0) for _ in list(op.regions)],
    )
    for old, new in zip(op.results, other.results, strict=True):
        old.replace_all_uses_with(new)
    op.parent.insert_op_before(other, op)
    op.detach()


MUTATIONS = (
    drop_property, set_property, change_operand, drop_operand, add_operand, change_type, change_region, move, change_op
)  # fmt: skip


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 20))])
def test_a_module_broken_at_random_gets_diagnostics(seed: int) -> None:
    r = random.Random(seed)
    found = 0
    for _ in range(1500):
        module = r.choice(CASES).make()
        for _ in range(r.choice((1, 1, 2, 3))):
            ops = list(module.walk())
            r.choice(MUTATIONS)(r.choice(ops), ops, r)
        found += bool(diagnose(module, warn_hints=True))
    assert found > 750
