# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `fit-registers` makes of a kernel whose tiles take more registers than there are: halves, one after the other.

The forms of tiles are those that CTAs of a cluster have (`tile_halves`); a loop of two turns stands in place of the
rank. What does not depend on the half stays in front of it, but for accesses:

    for h in 0, 1
      q = tiled_load narrow_q[2 i + h, 0] : 128x128
      r = for ... : k = tiled_load k[j, 0] ...
      tiled_store narrow_o[2 i + h, 0], r

What both halves need is loaded, or even multiplied, in both turns: forms in which that is less are taken. No result
changes by it, as a half's elements are computed as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import prod

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from libtile.analysis.alias_scopes import viewed
from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith, scf
from libtile.dialects.effect_traits import NOTHING, Observable, effects_of
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import LoadOp, MemoryOp, StoreOp, TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase, shape_of
from libtile.lowering.clusters import CTAS
from libtile.lowering.tile_halves import (
    Form,
    Forms,
    Halves,
    Unsplit,
    best_halves,
    carried_at,
    forms_of_operands,
    is_of_distinct_tiles,
)
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.result_parts import is_plain_access

ACCESSES = (TiledLoadOp, LoadOp, TiledStoreOp, StoreOp)


def halves_in_turn(function: FuncOp) -> list[FuncOp]:
    """Copies of a kernel that compute one half of their tiles after the other, along dimensions for which that is least
    work; Unsplit where it cannot be."""
    found, reasons = list[FuncOp](), list[Unsplit]()
    for made, forms in best_halves(function, _Turns):
        blocks = _around_halves(made, forms)
        halves = Halves(made, forms)
        try:
            halves.make()
        except Unsplit as reason:
            reasons.append(reason)
            continue
        for block in reversed(blocks):
            try:
                _repeat(block, halves.rank)
            except Unsplit as reason:
                reasons.append(reason)
                continue
            found.append(made)
            break
    if not found:
        raise reasons[0]
    return found


class _Turns(Forms):
    """The form of each tile, where turns have halves. Work that both turns do costs what it takes."""

    STORES = (TiledStoreOp, StoreOp)
    SHARES_LOADS = False

    def of_product(self, op: DotOp, form: Form) -> Iterator[tuple[int, Form]]:
        if form is None:
            self.cost += prod(shape_of(op.result.type)) * shape_of(op.a.type)[-1]
        yield from forms_of_operands(op, form)


def _around_halves(function: FuncOp, forms: Forms) -> list[Block]:
    """The blocks that have all ops of halves which do more than compute, from the function's own to the innermost one:
    loops and branches around that hand on no halves."""

    def of_half(value: SSAValue) -> bool:
        return forms.of.get(value) is not None

    found = [function.body.block]
    while True:
        ops = [op for op in found[-1].ops if not is_pure(op) and _touches(op, of_half)]
        if len(ops) != 1 or not isinstance(ops[0], scf.ForOp | scf.WhileOp | scf.IfOp):
            return found
        blocks = [b for region in ops[0].regions for b in region.blocks if any(_touches(op, of_half) for op in b.ops)]
        given = [v for region in ops[0].regions for b in region.blocks for v in b.args]
        if len(blocks) != 1 or any(map(of_half, (*ops[0].operands, *ops[0].results, *given))):
            return found
        found += blocks


def _touches(op: Operation, of_half: Callable[[SSAValue], bool]) -> bool:
    """Whether an op, or one within it, has such a value."""
    return any(of_half(v) for inner in ops_of(op) for v in (*inner.operands, *inner.results))


def _repeat(block: Block, rank: SSAValue) -> None:
    """Have all of a block from what depends on the half on done in two turns of a loop, whose number is the rank."""
    start, end = block.first_op, block.last_op
    assert start is not None and end is not None
    for op in _computed_before(block, rank):  # as ranges, which are no work
        op.detach()
        block.insert_op_before(op, start)
    behind = _behind_first(block, rank)
    inside = {inner for op in behind for inner in ops_of(op)}
    _check(inside)
    uses = [(v, use) for op in behind for v in op.results for use in v.uses if use.operation not in inside]
    tokens = list(dict.fromkeys(v for v, _ in uses))
    if any(not isinstance(v.type, MemTokenType) for v in tokens):
        raise Unsplit("what is behind its tiles takes more than tokens")
    at = Inserter(block, behind[0], behind[0].location)
    zero, one, two = (at.value(arith.ConstantOp(IntegerAttr(n, IndexType()))) for n in (0, 1, CTAS))
    starts = [at.value(CreateMemTokenOp.make(results=[v.type])) for v in tokens]
    body = Block(arg_types=[IndexType(), *(v.type for v in tokens)])
    for op in behind:
        op.detach()
        body.add_op(op)
    within = Inserter(body, None, at.location)
    pairs = list(zip(body.args[1:], tokens))
    joined = [within.value(JoinMemTokenOp.make([own, token], results=[token.type])) for own, token in pairs]
    within.add(scf.YieldOp(*joined))
    loop = scf.ForOp(zero, two, one, starts, body)
    Inserter(block, end, at.location).add(loop)
    given = dict(zip(tokens, loop.results))
    for token, use in uses:
        use.operation.operands[use.index] = given[token]
    rank.replace_all_uses_with(body.args[0])
    assert isinstance(rank.owner, Operation)
    erase(rank.owner)


