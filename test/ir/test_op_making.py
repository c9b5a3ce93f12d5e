# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that are made and copied here are what xDSL makes of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

import libtile
from generators import growing
from libtile.dialects.cuda_tile.ops import OPS
from libtile.ir.op_making import append
from libtile.ir.places import ops_in, ops_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _sources() -> list[object]:
    texts = [growing.if_nest(3), growing.tile_nest(3), growing.loop_row(2), growing.entries(2)]
    return [*texts, *(EXAMPLES / f"{name}.bc" for name in ("gemm", "attention", "softmax"))]


def _module(source: object) -> Operation:
    return libtile.parse(source).op if isinstance(source, str) else libtile.read(source).op  # type: ignore[arg-type]


def _by_xdsl(op: Operation) -> Operation:
    """The copy that xDSL's own code makes, down to the last op."""
    create = vars(Operation)["create"].__func__

    def copy(inner: Operation, values: dict[SSAValue, SSAValue], blocks: dict[Block, Block]) -> Operation:
        made: Operation = create(
            type(inner),
            result_types=inner.result_types,
            properties=inner.properties.copy(),
            attributes=inner.attributes.copy(),
            location=inner.location,
            successors=[blocks.get(block, block) for block in inner.successors],
            regions=[Region() for _ in inner.regions],
        )
        for old, new in zip(inner.results, made.results):
            values[old] = new
            new.name_hint = old.name_hint
        for old_region, region in zip(inner.regions, made.regions):
            for block in old_region.blocks:
                other = Block(arg_types=block.arg_types)
                region.add_block(other)
                for argument, old_argument in zip(other.args, block.args):
                    argument.location = old_argument.location
                    argument.name_hint = old_argument.name_hint
                    values[old_argument] = argument
                for each in block.ops:
                    other.add_op(copy(each, values, blocks))
        return made

    values: dict[SSAValue, SSAValue] = {}
    made = copy(op, values, {})
    for old, new in zip(op.walk(), made.walk()):
        new.operands = [values.get(value, value) for value in old.operands]
    return made


def _shape(root: Operation) -> list[object]:
    """All that there is to an op and those in it, without the objects themselves: uses in their order included."""
    numbers: dict[object, int] = {}
    found: list[object] = []
    for op in ops_of(root):
        numbers[op] = len(numbers)
        for region in op.regions:
            for block in region.blocks:
                numbers |= {argument: len(numbers) + n for n, argument in enumerate(block.args)}
        numbers |= {result: len(numbers) + n for n, result in enumerate(op.results)}
    for op in ops_of(root):
        values = [*op.results, *(a for region in op.regions for block in region.blocks for a in block.args)]
        found += [op.name, op.properties, op.attributes, op.location, [numbers.get(v, v) for v in op.operands]]
        found += [(v.type, v.name_hint, [(numbers[u.operation], u.index) for u in v.uses if u.operation in numbers])
                  for v in values]  # fmt: skip
        found += [getattr(v, "location", None) for v in values]
        parent = op.parent_op()
        found += [None if parent is None else numbers.get(parent), len(op.regions)]
        found += [[[numbers[inner] for inner in reversed(block.ops)] for block in r.blocks] for r in op.regions]
    return found


@pytest.mark.parametrize("source", _sources(), ids=str)
def test_copies_are_those_of_xdsl(source: object) -> None:
    for op in list(ops_of(_module(source))):
        if op.name.startswith("cuda_tile."):
            assert _shape(op.clone()) == _shape(_by_xdsl(op)), op.name


def test_a_copy_lies_in_its_blocks_as_any_op() -> None:
    """The links between ops, blocks and regions are there: ops can be put before, behind and taken out."""
    copy = _module(growing.if_nest(2)).clone()
    for op in list(ops_of(copy)):
        for region in op.regions:
            assert region.parent is op
            for block in region.blocks:
                assert block.parent is region
                assert ops_in(block) == list(block.ops) == list(reversed(list(reversed(block.ops))))
                assert all(inner.parent is block for inner in block.ops)
                assert block.last_op is (ops_in(block) or [None])[-1]
                for inner in ops_in(block):
                    after = inner.next_op
                    block.detach_op(inner)
                    if after is None:
                        block.add_op(inner)
                    else:
                        block.insert_op_before(inner, after)
    assert libtile.print_module(libtile.Module(copy)) == libtile.print_module(libtile.parse(growing.if_nest(2)))


