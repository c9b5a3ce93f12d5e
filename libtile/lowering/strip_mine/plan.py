# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which loops work through the large tiles of a block, and what each of them computes.

The plan is made backwards. A *sink* is an op that makes something of a large tile that can stand on its own: it stores
it, or gives a small tile of it that is needed whole (a reduction, mostly). Each sink is cut along a dimension; its
*slice* is all that has to be computed for a piece of it, back to loads, constants and ranges, which every slice repeats
for itself, and to tiles that are needed whole: small ones, made outside of the loop or by another sink.

Sinks are then put in order: one that needs what another one gives whole comes in a later *phase*. Sinks of one phase
that share loads become one loop. What tokens order stays in order: see `Plan._token_edges`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import product

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TokenType, tile_shape
from libtile.ir.places import ops_in
from libtile.lowering.strip_mine.cuts import (
    ACCESSES,
    ATOMICS,
    LOADS,
    STORES,
    UNORDERED,
    WRITES,
    Uncut,
    check_body,
    domain_dim,
    domain_of,
    mnemonic,
    piecewise_apart,
)
from libtile.lowering.strip_mine.slices import LIVES_ON, WHOLE, Cut, Slice, Slicer, captured, is_control_flow
from libtile.support.records import dataclass
from libtile.transforms.effects import is_removable


@dataclass(eq=False)
class Sink:
    """An op that makes something of large tiles. `value` is the small tile that is put together of pieces, if any."""

    op: CudaTileOp
    dim: int
    slice: Slice
    value: SSAValue | None = None
    phase: int = 0

    @cached_property
    def directions(self) -> set[bool]:
        """In which directions scans go along the dimension that is cut (True: in reverse)."""
        scans = ((op, d) for op, d in self.slice.cuts if mnemonic(op) == "scan")
        return {bool(op.attribute_value("reverse")) for op, d in scans if d == op.attribute_value("dim")}

    @property
    def reduces(self) -> bool:
        """Whether results of pieces are combined, rather than put side by side."""
        return mnemonic(self.op) == "reduce" and self.op.attribute_value("dim") == self.dim

    def accesses(self) -> Iterator[Cut]:
        """What the sink reads and writes, piece by piece."""
        yield from (cut for cut in self.slice.cuts if mnemonic(cut[0]) in ACCESSES)


@dataclass(eq=False)
class Loop:
    """The sinks of one loop, in `pieces` pieces, from the last one to the first in `reverse`."""

    sinks: list[Sink]
    pieces: int
    reverse: bool


