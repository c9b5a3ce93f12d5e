# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the reference assembler warns of high register usage: an analysis of cuda_tile as it was given.

The rule was found by programs that were written for it: `test/oracle/test_register_warning.py` has them. Each body of a
loop and each branch is looked at by itself; tiles elsewhere do not count, as chains from loads to stores are worked
through in pieces. Counted are whole tiles, in bytes, for each thread of the warps that are asked for, of which there
are four without a hint. Of the tiles that a loop carries those that begin as one value and change alike are one tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod

from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, PointerType, TileType
from libtile.dialects.effect_traits import NOTHING, effects_of
from libtile.dialects.interfaces import CountedLoop, control_flow, exit_of
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of
from libtile.lowering.tile_registers import WARP
from libtile.lowering.to_tileaa.functions import ACCUMULATOR, DEFAULT_WARPS, PRODUCTS, entry_hint
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support import remarks
from libtile.targets import Target

HELD = 1024
"""32-bit registers of a thread from which tiles are said to be too many, as observed on version 13.5."""
_WORD_BYTES = 4
_POINTER_BYTES = 8

_Read = tuple[Operation, set[SSAValue]]
"""An op, and the tiles that it and the ops in it read."""


def register_warnings(module: Operation, target: Target) -> Iterator[remarks.Remark]:
    """The warnings about the kernels of a `cuda_tile.module`."""
    for entry in ops_of(module, OPS["entry"]):
        if all_registers(entry, target) >= HELD and tile_registers(entry, target) >= HELD:
            yield remarks.register_pressure(str(entry.attribute_value("sym_name")), source_location(entry.location))


def all_registers(entry: CudaTileOp, target: Target) -> int:
    """The 32-bit registers of a thread that all tiles of an entry take: no body of a loop and no branch has more."""
    ops = ops_of(entry)
    types = [result._type for op in ops for result in op.results]
    types += [a._type for op in ops for region in op.regions for block in region.blocks for a in block.args]
    return sum(map(_bytes, types)) // _thread_bytes(entry, target)


def tile_registers(entry: CudaTileOp, target: Target) -> int:
    """The most 32-bit registers of a thread that tiles take in a loop's body or a branch of an entry.

    On targets without TMA all tiles that come into the block or leave it count, and on others those that are alive at
    one of its ops.
    """
    bodies = _Bodies(live=target.has("tma"))
    bodies.reads(entry)
    return bodies.most // _thread_bytes(entry, target)


def _thread_bytes(entry: CudaTileOp, target: Target) -> int:
    """The bytes of tiles of which a thread has one register each."""
    return _WORD_BYTES * WARP * (entry_hint(entry, "num_worker_warps_per_cta", target) or DEFAULT_WARPS)


class _Bodies:
    """The bytes of tiles in bodies of loops and branches, and the most of them."""

    def __init__(self, *, live: bool) -> None:
        self.most = 0
        self._count = self._live if live else self._through
        self._sizes: dict[SSAValue, int] = {}
        self._begins: dict[SSAValue, SSAValue] = {}
        """Carried tiles that begin as another one does, which is the first of these."""
        self._same: dict[SSAValue, SSAValue] = {}
        """Tiles of a loop that are another one of it throughout."""

    def reads(self, op: Operation) -> set[SSAValue]:
        """The tiles that an op reads, and the ops in it, of those that are made in front of it."""
        found = {v for v in op.operands if self.size(v)}
        for region in op.regions:
            for block in region.blocks:
                each = [(inner, self.reads(inner)) for inner in block.ops]
                coming = set().union(*(read for _, read in each)) - {r for inner, _ in each for r in inner.results}
                if (flow := control_flow(op)) is not None:
                    if isinstance(flow, CountedLoop):
                        self._carry(op, flow.carried(op), block)
                    self.most = max(self.most, self._count(block, each, coming))
                found |= coming - set(block.args)
        return found

    def _through(self, block: Block, each: list[_Read], coming: set[SSAValue]) -> int:
        """Bytes of the tiles that come into a block and are read there, and of those that it gives. Those that a loop
        carries and begins as one value come in as one.

        Parts that store and do not depend on each other are worked through one after the other: what is carried and
        read by those before alone has gone, and what those behind give has not come.
        """
        given = set(each[-1][0].operands) if each else set()
        parts = self._parts(each)
        last = {v: number for number, part in enumerate(parts) for _, read in part for v in read}
        held, made, most = set(coming), set[SSAValue](), 0
        for number, part in enumerate(parts):
            made |= {r for op, _ in part for r in op.results if r in given}
            most = max(most, self._sum(self._beginnings(held) | made))
            held -= {v for v in block.args if last.get(v) == number and v not in given}
        return max(most, self._sum(self._beginnings(held) | made | given))

    def _beginnings(self, held: Iterable[SSAValue]) -> set[SSAValue]:
        return {self._begins.get(value, value) for value in held}

    def _carry(self, op: Operation, initial: Sequence[SSAValue], block: Block) -> None:
        """Note which of the tiles that a loop carries begin alike, and which of these change alike."""
        first: dict[SSAValue, int] = {}
        for number, value in enumerate(initial):
            if _is_spread(value):
                first.setdefault(value, number)
        carried, given = block.args[-len(initial) :] if initial else (), block.ops.last
        alike = [number for number, value in enumerate(initial) if first.get(value, number) != number]
        if given is None or not alike:
            return
        changes = _Changes(block, carried)
        representative: dict[tuple[int, object], int] = {}
        for number, value in enumerate(initial):
            if value not in first:
                continue
            self._begins[carried[number]] = carried[first[value]]
            if (change := changes.of(given.operands[number], carried[number])) is not None:
                other = representative.setdefault((first[value], change), number)
                if other != number:
                    for places in (carried, given.operands, op.results):
                        one, same = self._place(places[number]), self._place(places[other])
                        if one is not same:
                            self._same[one] = same

    def _sum(self, values: Iterable[SSAValue]) -> int:
        return sum(self.size(place) for place in {self._place(v) for v in values})

    def _parts(self, each: list[_Read]) -> list[list[_Read]]:
        """The ops of a block by the tiles that they hand on to one another; those without stores go with the last."""
        part_of: dict[Operation, list[_Read]] = {}
        for op, read in each[:-1]:
            makers = (v.owner for v in read if isinstance(v.owner, Operation) and _is_spread(v))
            joined = {id(part): part for maker in makers if (part := part_of.get(maker)) is not None}
            part, *others = sorted(joined.values(), key=len, reverse=True) or [[]]
            for other in others:
                part += other
                part_of |= dict.fromkeys((item[0] for item in other), part)
            part.append((op, read))
            part_of[op] = part
        storing: list[list[_Read]] = []
        rest: list[_Read] = []
        for part in {id(part): part for part in part_of.values()}.values():
            if all(_makes_tiles(op) for op, _ in part):
                rest += part
            else:
                storing.append(part)
        return [*storing[:-1], [*(storing[-1] if storing else ()), *rest]]

    def _live(self, block: Block, each: list[_Read], coming: set[SSAValue]) -> int:
        """Bytes of the tiles that are alive at some op of a block, its operands and results among them.

        What comes from around it lives until the end, as the next iteration reads it again.
        """
        ends: dict[Operation, list[SSAValue]] = {}
        seen = coming - set(block.args)
        for op, read in reversed(each):
            ends[op] = list(read - seen)
            seen |= read
        alive: Counter[SSAValue] = Counter()
        most = now = 0

        def begin(value: SSAValue) -> None:
            nonlocal now
            place = self._place(value)
            now += self.size(place) if not alive[place] else 0
            alive[place] += 1

        for value in coming:
            begin(value)
        for op, _ in each:
            made = [r for r in op.results if self.size(r) and r.first_use is not None and not _streamed(r)]
            for value in made:
                begin(value)
            most = max(most, now)
            for value in ends[op]:
                place = self._place(value)
                if alive[place]:  # those that are streamed have not begun
                    alive[place] -= 1
                    now -= self.size(place) if not alive[place] else 0
        return max(most, now)

    def _place(self, value: SSAValue) -> SSAValue:
        """A product is where its accumulator was."""
        while True:
            if value in self._same:
                value = self._same[value]
            elif isinstance(value.owner, PRODUCTS) and self.size(value.owner.operands[ACCUMULATOR]):
                value = value.owner.operands[ACCUMULATOR]
            else:
                return value

    def size(self, value: SSAValue) -> int:
        """Bytes of a tile that takes registers."""
        known = self._sizes.get(value)
        if known is None:
            known = self._sizes[value] = _size(value)
        return known


