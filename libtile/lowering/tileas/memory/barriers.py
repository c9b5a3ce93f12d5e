# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-insert-barriers`: a token edge becomes a barrier where it has to be one.

A token orders two accesses of the tile block. A thread's own accesses are in order anyhow, so that a barrier is needed
only when the accesses may touch the same bytes from different threads, and one of them writes. They do not when both
go through touching tiles of one memref in one layout, or through one tile of pointers, and no thread holds a copy.

The analysis walks the function forwards with the set of accesses that no barrier has followed yet. A branch may end
without the barriers of the other one, and the end of a loop's body is followed by its begin; sets only grow at both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue

from libtile.analysis.alias_scopes import are_of_different_scopes, scope_of, viewed
from libtile.dialects import scf
from libtile.dialects.effect_traits import accessed, reads_only
from libtile.dialects.interfaces import is_token
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.tokens import PrintOp, TokenStep
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import FenceOp
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumeOneOp,
    ConsumerReadOp,
    ProduceOneOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import BarrierOp
from libtile.ir.classes import is_subclass
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import declares, operands_of
from libtile.ir.places import ops_in, ops_of
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.ahead import loads_a_number
from libtile.lowering.tileas.cleanup import LOOPS
from libtile.support import statistics
from libtile.support.records import dataclass

STEPS: tuple[type[Operation], ...] = (TokenStep, PrintOp)
"""Ops that tokens order, and that name no memory."""
TURNS = (ProduceOneOp, ConsumeOneOp, ProducerWriteOp, ConsumerReadOp)
"""Ops whose region is run in their place."""

STRUCTURE = (BarrierOp, *LOOPS, scf.IfOp, *TURNS, AgentSwitchOp)
"""The classes of ops that `structure` tells apart."""

EXACT_LOOPS = 4
"""Loops around one another in which every access counts, and of which each goes round until nothing grows. In deeper
ones kinds of accesses count, and the loop around them goes round instead: every level more would visit all that are
deeper once more."""

Accesses = frozenset[Operation]
_NONE: Accesses = frozenset()


def is_access(op: Operation) -> bool:
    """Whether tokens order an op: it accesses memory that it names, or is one of `STEPS`."""
    return accessed(op) is not None or is_subclass(type(op), STEPS)


def is_read(op: Operation) -> bool:
    """Whether an op does nothing to memory but read what it names, now or later."""
    return reads_only(type(op))


@dataclass(frozen=True)
class InsertBarriersPass(ModulePass):
    """Put barriers between accesses that tokens order and different threads do."""

    name = "tileas-insert-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp):
                insert_barriers(inner)


def insert_barriers(function: FuncOp) -> int:
    """Insert the barriers of a function; returns how many."""
    places = places_of_barriers(function)
    statistics.count("barriers inserted", len(places))
    for op in places:
        assert op.parent is not None
        barrier = BarrierOp.make(location=op.location)
        op.parent.insert_op_before(barrier, op)
    return len(places)


def places_of_barriers(function: FuncOp) -> Collection[Operation]:
    """The ops of a function in front of which a barrier is missing."""
    analysis = BarrierAnalysis()
    analysis.block(function.body.block, _NONE)
    return analysis.places


