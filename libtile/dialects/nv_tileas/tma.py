# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""TMA and other asynchronous copies of nv_tileas: descriptors, bulk tensor copies, barrier objects.

A descriptor is a value of its own, made by `make_tiled_tma_desc`; its index (`tmaIdx`) ties it to the descriptor that
the host passes to the kernel. Box dimensions count elements, innermost first.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, i1
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Allocates, Observable, ReadsLater, ReadsMemory
from libtile.dialects.nv_tileaa.attributes import MemScopeAttr, PaddingValueAttr, RmwModeAttr
from libtile.dialects.nv_tileaa.contracts import require_at_least
from libtile.dialects.nv_tileaa.memory import Access, base_rank, pointee_of
from libtile.dialects.nv_tileas.atom_rules import check_atom_width, check_masked
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.buffers_in_flight import check_awaited, check_delayed_wait
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import expect_type
from libtile.dialects.nv_tileas.tma_rules import (
    MAX_RANK,
    check_box,
    check_descriptor,
    check_multicast,
    check_partition,
    check_shared_layout,
)
from libtile.dialects.nv_tileas.types import AsyncTokenType, BufferType, MBarrierType, TmaDescType
from libtile.ir.tile_form import TileOp, element_of, integer_of, layout_of, shape_of, tile_op, type_text


@tile_op
class MakeTiledTmaDescOp(TileOp):
    """A TMA descriptor of a memref (or the memref of a view).

    `descriptor` is where a descriptor made on the device is kept, with its alignment; `tma_internal_type` the element
    type inside of the descriptor where it is not the memref's; `layout` that of the shared-memory side.
    """

    name = "nv_tileas.make_tiled_tma_desc"
    traits = traits_def(Observable())
    tensor = operand_def()
    descriptor = opt_operand_def()
    result = result_def()
    atom = prop_def(CopyAtomAttr)
    tma_index = opt_prop_def(IntegerAttr, prop_name="tmaIdx")
    on_device = opt_prop_def(UnitAttr)
    descriptor_alignment = opt_prop_def(IntegerAttr)
    element_strides = opt_prop_def(DenseArrayBase)
    padding_value = opt_prop_def(PaddingValueAttr)
    tma_internal_type = opt_prop_def(Attribute)
    layout = opt_prop_def(LayoutAttr)

    def check(self) -> None:
        require_at_least(self, 0, "tmaIdx")
        check_descriptor(self)


@tile_op
class GetTmaDescOp(TileOp):
    """The descriptor number `tmaIdx` of those that the host makes for the kernel."""

    name = "nv_tileas.get_tma_desc"
    traits = traits_def(ReadsMemory())
    result = result_def()
    tma_index = opt_prop_def(IntegerAttr, prop_name="tmaIdx")

    def check(self) -> None:
        expect_type("a descriptor", self.result.type, TmaDescType)
        require_at_least(self, 0, "tmaIdx")


class TmaOp(TileOp):
    """Base of copies through a descriptor; `coordinates` are in elements, outermost dimension first."""

    traits = traits_def(Observable())
    KIND: ClassVar[str] = "tma_load"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    atom = prop_def(CopyAtomAttr)
    tma_index = opt_prop_def(IntegerAttr, prop_name="tmaIdx")
    tx_count = opt_prop_def(IntegerAttr)
    """Bytes that the copy reports to its barrier object."""
    dim_map = opt_prop_def(DenseArrayBase)
    """The tensor's dimension for each of the buffer's; the same ones without it."""

    def check(self) -> None:
        descriptor = self.operands[0].type
        expect_type("a descriptor", descriptor, TmaDescType)
        if self.atom.kind != self.KIND:
            raise VerifyException(f"expect a {self.KIND} atom type")
        if isinstance(descriptor, TmaDescType):
            check_box(descriptor, self.atom)
            coordinates, rank = len(self.group("indices")), base_rank(descriptor.memref)
            if coordinates != rank:
                raise VerifyException(f"expects {rank} coordinates, but got {coordinates}")
        buffer = self.group("buffer")[0].type
        if not isinstance(buffer, BufferType) or buffer.space not in ("shared", "tmem"):
            raise VerifyException(f"expects a buffer in shared or tensor memory, but got {type_text(buffer)}")
        check_shared_layout(buffer)
        if self.atom.box:
            check_partition([prod(buffer.shape)], [prod(self.atom.box)])
        expect_type("a token", self.results[0].type, AsyncTokenType)
        require_at_least(self, 0, "tmaIdx", "tx_count")
        made = self.operands[0].owner
        if isinstance(made, MakeTiledTmaDescOp | GetTmaDescOp):
            number, own = integer_of(self.tma_index), integer_of(made.tma_index)
            if self.tma_index is not None and made.tma_index is not None and number != own:
                raise VerifyException(f"expects the tmaIdx of its descriptor, {own}, but got {number}")