class _Changes:
    """What the values of a loop's body are of what it carries, if they are made of one carried value at most: the same
    for values that are made in the same way of different ones."""

    def __init__(self, block: Block, carried: Iterable[SSAValue]) -> None:
        self._known: dict[tuple[object, ...], int] = {}
        self._made: dict[SSAValue, tuple[object, set[SSAValue]]] = {value: (None, {value}) for value in carried}
        for op in block.ops:
            if not op.regions and effects_of(op) == NOTHING:
                self._number(op)

    def _number(self, op: Operation) -> None:
        parts = [self._made.get(operand, (operand, set[SSAValue]())) for operand in op.operands]
        sources = set().union(*(made_of for _, made_of in parts))
        if len(sources) > 1:
            sources = set(list(sources)[:2])  # of two it is none's
        key = (type(op), *op.properties.items(), *(r.type for r in op.results), *(what for what, _ in parts))
        number = self._known.setdefault(key, len(self._known))
        for index, result in enumerate(op.results):
            self._made[result] = ((number, index), sources)

    def of(self, value: SSAValue, carried: SSAValue) -> object | None:
        """How a value is made of a carried one and nothing else that is carried; None where it is not."""
        what, sources = self._made.get(value, (None, set[SSAValue]()))
        return what if sources == {carried} else None


def _streamed(value: SSAValue) -> bool:
    """Whether a tile goes only where no tile is made of it, as to memory: it is made and gone piece by piece."""
    users = {use.operation for use in value.uses}
    return not any(exit_of(u) is not None or _makes_tiles(u) for u in users)


def _makes_tiles(op: Operation) -> bool:
    return any(isinstance(r.type, TileType) for r in op.results)


def _is_spread(value: SSAValue) -> bool:
    """Whether a value is a tile of more than one number."""
    return isinstance(value.type, TileType) and prod(value.type.shape) > 1


def _size(value: SSAValue) -> int:
    """Bytes of a tile; 0 of one number that is spread over a tile, and of what is no tile."""
    type_ = value.type
    if not isinstance(type_, TileType) or isinstance(value.owner, OPS["constant"]):
        return 0
    if isinstance(value.owner, OPS["broadcast"]):
        source = source_of(value.owner).type
        if isinstance(source, TileType) and prod(source.shape) == 1:
            return 0
    return _bytes(type_)


@lru_cache(maxsize=1024)
def _bytes(type_: Attribute) -> int:
    """Bytes of a tile of a type; 0 of what is no tile."""
    if not isinstance(type_, TileType):
        return 0
    element = type_.element_type
    pointer = isinstance(element, PointerType)
    return prod(type_.shape) * (_POINTER_BYTES if pointer else STORAGE_BYTES[NUMBER_NAMES[element]])
