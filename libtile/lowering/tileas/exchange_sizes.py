# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much shared memory the exchanges between threads take that an op is made of: a question to code generation.

The answer follows from layouts, element types and the target alone. An op that is not in the table exchanges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from libtile.codegen import conversion_plan, messages, mma, packing, shapes, sharing, slices
from libtile.codegen.convert_layout import trip_bytes
from libtile.codegen.exchange import Exchange, padded
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa import shapes as aa_shapes
from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.dialects.nv_tileaa.collectives import HistogramOp
from libtile.dialects.nv_tileaa.memory import AllocaOp
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileaa.shapes import CatOp, ExtractOp, InsertSliceOp
from libtile.dialects.nv_tileaa.tokens import PrintOp
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import AtomicCasOp, AtomicRmwOp, LoadOp, MultimemLoadReduceOp, TiledLoadOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import (
    ConvertLayoutOp,
    ExpandDimsOp,
    ExtractSliceOp,
    ReduceOp,
    ReinterpretOp,
    ScanOp,
    ViewOp,
)
from libtile.dialects.nv_tileas.tiles import InsertSliceOp as TileasInsertSliceOp
from libtile.ir.tile_form import integer_property
from libtile.layouts import LinearLayout
from libtile.layouts.renaming import reshaped, shrunk
from libtile.lowering.agents import warps_of
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileas.shape_layouts import scalar_layout
from libtile.lowering.to_tileas.types import layout_of, shape_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target


@dataclass(frozen=True)
class Kernel:
    """What answers need to know of a kernel, or of one of its agents."""

    gpu: Target
    warps: int

    def of(self, op: Operation) -> Kernel:
        """What is to be known where an op is run: as many warps as its agent has."""
        warps = warps_of(op, self.warps)
        return self if warps == self.warps else Kernel(self.gpu, warps)

    @property
    def warp_bits(self) -> int:
        return self.warps.bit_length() - 1


def exchanges(op: Operation, kernel: Kernel, room: int) -> list[Exchange]:
    """The exchanges of an op in order, at no places yet, where each may take `room` bytes. Those with `meet` begin with
    a barrier in any case. LoweringError for an op whose tiles have no layouts."""
    kernel, sizes = kernel.of(op), _SIZES.get(type(op))
    if sizes is None and not isinstance(op, PrintOp):
        return []
    for value in (*op.operands, *op.results):
        if isinstance(value.type, TensorType) and not isinstance(value.type.encoding, LayoutAttr):
            raise unsupported(op, "exchanges elements between threads, and has tiles without layouts", kernel.gpu.name)
    try:
        return _print(op) if sizes is None else [Exchange(0, padded(size)) for size in sizes(op, kernel, room)]
    except LoweringError as problem:
        raise unsupported(op, str(problem), kernel.gpu.name) from None


def _print(op: Operation) -> list[Exchange]:
    tiles = [v for v in op.operands if isinstance(v.type, TensorType) and v.type.get_shape()]
    return [messages.print_exchange(shape_of(v.type), element_bytes(v)) for v in tiles]


def element_name(value: SSAValue) -> str:
    """The element type of a tile, as code generation calls it; LoweringError for one that is none of memory."""
    assert isinstance(value.type, TensorType)
    element = value.type.element_type
    name = "ptr" if isinstance(element, PtrType) else NUMBER_NAMES.get(element)
    if name is None:
        raise LoweringError(f"has tiles of {element}")
    return name


def element_bytes(value: SSAValue) -> int:
    """Bytes of an element of a tile."""
    return STORAGE_BYTES[element_name(value)]


Sizes = Callable[[Operation, Kernel, int], Sequence[int]]


def _conversion(source: LinearLayout, value: SSAValue, kernel: Kernel, room: int) -> tuple[int, ...]:
    """What it takes to bring a tile from a layout into that of a value."""
    target = layout_of(value)
    if source == target or not source.outs:
        return ()
    return conversion_plan.exchange_sizes([source], [target], [element_bytes(value)], kernel.warp_bits, room)


