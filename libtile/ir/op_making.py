# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Making ops and copying them, as xDSL does it, in a third of the steps.

xDSL gives a new op its operands as if it had others before, its successors as well, and its regions one by one; it
copies a nest of ops by adding each to its block, which goes up to the outermost op to see that none is put into itself,
and gives operands to the copies in a walk over both nests. Here all is put where it belongs. What comes out is the
same, name hints and the order of uses included: `test/ir/test_op_making.py` compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use

from libtile.ir.places import ops_in
from libtile.ir.plain_class import PlainClass

C = TypeVar("C", bound=type[Operation])


def makes_ops(cls: C) -> C:
    """Have a base of ops, and what derives from it, be made and copied by what stands here."""
    if "__init__" not in vars(cls):
        cls.__init__ = _make  # type: ignore[assignment, method-assign]
    cls.create = classmethod(_create)  # type: ignore[assignment, method-assign]
    cls.clone = _clone  # type: ignore[assignment, method-assign]
    return cls


class Values(SSAValues[Any]):
    """Values in a row, of which Python takes one, or some, without a function of xDSL's; some are a plain tuple."""

    if not TYPE_CHECKING:
        __getitem__ = tuple.__getitem__


class Result(OpResult[Any], metaclass=PlainClass):
    """A result of an op, which is hashed as the object that it is; xDSL does that in Python, for each look into a table
    of values. What uses it gets another value in half the steps, and nothing takes its place where nothing uses it."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    def replace_all_uses_with(self, value: SSAValue) -> None:
        if value is self:
            return
        use = self.first_use
        while use is not None:
            following, op, index = use._next_use, use._operation, use._index
            before = value.first_use
            use._prev_use, use._next_use = None, before
            if before is not None:
                before._prev_use = use
            value.first_use = use
            operands = list(op._operands)
            operands[index] = value
            op._operands = Values(operands)
            use = following
        self.first_use = None
        if value._name is None:
            value.name_hint = self._name

    def erase(self, safe_erase: bool = True) -> None:
        if self.first_use is not None:
            super().erase(safe_erase)


def fill(
    op: Operation,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
    location: LocationAttr,
    regions: Iterable[Region] = (),
) -> None:
    """Give a new op its parts, which it keeps, as `Operation.__init__` does; it has no successors."""
    _give(op, operands)
    op.results = Values([Result(type_, op, index) for index, type_ in enumerate(result_types)])
    op.properties = properties
    op.attributes = attributes
    op.location = location
    for region in regions:
        op.add_region(region)
    op.__post_init__()


def _give(op: Operation, operands: Sequence[SSAValue]) -> None:
    """Give an op that has none its operands."""
    op._operands = values = Values(operands)
    if values:
        op._operand_uses = uses = tuple([Use(op, index) for index in range(len(values))])
        for value, use in zip(values, uses):
            first = value.first_use
            if first is not None:
                use._next_use = first
                first._prev_use = use
            value.first_use = use


def _make(
    op: Operation,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = {},
    attributes: Mapping[str, Attribute] = {},
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> None:
    """What `Operation.__init__` does."""
    place = UNKNOWN_LOC if location is None else location
    fill(op, operands, result_types, dict(properties), dict(attributes), place, regions)
    if successors:
        op.successors = list(successors)


def _create(cls: type[Operation], /, **given: Any) -> Operation:
    """What `Operation.create` does, with the arguments of `_make`."""
    op = cls.__new__(cls)
    _make(op, **given)
    return op


def _clone(
    self: Operation,
    value_mapper: dict[SSAValue, SSAValue] | None = None,
    block_mapper: dict[Block, Block] | None = None,
    *,
    clone_name_hints: bool = True,
    clone_operands: bool = True,
) -> Operation:
    copier = _Copier(
        {} if value_mapper is None else value_mapper, {} if block_mapper is None else block_mapper, clone_name_hints
    )
    copy = copier.copy(self)
    if clone_operands:
        values = copier.values
        for op, made in copier.made:
            _give(made, [values.get(operand, operand) for operand in op._operands])
    return copy


class _Copier:
    """Copies ops, whose operands are given when all are there: a loop may hand on what stands behind it."""

    def __init__(self, values: dict[SSAValue, SSAValue], blocks: dict[Block, Block], name_hints: bool):
        self.values = values
        self.blocks = blocks
        self.name_hints = name_hints
        self.made: list[tuple[Operation, Operation]] = []
        """Each op and its copy, which has no operands so far."""

    def copy(self, op: Operation) -> Operation:
        cls = type(op)
        copy = cls.__new__(cls)
        types = [result._type for result in op.results]
        regions = [Region() for _ in op.regions]
        fill(copy, (), types, op.properties.copy(), op.attributes.copy(), op.location, regions)
        if op._successors:
            copy.successors = [self.blocks.get(block, block) for block in op._successors]
        for old, new in zip(op.results, copy.results):
            self._stands_for(new, old)
        self.made.append((op, copy))
        for old_region, region in zip(op.regions, regions):
            self._copy_blocks(old_region, region)
        return copy

    def _copy_blocks(self, old: Region, region: Region) -> None:
        """All blocks first, as ops of one may go on in another."""
        blocks = [(block, Block(arg_types=[argument._type for argument in block.args])) for block in old.blocks]
        for block, copy in blocks:
            self.blocks[block] = copy
            region.add_block(copy)
        for block, copy in blocks:
            for old_argument, argument in zip(block.args, copy.args):
                argument.location = old_argument.location
                self._stands_for(argument, old_argument)
            put_in(copy, [self.copy(op) for op in ops_in(block)])

    def _stands_for(self, new: SSAValue, old: SSAValue) -> None:
        self.values[old] = new
        if self.name_hints and old._name is not None:
            new.name_hint = old._name


def put_in(block: Block, ops: Sequence[Operation]) -> None:
    """Put ops that stand nowhere into a block that is empty and lies in none of them."""
    before: Operation | None = None
    for op in ops:
        op.parent = block
        op._prev_op = before
        if before is None:
            block._first_op = op
        else:
            before._next_op = op
        before = op
    block._last_op = before


def append(block: Block, op: Operation) -> None:
    """Put an op that stands nowhere, and in which the block does not lie, at the end of the block."""
    before = block._last_op
    if before is None:
        block._first_op = op
    else:
        before._next_op = op
        op._prev_op = before
    op.parent = block
    block._last_op = op


__all__ = ["Result", "Values", "append", "fill", "makes_ops", "put_in"]