class TmaLoad(TmaOp):
    """Base of copies from global memory; `mbarrier` counts their bytes."""

    PADDING: ClassVar[str] = "TmaLoad"
    descriptor = operand_def()
    indices = var_operand_def()
    buffer = operand_def()
    mbarrier = opt_operand_def()
    result = result_def()
    padding_value = opt_prop_def(PaddingValueAttr)
    multicast = opt_prop_def(UnitAttr)
    num_multicast = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        super().check()
        for barrier in self.group("mbarrier"):
            expect_type("an mbarrier", barrier.type, MBarrierType)
        if self.padding_value is not None and self.padding_value.keyword != "zero":
            raise VerifyException(f"{self.PADDING} only support zero padding now")
        check_multicast(self.atom, self.multicast is not None, self.num_multicast)


@tile_op
class TiledTmaLoadOp(TmaLoad):
    """Copies a box of global memory to a buffer, by TMA."""

    name = "nv_tileas.async.tiled_tma_load"


@tile_op
class GatherTmaLoadOp(TmaLoad):
    """Copies rows of global memory, which a tile of indices selects, to a buffer, by TMA."""

    name = "nv_tileas.async.gather_tma_load"
    PADDING: ClassVar[str] = "GatherTmaLoad"


class TmaStore(TmaOp):
    """Base of copies to global memory; they complete in groups."""

    KIND: ClassVar[str] = "tma_store"
    descriptor = operand_def()
    indices = var_operand_def()
    buffer = operand_def()
    token = opt_operand_def()
    result = result_def()
    delay_wait = opt_prop_def(UnitAttr)
    """The wait for the copy may move behind the next barrier."""

    def check(self) -> None:
        super().check()
        check_delayed_wait(self, self.group("buffer")[0], self.results[0])


@tile_op
class TiledTmaStoreOp(TmaStore):
    """Copies a buffer to a box of global memory, by TMA."""

    name = "nv_tileas.async.tiled_tma_store"


@tile_op
class ScatterTmaStoreOp(TmaStore):
    """Copies a buffer to rows of global memory that a tile of indices selects, by TMA."""

    name = "nv_tileas.async.scatter_tma_store"


@tile_op
class TiledAtomicRmwOp(TmaStore):
    """Combines a buffer into a box of global memory, by TMA's reductions."""

    name = "nv_tileas.async.tiled_atomic_rmw"
    KIND: ClassVar[str] = "tma_redg"
    rmw_mode = prop_def(RmwModeAttr)

    def check(self) -> None:
        super().check()
        if self.atom.mode == "scatter4":
            raise VerifyException("TmaReduceOp do not support SCATTER4 mode")


