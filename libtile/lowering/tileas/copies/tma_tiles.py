# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that TMA copies between a tensor and shared memory: how they lie there, their descriptors and their corners."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import SSAValue

from libtile.atoms import tma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects import arith
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp, GetCtaRankOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.dialects.nv_tileas.tma import MakeTiledTmaDescOp, TiledTmaStoreOp
from libtile.dialects.nv_tileas.types import BufferType, TmaDescType
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import stored_element
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.row_swizzles import CHUNK
from libtile.lowering.index_width import index_bits
from libtile.lowering.tileas.copies.access_reasons import is_forbidden
from libtile.lowering.tileas.copies.recipes import launched_number
from libtile.lowering.tileas.copies.select_copies import OFFSET_BITS
from libtile.lowering.tileas.copies.slices import MORE, Slice, slice_of
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.to_tileas.accesses import access, numbers
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
from libtile.targets.tensor_map import MAX_BOX

_TAKEN_OVER = frozenset({SEGMENTS, "mem_semantic", "in_bounds", "hints", "vector", "allow_tma", "atom"})
"""Properties of an access that have done their work, or that a copy by TMA needs no more."""

Laid = Callable[[Sequence[int], str, int], LinearLayout]
"""Gives the layout in shared memory of a tile: of its shape, the elements, and the dimension that is contiguous."""


class Unfit(Exception):
    """Why a product's loop stays as it is, or an access is not done by TMA."""


@dataclass(frozen=True)
class Parted:
    """The dimension of a tile along which it is copied in so many equal parts."""

    dim: int
    parts: int


@dataclass(frozen=True)
class TmaTile:
    """A tile that TMA copies: the access, its buffer, the boxes, and for each dimension of the buffer those of the
    tensor and of the view's index, and the elements of a step of that. One that is `halved` along a dimension of the
    buffer is half of the access's: the second CTA of a pair has the half behind that of the first one. Of one that is
    `parted` along a dimension there are several, one behind the other."""

    access: TiledLoadOp | TiledStoreOp
    type: BufferType
    boxes: tma.Boxes
    memref: MakeMemRefOp
    dims: tuple[int, ...]
    indices: tuple[int, ...]
    steps: tuple[int, ...]
    sparse: int | None = None
    """The dimension of the view along which a tile of numbers selects rows."""
    halved: int | None = None
    parted: int | None = None
    sliced: Slice | None = None
    """What the tensor is part of, where a launch does not know it. Its dimensions are those of the map of that."""

    @property
    def box(self) -> tuple[int, ...]:
        """The box of the tensor map."""
        return self.boxes.box if self.sliced is None else (*self.boxes.box, *(1,) * MORE)

    @property
    def atom(self) -> CopyAtomAttr:
        loads = isinstance(self.access, TiledLoadOp)
        mode = None if self.sparse is None else "gather4" if loads else "scatter4"
        return CopyAtomAttr("tma_load" if loads else "tma_store", box=self.box, mode=mode)

    def descriptor(self, at: Inserter, number: int) -> SSAValue:
        """The descriptor of the tensor; its layout is by the tensor's dimensions."""
        assert self.type.layout is not None
        if OFFSET_BITS not in self.memref.attributes and (bits := index_bits(self.memref)):
            self.memref.attributes[OFFSET_BITS] = IntegerAttr(bits, i64)  # of views that may go with the access
        layout, dims, tensor = self.type.layout.layout, self.dims, self.memref.results[0]
        if self.sliced is not None:
            tensor = self.sliced.descriptor_tensor(at).results[0]
            layout, dims = self.sliced.layout(layout), (*range(MORE), *dims)
        names, element, memref = dim_names(len(layout.shape)), self.type.element_type, tensor.type
        assert isinstance(memref, MemRefType)
        renamed = layout.rename_outs({names[t]: names[d] for t, d in enumerate(dims)})
        return at.value(
            MakeTiledTmaDescOp.make(
                tensor,
                results=[TmaDescType(memref, self.box)],
                atom=self.atom,
                tmaIdx=number,
                layout=LayoutAttr(renamed.transpose_outs(names)),
                tma_internal_type=element if element != memref.element_type else None,
            )
        )

    def corner(self, at: Inserter, values: dict[SSAValue, SSAValue], part: int = 0) -> list[SSAValue]:
        """Where the tile begins, or a part of the access's, in elements of the tensor's dimensions; `values` stand for
        some that it is computed from."""
        corner: dict[int, SSAValue] = {}
        index = self.access.group("indices")
        for t, i in enumerate(self.indices):
            given = values.get(index[i], index[i])
            if i == self.sparse:
                corner[self.dims[t]] = _in_fours(at, given)
                continue
            assert isinstance(given.type, IntegerType | IndexType)
            step = at.value(arith.ConstantOp(IntegerAttr(self.steps[t], given.type)))
            corner[self.dims[t]] = at.value(arith.MuliOp(given, step))
            if t == self.halved:
                size = at.value(arith.ConstantOp(IntegerAttr(self.type.shape[t], given.type)))
                behind = at.value(arith.MuliOp(at.value(GetCtaRankOp.make(results=[given.type])), size))
                corner[self.dims[t]] = at.value(arith.AddiOp(corner[self.dims[t]], behind))
            if t == self.parted and part:
                before = at.value(arith.ConstantOp(IntegerAttr(part * self.type.shape[t], given.type)))
                corner[self.dims[t]] = at.value(arith.AddiOp(corner[self.dims[t]], before))
        if self.sliced is None:
            return [corner[d] for d in range(len(corner))]
        dim = self.sliced.dim + MORE
        found = [corner[d] for d in range(MORE, MORE + len(corner))]
        return self.sliced.corner(at, found, self.type.shape[self.dims.index(dim)])

    @property
    def dim_map(self) -> list[int] | None:
        """The tensor's dimension for each of the buffer's, where they are not the same ones."""
        return list(self.dims) if self.dims != tuple(range(len(self.dims))) else None