def test_a_copy_takes_the_values_that_it_is_given_and_tells_its_own() -> None:
    module = _module(EXAMPLES / "gemm.bc")
    add = next(op for op in ops_of(module) if op.name == "cuda_tile.make_partition_view")
    other = Block(arg_types=[add.operands[0].type]).args[0]
    values: dict[SSAValue, SSAValue] = {add.operands[0]: other}
    copy = add.clone(values)
    assert copy.operands[0] is other and [use.operation for use in other.uses] == [copy]
    assert values[add.results[0]] is copy.results[0]
    bare = add.clone(clone_operands=False)
    assert not bare.operands and bare.properties == add.properties and bare.properties is not add.properties


def test_uses_of_a_result_get_another_value_as_by_xdsl() -> None:
    """Their order included; one op uses it twice, and the other value has uses before."""

    def replaced(replace: Callable[[SSAValue, SSAValue], None]) -> list[object]:
        module = _module(EXAMPLES / "attention.bc")
        ops = [op for op in ops_of(module) if op.results]
        for op in ops:
            others = [o.results[0] for o in ops if o.results[0].type == op.results[0].type]
            if op.results[0].first_use is not None:
                op.results[0].first_use.operation.operands[0] = op.results[0]
                replace(op.results[0], others[len(others) // 2])
        return _shape(module)

    ours = replaced(lambda value, other: value.replace_all_uses_with(other))
    assert ours == replaced(vars(SSAValue)["replace_all_uses_with"])


def test_a_result_that_is_used_is_not_erased() -> None:
    op = next(op for op in ops_of(_module(EXAMPLES / "gemm.bc")) if op.results and op.results[0].first_use is not None)
    op.detach()
    with pytest.raises(ValueError, match="still has uses"):
        op.erase()
    op.erase(safe_erase=False)
    assert op.results[0].first_use is None


def test_ops_are_appended_as_by_xdsl() -> None:
    ops = ops_in(_module(growing.loop_row(2)).regions[0].block.first_op.regions[0].block)  # type: ignore[union-attr]
    one, other = Block(), Block()
    for op in ops:
        append(one, op.clone())
        other.add_op(op.clone())
    assert [op.name for op in one.ops] == [op.name for op in other.ops] == [op.name for op in ops]
    assert [op.name for op in reversed(one.ops)] == [op.name for op in reversed(other.ops)]
    assert all(op.parent is one for op in one.ops) and one.last_op is ops_in(one)[-1]


def test_what_is_created_has_its_parts_and_its_place() -> None:
    type_ = next(op for op in ops_of(_module(EXAMPLES / "gemm.bc")) if op.name == "cuda_tile.constant").results[0].type
    block = Block(arg_types=[type_, type_])
    place = FileLineColLoc(StringAttr("x"), IntAttr(1), IntAttr(2))
    properties = {"a": StringAttr("b")}
    cls = OPS["addi"]
    made = cls.create(operands=[block.args[0], block.args[0]], result_types=[type_], properties=properties)
    by_xdsl = vars(Operation)["create"].__func__(
        cls, operands=[block.args[1], block.args[1]], result_types=[type_], properties=properties
    )
    assert [use.index for use in block.args[0].uses] == [use.index for use in block.args[1].uses] == [1, 0]
    assert made.properties == by_xdsl.properties and made.properties is not properties
    assert made.location == by_xdsl.location == UNKNOWN_LOC and made.parent is None
    assert cls.create(location=place).location is place
    region = Region(Block())
    assert OPS["if"].create(regions=[region]).regions == (region,) and region.parent is not None
    with pytest.raises(ValueError, match="already attached"):
        OPS["if"].create(regions=[region])
    made.erase()
    assert not block.args[0].uses
