# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`keep-tiles`: what a loop has loaded in its first turns is kept for the loops behind it that load the same.

A row that is longer than a tile is gone through twice or three times: for its sum, for what its elements become.

    for i in 0 to n { x = load v[i] ; A(x) }
    for i in 0 to n { x = load v[i] ; B(x) }

becomes, for two turns,

    x0 = load v[0] ; x1 = load v[1]
    if 0 < n { A(x0) } ; if 1 < n { A(x1) } ; for i in 2 to n { x = load v[i] ; A(x) }
    if 0 < n { B(x0) } ; if 1 < n { B(x1) } ; for i in 2 to n { x = load v[i] ; B(x) }

so that a row of two tiles is read once, and all of its loads are under way at once. Sums keep their order. What is
loaded for a turn that there is not is padding, or not used; a load under a condition would be waited for there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue

from libtile.analysis.alias_scopes import writers
from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1
from libtile.dialects.effect_traits import is_weak
from libtile.dialects.interfaces import body, bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import create_before, is_op
from libtile.transforms.effects import returns_for_certain
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import Bounds, copy_iteration, ends_early
from libtile.transforms.products import multiplies

_REMARK = "KeepTiles"
_STORES = ("store_ptr_tko", "store_view_tko")


@dataclass(frozen=True)
class KeepTilesPass(ModulePass):
    """Keep tiles that several loops load.

    `turns`: the most turns whose tiles are kept, 0 for none. `max_bytes`: the most bytes of all tiles that are kept at
    once. `max_ops`: the most ops that all copies of the loops' bodies may have together. `ahead_bytes`: what these
    turns of a later loop load beside is loaded in front of them all, too, if it has no more bytes.
    """

    name = "keep-tiles"

    turns: int = 4
    max_bytes: int = 8192
    max_ops: int = 512
    ahead_bytes: int = 8192

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        keep_tiles(op, self.turns, self.max_bytes, self.max_ops, self.ahead_bytes)


def keep_tiles(
    root: Operation, turns: int = 4, max_bytes: int = 8192, max_ops: int = 512, ahead_bytes: int = 8192
) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether any tile is kept."""
    changed = False
    for function in functions_in(root):
        for group in [group for block in _blocks(function) for group in _groups(block)]:
            changed |= _keep(group, turns, max_bytes, max_ops, ahead_bytes)
    return changed


@dataclass(frozen=True)
class _Group:
    """Loops of one block over the same turns, and the loads of the first one that later ones repeat, with theirs."""

    loops: tuple[CudaTileOp, ...]
    loads: tuple[tuple[CudaTileOp, ...], ...]

    @property
    def size(self) -> int:
        """The bytes of what is kept of a turn."""
        return sum(_size(loads[0]) for loads in self.loads)


def _blocks(function: Operation) -> Iterator[Block]:
    for op in ops_of(function):
        for region in op.regions:
            yield from region.blocks


def _groups(block: Block) -> Iterator[_Group]:
    """The groups of a block's loops. Between them and in them is nothing that may not return, or that may order or
    write memory but weak stores: what these write is not ordered before a load that takes the token of the first one.
    """
    open_: list[CudaTileOp] = []
    for op in ops_in(block):
        if is_op(op, "for") and isinstance(op, CudaTileOp) and _may_be_copied(op) and _is_harmless(op):
            if open_ and _turns_of(open_[0]) != _turns_of(op):
                yield from _group(open_)
                open_ = []
            open_.append(op)
        elif open_ and not _is_harmless(op):
            yield from _group(open_)
            open_ = []
    yield from _group(open_)


def _turns_of(loop: CudaTileOp) -> tuple[object, ...]:
    return (*bounds_of(loop), str(loop.attribute_value("unsignedCmp")))


def _may_be_copied(loop: CudaTileOp) -> bool:
    return not multiplies(loop) and not ends_early(loop)


def _is_harmless(op: Operation) -> bool:
    return returns_for_certain(op) and all(is_op(inner, *_STORES) and is_weak(inner) for inner in writers(op))


def _group(loops: Sequence[CudaTileOp]) -> Iterator[_Group]:
    """The loops as a group, where a later one repeats a load of the first one."""
    if len(loops) < 2:
        return
    keys = [{_key(load, loop): load for load in _loads(loop)} for loop in loops]
    repeated = [(load, *(other[key] for other in keys[1:] if key in other)) for key, load in keys[0].items()]
    repeated = [loads for loads in repeated if len(loads) > 1]
    if repeated:
        yield _Group(tuple(loops), tuple(repeated))


def _loads(loop: CudaTileOp) -> list[CudaTileOp]:
    """The weak loads right in a loop's body, of tiles that the counter alone chooses, for whose token nobody waits."""
    counter = body(loop).args[0]
    return [
        op
        for op in body(loop).ops
        if isinstance(op, CudaTileOp)
        and is_op(op, "load_view_tko")
        and is_weak(op)
        and op.results[1].first_use is None
        and all(operand is counter or not _is_within(operand, loop) for operand in op.operands)
    ]