class ThreadCopy(Access):
    """Base of copies from global memory to a buffer that threads do (cp.async)."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    token = opt_operand_def()
    result = result_def()
    result_token = opt_result_def()
    atom = opt_prop_def(CopyAtomAttr)

    def check(self) -> None:
        if self.atom is not None and self.atom.kind not in ("ldgsts", "unknown_copy"):
            raise VerifyException("expect a ldgsts, tma_load, ldg or unknown_copy atom type")
        expect_type("a token", self.result.type, AsyncTokenType)
        check_awaited(self, self.group("buffer")[0], self.result)


@tile_op
class TiledLoadOp(ThreadCopy):
    """Copies a tile of a view to a buffer by asynchronous copies of threads (cp.async).

    `layout` says which thread copies which elements.
    """

    name = "nv_tileas.async.tiled_load"
    traits = traits_def(ReadsLater("view"))
    view = operand_def()
    buffer = operand_def()
    indices = var_operand_def()
    in_bounds = opt_prop_def(DenseArrayBase)
    layout = opt_prop_def(LayoutAttr)
    masked = opt_prop_def(DenseArrayBase)
    """As of `nv_tileas.tiled_load`."""
    cut = opt_prop_def(UnitAttr)
    """The tensor's end may lie within what one copy moves, whose elements behind it become zeros."""

    def check(self) -> None:
        pointee, buffer = pointee_of(self.view.type), self.buffer.type
        if not isinstance(buffer, BufferType) or buffer.element_type != pointee:
            raise VerifyException(f"expects a buffer of the view's element type, but got {type_text(buffer)}")
        if len(self.indices) != base_rank(self.view.type):
            raise VerifyException(f"expects {base_rank(self.view.type)} coordinates, but got {len(self.indices)}")
        check_masked(self.masked, buffer)
        if self.layout is not None and self.layout.shape == buffer.shape:
            check_atom_width(self.atom, buffer, self.layout)
        super().check()


@tile_op
class LoadOp(ThreadCopy):
    """Copies what a tile of pointers points to into a buffer by asynchronous copies of threads (cp.async); zeros where
    the mask is false."""

    name = "nv_tileas.async.load"
    traits = traits_def(ReadsLater("base"))
    base = operand_def()
    buffer = operand_def()
    mask = opt_operand_def()

    def check(self) -> None:
        pointee, buffer = pointee_of(self.base.type), self.buffer.type
        if base_rank(self.base.type) or pointee is None:
            raise VerifyException(f"expects pointers, but got {type_text(self.base.type)}")
        if not isinstance(buffer, BufferType) or (buffer.element_type, buffer.shape) != (
            pointee,
            shape_of(self.base.type),
        ):
            raise VerifyException(f"expects a buffer for what the pointers point to, but got {type_text(buffer)}")
        for mask in self.group("mask"):
            if element_of(mask.type) != i1 or shape_of(mask.type) != shape_of(self.base.type):
                raise VerifyException(f"expects a mask of i1 for the pointers, but got {type_text(mask.type)}")
        layout = layout_of(self.base.type)
        check_atom_width(self.atom, buffer, layout if isinstance(layout, LayoutAttr) else None)
        super().check()


@tile_op
class CommitGroupOp(TileOp):
    """Closes a group of asynchronous copies; later waits count groups."""

    name = "nv_tileas.async.commit_group"
    traits = traits_def(Observable())
    tokens = var_operand_def()
    result = result_def()
    stores = opt_prop_def(UnitAttr)
    """There are no copies in the group, which stands for stores by TMA that a loop has not begun yet."""

    def check(self) -> None:
        if self.stores is not None and self.tokens:
            raise VerifyException("expects no tokens of copies in a group of no stores")
        for value in [*self.tokens, self.result]:
            expect_type("a token", value.type, AsyncTokenType)


@tile_op
class CreateMBarrierOp(TileOp):
    """A barrier object in shared memory, for `arrivals` arrivals a phase (one, if nothing is said)."""

    name = "nv_tileas.create_mbarrier"
    traits = traits_def(Allocates())
    result = result_def()
    arrivals = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        require_at_least(self, 1, "arrivals")
        expect_type("an mbarrier", self.result.type, MBarrierType)


