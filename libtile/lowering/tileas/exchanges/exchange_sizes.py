# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much shared memory the exchanges between threads take that an op is made of: a question to code generation.

The answer follows from layouts, element types and the target alone. An op that is not in the table exchanges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.codegen.exchange import Exchange
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa import shapes as aa_shapes
from libtile.dialects.nv_tileaa.collectives import HistogramOp
from libtile.dialects.nv_tileaa.functions import CancelNextProgramIdOp
from libtile.dialects.nv_tileaa.shapes import ExtractOp
from libtile.dialects.nv_tileaa.tokens import PrintOp
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import (
    ConvertLayoutOp,
    ExtractSliceOp,
    InsertSliceOp,
    ReduceOp,
    ScanOp,
)
from libtile.ir.operands import sources_of
from libtile.layouts.shared_access import padded
from libtile.lowering.agents import warps_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.exchanges.ways import HANDING_OUT, hands_out, shared_ways_of, ways_of
from libtile.lowering.to_tileas.types import shape_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
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


def may_exchange(op: Operation) -> bool:
    """Whether an op is of a class whose threads may exchange elements."""
    return type(op) in _SIZES or isinstance(op, PrintOp)


def exchanges(op: Operation, kernel: Kernel, room: int) -> list[Exchange]:
    """The exchanges of an op in order, at no places yet, where each may take `room` bytes. Those with `meet` begin with
    a barrier in any case. LoweringError for an op whose tiles have no layouts."""
    kernel, sizes = kernel.of(op), _SIZES.get(type(op))
    if sizes is None and not isinstance(op, PrintOp):
        return []
    for value in (*op._operands, *op.results):
        type_ = value._type
        if type(type_) is TensorType and not isinstance(type_.encoding, LayoutAttr):
            raise unsupported(op, "exchanges elements between threads, and has tiles without layouts", kernel.gpu.name)
    try:
        return _print(op) if sizes is None else [Exchange(0, padded(size)) for size in sizes(op, kernel, room)]
    except LoweringError as problem:
        raise unsupported(op, str(problem), kernel.gpu.name) from None


def _print(op: Operation) -> list[Exchange]:
    from libtile.codegen import messages

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


def _convert(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    assert isinstance(op, ConvertLayoutOp)
    if op.way is None:
        raise LoweringError("has no 'way', which tileas-materialize-convert-layout gives it")
    through = op.way.through
    return () if through is None else (element_bytes(op.source) * prod(through.layout.shape),) * through.pieces


def _through_ways(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """Of one tile, which goes through shared memory or not."""
    (way,) = ways_of(op, 1)
    element = element_bytes(sources_of(op)[0])
    return () if way.through is None else (element << way.through.layout.layout.out_bits,)


def _slice(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    return _through_ways(op, kernel, room) if all(map(_is_tile, (*sources_of(op), *op.results[:1]))) else ()


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _histogram(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    from libtile.codegen import slices

    (bins,) = shape_of(op.results[0].type)
    return (slices.histogram_bytes(bins),)


def _collective(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    from libtile.codegen.convert_layout import trip_bytes

    assert isinstance(op, ReduceOp | ScanOp)
    if op.steps is None:
        raise LoweringError("has no 'steps', which tileas-select-collectives gives it")
    sizes = [element_bytes(v) for v in op.inputs]
    found: list[int] = []
    for trips in (step.trips for step in op.steps.steps):
        first = 0
        for trip in trips:
            own = sizes[first : first + len(trip.ways)]
            found += trip_bytes(trip, own)
            first += len(own)
    return found


def _dot(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    """Tensor cores take fragments as they are; single elements are staged."""
    from libtile.codegen import mma

    if not isinstance(op, DotOp) or op.atom.kind != FMA:
        return ()
    return (mma.staged_bytes(shared_ways_of(op, 2), [element_bytes(v) for v in (op.a, op.b)])[1],)


def _owners(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    return _handed_out(op, op.results[0]) if hands_out(op) else ()


def _handed_out(op: Operation, value: SSAValue) -> Sequence[int]:
    (way,) = ways_of(op, 1)
    return () if way.through is None else (element_bytes(value) << way.through.layout.layout.out_bits,)


def _cancel(op: Operation, kernel: Kernel, room: int) -> Sequence[int]:
    from libtile.codegen import launch_control, program_counter

    return ((launch_control if kernel.gpu.has("launch_control") else program_counter).EXCHANGED,)


_SIZES: dict[type[Operation], Sizes] = {
    CancelNextProgramIdOp: _cancel,
    ConvertLayoutOp: _convert,
    ExtractOp: _through_ways,
    aa_shapes.ExtractSliceOp: _slice,
    ExtractSliceOp: _slice,
    InsertSliceOp: _slice,
    HistogramOp: _histogram,
    ReduceOp: _collective,
    ScanOp: _collective,
    DotOp: _dot,
    **dict.fromkeys(HANDING_OUT, _owners),
}
