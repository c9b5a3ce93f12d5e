# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with several products whose operands the loop computes of other products, and of what it carries: what they are
made of, whoever multiplies (`wgmma_step_chains`, `tensor_step_chains`).

Each tile that TMA copies has a ring of its own; where there is no room for that, tiles that are alike share one. An
operand that consumers compute is read from registers where it lies so, else from a bridge: a pipeline of one stage that
consumers both fill and read, since each of them has a part of the tile. One that is there before the loop is brought
once, and its stage is held through all steps. Where there is no room for all of them, bridges take turns at a stage
(`tile_turns`): one is filled when all products have ended that read the one before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import ConsumerWaitOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import BufferType, ConsumerTokenType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT
from libtile.lowering.tileas.agents.consumers import check_warps, tile_registers
from libtile.lowering.tileas.agents.fed_steps import FedSteps, NotSpecialized, operand_buffer, seen_as
from libtile.lowering.tileas.agents.feeds import Feed
from libtile.lowering.tileas.agents.remade import without_conversions
from libtile.lowering.tileas.agents.step_reads import StepRead
from libtile.lowering.tileas.agents.tile_turns import TileLife, share_stages
from libtile.lowering.tileas.ahead import is_inside
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, check_token, tma_operand, tma_tile
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory import staging
from libtile.lowering.tileas.memory.shared_memory import block_bytes, rings_bytes, tile_bytes
from libtile.lowering.tileas.pipelines.operand_paths import is_read_by
from libtile.lowering.tileas.pipelines.schedule import stages_wanted
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.support.records import dataclass
from libtile.targets import Target

Values = dict[SSAValue, SSAValue]
TURNS_OF_SHAPES = 2
"""Tiles of different shapes that take turns at a stage: of more, each would be copied while no product is under way."""
FEWEST_COPIED = 1024
"""Elements of a tile that TMA copies for warps that compute with it; smaller ones they load themselves."""


@dataclass(frozen=True)
class Bridge:
    """An operand that consumers compute, and that products read from shared memory: the value, in the layout in which
    threads have it, its buffer, and whether it is filled `once`, in front of the loop."""

    value: SSAValue
    type: BufferType
    once: bool


@dataclass(frozen=True)
class StepProduct:
    """A product, its instruction, and where its operands are: in registers where there is no number of a feed."""

    op: DotOp
    atom: MmaAtomAttr
    a: int | None
    b: int


_Found = tuple[DotOp, MmaAtomAttr, object, object]
"""A product, its instruction, and the keys of its operands; None for a left one in registers."""


