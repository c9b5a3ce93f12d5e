# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and branches within each other, around the loops with a kernel's products: every agent goes through them.

    for each group                      the nest: a `for`, a `while` and an `if`, outermost first
      while there is a tile for me
        if it is not empty
          for each step                 the loop with a product

Where control goes is the same for all threads of a block, so that each agent can find out by itself. One that computes
no tiles has the nest again, of which it takes what decides on the way and what its own part needs (`needed`): numbers
alone, those that are loaded included. Places in pipelines go through the nest with each agent, and a branch not taken
leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator

from libtile.dialects import scf
from libtile.dialects.arith import DIVISIONS
from libtile.dialects.interfaces import FreshToken
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.places import ops_of
from libtile.ir.tile_types import is_tile
from libtile.lowering.tileas.ahead import loads_a_number
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.tma_tiles import Unfit
from libtile.lowering.tileas.inserter import Inserter
from libtile.support.records import dataclass

Places = Sequence[SSAValue]
Values = dict[SSAValue, SSAValue]
Turns = Callable[[Inserter, Places, Values], Places]
"""Makes what an agent does inside of a nest at an inserter, from places on, with values for some: the places behind."""
KINDS = (scf.ForOp, scf.WhileOp, scf.IfOp)


@dataclass(frozen=True)
class Needed:
    """What an agent needs of a nest: ops in it, and those of the values that its own ops carry or give, by the
    arguments of their blocks and, of branches, by their results."""

    ops: frozenset[Operation] = frozenset()
    carried: frozenset[SSAValue] = frozenset()

    def __or__(self, other: Needed) -> Needed:
        return Needed(self.ops | other.ops, self.carried | other.carried)


def outermost(function: FuncOp, loop: scf.ForOp) -> Operation | None:
    """The op of a function in which a loop is, by loops and branches; None for a loop of the function itself. Unfit for
    one within another op."""
    found, op = None, loop.parent_op()
    while op is not function:
        if not isinstance(op, KINDS):
            raise Unfit("its loop is within another op")
        found, op = op, op.parent_op()
    return found


def tiles_around(outer: Operation | None, loop: Operation) -> list[SSAValue]:
    """The tiles that are carried around a loop, from turn to turn of those around it, and are there in its steps: what
    a loop begins with, and nothing else takes, goes on as what it carries."""
    around = [] if outer is None else path(outer, loop)
    found: list[SSAValue] = []
    for op, inner in zip(around, [*around[1:], loop]):
        given = [a for region in op.regions[:1] for block in region.blocks for a in block.args]
        begun = inner.iter_args if isinstance(inner, scf.ForOp) else ()
        found += [v for v in given if is_tile(v) and not (v in begun and v.has_one_use())]
    return found


def path(outer: Operation, loop: Operation) -> list[Operation]:
    """The ops around a loop, from the outermost on."""
    found: list[Operation] = []
    op = loop.parent_op()
    while op is not None and op is not outer:
        found.append(op)
        op = op.parent_op()
    return [outer, *reversed(found)]


def is_repeated_within(outer: Operation | None, loop: Operation) -> bool:
    """Whether a loop around it runs a loop several times, and not branches alone are around it."""
    return outer is not None and any(not isinstance(op, scf.IfOp) for op in path(outer, loop))


def needed(outer: Operation, inner: Operation, users: Iterable[Operation], initial: Iterable[SSAValue]) -> Needed:
    """What control in a nest, the bounds of a loop in it, the operands of ops in that loop and `initial` values come
    from, of the nest. Unfit where it takes more than pure ops and loads of numbers."""
    around = path(outer, inner)
    blocks = {block for op in around for region in op.regions for block in region.blocks}
    ops, carried = set[Operation](), set[SSAValue]()
    bounds = [inner.lb, inner.ub, inner.step] if isinstance(inner, scf.ForOp) else []
    work: list[SSAValue] = [*bounds, *initial, *(v for op in users for v in op.operands)]
    work += [v for op in around for v in _decides(op)]
    while work:
        value = work.pop()
        owner = value.owner
        if isinstance(value.type, MemTokenType) and not _is_new(owner):
            continue  # who needs an order does not repeat the access
        if is_tile(value) and _is_handed_on(value, around, blocks):
            raise Unfit("an address depends on a tile that is carried around its loop")
        if isinstance(owner, Block):
            if owner in blocks and value not in carried:
                carried.add(value)
                work += _given(value)
        elif owner in around:
            if value not in carried:
                carried.add(value)
                work += _given(value)
        elif owner.parent in blocks and owner not in ops:
            if not is_repeated(owner):
                raise Unfit("an address depends on what the loop around its loop computes")
            ops.add(owner)
            work += [v for op in ops_of(owner) for v in op.operands if not _is_within(v, owner)]
    return Needed(frozenset(ops), frozenset(carried))


