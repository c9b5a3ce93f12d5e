# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-materialize-convert-layout`: the way of each conversion between layouts.

A conversion gets its `way`: register moves of each thread, shuffles within warps (which make it a `nv_tileas.shuffle`),
or shared memory, with the layout there, and how many pieces it goes in where there is little room beside pipelines.
Where its layouts cannot be cut into small enough pieces, it becomes two conversions, by a layout that can be cut on
both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass

from libtile.codegen.conversion_plan import Directly, InPieces, conversion_steps, reduced
from libtile.codegen.convert_layout import shared_between
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import ConversionAttr, ThroughShared
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ShuffleOp
from libtile.ir.tile_form import erase
from libtile.layouts import WARP, LinearLayout
from libtile.layouts.convert import Conversion
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.allocate import exchange_rooms
from libtile.lowering.tileas.exchange_sizes import Kernel, element_bytes
from libtile.lowering.tileas.shared_atoms import loaded_by, stored_by
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.support import statistics
from libtile.targets import Target, target


@dataclass(frozen=True)
class MaterializeConvertLayoutPass(ModulePass):
    """Choose the way of each conversion between layouts: registers, shuffles, or shared memory."""

    name = "tileas-materialize-convert-layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                materialize_conversions(inner, target(inner.kernel_spec.target))


def materialize_conversions(function: FuncOp, gpu: Target) -> None:
    """Choose the ways in one function. LoweringError for tiles without layouts."""
    spec = function.kernel_spec
    assert spec is not None
    kernel = Kernel(gpu, spec.num_warps)
    for op, room in exchange_rooms(function, gpu).items():
        if isinstance(op, ConvertLayoutOp):
            _choose(op, kernel.of(op), room)


def _choose(op: ConvertLayoutOp, kernel: Kernel, room: int) -> None:
    for value in (op.source, op.result):
        if not isinstance(value.type, TensorType) or not isinstance(value.type.encoding, LayoutAttr):
            raise unsupported(op, "converts between layouts, and has a tile without one", kernel.gpu.name)
    source, wanted = layout_of(op.source), layout_of(op.result)
    if not source.outs:
        op.way = ConversionAttr(Conversion.REGISTERS.value)
        return
    wanted = wanted.transpose_outs(source.out_dims)
    size = element_bytes(op.source)
    steps = conversion_steps([source], [wanted], [size], kernel.warp_bits, room)
    if not steps:
        op.way = ConversionAttr(Conversion.REGISTERS.value)
        return
    (step,) = steps
    if isinstance(step, Directly):
        if step.plan.kind is not Conversion.SHUFFLE:
            op.way = ConversionAttr(Conversion.REGISTERS.value)
        elif source.basis(WARP) == wanted.basis(WARP):
            _replace(op, ShuffleOp.make(op.source, results=[op.result.type], location=op.location))
        else:  # a layout leaves out warps that hold copies
            op.way = ConversionAttr(Conversion.SHUFFLE.value)
        return
    if not isinstance(step, InPieces):
        op.way = _shared(source, wanted, size, kernel, 1)
        return
    block, value = op.parent, op.source
    assert block is not None
    statistics.count("conversions in pieces", len(step.trips))
    for trip in step.trips[:-1]:
        made = ConvertLayoutOp.make(value, results=[with_layout(op.result.type, trip.target)], location=op.location)
        made.way = _shared(trip.pieces.source, trip.pieces.target, size, kernel, len(trip.pieces.registers))
        block.insert_op_before(made, op)
        value = made.result
    op.operands[0] = value
    pieces = step.trips[-1].pieces
    op.way = _shared(pieces.source, pieces.target, size, kernel, len(pieces.registers))


def _replace(op: ConvertLayoutOp, made: ShuffleOp) -> None:
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
    made.result.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(made.result)
    erase(op)


def _shared(source: LinearLayout, wanted: LinearLayout, size: int, kernel: Kernel, pieces: int) -> ConversionAttr:
    """Through shared memory, for (a piece in) these layouts."""
    features = kernel.gpu.has("stmatrix"), kernel.gpu.has("ldmatrix")
    sides = reduced(source, kernel.warp_bits), reduced(wanted, kernel.warp_bits)
    shared = shared_between(*sides, size, *features)
    store, load = stored_by(source, shared, size, kernel), loaded_by(wanted, shared, size, kernel)
    return ConversionAttr(Conversion.SHARED.value, ThroughShared(pieces, LayoutAttr(shared), store, load))