@tile_op
class MBarrierArriveOp(TileOp):
    """Arrives at a barrier object, which is to expect `tx_count` more bytes: one arrival of all that run this."""

    name = "nv_tileas.mbarrier_arrive"
    traits = traits_def(Observable())
    mbarrier = operand_def()
    tx_count = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        require_at_least(self, 0, "tx_count")
        expect_type("an mbarrier", self.mbarrier.type, MBarrierType)


@tile_op
class MBarrierWaitOp(TileOp):
    """Waits for the phase of a barrier object to complete: `parity` is that of the phase, the first one's without."""

    name = "nv_tileas.mbarrier_wait"
    traits = traits_def(Observable())
    mbarrier = operand_def()
    parity = opt_operand_def()

    def check(self) -> None:
        expect_type("an mbarrier", self.mbarrier.type, MBarrierType)


@tile_op
class InvalidateMBarrierOp(TileOp):
    """The end of a barrier object, whose place may be used for something else."""

    name = "nv_tileas.invalidate_mbarrier"
    traits = traits_def(Observable())
    mbarrier = operand_def()

    def check(self) -> None:
        expect_type("an mbarrier", self.mbarrier.type, MBarrierType)


@tile_op
class FenceProxyOp(TileOp):
    """Orders accesses of one proxy with those of another: `async` (TMA, tensor cores) or `tensormap`.

    What was changed of descriptors is released by a fence of `tensormap` without an operand; one with a descriptor
    acquires that. Both are for the threads of `mem_scope` (the device's, if nothing is said).
    """

    name = "nv_tileas.fence_proxy"
    traits = traits_def(Observable())
    descriptor = opt_operand_def()
    proxy = prop_def(StringAttr)
    mem_scope = opt_prop_def(MemScopeAttr)

    def check(self) -> None:
        if self.proxy.data not in ("async", "async.shared", "async.global", TENSORMAP):
            raise VerifyException(f"expects a proxy, but got '{self.proxy.data}'")
        if self.proxy.data != TENSORMAP and (self.descriptor is not None or self.mem_scope is not None):
            raise VerifyException(f"expects no descriptor and no scope with the proxy '{self.proxy.data}'")
        for descriptor in self.group("descriptor"):
            expect_type("a descriptor", descriptor.type, TmaDescType)


TENSORMAP = "tensormap"
"""The proxy by which copies read descriptors."""
REPLACEABLE = ("global_address", "dim_size", "stride_size")
"""The fields of a descriptor that the device can replace, in the order in which they are replaced."""


@tile_op
class TensormapReplaceOp(TileOp):
    """Replaces a field of a descriptor in memory (one that the device makes, or a pointer to one). Only the address,
    the sizes and the strides can be replaced.

    `ordinal` counts the descriptor's dimensions from the innermost on, of strides from 1 on. Addresses and strides are
    in bytes, multiples of 16; sizes count elements. `mem_scope` says whose copies use it then (the device's, if nothing
    is said).
    """

    name = "nv_tileas.tensormap_replace"
    traits = traits_def(Observable())
    descriptor = operand_def()
    value = operand_def()
    field = prop_def(StringAttr)
    ordinal = opt_prop_def(IntegerAttr)
    descriptor_alignment = opt_prop_def(IntegerAttr)
    mem_scope = opt_prop_def(MemScopeAttr)

    def check(self) -> None:
        from libtile.dialects.nv_tileas.tma_rules import check_descriptor_alignment

        check_descriptor_alignment(self.descriptor_alignment)
        if self.field.data not in REPLACEABLE:
            raise VerifyException(
                f"expects a field that can be replaced on the device ({', '.join(REPLACEABLE)}), but got "
                f"'{self.field.data}'"
            )
        if (self.ordinal is None) != (self.field.data == "global_address"):
            raise VerifyException(f"expects an ordinal with the sizes and strides only, but got '{self.field.data}'")
        first = int(self.field.data == "stride_size")
        if self.ordinal is not None and not first <= self.ordinal.value.data < MAX_RANK:
            raise VerifyException(
                f"expects an ordinal from {first} to {MAX_RANK - 1} of '{self.field.data}', but got "
                f"{self.ordinal.value.data}"
            )
