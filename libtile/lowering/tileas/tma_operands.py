# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that a producer agent copies by TMA, operands of products and others: which loads can be copies, and the copies
themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from libtile.atoms import tcgen05, tma, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.tma import MakeTiledTmaDescOp, TiledTmaLoadOp
from libtile.dialects.nv_tileas.types import AsyncTokenType, BufferType, TmaDescType
from libtile.ir.tile_form import SEGMENTS, stored_element
from libtile.layouts.builders import dim_names
from libtile.lowering.tileas.access_reasons import is_forbidden
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.schedule import fastest_dim
from libtile.lowering.tileas.tma.recipes import launched_number
from libtile.lowering.to_tileas.accesses import numbers
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import MmaAtom, Target

_TAKEN_OVER = frozenset({SEGMENTS, "mem_semantic", "in_bounds", "hints", "vector", "allow_tma", "atom"})
"""Properties of a load that have done their work, or that a copy by TMA needs no more."""


class Unfit(Exception):
    """Why a product's loop stays as it is."""


def can_transpose(gpu: Target, atom: MmaAtom) -> bool:
    """Whether operands in shared memory may be MN-major for the asynchronous products of a target."""
    return (tcgen05 if gpu.has("tcgen05") else wgmma).can_transpose(gpu, atom)


@dataclass(frozen=True)
class TmaOperand:
    """A tile that TMA copies: the load, its buffer in a stage, the boxes, and for each dimension of the buffer those of
    the tensor and of the view's index, and the elements of a step of that."""

    load: TiledLoadOp
    type: BufferType
    boxes: tma.Boxes
    memref: MakeMemRefOp
    dims: tuple[int, ...]
    indices: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def atom(self) -> CopyAtomAttr:
        return CopyAtomAttr("tma_load", box=self.boxes.box)

    def descriptor(self, at: Inserter, number: int) -> SSAValue:
        """The descriptor of the tensor; its layout is by the tensor's dimensions."""
        assert self.type.layout is not None
        layout = self.type.layout.layout
        names = dim_names(len(layout.shape))
        renamed = layout.rename_outs({names[t]: names[d] for t, d in enumerate(self.dims)})
        return at.value(
            MakeTiledTmaDescOp.make(
                self.memref.results[0],
                results=[TmaDescType(self.memref.results[0].type, self.boxes.box)],
                atom=self.atom,
                tmaIdx=number,
                layout=LayoutAttr(renamed.transpose_outs(names)),
            )
        )

    def copy(
        self, at: Inserter, number: int, descriptor: SSAValue, buffer: SSAValue, values: dict[SSAValue, SSAValue]
    ) -> None:
        """The copy of the tile, whose corner is given in elements of the tensor's dimensions."""
        corner: dict[int, SSAValue] = {}
        index = self.load.group("indices")
        for t, i in enumerate(self.indices):
            given = values.get(index[i], index[i])
            assert isinstance(given.type, IntegerType | IndexType)
            step = at.value(arith.ConstantOp(IntegerAttr(self.steps[t], given.type)))
            corner[self.dims[t]] = at.value(arith.MuliOp(given, step))
        at.add(
            TiledTmaLoadOp.make(
                descriptor,
                [corner[d] for d in range(len(corner))],
                buffer,
                results=[AsyncTokenType()],
                atom=self.atom,
                tmaIdx=number,
                dim_map=list(self.dims) if self.dims != tuple(range(len(self.dims))) else None,
            ),
            self.load.location,
        )


def tma_operand(
    function: FuncOp, gpu: Target, atom: MmaAtom, side: str, load: TiledLoadOp, order: Sequence[int] | None = None
) -> TmaOperand:
    """How TMA copies an operand (side "a" or "b") of a product that reads shared memory by this instruction; Unfit
    where it does not. Dimension n of the operand is dimension order[n] of the load's tile; dimensions of size 1 may
    stand between those of the matrix."""
    what = f"#{side.upper()} "
    found = tma_tile(function, what, load, order)
    assert found.type.layout is not None
    size = STORAGE_BYTES[NUMBER_NAMES[found.type.element_type]]
    read = wgmma.shared_operand(matrix_of(found.type.layout.layout), side, atom, size, can_transpose(gpu, atom))
    if isinstance(read, str):
        raise Unfit(what + "cannot be read from shared memory: " + read)
    return found


def tma_tile(function: FuncOp, what: str, load: TiledLoadOp, order: Sequence[int] | None = None) -> TmaOperand:
    """How TMA copies the tile of a load, which `what` calls it in reasons; Unfit where it does not. Dimension n of the
    copy is dimension order[n] of the load's tile (None: they are the same)."""
    if is_forbidden(load):
        raise Unfit(what + "may not be copied by TMA, as a hint says")
    more = [n for n in load.properties if n not in _TAKEN_OVER]
    if more or load.group("offsets") or load.group("other") or "mem_scope" in load.properties:
        raise Unfit(what + "is loaded in a way that copies by TMA have not")
    for token in load.group("token"):
        if not isinstance(token.owner, CreateMemTokenOp):
            raise Unfit(what + "is ordered behind another access by a token")
    view, stored = load.view.type, stored_element(load.value.type)
    element = NUMBER_NAMES[stored]
    block = load.view.owner
    memref = block.operands[0].owner if isinstance(block, Operation) and block.operands else None
    if (
        not isinstance(view, TiledViewType)
        or not isinstance(memref, MakeMemRefOp)
        or view.layout.sparse_dim is not None
    ):
        raise Unfit(what + "is not of a tiled view of a tensor")
    type_ = memref.results[0].type
    assert isinstance(type_, MemRefType)
    if memref.parent is not function.body.block:
        raise Unfit(what + "is of a view that is made within another op")
    _check_tensor(what, memref, type_, element, view.layout.padding)
    order = tuple(range(len(view.shape))) if order is None else tuple(order)
    shape, fastest = tuple(view.shape[d] for d in order), order.index(fastest_dim(load))
    if type_.strides[view.dim_map[order[fastest]]] != 1:
        raise Unfit(what + "has no dimension of stride 1")
    size = STORAGE_BYTES[element]
    if shape[fastest] * size < tma.CHUNK:
        raise Unfit(what + f"has rows of {shape[fastest] * size} bytes")
    shared = operand_shared_layout(shape, element, fastest)
    boxes = tma.boxes(shared, fastest, size)
    if isinstance(boxes, str):
        raise Unfit(what + "cannot be read from shared memory: " + boxes)
    return TmaOperand(
        load,
        BufferType(shape, stored, "shared", LayoutAttr(shared)),
        boxes,
        memref,
        tuple(view.dim_map[d] for d in order),
        order,
        tuple(view.traversal_strides[d] for d in order),
    )


def _check_tensor(what: str, memref: MakeMemRefOp, type_: MemRefType, element: str, padding: str | None) -> None:
    strides = tuple(None if s < 0 else s for s in type_.strides)
    alignment = numbers(memref, "divisibility")
    divisors = numbers(memref, "stride_divisibility") or (1,) * type_.rank
    bounds = numbers(memref, "size_bounds") or (-1,) * type_.rank
    narrow = all(0 <= (bound if size < 0 else size) < 1 << 31 for size, bound in zip(type_.shape, bounds))
    known = tma.Tensor(element, alignment[0] if alignment else 1, strides, divisors, narrow)
    if (reason := tma.not_copied(known, padding)) is not None:
        raise Unfit(f"{what}cannot be copied by TMA: {reason}")
    try:
        for operand in memref.operands:
            launched_number(memref, operand)
    except LoweringError as problem:
        raise Unfit(f"{what}is of a tensor that {problem}") from None