def taken(outer: Operation, loop: Operation, wanted: Needed) -> list[SSAValue]:
    """What an agent that has a nest again takes: what decides where control goes, what the ops that are `wanted` of it
    use, and what its carried numbers begin with."""
    found = [v for op in path(outer, loop) for v in _decides(op)]
    found += [v for op in wanted.ops for inner in ops_of(op) for v in inner.operands]
    return found + [v for value in wanted.carried for v in _given(value)]


def repeat(
    at: Inserter, outer: Operation, loop: Operation, wanted: Needed, starts: Places, turns: Turns,
    given: Values | None = None,
) -> Places:  # fmt: skip
    """The nest of an agent that computes no tiles, from places on, with values that are `given` for some from outside
    of it; the places behind."""
    return _Again(path(outer, loop), loop, wanted, turns).op(at, 0, starts, dict(given or {}))


class _Again:
    """A nest again, with the ops of it that are wanted, and an agent's turns inside."""

    def __init__(self, around: Sequence[Operation], loop: Operation, wanted: Needed, turns: Turns):
        self.around, self.wanted, self.turns = around, wanted, turns
        self.inner = [*(op.parent for op in around[1:]), loop.parent]
        """For each op around the block that has the next one, or the loop."""

    def op(self, at: Inserter, number: int, places: Places, values: Values) -> Places:
        """The op of a number again; the places behind it."""
        op = self.around[number]
        if isinstance(op, scf.ForOp):
            made: Operation = self._for(op, number, places, values)
            kept = self._kept(op.body.block.args[1:])
        elif isinstance(op, scf.WhileOp):
            made = self._while(op, number, places, values)
            kept = self._kept(op.after_region.block.args)
        else:
            assert isinstance(op, scf.IfOp)
            made = self._if(op, number, places, values)
            kept = self._kept(op.results)
        made.attributes.update(op.attributes)
        at.add(made, op.location)
        values.update(zip((op.results[n] for n in kept), made.results))
        return made.results[len(kept) :]

    def _for(self, op: scf.ForOp, number: int, places: Places, values: Values) -> Operation:
        kept = self._kept(op.body.block.args[1:])
        block, behind = self._block(op.body.block, number, (0, *(n + 1 for n in kept)), places, values)
        block.add_op(scf.YieldOp(*self._handed_on(op.body.block, kept, values), *behind))
        first, last, step = (_of(v, values) for v in (op.lb, op.ub, op.step))
        return scf.ForOp(first, last, step, [*(_of(op.iter_args[n], values) for n in kept), *places], block)

    def _if(self, op: scf.IfOp, number: int, places: Places, values: Values) -> Operation:
        kept, blocks = self._kept(op.results), list[list[Block]]()
        for region in op.regions:
            if region.blocks:
                block, behind = self._block(region.block, number, (), places, values)
                block.add_op(scf.YieldOp(*self._handed_on(region.block, kept, values), *behind))
            else:
                block = Block()
                block.add_op(scf.YieldOp(*places))
            blocks.append([block])
        types = [*(op.results[n].type for n in kept), *(v.type for v in places)]
        return scf.IfOp(_of(op.cond, values), types, blocks[0], blocks[1])

    def _while(self, op: scf.WhileOp, number: int, places: Places, values: Values) -> Operation:
        first, second = op.before_region.block, op.after_region.block
        begun, kept = self._kept(first.args), self._kept(second.args)
        before, behind = self._block(first, number, begun, places, values)
        end = _condition(op)
        passed = [_of(end.args[n], values) for n in kept]
        before.add_op(scf.ConditionOp(_of(end.condition, values), *passed, *behind))
        after, behind = self._block(second, number, kept, places, values)
        after.add_op(scf.YieldOp(*self._handed_on(second, begun, values), *behind))
        types = [*(op.results[n].type for n in kept), *(v.type for v in places)]
        return scf.WhileOp([*(_of(op.arguments[n], values) for n in begun), *places], types, [before], [after])

    def _block(
        self, block: Block, number: int, kept: Sequence[int], places: Places, values: Values
    ) -> tuple[Block, Places]:
        """A block again, with arguments of so many numbers and, if it has any, the places; those behind it. An `if`'s
        blocks take the places as they are."""
        carries = bool(block.args) or isinstance(block.parent_op(), scf.WhileOp)
        made = Block(arg_types=[*(block.args[n].type for n in kept), *(v.type for v in places if carries)])
        values.update(zip((block.args[n] for n in kept), made.args))
        inner = Inserter(made, None, _last(block).location)
        behind: Places = made.args[len(kept) :] if carries else places
        is_inner = block is self.inner[number]
        is_last = number + 1 == len(self.around)
        for op in block.ops:
            if is_inner and not is_last and op is self.around[number + 1]:
                behind = self.op(inner, number + 1, behind, values)
            elif op in self.wanted.ops:
                inner.clone([op], values)
        if is_inner and is_last:
            behind = self.turns(inner, behind, values)
        return made, behind

    def _kept(self, values: Sequence[SSAValue]) -> list[int]:
        return [n for n, value in enumerate(values) if value in self.wanted.carried]

    def _handed_on(self, block: Block, kept: Sequence[int], values: Values) -> list[SSAValue]:
        """What a block yields, of these numbers."""
        return [_of(_yielded(block)[n], values) for n in kept] if kept else []