def described_tile(
    function: FuncOp,
    op: TiledLoadOp | TiledStoreOp,
    what: str = "",
    order: Sequence[int] | None = None,
    rows: int = MAX_BOX,
    shared: LinearLayout | Laid | None = None,
    *,
    by_rows: bool = False,
    halved: int | None = None,
    parted: Parted | None = None,
) -> TmaTile:
    """How TMA copies the tile of an access that is in order with all others; Unfit, with `what` in front of the reason,
    where it does not. Dimension n of the buffer is dimension order[n] of the tile; a box has at most so many `rows`.
    The buffer has the layout `shared`, or the one that this gives (None: that of operands of products). With `by_rows`
    a tile of numbers may select the tile's rows. Of a dimension that is `halved` each CTA of a pair copies half, and of
    one that is `parted` so many parts are copied one after the other."""
    if is_forbidden(op):
        raise Unfit(what + "may not be copied by TMA, as a hint says")
    # What a store has beyond the tensor's end is not written, whatever it is.
    taken = _TAKEN_OVER | {"padding_value"} if isinstance(op, TiledStoreOp) else _TAKEN_OVER
    others = [n for n in op.properties if n not in taken]
    if others or op.group("offsets") or "mem_scope" in op.properties:
        raise Unfit(what + "is accessed in a way that copies by TMA have not")
    view, stored = op.view.type, stored_element(op.value_type)
    element = NUMBER_NAMES[stored]
    block = op.view.owner
    memref = block.source.owner if isinstance(block, BlockTileOp) else None
    if (
        not isinstance(view, TiledViewType)
        or not isinstance(memref, MakeMemRefOp)
        or (view.layout.sparse_dim is not None and not by_rows)
    ):
        raise Unfit(what + "is not of a tiled view of a tensor")
    type_ = memref.results[0].type
    assert isinstance(type_, MemRefType)
    if memref.parent is not function.body.block:
        raise Unfit(what + "is of a view that is made within another op")
    sliced = slice_of(memref) if view.layout.sparse_dim is None else None
    more = MORE if sliced is not None else 0
    padding = view.layout.padding if isinstance(op, TiledLoadOp) else None
    _check_tensor(what, memref, type_, element, padding, sliced)
    order = tuple(range(len(view.shape))) if order is None else tuple(order)
    whole, fastest = tuple(view.shape[d] for d in order), order.index(access(op)[1])
    shape = tuple(n // 2 if t == halved else n for t, n in enumerate(whole))
    if parted is not None:
        shape = tuple(n // parted.parts if t == parted.dim else n for t, n in enumerate(shape))
    if type_.strides[view.dim_map[order[fastest]]] != 1:
        raise Unfit(what + "has no dimension of stride 1")
    size = STORAGE_BYTES[element]
    if shape[fastest] * size < CHUNK:
        raise Unfit(what + f"has rows of {shape[fastest] * size} bytes")
    # Hardware takes a copy that begins elsewhere within a row for an illegal instruction (seen on an H100).
    # Of indices that nothing is known of, as in a program of nv_tileaa, the program has to see to it.
    known = numbers(op, "index_divisibility")
    step = view.traversal_strides[order[fastest]] * known[order[fastest]] * size % CHUNK if known else 0
    if step and view.layout.sparse_dim is None:
        raise Unfit(what + f"goes on along its rows by bytes of which {step} are beyond multiples of {CHUNK}")
    if not isinstance(shared, LinearLayout):
        shared = (shared or operand_shared_layout)(shape, element, fastest)
    sparse = view.layout.sparse_dim
    if sparse is not None and (len(shape) != 2 or sparse != order[1 - fastest]):
        raise Unfit(what + "has numbers of something else than the rows of a matrix")
    boxes = tma.boxes(shared, fastest, size, rows) if sparse is None else tma.row_boxes(shared, fastest, size)
    if isinstance(boxes, str):
        raise Unfit(what + "cannot be copied by TMA: " + boxes)
    return TmaTile(
        op,
        BufferType(shape, stored, "shared", LayoutAttr(shared)),
        boxes,
        memref,
        tuple(view.dim_map[d] + more for d in order),
        order,
        tuple(view.traversal_strides[d] for d in order),
        sparse,
        halved,
        None if parted is None else parted.dim,
        sliced,
    )


def _in_fours(at: Inserter, numbers: SSAValue) -> SSAValue:
    """A tile of numbers where each thread of the first warp holds those of four neighbouring rows, which it asks for
    by itself."""
    type_ = numbers.type
    assert isinstance(type_, TensorType)  # as the verifier has it
    (count,) = type_.get_shape()
    given = layout_of(numbers)
    bits = [1 << i for i in range(count.bit_length() - 1)]
    inner, lanes = tma.GATHERED.bit_length() - 1, len(given.basis(LANE))
    held = [*bits[:inner], *bits[inner + lanes :]]
    across = [*bits[inner : inner + lanes]]
    across += [0] * (lanes - len(across))
    wanted = LinearLayout.of(
        {REGISTER: [(n,) for n in held], LANE: [(n,) for n in across], WARP: [(0,)] * len(given.basis(WARP))},
        {"dim0": count},
    )
    if wanted == given:
        return numbers
    return at.value(ConvertLayoutOp.make(numbers, results=[with_layout(type_, wanted)]))


def box_of_all_rows(op: TiledTmaStoreOp) -> tuple[int, ...]:
    """The box of a store if it had all rows of the tile: the reference assembler names it in remarks, although its
    descriptors have the rows of a product."""
    descriptor, buffer = op.descriptor.type, op.buffer.type
    if not isinstance(descriptor, TmaDescType) or not isinstance(buffer, BufferType) or buffer.layout is None:
        return op.atom.box
    memref, rank = descriptor.memref, len(buffer.shape)
    assert isinstance(memref, MemRefType)
    dense, dims = tma.contiguous_dim(memref.strides), integers_of(op.dim_map) or tuple(range(rank))
    if dense not in dims:
        return op.atom.box
    found = tma.boxes(buffer.layout.layout, dims.index(dense), STORAGE_BYTES[NUMBER_NAMES[buffer.element_type]])
    return op.atom.box if isinstance(found, str) else found.box


def _check_tensor(
    what: str, memref: MakeMemRefOp, type_: MemRefType, element: str, padding: str | None, part: Slice | None
) -> None:
    strides = tuple(None if s < 0 else s for s in type_.strides)
    alignment = numbers(memref, "divisibility")
    divisors = numbers(memref, "stride_divisibility") or (1,) * type_.rank
    bounds = numbers(memref, "size_bounds") or (-1,) * type_.rank
    narrow = all(0 <= (bound if size < 0 else size) < 1 << 31 for size, bound in zip(type_.shape, bounds))
    known = tma.Tensor(element, alignment[0] if alignment else 1, strides, divisors, narrow)
    if (reason := tma.not_copied(known, padding)) is not None:
        raise Unfit(f"{what}cannot be copied by TMA: {reason}")
    if part is not None:
        return
    try:
        for operand in memref.operands:
            launched_number(memref, operand)
    except LoweringError as problem:
        raise Unfit(f"{what}is of a tensor that {problem}") from None