class StepChain(FedSteps):
    """One kernel, and its loop with products, or one of which it computes something. Unfit where it stays as it is."""

    issues_apart = False
    """Whether products are issued by another agent than the warps that read tiles from stages as well. Else a loop that
    loads nothing has no producer."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec, loop = function.kernel_spec, products[0].parent_op()
        assert spec is not None and isinstance(loop, scf.ForOp)
        self.spec = spec
        if any(p.parent_op() is not loop for p in products):
            raise Unfit("the kernel has products in several loops")
        super().__init__(function, gpu, loop)
        check_warps(spec)
        self.tiles_by_key: dict[object, TmaOperand] = {}
        self.reads_by_key: dict[object, StepRead] = {}
        self.bridges: dict[object, Bridge] = {}
        self.by_warps = {} if self.issues_apart and len(products) == 1 else self._read_by_warps()
        found: list[_Found] = []
        for product in products:
            try:
                atom = self._instruction(product)
                found.append((product, atom, *self._sides(product, atom, products)))
            except Unfit as reason:
                raise NotSpecialized(str(reason), product) from None
        self._copy_for_warps()
        if self.tiles_by_key or self.issues_apart or bool(ops_of(loop, TiledLoadOp, LoadOp)):
            self._hold(list(self.tiles_by_key.values()))
        self._look_ahead()
        for operand in self.operands:
            check_token(operand.load)
        self._assign(list(self.tiles_by_key), found)
        self.ops = [op for op in self.body.ops if op not in self._gone() and op is not self.body.last_op]
        self._check_registers()
        self._set_stages(most, found)

    def _assign(self, copied: Sequence[object], found: Sequence[_Found]) -> None:
        """Give each operand a number, and a pipeline of its own."""
        self._number(copied, found)
        self.copied = [self._ring([n]) for n in range(len(self.operands))]
        """The rings of tiles that TMA copies."""
        self.bringing = [[n] for n in self.bridged]
        """The numbers of the bridges that have a pipeline together, in the order of their turns."""
        self.feeds = self._feeds()
        """Of tiles that TMA copies, and of bridges."""

    def _number(self, copied: Sequence[object], found: Sequence[_Found]) -> None:
        """Give operands their numbers: tiles that TMA copies, by their keys, come first, and then bridges."""
        self.operands = [self.tiles_by_key[key] for key in copied]
        keys = [*copied, *self.bridges]
        self.reads = {read.load: (keys.index(key), read) for key, read in self.reads_by_key.items()}
        """The loads whose tiles the kernel's warps read from stages, too: the numbers of the operands, and how."""
        self.products = [
            StepProduct(op, atom, None if a is None else keys.index(a), keys.index(b)) for op, atom, a, b in found
        ]

    # -- what fits --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a product, whose accumulator has to lie as that wants it."""

    @abstractmethod
    def _lies_in_registers(self, product: DotOp, atom: MmaAtomAttr) -> bool:
        """Whether a left operand is in registers as the instruction reads it."""

    def _sides(self, product: DotOp, atom: MmaAtomAttr, products: Sequence[DotOp]) -> tuple[object, object]:
        """Where the operands of a product are; None for a left one in registers. What warps would bring of a lone
        product in each step is nothing that others give: it comes earlier by copies some steps ahead."""
        found: list[object] = []
        for side, value in (("a", product.a), ("b", product.b)):
            try:
                found.append(self._copied(atom, side, value, products))
                continue
            except Unfit:
                given = without_conversions(value)
                inside = is_inside(given, self.body)
                if inside and len(products) == 1 and not self._is_copied_whole():
                    raise
            in_registers = side == "a" and inside and self._lies_in_registers(product, atom)
            found.append(None if in_registers else self._bridged(atom, side, given, once=not inside))
        return found[0], found[1]

    def _copied(self, atom: MmaAtomAttr, side: str, value: SSAValue, products: Collection[Operation]) -> object:
        others, read = set(self.renamed), None
        path = self._path(side, value, products, shared=True)
        try:
            operand = tma_operand(
                self.function, self.gpu, atom.instruction, side, path.load, path.order, element=path.element
            )
            known = any(found.load is path.load for found in self.reads_by_key.values())
            if not known and not is_read_by(path.load.value, products):
                read = StepRead.of(self.gpu, f"#{side.upper()} ", operand, path.order)
        except Unfit:
            self.renamed = others  # consumers load it themselves
            raise
        key = path.load, path.order, path.element
        self.tiles_by_key.setdefault(key, operand)
        if read is not None:
            self.reads_by_key[key] = read
        return key

    def _read_by_warps(self) -> dict[TiledLoadOp, tuple[TmaOperand, StepRead]]:
        """The loads of large tiles that TMA can copy to where the kernel's warps read them, and how."""
        found = {}
        for load in self.body.ops:
            if isinstance(load, TiledLoadOp) and prod(shape_of(load.value.type)) >= FEWEST_COPIED:
                try:
                    check_token(load)
                    tile = tma_tile(self.function, "", load)
                    found[load] = tile, StepRead.of(self.gpu, "", tile, range(len(tile.type.shape)))
                except Unfit:
                    continue  # consumers load it themselves
        return found

    def _is_copied_whole(self) -> bool:
        """Whether TMA can copy all large tiles of a step."""
        loads = [op for op in self.body.ops if isinstance(op, TiledLoadOp | LoadOp)]
        return all(load in self.by_warps or prod(shape_of(load.value.type)) < FEWEST_COPIED for load in loads)

    def _copy_for_warps(self) -> None:
        """Have TMA copy what only warps read as well: of the tiles that operands are computed of."""
        copied = {tile.load for tile in self.tiles_by_key.values()}
        for load, (tile, read) in self.by_warps.items():
            if load not in copied:
                self.renamed.add(load)
                self.tiles_by_key[load], self.reads_by_key[load] = tile, read

    def _bridged(self, atom: MmaAtomAttr, side: str, value: SSAValue, *, once: bool) -> object:
        """An operand that consumers bring to shared memory in each step, or once."""
        type_ = operand_buffer(self.gpu, atom, side, value)
        key = value, type_
        self.bridges.setdefault(key, Bridge(value, type_, once))
        return key

    def _gone(self) -> set[Operation]:
        """The ops that copies take over: loads that no warps read from stages, and what renames them for products
        alone."""
        renamed, products = {op for op in self.renamed if op.parent is self.body}, {p.op for p in self.products}
        for load in self.reads:
            renamed.remove(load)
        return {op for op in renamed if isinstance(op, TiledLoadOp) or is_read_by(op.results[0], products)}

    @property
    def _carried(self) -> int:
        """Registers of a thread for tiles that the loop carries, or what is around it, but for sums of products."""
        sums = {p.op.c for p in self.products}
        return self.around + sum(tile_registers(v) for v in self.body.args if v not in sums)

    @abstractmethod
    def _check_registers(self) -> None:
        """Unfit where sums that are under way together take more registers than a thread has."""

    def _early(self) -> list[StepProduct]:
        """The products whose left operand is rather brought to shared memory, if there is room, than in registers."""
        return []

    def _bring_early(self, early: Sequence[StepProduct], found: Sequence[_Found]) -> Sequence[_Found]:
        """The products with their operands' keys, where left operands of some come by bridges."""
        ops, brought = {product.op for product in early}, list(found)
        for n, (op, atom, _, b) in enumerate(found):
            if op in ops:
                try:
                    brought[n] = op, atom, self._bridged(atom, "a", without_conversions(op.a), once=False), b
                except Unfit:
                    continue  # it stays in registers
        return brought

    def _set_stages(self, most: int, found: Sequence[_Found]) -> None:
        """As many stages for each ring as there is room for beside bridges and what is stored, first for those with the
        fewest. Where there is none for a stage of each, tiles that are alike share a ring; and where there is none for
        that, bridges take turns."""
        gone = [op for op in ops_of(self.loop, ConvertLayoutOp) if _is_for_products(op)]
        rows = self.products[0].atom.instruction.m
        kept = min(staging.kept_beside(self.function, self.body, gone, rows))
        if self.outer is not None:  # rings stay beside what is behind the loop
            kept = max(kept, min(self.kept(rows)))
        free = block_bytes(self.gpu, self.spec) - kept

        def taken(stages: Sequence[int]) -> int:
            bridges = [feed.type for feed in self.feeds[len(self.copied) :]]
            return rings_bytes([*(f.staged(n) for f, n in zip(self.copied, stages)), *bridges], ALIGNMENT)

        if early := self._early():
            before = dict(self.bridges)
            self._assign(list(self.tiles_by_key), brought := self._bring_early(early, found))
            if taken(self._least_stages()) <= free:
                found = brought
            else:
                self.bridges = before
                self._assign(list(self.tiles_by_key), found)
        if taken(self._least_stages()) > free:
            self._number(sorted(self.tiles_by_key, key=lambda key: self._first_read(key, found)), found)
            ways = [(_same_type, len(self.operands)), (_same_size, TURNS_OF_SHAPES)]
            # Results in tensor memory go by narrower tiles instead, of which one is copied while another is multiplied.
            for alike, turns in ways[:1] if self.issues_apart else ways:
                self.copied = self._shared_rings(alike, turns)
                self.feeds = self._feeds()
                if taken(self._least_stages()) <= free:
                    break
        if (least := taken(self._least_stages())) > free:
            self.bringing = share_stages(list(self._lives_of_bridges()), least - free)
            self.feeds = self._feeds()
        if (least := taken(self._least_stages())) > free:
            raise Unfit(f"{least} bytes of tiles do not fit the {free} bytes of shared memory that are free")
        wanted = [
            max(stages_wanted(self.operands[n].load, most) for turn in ring.turns for n in turn) for ring in self.copied
        ]
        if self.turns is not None and not nests.is_repeated_within(self.outer, self.loop):
            wanted = [min(n, self.turns * len(ring.turns)) for n, ring in zip(wanted, self.copied)]
        stages, growing = self._least_stages(), set(range(len(self.copied)))
        while growing:
            fewest = min(growing, key=lambda n: (stages[n], n))
            more = [n + (place == fewest) for place, n in enumerate(stages)]
            if more[fewest] > wanted[fewest] or taken(more) > free:
                growing.remove(fewest)
            else:
                stages = more
        for feed, count in zip(self.copied, stages):
            feed.stages = count

    def _least_stages(self) -> list[int]:
        """Stages that each ring has at least: one for each tile there of those that one product reads at a time."""
        rings = [{n for turn in ring.turns for n in turn} for ring in self.copied]
        return [max(1, *(len({p.a, p.b} & numbers) for p in self.products)) for numbers in rings]

    def _first_read(self, key: object, found: Sequence[_Found]) -> int:
        """The place among the body's ops of the first one that reads a tile that TMA copies: a product, or its load,
        where warps read it. Who takes turns in this order waits for nobody behind."""
        places = {op: n for n, op in enumerate(self.body.ops)}
        readers = [places[op] for op, _, *keys in found if key in keys]
        if key in self.reads_by_key:
            readers.append(places[self.reads_by_key[key].load])
        return min(readers)

    def _shared_rings(self, alike: Callable[[TmaOperand], Hashable], turns: int) -> list[Feed]:
        """Rings, each for up to so many tiles that are `alike` and that one product reads, or the warps. They take
        turns there in the order in which they are read."""
        found: dict[object, list[list[int]]] = {}
        for n, tile in enumerate(self.operands):
            lone, apart = self.readers(n) == 1, self.issues_apart and self._is_read_by_warps(n)
            rings = found.setdefault((alike(tile), tile.ctas, apart) if lone else n, [[]])
            if len(rings[-1]) == turns:
                rings.append([])
            rings[-1].append(n)
        return [self._ring(numbers) for rings in found.values() for numbers in rings]

    def _ring(self, numbers: Sequence[int]) -> Feed:
        """The ring of tiles that are alike, which take turns there; of a lone one that another agent reads, too."""
        first, *more = numbers
        apart = int(self.issues_apart and self._is_read_by_warps(first) and self.readers(first) > 1)
        tile = self.operands[first]
        return Feed(
            (tile.type,), {first: 0}, tile.ctas, consumers=1 + apart, consumer=apart, more=tuple({n: 0} for n in more)
        )

    def _feeds(self) -> list[Feed]:
        """The rings, and a pipeline for bridges that take turns, whose stage is the largest one's buffer."""
        types = {n: bridge.type for n, bridge in zip(self.bridged, self.bridges.values())}
        return [*self.copied, *(Feed((max((types[n] for n in turns), key=tile_bytes),), {}) for turns in self.bringing)]

    def _lives_of_bridges(self) -> Iterator[TileLife]:
        """The bridges as products read them, one after the other."""
        for number, bridge in zip(self.bridged, self.bridges.values()):
            readers = [n for n, product in enumerate(self.products) if number in (product.a, product.b)]
            taken = rings_bytes([Feed((bridge.type,), {}).type], ALIGNMENT)
            width = element_bytes(bridge.type.element_type)
            yield TileLife(number, taken, width, readers[0], readers[-1], held=bridge.once)

    # -- the new code -----------------------------------------------------------------------------------------------

    def feed_of(self, number: int) -> Feed:
        """The pipeline of an operand, by its number."""
        return self.feeds[next(n for n, turns in enumerate(self._turns) if number in turns)]

    @property
    def _turns(self) -> list[list[int]]:
        """The numbers of the operands that have each pipeline, in the order of their turns."""
        return [*([n for turn in ring.turns for n in turn] for ring in self.copied), *self.bringing]

    def before(self, number: int) -> list[int]:
        """The operands that have a pipeline's turns before one in each step."""
        turns = next(turns for turns in self._turns if number in turns)
        return turns[: turns.index(number)]

    def readers(self, number: int) -> int:
        """How many times a stage is read in a step: by products, and by warps."""
        return sum((number == p.a) + (number == p.b) for p in self.products) + self._is_read_by_warps(number)

    def _is_read_by_warps(self, number: int) -> bool:
        return any(number == n for n, _ in self.reads.values())

    @property
    def bridged(self) -> range:
        """The numbers of the bridges."""
        return range(len(self.operands), len(self.operands) + len(self.bridges))

    @property
    def once(self) -> list[int]:
        """The numbers of the bridges that are filled in front of the loop."""
        return [n for n, bridge in zip(self.bridged, self.bridges.values()) if bridge.once]

    def bring(self, at: Inserter, number: int, place: SSAValue, values: Values) -> None:
        """Fill a bridge, by its number."""
        bridge = self._bridge(number)
        value = values.get(bridge.value, bridge.value)

        def fill(stage: Inserter, buffers: Sequence[SSAValue]) -> None:
            stage.add(CopyOp.make(value, self.seen(stage, number, buffers[0])))
            stage.add(FenceProxyOp.make(proxy="async.shared"))

        self.feed_of(number).fill(at, place, fill)

    def _bridge(self, number: int) -> Bridge:
        return list(self.bridges.values())[number - len(self.operands)]

    def seen(self, at: Inserter, number: int, buffer: SSAValue) -> SSAValue:
        """The buffer of a stage as that of an operand, by its number, where others take turns there."""
        return seen_as(at, buffer, self._bridge(number).type if number in self.bridged else self.operands[number].type)

    def wait(self, at: Inserter, number: int, place: SSAValue) -> SSAValue:
        """Wait for the stage of an operand: the token by which it is released."""
        feed = self.feed_of(number)
        return at.value(ConsumerWaitOp.make(feed.pipe, place, results=[ConsumerTokenType(feed.types)]))

    @abstractmethod
    def make(self) -> None:
        """Make the agents, in place of the loop."""


def _same_type(tile: TmaOperand) -> Hashable:
    return tile.type


def _same_size(tile: TmaOperand) -> Hashable:
    """Tiles of one element type are as large as each other; their shapes and layouts need not be the same."""
    return tile.type.element_type, tile_bytes(tile.type)


def _is_for_products(op: ConvertLayoutOp) -> bool:
    """Whether a conversion brings operands to products only."""
    return all(isinstance(use.operation, DotOp) for use in op.result.uses)
