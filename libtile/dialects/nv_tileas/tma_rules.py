# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of TMA descriptors and of the copies through them, in the words of the dialect's verifier.

Limits (CUDA driver API, "Tensor Map Object Management", `cuTensorMapEncodeTiled`): a descriptor is aligned to 128
bytes; a tensor has 1 to 5 dimensions of at most 2**32 elements; one dimension has stride 1, the other strides are
multiples of 16 bytes below 2**40; a box has at most 256 elements along a dimension, its innermost extent is a multiple
of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.element_types import bit_width
from libtile.dialects.nv_tileaa.memory import base_rank, pointee_of
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import DYNAMIC, GLOBAL, MemRefType, TiledViewType
from libtile.dialects.nv_tileas.attributes import LOAD_MODES, STORE_MODES, CopyAtomAttr
from libtile.dialects.nv_tileas.types import BufferType, TmaDescType
from libtile.ir.tile_form import type_text
from libtile.layouts.builders import nvmma_shared
from libtile.layouts.linear import LinearLayout
from libtile.layouts.row_swizzles import SWIZZLES

if TYPE_CHECKING:
    from libtile.dialects.nv_tileas.tma import MakeTiledTmaDescOp

DESCRIPTOR_ALIGNMENT = 128
MULTICAST_BITS = 128 * 8
"""The least that an atom moves when several CTAs receive it."""
CHUNK_BITS = 16 * 8
MAX_RANK = 5
MAX_SIZE = 1 << 32
STRIDE_BYTES_LIMIT = 1 << 40
MAX_BOX = 256
ELEMENT_BITS = (4, 8, 16, 32, 64)
"""Widths of elements that a tensor map can have."""


def check_descriptor(op: MakeTiledTmaDescOp) -> None:
    """All rules of `make_tiled_tma_desc`; VerifyException for the first that is broken."""
    tensor, result, atom = op.tensor.type, op.result.type, op.atom
    memref = tensor.source if isinstance(tensor, TiledViewType) else tensor
    if not isinstance(memref, MemRefType) or memref.space != GLOBAL:
        raise VerifyException(f"expects a memref or a view in global memory, but got {type_text(tensor)}")
    if not isinstance(result, TmaDescType):
        raise VerifyException(f"expects a TMA descriptor as result, but got {type_text(result)}")
    if not 1 <= base_rank(memref) <= MAX_RANK:
        raise VerifyException(f"expects a tensor of rank 1 to {MAX_RANK}, but got {base_rank(memref)}")
    check_descriptor_alignment(op.descriptor_alignment)
    if any(stride != 1 for stride in integers_of(op.element_strides)):
        raise VerifyException("only support element_stride = 1 tma desc")
    element = op.tma_internal_type or memref.element_type
    if result.memref != memref or _element_bits(element) not in ELEMENT_BITS:
        raise VerifyException("Failed to construct the TMA tensor type")
    _check_mode(atom)
    if len(result.box) != len(atom.box):
        raise VerifyException("tmaBoxDim and atomBoxDim length mismatch")
    if result.box != atom.box:
        raise VerifyException("tmaBoxDim and atomBoxDim mismatch")
    if result.box and result.box[0] * bit_width(element) % CHUNK_BITS:
        raise VerifyException("tma boxDims[0] * elemTypeBitWidth is not a multiple of 16 bytes")
    _check_global(memref, result.box)
    if op.padding_value is not None and op.padding_value.keyword != "zero" and atom.kind == "tma_load":
        raise VerifyException("padding value is not supported for TMA load with non-zero padding value")
    if op.layout is not None and not is_tma_layout(op.layout.layout, bit_width(element)):
        if is_composed(op.layout.layout):
            raise VerifyException(f"doesn't support composed layout for {atom.kind}")
        raise VerifyException("smem layout is not TMA compatible")


def _element_bits(element: Attribute) -> int:
    try:
        return bit_width(element)
    except KeyError:
        return 0  # no element type at all


