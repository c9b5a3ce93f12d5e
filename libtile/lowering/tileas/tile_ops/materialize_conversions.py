# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-materialize-convert-layout`: the way of each conversion between layouts.

Ops that only rename elements first get conversions around them, so that inside of them nothing moves
(`explicit_conversions`). A conversion in which every thread has what it is to have becomes a `nv_tileas.reinterpret`,
one within warps a `nv_tileas.shuffle`; the others get their `way`, through shared memory, with the layout there and how
many pieces it goes in where there is little room beside pipelines. Where its layouts cannot be cut into small enough
pieces, a conversion becomes two, by a layout that can be cut on both sides.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType

from libtile.atoms.conversions import AsWhole, Pieces, conversion
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import ConversionAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ReinterpretOp, ShuffleOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.tile_form import erase
from libtile.layouts import WARP
from libtile.layouts.convert import Conversion, Plan
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel, element_bytes
from libtile.lowering.tileas.exchanges.explicit_conversions import has_conversions, make_explicit
from libtile.lowering.tileas.exchanges.shared_atoms import between, conversion_by
from libtile.lowering.tileas.memory.allocate import exchange_rooms
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.support import statistics
from libtile.support.records import dataclass
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
    for op, room in exchange_rooms(function, gpu, has_conversions).items():
        where = kernel.of(op)
        if isinstance(op, ConvertLayoutOp):
            _choose(op, where, room)
            continue
        for made in make_explicit(op, where, room):
            _choose(made, where, room)


def _choose(op: ConvertLayoutOp, kernel: Kernel, room: int) -> None:
    for value in (op.source, op.result):
        if not isinstance(value.type, TensorType) or not isinstance(value.type.encoding, LayoutAttr):
            raise unsupported(op, "converts between layouts, and has a tile without one", kernel.gpu.name)
    source, wanted = layout_of(op.source), layout_of(op.result)
    if not source.outs:
        _replace(op, ReinterpretOp)
        return
    wanted = wanted.transpose_outs(source.out_dims)
    size = element_bytes(op.source)
    found = conversion(source, wanted, size, kernel.warp_bits, room)
    if isinstance(found, Plan):
        if found.kind is not Conversion.SHUFFLE:
            _replace(op, ReinterpretOp)
        elif source.basis(WARP) == wanted.basis(WARP):
            _replace(op, ShuffleOp)
        else:  # a layout leaves out warps that hold copies
            op.way = ConversionAttr(Conversion.SHUFFLE.value)
        return
    if isinstance(found, AsWhole):
        op.way = conversion_by(between(source, wanted, size, kernel))
        return
    block, value = op.parent, op.source
    assert block is not None
    statistics.count("conversions in pieces", len(found.trips))
    for trip in found.trips[:-1]:
        made = ConvertLayoutOp.make(value, results=[with_layout(op.result.type, trip.target)], location=op.location)
        made.way = _in_pieces(trip.pieces, size, kernel)
        block.insert_op_before(made, op)
        value = made.result
    set_operand(op, "source", value)
    op.way = _in_pieces(found.trips[-1].pieces, size, kernel)


def _in_pieces(pieces: Pieces, size: int, kernel: Kernel) -> ConversionAttr:
    return conversion_by(between(pieces.source, pieces.target, size, kernel), len(pieces.registers))


def _replace(op: ConvertLayoutOp, kind: type[ReinterpretOp | ShuffleOp]) -> None:
    block = op.parent
    assert block is not None
    made = kind.make(op.source, results=[op.result.type], location=op.location)
    block.insert_op_before(made, op)
    made.result.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(made.result)
    erase(op)
