# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-generate-schedule`: decides which loads of which loops run ahead, by how many stages, and in what order.

A load whose tile goes into a product (on its own, or through ops that only rename or compute element by element), or
that a hint says takes long, is worth starting some iterations early, if its address can be computed that early. The
decision is written down as attributes, and the IR stays as it was:

    num_stages      on the loop: how many tiles of each of its scheduled loads there are at a time
    stage, order    on the load: the stage of the loop that it belongs to (0, the first), and its place among them
    atom            on such a load by pointers: the asynchronous copies that will do it; not_wide if they are narrow
    not_pipelined   on a load that goes into a product but does not run ahead: why

`tileas-materialize-schedule` makes a pipeline of it. Operands that no turn changes go to shared memory already, where
registers are short (`held_operands`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.atoms.cp_async import copy_width, operand_shared_layout, staged_layout
from libtile.atoms.shared_accesses import matrix_loads
from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, ExpandDimsOp, PermuteOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.types import MemRefType, MemTokenType, PtrType, TiledViewType
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import source_of
from libtile.ir.places import ops_around, ops_in, ops_of
from libtile.ir.tile_form import erase
from libtile.layouts import LinearLayout
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.discardable import NOT_PIPELINED, NOT_WIDE, ORDER, STAGE, STAGES
from libtile.lowering.hints import MOST
from libtile.lowering.tileas.ahead import computed_ahead, is_inside
from libtile.lowering.tileas.cleanup import LOOPS, is_pure
from libtile.lowering.tileas.copies.access_reasons import pointer_reason
from libtile.lowering.tileas.memory.shared_memory import Exchanges, block_bytes, tile_bytes
from libtile.lowering.to_tileas.accesses import access, element_bytes, pointer_vector
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.types import layout_of, tile_shape, with_layout
from libtile.numerics.elements import PACKED, STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import Target, target

LOADS = (TiledLoadOp, LoadOp)
RENAMING = (ViewOp, ExpandDimsOp, PermuteOp)

Load = TiledLoadOp | LoadOp

ACCUMULATOR = 2
"""The number of the operand of a product that is added to."""
ENOUGH_STAGES = 3
"""Stages that are worth more than exchanges in few large pieces."""
FEW_STAGES = 2
"""Stages that hide latency, beside which operands are kept in shared memory."""
COUNTER_BITS = 8
"""Of the least counter by which iterations that are ahead are counted."""
MIN_ROW_BYTES = 16
"""Rows of a tile that are shorter are not worth a copy."""


@dataclass(frozen=True)
class GenerateSchedulePass(ModulePass):
    """Decide which loads run ahead of their loops, with `num_stages` tiles of each, or as many as their hints say."""

    name = "tileas-generate-schedule"
    num_stages: int = 4

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if not isinstance(inner, FuncOp) or any(isinstance(op, AgentSwitchOp) for op in ops_in(inner.body.block)):
                continue  # what agents do is decided
            if inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                _Scheduler(inner, target(inner.kernel_spec.target), self.num_stages).run()


class _Scheduler:
    """The decisions for one function."""

    def __init__(self, function: FuncOp, gpu: Target, stages: int):
        self.function, self.gpu, self.stages = function, gpu, stages
        spec = function.kernel_spec
        assert spec is not None
        self._limit = block_bytes(gpu, spec)
        self._copied: set[Load] = set()

    def run(self) -> None:
        candidates: dict[Operation, list[Load]] = {}
        for op in ops_of(self.function):
            if isinstance(op, LOADS) and (loop := _loop_around(op)) is not None and is_worth_it(op):
                candidates.setdefault(loop, []).append(op)
        if not candidates:
            return
        self.inside: dict[Operation, int] = {}
        self._exchanges = Exchanges(self.function)
        # Inner loops first: they run more often.
        for loop in sorted(candidates, key=_depth, reverse=True):
            self._schedule(loop, candidates[loop])

    def _schedule(self, loop: Operation, loads: Sequence[Load]) -> None:
        chosen = []
        for load in loads:
            reason = self._reason(loop, load)
            if reason is None:
                chosen.append(load)
            else:
                load.attributes[NOT_PIPELINED] = StringAttr(reason)
        if not chosen:
            return
        for load in chosen:
            raise_conversions(load.value)
            self._exchanges.add(conversions(load))
        inside = self.inside.get(loop, 0)
        each = sum(tile_bytes(_tile_type(load)) for load in chosen)
        wanted = max(stages_wanted(load, self.stages) for load in chosen)
        inside += self._hold(loop, inside, each, wanted, chosen)
        free = self._free(inside, each, wanted, chosen)
        stages = min(wanted, free // each)
        # One stage hides no latency, but holds what would take registers on its way to a product.
        least = 1 if all(_feeds_product(load.value) for load in chosen) else 2
        if stages < least:
            count = "one stage takes" if least == 1 else "two stages take"
            reason = f"{count} {least * each} bytes of shared memory, of which {free} are left"
            for load in chosen:
                load.attributes[NOT_PIPELINED] = StringAttr(reason)
            return
        for around in ops_around(loop):
            if isinstance(around, LOOPS):
                self.inside[around] = max(self.inside.get(around, 0), stages * each + inside)
        loop.attributes[STAGES] = IntegerAttr(stages, i64)
        for order, load in enumerate(chosen):
            load.attributes[STAGE], load.attributes[ORDER] = IntegerAttr(0, i64), IntegerAttr(order, i64)
            if isinstance(load, LoadOp):
                _copied_by_pointers(load)
        self._copied.update(chosen)

    def _hold(self, loop: Operation, inside: int, each: int, wanted: int, chosen: Sequence[Load]) -> int:
        """Keep operands that no turn changes in shared memory, if there are too few registers for them and there is
        room beside a few stages; the bytes that they take."""
        from libtile.lowering.tileas.pipelines.held_operands import operands_to_hold

        spec = self.function.kernel_spec
        assert isinstance(loop, scf.ForOp) and spec is not None
        found = operands_to_hold(loop, spec, self.gpu, [load.value for load in chosen])
        size = sum(held.bytes for held in found)
        if self._free(inside + size, each, wanted, chosen) < min(wanted, FEW_STAGES) * each:
            return 0
        for held in found:
            held.hold(loop, self.gpu)
        return size

    def _free(self, inside: int, each: int, wanted: int, chosen: Sequence[Load]) -> int:
        """Shared memory for a loop's stages of `each` bytes, around `inside` bytes of its inner loops' pipelines: all
        but what exchanges take, which go in smaller pieces where a few stages would not fit otherwise."""
        free, most = 0, PIECE_BYTES
        while free // each < min(wanted, ENOUGH_STAGES) and most >= PIECE_BYTES // 16:
            free = max(free, self._limit - self._exchanges.bytes(self._copied, chosen, most) - inside)
            most //= 2
        return free

    def _reason(self, loop: Operation, load: Load) -> str | None:
        """Why a load cannot run ahead; None when it can."""
        if not self.gpu.has("cp_async"):
            return f"{self.gpu.name} has no asynchronous copies"
        if not isinstance(loop, scf.ForOp):
            return "the loop has no counter that says which iterations there will be"
        body, counts = loop.body.block, loop.lb.type
        if isinstance(counts, IntegerType) and counts.width.data < COUNTER_BITS:
            return f"the loop counts in {counts}, which may have no number for the iterations ahead"
        if load.parent is not body:
            return "it is under a condition"
        if load.mem_scope is not None:
            return "its memory ordering is not weak"
        if (said := not_handed_on(load)) is not None:
            return said
        if any(isinstance(v.type, MemTokenType) and is_inside(v, body) for v in load.operands):
            return "a token orders it behind another access of the loop"
        return not_copied(load) or (
            None if computed_ahead([load], body) is not None else "its address depends on what the loop computes"
        )


def not_handed_on(load: Load) -> str | None:
    """What a load says that its asynchronous copy could not."""
    for name, attr in load.properties.items():
        if name not in _HANDED_ON and not (isinstance(attr, KeywordAttr) and attr.keyword in ("none", "normal")):
            return f"asynchronous copies have no '{name}'"
    more = ("offsets", "other") if isinstance(load, TiledLoadOp) else ()
    return next((f"asynchronous copies have no '{name}'" for name in more if load.group(name)), None)


_HANDED_ON = frozenset({SEGMENTS, "mem_semantic", "in_bounds", "hints", "vector", "allow_tma"})
"""Properties that an asynchronous copy takes over, that have done their work, or that only permit something."""


def _tile_type(load: Load) -> TensorType[Attribute]:
    type_ = load.value.type
    assert isinstance(type_, TensorType)
    return type_


def _loop_around(op: Operation) -> Operation | None:
    return next((around for around in ops_around(op) if isinstance(around, LOOPS)), None)


def _depth(op: Operation) -> int:
    return sum(1 for _ in ops_around(op))


def _latency(load: Load) -> int | None:
    """The hint how long a load takes, 1 to 10; others are the nearest."""
    value = load.hints.data.get("latency") if load.hints is not None else None
    return max(min(value.value.data, MOST["latency"]), 1) if isinstance(value, IntegerAttr) else None


def stages_wanted(load: Load, default: int) -> int:
    """How many stages a load should have: 2 for a latency of 1, up to 6 for 10."""
    latency = _latency(load)
    return default if latency is None else max(1 + (latency + 1) // 2, 2)


def is_worth_it(load: Load) -> bool:
    """Whether a load feeds a product, or is said to take long."""
    return bool(tile_shape(load.value)) and (_latency(load) is not None or _feeds_product(load.value))


def _feeds_product(value: SSAValue) -> bool:
    """Whether a tile is an operand of a product, if need be after ops that keep its elements apart."""
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, DotOp | ScaledDotOp) and use.index != ACCUMULATOR:
                return True
            if is_pure(op) and (isinstance(op, (ConvertLayoutOp, *RENAMING)) or is_elementwise(op)):
                work += op.results
    return False


def fastest_dim(load: Load) -> int:
    """The dimension along which the tile of a load is contiguous in memory, and should be in shared memory."""
    return access(load)[1]


def not_copied(load: Load, *, rows: bool = False) -> str | None:
    """Why asynchronous copies cannot do a load; None when they can. They gather `rows` where whoever copies has their
    numbers."""
    type_ = _tile_type(load)
    if isinstance(type_.element_type, PtrType):
        return "its elements are pointers"
    if NUMBER_NAMES[type_.element_type] in PACKED:
        return "its elements share bytes"
    if isinstance(load, LoadOp):
        return _pointers_not_copied(load)
    view = load.view.type
    if not isinstance(view, TiledViewType):
        return "it is not of a tiled view"
    if view.layout.sparse_dim is not None and not rows:
        return "it gathers"
    if view.layout.padding not in (None, "zero"):
        return f"asynchronous copies pad with zeros, not with {view.layout.padding}"
    fastest = fastest_dim(load)
    if not isinstance(view.source, MemRefType) or view.source.strides[view.dim_map[fastest]] != 1:
        return "no dimension has stride 1"
    row = type_.get_shape()[fastest] * element_bytes(type_.element_type)
    return None if row >= MIN_ROW_BYTES else f"its rows are {row} bytes, less than {MIN_ROW_BYTES}"


def _pointers_not_copied(load: LoadOp) -> str | None:
    if load.other is not None and not is_zero(load.other):
        return "asynchronous copies pad with zeros, not with a tile"
    if pointer_copy(load) is None:
        return "adjacent pointers are not known to be adjacent and aligned in memory"
    return None


def pointer_copy(load: LoadOp) -> CopyAtomAttr | None:
    """The asynchronous copies that do a load by pointers, in any layout of a stage, which keeps what one copy moves
    together; None where pointers are not known to be adjacent and aligned."""
    vector, element = pointer_vector(load)
    layout = layout_of(load.base)
    shared = operand_shared_layout(layout.shape, element, fastest_dim(load))
    width = copy_width(shared, layout, element, vector.dim, vector.count)
    return None if width is None else CopyAtomAttr("ldgsts", 8 * STORAGE_BYTES[element] * width, dim=vector.dim)


def _copied_by_pointers(load: LoadOp) -> None:
    """Decide about the copies of a load by pointers, and say why they are narrow if they are."""
    atom = pointer_copy(load)
    assert atom is not None  # else the load is not scheduled
    load.atom = atom
    if atom.bits < 8 * MAX_ACCESS_BYTES:
        size = STORAGE_BYTES[pointer_vector(load)[1]]
        load.attributes[NOT_WIDE] = StringAttr(pointer_reason(load, layout_of(load.base), size))


def buffer_layout(load: Load, read: tuple[LinearLayout, ...], gpu: Target) -> LinearLayout:
    """Where the elements of a load's tile lie in a stage that is read in some layouts."""
    name = NUMBER_NAMES[_tile_type(load).element_type]
    return staged_layout(layout_of(load.value), read, name, fastest_dim(load), matrix_loads(gpu))


def conversions(load: Load) -> list[ConvertLayoutOp]:
    """The conversions of what a load gives."""
    return [op for use in load.value.uses if isinstance(op := use.operation, ConvertLayoutOp)]


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a constant of nothing but zero bits."""
    op = value.owner
    if isinstance(op, ConvertLayoutOp | BroadcastOp | SplatOp | ViewOp | ExpandDimsOp | PermuteOp):
        return is_zero(op.source)
    return isinstance(op, ConstantOp) and not any(op.value.raw)


# -- conversions of what is loaded ------------------------------------------------------------------------------------


def raise_conversions(value: SSAValue) -> None:
    """Move conversions of a loaded tile in front of the ops that only rename its elements, or compute each of them from
    one: the tile is then read from shared memory in the layout in which it is needed."""
    for use in list(value.uses):
        op = use.operation
        if isinstance(op, ConvertLayoutOp) or len(op.operands) != 1 or len(op.results) != 1:
            continue
        if is_pure(op) and (isinstance(op, RENAMING) or is_elementwise(op)):
            raise_conversions(op.results[0])
            for user in [u for use in op.results[0].uses if isinstance(u := use.operation, ConvertLayoutOp)]:
                _raise(op, user)


def _raise(op: Operation, convert: ConvertLayoutOp) -> None:
    layout = layout_of(convert.result)
    before = source_layout(op, layout) if isinstance(op, RENAMING) else layout
    source = source_of(op)
    converted = ConvertLayoutOp.create(operands=[source], result_types=[with_layout(source.type, before)])
    remade = type(op).create(
        operands=[converted.results[0]],
        result_types=[convert.result.type],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    block = op.parent
    assert isinstance(block, Block)
    for made, like in ((converted, convert), (remade, op)):
        made.location = like.location
        block.insert_op_before(made, op)
    convert.result.replace_all_uses_with(remade.results[0])
    erase(convert)
    if op.results[0].first_use is None:
        erase(op)