def _is_within(value: SSAValue, loop: Operation) -> bool:
    owner = value.owner
    around = owner.parent_op() if isinstance(owner, Block) else owner
    return around is not None and loop.is_ancestor(around)


def _key(load: CudaTileOp, loop: CudaTileOp) -> tuple[object, ...]:
    """What loads of the same tile in two loops have in common."""
    counter = body(loop).args[0]
    operands = [None if operand is counter else operand for operand in load.operands]
    return (*operands, *sorted(load.properties.items()), *(result.type for result in load.results))


def _size(load: CudaTileOp) -> int:
    tile = load.results[0].type
    assert isinstance(tile, TileType)
    return -(-tile.num_elements * bit_width(tile.element_type) // 8)


def _keep(group: _Group, turns: int, max_bytes: int, max_ops: int, ahead_bytes: int) -> bool:
    first = group.loops[0]
    bounds = Bounds(first, first)
    lower, upper, step = (bounds.number(value) for value in (bounds.lower, bounds.upper, bounds.step))
    kept = min(turns, max_bytes // group.size)
    size = sum(1 for loop in group.loops for op in ops_of(loop)) - len(group.loops)
    reason = ""
    if turns == 0:
        return False
    if lower is None or step is None or step <= 0 or lower + turns * step > bounds.greatest:
        reason = "it is not known which turn comes first, or by how much they go on"
    elif kept == 0:
        reason = f"a turn loads {group.size} bytes of such tiles, which is more than {max_bytes}"
    elif size * kept > max_ops:
        reason = f"{kept} copies of {size} ops are more than {max_ops} ops"
    if lower is None or step is None or reason:
        for loads in group.loads:
            reporting.missed(loads[-1], _REMARK, "Tile is loaded anew", reason)
        return False
    if upper is not None:
        kept = min(kept, -(-(upper - lower) // step))
        if kept <= 0:
            return False
    for loads in group.loads:
        for load in loads[1:]:
            reporting.done(load, _REMARK, "Tile is kept from an earlier loop", Turns=kept)
        statistics.count("loads of kept tiles", kept * (len(loads) - 1))
    _Keeper(group, bounds, [lower + number * step for number in range(kept)], upper).run(ahead_bytes)
    return True


@dataclass(frozen=True)
class _Keeper:
    """Takes the first turns, given by the counter, out of the loops of a group."""

    group: _Group
    bounds: Bounds
    counters: list[int]
    upper: int | None

    def run(self, ahead_bytes: int) -> None:
        """Load in front of the first loop, and have the turns in front of each loop use it. In front of the turns of a
        later loop up to so many bytes are loaded that are of no other one."""
        at = [self.bounds.constant(counter) for counter in self.counters]
        are_run, place = [self._is_run(value) for value in at], self.bounds.place
        tiles: dict[Operation, list[SSAValue]] = {}
        for loads in self.group.loads:
            made = [self._load(loads[0], value, run, place) for value, run in zip(at, are_run, strict=True)]
            tiles |= dict.fromkeys(loads, made)
        rest = self.bounds.add(at[-1], self.bounds.step)
        for loop in self.group.loops:
            others = [load for load in _loads(loop) if load not in tiles]
            if loop is not self.group.loops[0] and len(at) * sum(map(_size, others)) <= ahead_bytes:
                for load in others:
                    tiles[load] = [self._load(load, value, run, loop) for value, run in zip(at, are_run, strict=True)]
            self._turns(loop, at, are_run, {load: of for load, of in tiles.items() if load.parent_op() is loop}, rest)

    def _is_run(self, counter: SSAValue) -> SSAValue | None:
        """Whether there is the turn; None where there is one for certain."""
        if self.upper is not None:
            return None
        operands = {"lhs": counter, "rhs": self.bounds.upper}
        settings = {"comparison_predicate": "less_than", "signedness": self.bounds.signedness}
        return create_before(self.bounds.place, "cmpi", operands, [TileType((), i1)], settings)

    def _load(self, load: CudaTileOp, counter: SSAValue, is_run: SSAValue | None, place: Operation) -> SSAValue:
        """The tile of a turn in front of a loop, which may be any where there is no such turn."""
        loop = load.parent_op()
        assert isinstance(loop, CudaTileOp)
        made = load.clone({body(loop).args[0]: counter})
        if is_run is not None:
            made.attributes[OUTSIDE_ATTRIBUTE] = DenseArrayBase.from_list(
                i64, list(range(len(load.operand_group("index"))))
            )
            made.properties.pop("inbounds", None)
        _insert(made, place)
        return made.results[0]

    def _turns(
        self,
        loop: CudaTileOp,
        at: Sequence[SSAValue],
        are_run: Sequence[SSAValue | None],
        tiles: dict[Operation, list[SSAValue]],
        rest: SSAValue,
    ) -> None:
        """The first turns of a loop in front of it, by the tiles that are there."""
        values: list[SSAValue] = list(loop.operand_group("initValues"))
        for number, (counter, is_run) in enumerate(zip(at, are_run, strict=True)):
            before = loop.prev_op
            ended = copy_iteration(loop, loop, [counter, *values])
            copied = _between(before, loop)
            originals = [op for op in body(loop).ops if op is not body(loop).last_op]
            for original, copy in zip(originals, list(copied), strict=True):
                if original in tiles:
                    there = tiles[original][number]
                    ended = [there if value is copy.results[0] else value for value in ended]
                    copy.results[0].replace_all_uses_with(there)
                    copied.remove(copy)
                    copy.detach()
                    copy.erase()
            if is_run is None:
                values = ended
                continue
            for op in copied:
                op.detach()
            values = _under(is_run, copied, loop, ended, values)
        _, upper, step = bounds_of(loop)
        loop.operands = [rest, upper, step, *values]


def _between(before: Operation | None, end: Operation) -> list[Operation]:
    """The ops of a block behind one (None: from its first) and in front of another."""
    assert end.parent is not None
    op = end.parent.first_op if before is None else before.next_op
    found = []
    while op is not None and op is not end:
        found.append(op)
        op = op.next_op
    return found


def _insert(op: Operation, place: Operation) -> None:
    assert place.parent is not None
    place.parent.insert_op_before(op, place)


def _under(
    condition: SSAValue,
    ops: Sequence[Operation],
    place: Operation,
    given: Sequence[SSAValue],
    otherwise: Sequence[SSAValue],
) -> list[SSAValue]:
    """An `if` in front of `place` that runs the ops and gives some values, and others where it does not."""
    blocks = [Block(), Block()]
    blocks[0].add_ops(ops)
    for block, values in zip(blocks, (given, otherwise), strict=True):
        end = build("yield", {"operands": list(values)})
        end.location = place.location
        block.add_op(end)
    made = build("if", {"condition": condition}, [value.type for value in given], regions=blocks)
    made.location = place.location
    _insert(made, place)
    return list(made.results)