class BarrierAnalysis:
    """Which accesses each token stands for, and where barriers go (`places`: before these ops).

    An access is stood for by the first one of its kind since a barrier, but for a few loops around
    it, so that sets stay small.
    """

    def __init__(self) -> None:
        self.behind: dict[SSAValue, Accesses] = {}
        self.places: dict[Operation, None] = {}
        self.kept = 0
        """Accesses in all the sets that tokens have got."""
        self._kinds: dict[_Kind, Operation] = {}
        self._numbers: dict[_Kind, int] = {}
        self._firsts: dict[Operation, Operation] = {}
        self._loops = 0
        self._begins: dict[Operation, Accesses] = {}
        self._growing = False

    def first(self, op: Operation) -> Operation:
        """The access that stands for this one: barriers are needed against the one where they are against the other."""
        if op not in self._firsts:
            kind = _kind(op)
            self._numbers.setdefault(kind, len(self._numbers))
            # Around a loop, one access of a kind may be behind a barrier and the other not: a barrier more than needed.
            exact = 0 < self._loops <= EXACT_LOOPS
            self._firsts[op] = op if exact else self._kinds.setdefault(kind, op)
        return self._firsts[op]

    def few(self, accesses: Accesses) -> Accesses:
        """Without reads of a third kind of one alias scope: a barrier is needed against one of two kinds of reads if it
        is against any, and what a token is made to stand for is live then, so that all of it is live later, or nothing.
        """
        reads = [op for op in accesses if is_read(op)]
        if len(reads) <= 2:
            return accesses
        kinds: dict[int | None, set[int]] = {}
        for op in reads:
            kinds.setdefault(scope_of(op), set()).add(self._numbers[_kind(op)])
        kept = {scope: sorted(numbers)[:2] for scope, numbers in kinds.items()}
        return accesses - {op for op in reads if self._numbers[_kind(op)] not in kept[scope_of(op)]}

    def barrier(self) -> Accesses:
        """What is live behind a barrier."""
        self._kinds.clear()
        return _NONE

    def tokens(self, values: Sequence[SSAValue]) -> Accesses:
        if len(values) == 1:
            return self.behind.get(values[0], _NONE)
        return frozenset().union(*(self.behind.get(value, _NONE) for value in values))

    def block(self, block: Block, live: Accesses) -> Accesses:
        """The accesses without a barrier behind them at the end of a block, from those at its begin."""
        for op in ops_in(block):
            live = self.op(op, live)
        return live

    def op(self, op: Operation, live: Accesses) -> Accesses:
        return self.other(op, live) if not is_subclass(type(op), STRUCTURE) else self.structure(op, live)

    def structure(self, op: Operation, live: Accesses) -> Accesses:
        """A barrier, or an op that says in which order others run."""
        if isinstance(op, BarrierOp):
            return live if op.num_warps is not None else self.barrier()
        if isinstance(op, LOOPS):
            return self.loop(op, live)
        if isinstance(op, scf.IfOp):
            return self.branch(op, live)
        if isinstance(op, TURNS):
            return self.block(op.body.block, live)
        if isinstance(op, AgentSwitchOp):
            return self.agents(op, live)
        return self.other(op, live)

    def other(self, op: Operation, live: Accesses) -> Accesses:
        """An access, or an op that has to do with none."""
        if op.regions and any(inner is not op and is_access(inner) for inner in ops_of(op)):
            raise unsupported(op, "has accesses in a region of which it is not known when it runs: no barrier is safe")
        tokens = [v for v in op._operands if is_token(v)]
        if isinstance(op, FenceOp):  # all threads meet: before one that releases, behind one that acquires
            before = self.tokens(tokens)
            self.behind.update((result, before) for result in op.results)
            return self.barrier()
        orders = is_access(op)
        if not orders and not tokens:
            return live
        before = self.tokens(tokens)
        if orders and any(needs_barrier(other, op) for other in before & live):
            self.places[op] = None
            live = self.barrier()
        made = self.few((before & live) | {self.first(op)}) if orders else before
        for result in op.results:
            if is_token(result):
                self.behind[result] = made
                self.kept += len(made)
        return live | {self.first(op)} if orders else live

    def agents(self, op: AgentSwitchOp, live: Accesses) -> Accesses:
        """Barriers in an agent's region are the agent's: what was accessed before the agents part ends before that."""
        if live:
            self.places[op] = None
            live = self.barrier()
        ends = []
        for region, one in zip(op.regions, op.elected):
            if one and any(is_access(inner) and not loads_a_number(inner) for inner in ops_of(region)):
                raise unsupported(op, "has accesses of tiles in a region that one thread runs")
            ends.append(self.block(region.block, live))
        return frozenset().union(*ends)

    def branch(self, op: scf.IfOp, live: Accesses) -> Accesses:
        ends = []
        for region in op.regions:
            ends.append(self.block(region.block, live) if region.blocks else live)
            last = region.block.last_op if region.blocks else None
            if last is not None:
                self.join(op.output, last.operands)
        return frozenset().union(*ends)

    def join(self, targets: Iterable[SSAValue], sources: Iterable[SSAValue]) -> bool:
        """Tokens flow from sources to targets; returns whether a target stands for more than before."""
        grown = False
        for target, source in zip(targets, sources):
            if is_token(target):
                both = self.behind.get(target, _NONE) | self.behind.get(source, _NONE)
                grown |= both != self.behind.get(target, _NONE)
                self.behind[target] = both
        return grown

    def loop(self, op: scf.ForOp | scf.WhileOp, live: Accesses) -> Accesses:
        """Once more as long as the second time round sees more than the first. A deep loop goes round once, remembers
        what it begins with, and leaves it to the loop around it to come again."""
        if isinstance(op, scf.ForOp):
            first = last = op.body.block
            starts, inside = op.iter_args, first.args[1:]
        else:
            first, last = op.before_region.block, op.after_region.block
            starts, inside = op.arguments, first.args
        self.join(inside, starts)
        self._loops += 1
        is_deep = self._loops > EXACT_LOOPS
        live |= self._begins.get(op, _NONE)
        while True:
            if not is_deep:
                self._growing = False
            end = self.block(first, live)
            leave = first.last_op
            assert leave is not None
            if isinstance(leave, scf.ConditionOp):
                self.join(last.args, leave.args)
                self.join(op.results, leave.args)
                out = end
                end = self.block(last, end)
                leave = last.last_op
                assert leave is not None
            else:
                self.join(op.results, [*starts])
                self.join(op.results, leave.operands)
                out = live | end
            self._growing |= self.join(inside, leave.operands) or not end <= live
            live |= end
            if is_deep:
                self._begins[op] = live
            if is_deep or not self._growing:
                self._loops -= 1
                return out