def _convert(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    assert isinstance(op, ConvertLayoutOp)
    if op.way is None:
        raise LoweringError("has no 'way', which tileas-materialize-convert-layout gives it")
    through = op.way.through
    return () if through is None else (element_bytes(op.source) * prod(through.layout.shape),) * through.pieces


def _packed(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    if not isinstance(op.properties.get("packed"), UnitAttr):
        return ()
    source, result = op.operands[0], op.results[0]
    packs = element_name(result) == "i8"
    if packs == (element_name(source) == "i8"):
        raise LoweringError("packs elements into i8, or unpacks them from i8, and does neither here")
    element = element_name(source if packs else result)
    regroup, back = packing.unpacked_layout, packing.packed_layout
    if not packs:
        regroup, back = back, regroup
    layout = layout_of(source)
    sizes: tuple[int, ...] = ()
    before = regroup(layout_of(result), element)
    if before is not None and before != layout:
        sizes += conversion_plan.exchange_sizes([layout], [before], [element_bytes(source)], kernel.warp_bits, room)
        layout = before
    made = back(layout, element)
    return (*sizes, *(_conversion(made, result, kernel, room) if made is not None else ()))


def _cat(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    lhs, rhs = (layout_of(v) for v in op.operands)
    size = element_bytes(op.results[0])
    first = conversion_plan.exchange_sizes([rhs], [lhs], [size], kernel.warp_bits, room)
    return (*first, *_conversion(shapes.cat_layout(lhs, integer_property(op, "dim")), op.results[0], kernel, room))


def _extract(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    tile, part = op.operands[0], op.results[0]
    sizes = shapes.extract_sizes
    return sizes(layout_of(tile), shape_of(part.type), layout_of(part), element_bytes(tile), kernel.warp_bits, room)


def _insert(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    part, tile = op.operands[:2]
    layout = layout_of(tile)
    near = shrunk(layout, shape_of(part.type))
    size = element_bytes(part)
    first = conversion_plan.exchange_sizes([layout_of(part)], [near], [size], kernel.warp_bits, room)
    return (*first, *_conversion(layout, op.results[0], kernel, room))


def _view(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """Behind the change of shape, in which nothing moves, a conversion."""
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType) or not isinstance(result.type, TensorType):
        return ()
    held, shape = layout_of(source), shape_of(result.type)
    return _conversion(reshaped(held, shape), result, kernel, room) if held.outs and shape else ()


def _extract_slice(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    source = op.operands[0]
    return (slices.slice_bytes(shape_of(source.type), element_bytes(source)),) if _is_tile(source) else ()


def _insert_slice(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    part, tile = op.operands[:2]
    if not _is_tile(part) or not _is_tile(tile):
        return ()
    first = slices.slice_bytes(shape_of(part.type), element_bytes(part))
    return (first, *_conversion(layout_of(tile), op.results[0], kernel, room))


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _histogram(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    (bins,) = shape_of(op.results[0].type)
    return (slices.histogram_bytes(bins),)


def _collective(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    assert isinstance(op, ReduceOp | ScanOp)
    if op.steps is None:
        raise LoweringError("has no 'steps', which tileas-select-collectives gives it")
    sizes = [element_bytes(v) for v in op.inputs]
    found: list[int] = []
    for trips in (step.trips for step in op.steps.steps):
        first = 0
        for trip in trips:
            own = sizes[first : first + len(trip.layouts)]
            found += trip_bytes(trip, own)
            first += len(own)
    return found


def _dot(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """Tensor cores take fragments as they are; single elements are staged."""
    if not isinstance(op, DotOp) or op.atom.kind != FMA:
        return ()
    operands = op.operands[:2]
    sizes = [element_bytes(v) for v in operands]
    return mma.exchange_sizes([layout_of(v) for v in operands], sizes, kernel.warp_bits, room)


def _strong_load(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """Every element is loaded by its owner, if the order of accesses counts."""
    semantic = op.properties.get("mem_semantic")
    if not isinstance(semantic, KeywordAttr) or semantic.keyword == "weak":
        return ()
    return sharing.exchange_sizes(layout_of(op.results[0]), element_bytes(op.results[0]), kernel.warp_bits)


def _atomic(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """The old values come from their owners, where somebody uses them."""
    if op.results[0].first_use is None:
        return ()
    return sharing.exchange_sizes(layout_of(op.results[0]), element_bytes(op.results[0]), kernel.warp_bits)


def _alloca(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    return sharing.exchange_sizes(scalar_layout(kernel.warps), STORAGE_BYTES["i64"], kernel.warp_bits)


_SIZES: dict[type[Operation], Sizes] = {
    ConvertLayoutOp: _convert,
    BitcastOp: _packed,
    CatOp: _cat,
    ExtractOp: _extract,
    aa_shapes.ExtractSliceOp: _extract_slice,
    ExtractSliceOp: _extract_slice,
    TileasInsertSliceOp: _insert_slice,
    HistogramOp: _histogram,
    ViewOp: _view,
    ExpandDimsOp: _view,
    ReinterpretOp: _view,
    InsertSliceOp: _insert,
    ReduceOp: _collective,
    ScanOp: _collective,
    DotOp: _dot,
    LoadOp: _strong_load,
    TiledLoadOp: _strong_load,
    MultimemLoadReduceOp: _strong_load,
    AtomicRmwOp: _atomic,
    AtomicCasOp: _atomic,
    AllocaOp: _alloca,
}
