# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-select-collectives`: by which steps each reduction and scan combines what threads hold.

An op gets its `steps`: what is combined within threads, between the lanes of a warp, and between warps, in which order,
with the layouts in shared memory by which warps get what others have. A reduction whose body gives the same when its
arguments are exchanged is combined in the cheapest order, every other one from neighbour to neighbour. Where all lanes
of a warp have different elements, and the target combines these by one instruction (`redux.sync`), it does.

Where a bit of a place moves the index by several bits, the tiles are converted to a layout in which none does; where
what comes out has another layout than is wanted, it is converted, too. An op that has steps keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType

from libtile.atoms.conversions import cut
from libtile.atoms.shared_accesses import reduced
from libtile.codegen.reduce import PAIRED_BIT
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.steps import StepsAttr
from libtile.dialects.nv_tileas.tiles import ReduceOp, ScanOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import integer_of
from libtile.layouts import LANE, LinearLayout
from libtile.layouts.collectives import (
    LANES,
    REDUX,
    REGISTERS,
    SharedTrip,
    Step,
    folds,
    is_unit,
    reduction_steps,
    result_layout,
    runs,
    scan_steps,
    unit_layout,
)
from libtile.layouts.shared_access import padded, piece_bytes
from libtile.lowering.errors import unsupported
from libtile.lowering.pairs import IN_PAIRS
from libtile.lowering.redux import redux_of
from libtile.lowering.tileas.exchanges.commuting import commutes
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel, element_bytes
from libtile.lowering.tileas.exchanges.explicit_conversions import convert_operand, convert_result
from libtile.lowering.tileas.exchanges.shared_atoms import between
from libtile.lowering.tileas.memory.allocate import exchange_rooms
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass, replace
from libtile.targets import Target, target


@dataclass(frozen=True)
class SelectCollectivesPass(ModulePass):
    """Choose the steps of each reduction and scan: within threads, warps, and between warps."""

    name = "tileas-select-collectives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                select_collectives(inner, target(inner.kernel_spec.target))


def select_collectives(function: FuncOp, gpu: Target) -> None:
    """Choose the steps in one function. LoweringError for tiles without layouts, and for a reduction that says that it
    commutes and does not."""
    spec = function.kernel_spec
    assert spec is not None
    found = ops_of(function, ReduceOp, ScanOp)
    if not found:
        return
    kernel, rooms = Kernel(gpu, spec.num_warps), exchange_rooms(function, gpu, set(found).__contains__)
    for op in found:
        if op.steps is None:
            _choose(op, kernel.of(op), rooms[op])
        elif op.steps.commutative and isinstance(op, ReduceOp) and not commutes(op):
            raise unsupported(op, "is said to commute, and its body gives something else for exchanged arguments")


def _choose(op: ReduceOp | ScanOp, kernel: Kernel, room: int) -> None:
    for value in (*op.operands, *op.results):
        if not isinstance(value.type, TensorType) or not isinstance(value.type.encoding, LayoutAttr):
            raise unsupported(op, "combines elements of tiles, and has one without a layout", kernel.gpu.name)
    layout, dim = layout_of(op.inputs[0]), integer_of(op.dim)
    unit = layout if is_unit(layout) else unit_layout(layout)
    sizes = [element_bytes(v) for v in op.inputs]
    commutative = isinstance(op, ReduceOp) and commutes(op)
    for number in range(len(op.inputs)):
        convert_operand(op, number, unit)
    if isinstance(op, ReduceOp):
        steps = planned_reduction(unit, dim, commutative, sizes, kernel, room)
        if commutative and IN_PAIRS in op.attributes:
            steps = _paired_last(steps)
        if commutative and redux_of(op, kernel.gpu) is not None:
            steps = _by_warps(steps, unit)
        made = result_layout(unit, dim, steps, commutative)
    else:
        steps, made = planned_scan(unit, dim, sizes, kernel, room), unit
    op.steps = StepsAttr(steps, commutative)
    for result in op.outputs:
        convert_result(op, result, made)


def _paired_last(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with the bit of the registers that tells the two of a pair apart as the last one of a thread's: all
    others are combined in pairs."""
    first, *rest = steps
    if first.kind != REGISTERS or PAIRED_BIT not in first.bits:
        return steps
    return (replace(first, bits=(*(n for n in first.bits if n != PAIRED_BIT), PAIRED_BIT)), *rest)


def _by_warps(steps: tuple[Step, ...], layout: LinearLayout) -> tuple[Step, ...]:
    """The steps with one instruction for all lanes of a warp, where these are combined one after the other."""
    lanes = tuple(range(len(layout.basis(LANE))))
    return tuple(Step(REDUX, lanes) if s.kind == LANES and tuple(sorted(s.bits)) == lanes else s for s in steps)


def planned_reduction(
    layout: LinearLayout, dim: int, commutative: bool, element_bytes: Sequence[int], kernel: Kernel, room: int
) -> tuple[Step, ...]:
    """The steps of a reduction of tiles in a unit layout, with the ways through `room` bytes of shared memory."""
    steps = reduction_steps(layout, dim, commutative)
    handed = [fold.handed for fold in folds(layout, dim, steps, commutative) if fold.handed is not None]
    return _with_trips(steps, handed, element_bytes, kernel, room)


def planned_scan(
    layout: LinearLayout, dim: int, element_bytes: Sequence[int], kernel: Kernel, room: int
) -> tuple[Step, ...]:
    """The steps of a scan of tiles in a unit layout, with the ways through `room` bytes of shared memory."""
    steps = scan_steps(layout, dim)
    handed = [run.handed for run in runs(layout, dim, steps) if run.handed is not None]
    return _with_trips(steps, handed, element_bytes, kernel, room)


Handed = tuple[LinearLayout, LinearLayout]


def _with_trips(
    steps: Sequence[Step], handed: Sequence[Handed], sizes: Sequence[int], kernel: Kernel, room: int
) -> tuple[Step, ...]:
    rest = iter(handed)
    made = (replace(s, trips=_trips(*next(rest), sizes, kernel, room)) if s.kind == "warps" else s for s in steps)
    return tuple(made)


def _trips(
    source: LinearLayout, wanted: LinearLayout, sizes: Sequence[int], kernel: Kernel, room: int
) -> tuple[SharedTrip, ...]:
    """The ways of tiles of one layout to another, as many together as one exchange holds; a larger one in pieces."""
    most = piece_bytes(room)
    trips: list[SharedTrip] = []
    total = most
    for size in sizes:
        whole = padded(size << source.out_bits)
        if whole > most:
            pieces = cut(reduced(source, kernel.warp_bits), reduced(wanted, kernel.warp_bits), whole // most)
            trips.append(SharedTrip((between(pieces.source, pieces.target, size, kernel),), len(pieces.registers)))
            total = most
            continue
        way, total = between(source, wanted, size, kernel), total + whole
        if total > most:
            trips.append(SharedTrip((way,)))
            total = whole
        else:
            trips[-1] = SharedTrip((*trips[-1].ways, way))
    return tuple(trips)