def _computed_before(block: Block, rank: SSAValue) -> list[Operation]:
    """What is computed from the rank outside of the block, in order."""
    function: Operation | None = rank.owner if isinstance(rank.owner, Operation) else None
    while function is not None and not isinstance(function, FuncOp):
        function = function.parent_op()
    assert isinstance(function, FuncOp)
    inside = {op for outer in block.ops for op in ops_of(outer)}
    found: dict[SSAValue, None] = {rank: None}
    ops = []
    for op in ops_of(function):
        if op not in inside and any(v in found for v in op.operands):
            if not is_pure(op):
                raise Unsplit(f"'{op.name}' is around what would be done in two turns")
            ops.append(op)
            found.update(dict.fromkeys(op.results))
    return ops


def _behind_first(block: Block, rank: SSAValue) -> list[Operation]:
    """The ops of a block from the first one that depends on the half on, but for those that only compute and depend on
    none of the others."""
    depending = _depending(block, rank)
    found, moved = list[Operation](), set[Operation | Block]()
    for op in block.ops:
        if not found and op not in depending:
            continue
        if isinstance(op, ReturnIfOp):
            raise Unsplit("it may return between its tiles")
        if op.has_trait(IsTerminator):
            break
        if op in depending or not is_pure(op) or not moved.isdisjoint(v.owner for v in op.operands):
            found.append(op)
            moved.add(op)
    if not found:
        raise Unsplit("nothing of it depends on a half")
    return found


def _depending(block: Block, value: SSAValue) -> set[Operation]:
    """The ops of a block that a value goes into, directly or not, or what stands in them."""
    found: set[Operation] = set()
    work = [value]
    while work:
        for use in work.pop().uses:
            op: Operation | None = use.operation
            while op is not None and op.parent is not block:
                op = op.parent_op()
            if op is not None and op not in found:
                found.add(op)
                work += op.results
    return found


# -- effects ----------------------------------------------------------------------------------------------------------


def _check(ops: Collection[Operation]) -> None:
    """Unsplit for effects that would come twice, and for accesses of which the order among turns matters."""
    stored = {_root(op) for op in ops if isinstance(op, TiledStoreOp | StoreOp)}
    for op in ops:
        if isinstance(op, ACCESSES):
            if op.semantic != "weak" or op.is_volatile is not None:
                raise Unsplit("it has accesses that are ordered with those of other threads")
            if not is_plain_access(op):
                raise Unsplit(f"'{op.name}' is not of a view of a memref, or has more than indices")
            if _is_ordered(op, ops):
                raise Unsplit("tokens order accesses, of which some would be behind those of another turn")
            if isinstance(op, TiledLoadOp | LoadOp) and _root(op) in stored:
                raise Unsplit("it loads and stores one tensor")
        elif op.has_trait(Observable) or not (op.regions or op.has_trait(IsTerminator) or effects_of(op) == NOTHING):
            raise Unsplit(f"'{op.name}' would be done twice")


def _root(op: MemoryOp) -> SSAValue:
    """The number that the address of an access is computed from, of a kernel's parameters in general."""
    value = op.accessed
    while isinstance(value.owner, Operation) and value.owner.operands and is_pure(value.owner):
        value = next(iter(value.owner.operands))
    return value


def _is_ordered(op: MemoryOp, ops: Collection[Operation]) -> bool:
    """Whether tokens order an access of some ops behind another one of them, of which one is a store. A store of tiles
    that do not overlap may be behind itself: an element is in the same half of its tile each time."""
    work = [] if op.token is None else [op.token]
    seen: set[SSAValue] = set()
    while work:
        value = work.pop()
        if value in seen or is_fresh(value):
            continue
        seen.add(value)
        owner = value.owner
        around = owner.parent_op() if isinstance(owner, Block) else owner
        if around not in ops or (owner is op and _is_of_one_memory(op, ops)):
            continue
        if isinstance(around, scf.ForOp):
            assert isinstance(value, BlockArgument | OpResult)
            work += carried_at(around, value.index - isinstance(owner, Block))[:2]
        elif isinstance(owner, scf.IfOp):
            assert isinstance(value, OpResult)
            work += [b.last_op.operands[value.index] for r in owner.regions for b in r.blocks if b.last_op is not None]
        elif isinstance(owner, Operation) and owner.has_trait(JoinsTokens):
            work += owner.operands
        elif isinstance(owner, TiledLoadOp | LoadOp) and isinstance(op, TiledLoadOp | LoadOp):
            work += owner.group("token")
        else:
            return True
    return False


def _is_of_one_memory(op: MemoryOp, ops: Collection[Operation]) -> bool:
    """Whether it stores tiles that do not overlap, and of one tensor each time."""
    return is_of_distinct_tiles(op) and viewed(op.accessed).owner not in ops