_Kind = tuple[bool, int | None, LinearLayout | None, object, object]


def _kind(op: Operation) -> _Kind:
    """What `needs_barrier` asks of an access."""
    layout, reads = _layout(op), is_read(op)
    scope = scope_of(op)
    if layout is None or has_copies(layout):  # in the way of every access of the scope that is not read as well
        return reads, scope, None, None, None
    memory = accessed(op)
    return reads, scope, layout, None if memory is None else viewed(memory), memory


# -- what touches what ------------------------------------------------------------------------------------------------


def needs_barrier(earlier: Operation, later: Operation) -> bool:
    """Whether different threads may touch the same bytes in two accesses, of which one writes."""
    if is_read(earlier) and is_read(later):
        return False
    if are_of_different_scopes(earlier, later):
        return False
    layout, other = _layout(earlier), _layout(later)
    if layout is None or layout != other or has_copies(layout):
        return True
    return not (_same_tiles(earlier, later) or _same_pointers(earlier, later))


def _layout(op: Operation) -> LinearLayout | None:
    """The layout of the tile that an access moves."""
    stored = operands_of(op, "value") if declares(op, "value") else ()
    for value in (*op.results, *stored):
        if isinstance(value.type, TensorType) and isinstance(value.type.encoding, LayoutAttr):
            return value.type.encoding.layout
    return None


def has_copies(layout: LinearLayout) -> bool:
    """Whether several threads hold an element."""
    free = layout.free_bits()
    return bool(free.get(LANE, 0) or free.get(WARP, 0)) or not layout.outs


def _same_tiles(earlier: Operation, later: Operation) -> bool:
    """Both access tiles of one memref that never overlap: two tiles are the same or have nothing in common."""
    a, b = accessed(earlier), accessed(later)
    if a is None or b is None or a.type != b.type:
        return False
    if not isinstance(a.type, TiledViewType) or a.type.layout.sparse_dim is not None:
        return False
    if any(step < size for step, size in zip(a.type.traversal_strides, a.type.shape)):
        return False
    return viewed(a) is viewed(b)


def _same_pointers(earlier: Operation, later: Operation) -> bool:
    """Both access through one tile of pointers, which no loop changes between them."""
    a, b = accessed(earlier), accessed(later)
    if a is None or a is not b or not isinstance(a.type, TensorType):
        return False
    block = a.owner.parent if isinstance(a.owner, Operation) else a.owner
    parent = block.parent_op() if block is not None else None
    while parent is not None:
        if isinstance(parent, LOOPS):
            return False
        parent = parent.parent_op()
    return True