class Plan:
    """The plan of a block. `is_huge` tells which types registers cannot hold, `piece_words` how large a piece may be.

    Uncut, from the constructor, for a block that cannot be worked through so; nothing is changed.
    """

    def __init__(self, block: Block, is_huge: Callable[[SSAValue], bool], piece_words: int):
        self.block = block
        self.is_huge = is_huge
        self.piece_words = piece_words
        self.sinks: list[Sink] = []
        self.whole: dict[SSAValue, None] = {}
        self.live: set[Operation] = set()
        self.accesses: set[Operation] = set()
        """The accesses that some sink does piece by piece."""
        self.order = {op: number for number, op in enumerate(block.ops)}
        self._huge_ops = {op for op in block.ops if any(map(is_huge, (*op.operands, *op.results)))}
        self._chosen: set[Cut] = set()
        self._read: set[Operation] = set()
        self._origins: dict[SSAValue, frozenset[Operation]] = {}
        self._slicer = Slicer(block, is_huge, self._huge_ops, self.order)
        for op in reversed(ops_in(block)):
            self._visit(op)
        self.accesses = {op for sink in self.sinks for op, _ in sink.accesses()}
        self._origins.clear()  # from now on, they take in all of these accesses
        self.loops = self._make_loops()

    # -- what is needed -----------------------------------------------------------------------------------------------

    def _visit(self, op: Operation) -> None:
        if op in self._huge_ops or self._is_read_in_pieces(op):
            self._visit_huge(op)
        elif not is_removable(op) or op is self.block.last_op or any(r in self.whole for r in op.results):
            if isinstance(op, CudaTileOp) and mnemonic(op) in STORES and self._feeding(op.operands):
                self._choose(op, whole=True)
            else:
                self._keep(op)

    def _is_read_in_pieces(self, op: Operation) -> bool:
        """Whether a load of a small tile is done piece by piece, and by nobody else."""
        data = (r for r in op.results if not isinstance(r.type, TokenType))
        return op in self._read and not any(r in self.whole for r in data)

    def _keep(self, op: Operation) -> None:
        """The op stays as it is: it needs its operands whole."""
        self.live.add(op)
        for value in (*op.operands, *captured(op)):
            if self.is_huge(value):
                raise Uncut(op, WHOLE)
            self.whole[value] = None

    def _visit_huge(self, op: Operation) -> None:
        name = mnemonic(op)
        needed = [r for r in op.results if r in self.whole]
        if not isinstance(op, CudaTileOp) or is_control_flow(op):
            raise Uncut(op, LIVES_ON)
        if name in WRITES:
            if name in ATOMICS and any(r.first_use for r in op.results if not isinstance(r.type, TokenType)):
                raise Uncut(op, "what an atomic op gives cannot be had twice")
            self._choose(op)
        elif name in LOADS:
            for value in needed:
                if not isinstance(value.type, TokenType):
                    self._choose(op, value)
            if op.attribute_value("memory_ordering_semantics") not in UNORDERED:
                raise Uncut(op, "it acquires or releases other memory")
            self._need_tokens(op)
        elif needed:
            if name == "reduce":
                self._choose(op)
            else:
                for value in needed:
                    self._choose(op, value)
        elif not is_removable(op):
            through = op is self.block.last_op
            raise Uncut(op, LIVES_ON if through else WHOLE)

    def _need_tokens(self, op: Operation) -> None:
        self.whole.update((v, None) for v in op.operands if isinstance(v.type, TokenType))

    def _choose(self, op: CudaTileOp, value: SSAValue | None = None, whole: bool = False) -> None:
        """Make the op a sink, cut along the dimension that costs least; with `whole`, or keep it if that is cheaper."""
        failure: Uncut | None = None
        best: tuple[tuple[int, ...], Sink] | None = None
        dims = range(len(tile_shape(value) if value is not None else domain_of(op)))
        for dim, from_large in product(dims, (True, False)):
            try:
                sink = self._sink(op, dim, value, from_large)
            except Uncut as error:
                failure = failure or error
                continue
            cost = self._cost(sink)
            if best is None or cost < best[0]:
                best = cost, sink
        if whole and (best is None or (len(self._new_sinks(op.operands)), 0) < (best[0][0] + 1, best[0][1])):
            self._keep(op)
            return
        if best is None:
            raise failure or Uncut(op, "it has no dimension to cut")
        sink = best[1]
        self.sinks.append(sink)
        self._chosen.update(sink.accesses())
        self._read.update(access for access, _ in sink.accesses())
        self.whole.update(sink.slice.wholes)
        for access, _ in sink.accesses():
            self._need_tokens(access)

    def _sink(self, op: CudaTileOp, dim: int, value: SSAValue | None, from_large: bool) -> Sink:
        if value is not None:
            dim = domain_dim(op, dim)
        elif mnemonic(op) == "reduce" and dim != op.attribute_value("dim"):
            value = op.results[0]
            if len(op.results) > 1:
                raise Uncut(op, "several results are put together")
        found = self._slicer.slice_of(op, dim, from_large)
        sink = Sink(op, dim, found, value)
        if sink.reduces:
            check_body(op, tile_shape(op.results[0]))
        if found.shortest < 2:
            raise Uncut(op, "it has no dimension to cut")
        if len(sink.directions) > 1:
            raise Uncut(op, "it needs scans in both directions")
        return sink

    def _cost(self, sink: Sink) -> tuple[int, ...]:
        """Further sinks, more large pieces to load, accesses that are cut along rows."""
        new = sum(cut not in self._chosen for cut in sink.accesses())
        rows = sum(dim == len(domain_of(op)) - 1 > 0 for op, dim in sink.accesses())
        return len(self._new_sinks(sink.slice.wholes)), rows, new, -min(sink.slice.shortest, 1 << 10), sink.dim

    def _new_sinks(self, values: Sequence[SSAValue] | dict[SSAValue, None]) -> set[Operation]:
        """Ops on large tiles that have to give something whole, and did not have to yet."""
        return {op for op in self._feeding(values) if not any(r in self.whole for r in op.results)}

    def _feeding(self, values: Sequence[SSAValue] | dict[SSAValue, None]) -> set[Operation]:
        """The ops on large tiles whose small results values depend on."""
        tiles = [v for v in values if not isinstance(v.type, TokenType)]
        return {op for v in tiles for op in self.origins(v)}

    def origins(self, value: SSAValue) -> frozenset[Operation]:
        """The ops on large tiles that a small value, or a token, depends on through small ops."""
        work = [value]
        while work:
            current = work[-1]
            op = current.owner
            if current in self._origins:
                work.pop()
            elif not isinstance(op, Operation) or op.parent is not self.block:
                self._origins[work.pop()] = frozenset()
            elif op in self._huge_ops or op in self.accesses:
                self._origins[work.pop()] = frozenset((op,))
            else:
                sources = [*op.operands, *captured(op)]
                missing = [v for v in sources if v not in self._origins]
                work += missing
                if not missing:
                    self._origins[work.pop()] = frozenset().union(*(self._origins[v] for v in sources))
        return self._origins[value]

    # -- order --------------------------------------------------------------------------------------------------------

    def _make_loops(self) -> list[Loop]:
        self._giving: dict[Operation, list[Sink]] = {}
        self._doing: dict[Operation, list[tuple[Sink, int]]] = {}
        for sink in self.sinks:
            self._giving.setdefault(sink.op, []).append(sink)
            for access, dim in sink.accesses():
                self._doing.setdefault(access, []).append((sink, dim))
        edges = [edge for sink in reversed(self.sinks) for edge in self._edges(sink)]
        for _ in range(len(self.sinks) + 1):
            changed = False
            for before, after, weight in edges:
                if after.phase < before.phase + weight:
                    after.phase, changed = before.phase + weight, True
            if not changed:
                break
        else:
            op = self.sinks[0].op
            raise Uncut(op, "a token puts all of a load before all of a store, which needs what was loaded")
        groups = _Groups(self.sinks)
        for before, after, weight in edges:
            if weight == 0 and before.phase == after.phase:
                groups.join(before, after)
        readers: dict[tuple[int, Cut], list[Sink]] = {}
        for sink in reversed(self.sinks):
            for cut in sink.slice.cuts:
                if mnemonic(cut[0]) in (*LOADS, "scan", "reduce"):
                    others = readers.setdefault((sink.phase, cut), [])
                    if not any(groups.join_in_one_direction(sink, other) for other in others):
                        others.append(sink)
        loops = [self._loop(group) for group in groups.all()]
        self._check_read_once(loops)
        return sorted(loops, key=lambda loop: loop.sinks[0].phase)

    def _loop(self, sinks: list[Sink]) -> Loop:
        directions = _directions(sinks)
        if len(directions) > 1:
            raise Uncut(sinks[0].op, "it needs scans in both directions")
        words = max(sink.slice.words for sink in sinks)
        most = min(sink.slice.shortest for sink in sinks)
        wanted = 1 << max(-(-words // self.piece_words) - 1, 1).bit_length()  # a power of two
        return Loop(sorted(sinks, key=lambda s: self.order[s.op]), min(wanted, most), directions == {True})

    def _check_read_once(self, loops: Sequence[Loop]) -> None:
        """Loads that others may write meanwhile are not repeated."""
        seen: set[Cut] = set()
        ops: dict[Operation, Loop] = {}
        for loop in loops:
            for cut in {c for sink in loop.sinks for c in sink.accesses()}:
                op = cut[0]
                if op.attribute_value("memory_ordering_semantics") != "weak" and op in ops:
                    raise Uncut(op, "it would be read twice, while others may write")
                ops[op] = loop
                seen.add(cut)

    def _edges(self, sink: Sink) -> Iterator[tuple[Sink, Sink, int]]:
        """What has to come before a sink: (other, sink, 1) for an earlier phase, 0 for the same one or an earlier."""
        for value in sink.slice.wholes:
            for op in self.origins(value):
                yield from self._behind(op, sink)
        for access, dim in sink.accesses():
            for token in access.operands:
                if isinstance(token.type, TokenType):
                    yield from self._token_edges(token, access, dim, sink)

    def _behind(self, op: Operation, sink: Sink) -> Iterator[tuple[Sink, Sink, int]]:
        for other in dict.fromkeys((*self._giving.get(op, ()), *(other for other, _ in self._doing.get(op, ())))):
            yield other, sink, 1

    def _token_edges(
        self, token: SSAValue, access: CudaTileOp, dim: int, sink: Sink
    ) -> Iterator[tuple[Sink, Sink, int]]:
        """A token orders all of one access before all of another.

        In one loop, piece by piece, that is so where no piece of the one touches what another piece of the other does.
        Else the loops with the first access, all of them, come before the other one's.
        """
        direct, others = token_sources(token, self.accesses)
        for value in others:
            for op in self.origins(value):
                yield from self._behind(op, sink)
        for earlier in direct:
            for other, at in self._doing.get(earlier, ()):
                apart = piecewise_apart(earlier, at, access, dim)
                yield other, sink, 0 if apart and len(_directions([other, sink])) < 2 else 1


def token_sources(token: SSAValue, accesses: Collection[Operation]) -> tuple[list[CudaTileOp], list[SSAValue]]:
    """What a token stands for: some of these accesses, right behind them or through joins, and other tokens."""
    direct: dict[CudaTileOp, None] = {}
    others: dict[SSAValue, None] = {}
    work, seen = [token], {token}
    while work:
        value = work.pop()
        op = value.owner
        if isinstance(op, CudaTileOp) and mnemonic(op) == "join_tokens":
            work += [v for v in op.operands if v not in seen]
            seen.update(op.operands)
        elif isinstance(op, CudaTileOp) and op in accesses:
            direct[op] = None
        else:
            others[value] = None
    return list(direct), list(others)


class _Groups:
    """Sinks that are to be in one loop."""

    def __init__(self, sinks: Sequence[Sink]):
        self._of = {sink: [sink] for sink in sinks}

    def join(self, a: Sink, b: Sink) -> None:
        """Put the groups of two sinks together."""
        one, other = self._of[a], self._of[b]
        if one is other:
            return
        if len(one) < len(other):
            one, other = other, one
        one += other
        for sink in other:
            self._of[sink] = one

    def join_in_one_direction(self, a: Sink, b: Sink) -> bool:
        """Put the groups of two sinks together where the loop can go in one direction; whether they are one now."""
        if self._of[a] is self._of[b]:
            return True
        if len(_directions([*self._first_scans(a), *self._first_scans(b)])) > 1:
            return False
        self.join(a, b)
        return True

    def _first_scans(self, sink: Sink) -> list[Sink]:
        """One sink of a group that has a direction; all that have one have the same."""
        return next(([s] for s in self._of[sink] if s.directions), [])

    def all(self) -> list[list[Sink]]:
        return list({id(group): group for group in self._of.values()}.values())


def _directions(sinks: Sequence[Sink]) -> set[bool]:
    return {d for sink in sinks for d in sink.directions}
