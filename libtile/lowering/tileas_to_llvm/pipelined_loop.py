# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose loads run ahead, as `tileas-pipeline-loops` marked them.

With S stages, each load has S tiles in shared memory. Before the loop the tiles of the first S - 1 iterations are on
their way. Iteration k then

    waits until its own tiles have arrived         (S - 2 younger groups of copies may still be under way)
    meets at a barrier                             (all see them, and all have read those of iteration k - 1)
    starts the copies of iteration k + S - 1       (over the tiles of iteration k - 1)
    reads its tiles in the layouts that its products want, and computes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation

from libtile.layouts import LinearLayout
from libtile.lowering.llvm import control, shared_tiles, views
from libtile.lowering.llvm.builder import SharedBuffer, Value, integer
from libtile.lowering.llvm.control import Carried
from libtile.lowering.llvm.tile import Tile
from libtile.lowering.tileaa_to_tileas.pipelines import CONVERT, counter_slice, tile_bytes
from libtile.lowering.tileas_to_llvm import async_copy
from libtile.lowering.tileas_to_llvm.emitter import Emitter
from libtile.lowering.tileas_to_llvm.fast_path import wide_facts
from libtile.lowering.tileas_to_llvm.flow import bind_carried, emit_arm

ASYNC_BYTES = (4, 8, 16)


@dataclass
class _Load:
    """A load that runs ahead: the ops that its indices come from, and its tiles in shared memory."""

    op: Operation
    slice: list[Operation]
    buffer: SharedBuffer
    layout: LinearLayout
    shared: LinearLayout
    element: str
    size: int

    def pointer(self, e: Emitter, slot: Value) -> Value:
        """The address of the tile in a slot."""
        return e.b.shared_pointer(self.buffer, e.b.mul(slot, integer("i32", self.size)))


def _loads(e: Emitter, block: Block, stages: int) -> list[_Load]:
    found = []
    for op in block.ops:
        if "async_copy" not in op.attributes:
            continue
        needed = counter_slice(op, block)
        assert needed is not None
        layout, element, size = e.layout(op.results[0]), e.element(op.results[0]), tile_bytes(op)
        contiguous = 1
        view = op.operands[0].type
        for tile_dim, dim in enumerate(view.dim_map):
            if view.source.strides[dim] == 1:
                contiguous = tile_dim
        shared = async_copy.operand_shared_layout(
            layout.shape, views.element_bits(element) // 8, (contiguous, 1 - contiguous)
        )
        buffer = e.b.shared_buffer(stages * size, 128)
        found.append(_Load(op, needed, buffer, layout, shared, element, size))
    return found


def _start_copy(e: Emitter, load: _Load, block: Block, counter: Value, slot: Value) -> None:
    """Copy the tile of the iteration with a counter to a slot."""
    from libtile.lowering.tileas_to_llvm.memory import tiled_operands

    e.bind(block.args[0], counter)
    for op in load.slice:
        e.emit(op)
    tiled, index, facts = tiled_operands(e, load.op)
    base = load.pointer(e, slot)

    def copy(known: views.ViewFacts) -> list[Carried]:
        width = _width(tiled, known, load)
        if width is None:
            tile = views.load_tile(e.b, tiled, index, load.layout, facts=known)
            shared_tiles.store_shared(e.b, base, load.shared, tile)
            return []
        places = views.Places(e.b, tiled, index, load.layout, known)
        dim = views.contiguous_dim(tiled)
        assert dim is not None
        size = views.element_bits(load.element) // 8
        async_copy.copy_to_shared(e.b, base, load.shared, load.layout, size, places.address, places.mask, dim, width)
        return []

    wide = wide_facts(e.b, tiled, index, load.layout, facts)
    if wide is None:
        copy(facts)
        return
    condition, known = wide
    control.if_else(e.b, condition, lambda: copy(known), lambda: copy(facts))


def _width(tiled: views.TiledView, facts: views.ViewFacts, load: _Load) -> int | None:
    """Elements of one asynchronous copy; None when the facts allow none."""
    width = views.access_width(tiled, facts, load.layout)
    dim = views.contiguous_dim(tiled)
    bits = views.element_bits(load.element)
    while dim is not None and width * bits // 8 in ASYNC_BYTES:
        if async_copy.can_copy(load.shared, load.layout, dim, width):
            return width
        width //= 2
    return None


def emit_pipelined_for(e: Emitter, op: Operation, initial: list[Carried]) -> list[Carried]:
    """Emit a marked loop; returns what it carries at the end. The induction variable is an i8 to i64."""
    b = e.b
    number = op.attributes["num_stages"]
    assert isinstance(number, IntegerAttr)
    stages = number.value.data
    block = op.regions[0].block
    lower, upper, step = (e.scalar(v) for v in op.operands[:3])
    unsigned = "unsignedCmp" in op.attributes
    loads = _loads(e, block, stages)
    below = "ult" if unsigned else "slt"

    def start(counter: Value, slot: Value) -> None:
        """The copies of an iteration, if there is one; a group of copies in any case, so that counting them works."""
        with b.when(b.compare(below, counter, upper)):
            for load in loads:
                _start_copy(e, load, block, counter, slot)
        async_copy.commit(b)

    b.barrier()
    ahead = lower
    for stage in range(stages - 1):
        start(ahead, integer("i32", stage))
        ahead = b.add(ahead, step)

    def body(counter: Value, carried: list[Carried]) -> list[Carried]:
        *values, slot, free, following = carried
        assert isinstance(slot, Value) and isinstance(free, Value) and isinstance(following, Value)
        async_copy.wait(b, stages - 2)
        b.barrier()
        start(following, free)
        e.bind(block.args[0], counter)
        bind_carried(e, block.args[1:], values)
        _read_tiles(e, loads, slot)
        results = emit_arm(e, block, skip=frozenset(x for load in loads for x in _replaced(load)))
        return [*results, _next(e, slot, stages), _next(e, free, stages), b.add(following, step)]

    slots = [integer("i32", 0), integer("i32", stages - 1), ahead]
    results = control.for_loop(b, lower, upper, step, [*initial, *slots], body, unsigned=unsigned)
    async_copy.wait(b, 0)
    return results[: len(initial)]


def _replaced(load: _Load) -> list[Operation]:
    """The load and the conversions of its tile: their values come from shared memory."""
    return [load.op, *(use.operation for use in load.op.results[0].uses)]


def _read_tiles(e: Emitter, loads: list[_Load], slot: Value) -> None:
    for load in loads:
        for result in load.op.results[1:]:
            e.bind(result, None)
        base = load.pointer(e, slot)
        for use in load.op.results[0].uses:
            assert use.operation.name == CONVERT
            result = use.operation.results[0]
            tile = shared_tiles.load_shared(e.b, base, load.shared, e.layout(result), load.element)
            assert isinstance(tile, Tile)
            e.bind(result, tile)


def _next(e: Emitter, slot: Value, stages: int) -> Value:
    """The slot behind a slot, round and round."""
    b = e.b
    more = b.add(slot, integer("i32", 1))
    return b.select(b.compare("eq", more, integer("i32", stages)), integer("i32", 0), more)