def _check_global(memref: MemRefType, box: tuple[int, ...]) -> None:
    """What is known of sizes and strides fits a tensor map: a dimension of stride 1 and the limits of the others."""
    known = [s for s in memref.strides if s != DYNAMIC]
    if 1 not in known and len(known) == memref.rank:
        raise VerifyException(f"failed to compute the TMA G-basis, got strides {list(memref.strides)}")
    bits = bit_width(memref.element_type)
    steps = [s * bits for s in known if s != 1]
    sizes = [s for s in memref.shape if s != DYNAMIC]
    fits = all(0 <= s < STRIDE_BYTES_LIMIT * 8 and s % CHUNK_BITS == 0 for s in steps)
    fits = fits and all(1 <= s <= MAX_SIZE for s in sizes) and all(1 <= s <= MAX_BOX for s in box)
    if not fits:
        raise VerifyException(f"Computed TMA layout is invalid, got {memref} in boxes of {list(box)}")


def check_descriptor_alignment(alignment: IntegerAttr | None) -> None:
    """A stated alignment of a descriptor's address is enough; VerifyException."""
    if alignment is not None and alignment.value.data % DESCRIPTOR_ALIGNMENT:
        raise VerifyException(f"expected tma descriptor pointer to have alignment at least {DESCRIPTOR_ALIGNMENT}")


def _check_mode(atom: CopyAtomAttr) -> None:
    if not atom.is_tma:
        raise VerifyException("invalid TMA atom type")
    mode = atom.mode
    if atom.kind == "tma_load" and mode is not None and mode not in LOAD_MODES:
        raise VerifyException(f"unsupported tma load mode '{mode}'")
    if atom.kind == "tma_redg" and mode == "scatter4":
        raise VerifyException("TmaReduceOp do not support SCATTER4 mode")
    if atom.kind != "tma_load" and mode is not None and mode not in (*STORE_MODES, "tiled"):
        raise VerifyException(f"unsupported tma store mode '{mode}'")


def check_box(descriptor: TmaDescType, atom: CopyAtomAttr) -> None:
    """The descriptor's box is the atom's, and its rows are whole chunks; VerifyException."""
    if descriptor.box != atom.box:
        raise VerifyException("tma box-dim and copy atom box-dim mismatch")
    element = pointee_of(descriptor.memref)
    if element is not None and descriptor.box and descriptor.box[0] * bit_width(element) % CHUNK_BITS:
        raise VerifyException("tma leading box-dim bit-width is not 16 bytes aligned")


def check_partition(extents: Sequence[int], box: Sequence[int]) -> None:
    """A tile (its extents in the order of the box) is made of whole boxes; VerifyException."""
    if len(extents) != len(box) or any(b < 1 or e % b for e, b in zip(extents, box)):
        raise VerifyException("unable to partition input tensors for TMA")


def check_multicast(atom: CopyAtomAttr, wanted: bool, number: IntegerAttr | None) -> None:
    """A copy to several CTAs says to how many, moves enough, and has an atom for it; VerifyException."""
    if not wanted:
        if number is not None and number.value.data != 1:
            raise VerifyException(f"expects num_multicast of a multicast TMA load, but got {number.value.data} without")
        return
    if number is None or number.value.data < 2:
        raise VerifyException("missing or invalid num_multicast for a multicast TMA load")
    if atom.bits < MULTICAST_BITS:
        raise VerifyException("mcast is not supported for TMA load with less than 128bytes per atom")
    if atom.multicast is None:
        raise VerifyException(
            f"num_multicast is {number.value.data}, but the return TMA load type does not support multicast"
        )


def check_shared_layout(buffer: BufferType) -> None:
    """The layout of a buffer in shared memory is one that TMA writes; VerifyException."""
    if buffer.space != "shared" or buffer.layout is None:
        return
    if not is_tma_layout(buffer.layout.layout, bit_width(buffer.element_type)):
        raise VerifyException("smem layout is not TMA compatible")


def is_composed(layout: LinearLayout) -> bool:
    """Whether a layout is a swizzle behind another layout: a bit of the offset moves several bits of the index."""
    return any(sum(v.bit_count() for v in vector) > 1 for name in layout.in_dims for vector in layout.basis(name))


def is_tma_layout(layout: LinearLayout, element_bits: int) -> bool:
    """Whether TMA can write a layout: row-major, or one of its swizzles over row panels."""
    shape = layout.shape
    if layout.in_dims != ("offset",):
        return False
    if len(shape) != 2:
        return not any(v & (v - 1) for vector in layout.basis("offset") for v in vector)
    for order in ((1, 0), (0, 1)):
        for swizzle in SWIZZLES:
            try:
                if layout == nvmma_shared(shape, element_bits, swizzle, order):
                    return True
            except ValueError:
                continue  # the swizzle does not fit the shape
    return False