def carry(
    at: Inserter, outer: Operation, loop: Operation, starts: Places, inside: Callable[[Places], Places]
) -> Places:
    """The nest, which carries places as well, from `starts` on, and stands at an inserter; the places behind it. What
    stands in place of the loop in it `inside` makes, which gives those behind that. The outermost op is left without
    regions."""
    return _Carried(path(outer, loop), loop, inside).op(at, 0, starts)


class _Carried:
    """A nest that carries places through its ops."""

    def __init__(self, around: Sequence[Operation], loop: Operation, inside: Callable[[Places], Places]):
        self.around, self.inside = around, inside
        self.inner = [*(op.parent for op in around[1:]), loop.parent]

    def op(self, at: Inserter | None, number: int, starts: Places) -> Places:
        op = self.around[number]
        if isinstance(op, scf.ForOp):
            made: Operation = self._for(op, number, starts)
        elif isinstance(op, scf.WhileOp):
            made = self._while(op, number, starts)
        else:
            assert isinstance(op, scf.IfOp)
            made = self._if(op, number, starts)
        made.attributes.update(op.attributes)
        if at is None:
            assert op.parent is not None
            Inserter(op.parent, op, op.location).add(made)
        else:
            at.add(made, op.location)
        for old, new in zip(op.results, made.results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        behind = made.results[len(op.results) :]
        if at is None:
            op.detach()
            op.erase()
        return behind

    def _for(self, op: scf.ForOp, number: int, starts: Places) -> Operation:
        block = op.body.block
        _end(block, self._through(block, number, _more(block, starts)))
        return scf.ForOp(op.lb, op.ub, op.step, [*op.iter_args, *starts], op.detach_region(op.body))

    def _if(self, op: scf.IfOp, number: int, starts: Places) -> Operation:
        regions = list[Region]()
        for region in list(op.regions):
            if region.blocks:
                _end(region.block, self._through(region.block, number, starts))
            op.detach_region(region)
            if not region.blocks:
                block = Block()
                block.add_op(scf.YieldOp(*starts))
                region = Region(block)
            regions.append(region)
        return scf.IfOp(op.cond, [*op.results.types, *(v.type for v in starts)], regions[0], regions[1])

    def _while(self, op: scf.WhileOp, number: int, starts: Places) -> Operation:
        first, second = op.before_region.block, op.after_region.block
        _end(first, self._through(first, number, _more(first, starts)))
        _end(second, self._through(second, number, _more(second, starts)))
        types: list[Attribute] = [*op.results.types, *(v.type for v in starts)]
        regions = [op.detach_region(region) for region in (op.before_region, op.after_region)]
        return scf.WhileOp([*op.arguments, *starts], types, *regions)

    def _through(self, block: Block, number: int, places: Places) -> Places:
        """The places behind what a block has of the nest."""
        if block is not self.inner[number]:
            return places
        return self.inside(places) if number + 1 == len(self.around) else self.op(None, number + 1, places)


def _more(block: Block, starts: Places) -> list[SSAValue]:
    return [block.insert_arg(start.type, len(block.args)) for start in starts]


def _end(block: Block, more: Places) -> None:
    """Have a block's last op hand on more."""
    last = _last(block)
    location, given = last.location, [*last.operands, *more]
    is_condition = isinstance(last, scf.ConditionOp)
    last.detach()
    last.erase()
    made = scf.ConditionOp(*given) if is_condition else scf.YieldOp(*given)
    Inserter(block, None, location).add(made)


def _last(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _yielded(block: Block) -> Sequence[SSAValue]:
    """What a block hands on to the op around it."""
    last = _last(block)
    assert isinstance(last, scf.YieldOp)
    return last.arguments


def _condition(op: scf.WhileOp) -> scf.ConditionOp:
    """Whether a `while` goes on."""
    last = _last(op.before_region.block)
    assert isinstance(last, scf.ConditionOp)
    return last


def _is_handed_on(value: SSAValue, around: Collection[Operation], blocks: Collection[Block]) -> bool:
    """Whether ops of a nest carry or give a value."""
    return value.owner in (blocks if isinstance(value.owner, Block) else around)


def _of(value: SSAValue, values: Values) -> SSAValue:
    return values.get(value, value)


def _decides(op: Operation) -> list[SSAValue]:
    """What decides where control goes in an op of a nest."""
    if isinstance(op, scf.ForOp):
        return [op.lb, op.ub, op.step]
    if isinstance(op, scf.IfOp):
        return [op.cond]
    assert isinstance(op, scf.WhileOp)
    return [_condition(op).condition]


def _given(value: SSAValue) -> Iterator[SSAValue]:
    """What a value that an op of a nest carries or gives is, at first and from turn to turn."""
    if isinstance(value, BlockArgument):
        block, number, op = value.block, value.index, value.block.parent_op()
        if isinstance(op, scf.ForOp):
            if number:
                yield op.iter_args[number - 1]
                yield _yielded(block)[number - 1]
        elif isinstance(op, scf.WhileOp) and block is op.before_region.block:
            yield op.arguments[number]
            yield _yielded(op.after_region.block)[number]
        elif isinstance(op, scf.WhileOp):
            yield _condition(op).args[number]
        return
    assert isinstance(value, OpResult)
    number, made = value.index, value.op
    if isinstance(made, scf.ForOp):
        yield made.body.block.args[1 + number]
    elif isinstance(made, scf.WhileOp):
        yield made.after_region.block.args[number]
    elif isinstance(made, scf.IfOp):
        yield from (_yielded(region.block)[number] for region in made.regions)


def _is_new(owner: Operation | Block) -> bool:
    return isinstance(owner, Operation) and owner.has_trait(FreshToken)


def is_repeated(op: Operation) -> bool:
    """Whether an agent may run an op again by itself: it computes numbers or loads some, and so does all within it."""
    if op.regions:
        inside = (inner for inner in ops_of(op) if inner is not op)
        return isinstance(op, KINDS) and all(i.has_trait(IsTerminator) or is_repeated(i) for i in inside)
    # Divisions are computed for tiles that there are, as in the loop itself.
    return is_pure(op) or isinstance(op, DIVISIONS) or loads_a_number(op)


def _is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made inside of an op."""
    owner = value.owner
    around = owner.parent_op() if isinstance(owner, Block) else owner
    while around is not None and around is not op:
        around = around.parent_op()
    return around is op
