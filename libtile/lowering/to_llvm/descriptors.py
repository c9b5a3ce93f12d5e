# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps that the device writes: what no launch changes of them is constant, and the address, sizes and strides
are put there by the instructions that replace them. One thread acts for all that run an op."""

from __future__ import annotations

from libtile.atoms import tma as atoms
from libtile.codegen import tma
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import GENERIC_POINTER, I32, I64, LlvmType
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.types import MemRefType
from libtile.dialects.nv_tileas.tma import (
    TENSORMAP,
    FenceProxyOp,
    MakeTiledTmaDescOp,
    TensormapReplaceOp,
)
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.ir.tile_form import integer_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.copies.recipes import boxes_of
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.storage import Descriptor
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets.tensor_map import SIZE, TiledMap, encode

_SCOPES = {"tl_blk": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"}
_WORD = 8


@rule(MakeTiledTmaDescOp)
def _make(e: Emitter, op: MakeTiledTmaDescOp) -> None:
    b, type_ = e.b, op.result.type
    assert isinstance(type_, TmaDescType) and isinstance(type_.memref, MemRefType)
    if op.on_device is None or op.descriptor is None:
        raise unsupported(op, "makes a descriptor on the device without a place for it", b.target.name)
    _check_target(e, op)
    found = boxes_of(op)
    if isinstance(found, str):
        raise unsupported(op, found, b.target.name)
    boxes, element = found, NUMBER_NAMES[type_.memref.element_type]
    rank, size = len(boxes.order), STORAGE_BYTES[element]
    inside = atoms.map_element(element, NUMBER_NAMES[op.tma_internal_type or type_.memref.element_type])
    fixed = TiledMap(0, inside, (1,) * rank, (0,) * (rank - 1), boxes.box, swizzle=boxes.swizzle.name)
    words, tensor, place = encode(fixed), e.view(op.tensor).tensor, e.scalar(op.descriptor)
    with acting_thread(e):
        for at in range(0, SIZE, _WORD):
            word = int.from_bytes(words[at : at + _WORD], "little")
            to = b.offset(place, integer(I64, at))
            b.line(f"store i64 {word}, {to.typed}, align {_WORD}")
        address = b.cast("ptrtoint", tensor.base, I64)
        tma.replace_field(b, place, "global_address", None, address)
        for number, d in enumerate(boxes.order):
            tma.replace_field(b, place, "dim_size", number, _as(e, tensor.shape[d], I32))
        for number, d in enumerate(boxes.order[1:]):
            stride = b.mul(_as(e, tensor.strides[d], I64), integer(I64, size))
            tma.replace_field(b, place, "stride_size", number, stride)
    e.bind(op.result, Descriptor(_generic(e, place), type_, place))


def _generic(e: Emitter, place: Value) -> Value:
    return e.b.emit(GENERIC_POINTER, f"addrspacecast {place.typed} to ptr")


def _as(e: Emitter, value: Value, type_: LlvmType) -> Value:
    if value.constant is not None:
        return integer(type_, value.constant)
    return e.b.cast("trunc" if value.type.bits > type_.bits else "zext", value, type_)


def _check_target(e: Emitter, op: MakeTiledTmaDescOp | TensormapReplaceOp) -> None:
    if not e.b.target.has("tensormap_replace"):
        raise unsupported(op, "writes a descriptor on the device, by instructions that are not there", e.b.target.name)


@rule(TensormapReplaceOp)
def _replace(e: Emitter, op: TensormapReplaceOp) -> None:
    _check_target(e, op)
    held = e.held[op.descriptor]
    place = held.place if isinstance(held, Descriptor) else e.scalar(op.descriptor)
    if place is None:
        raise unsupported(op, "changes a descriptor of the host's, which is constant", e.b.target.name)
    field, value = op.field.data, e.scalar(op.value)
    ordinal = None if op.ordinal is None else integer_of(op.ordinal)
    if isinstance(held, Descriptor) and ordinal is not None and ordinal >= len(held.type.box):
        raise unsupported(op, f"changes dimension {ordinal} of a descriptor of {len(held.type.box)}", e.b.target.name)
    if field == "global_address" and not value.type.bits == I64.bits:
        raise unsupported(op, "puts an address of less than 64 bits into a descriptor", e.b.target.name)
    if value.type.text.startswith("ptr"):
        value = e.b.cast("ptrtoint", value, I64)
    if field == "stride_size" and ordinal is not None:
        ordinal -= 1  # PTX's strides begin with the dimension behind the dense one
    with acting_thread(e):
        tma.replace_field(e.b, place, field, ordinal, _as(e, value, I32 if field == "dim_size" else I64))


def fence_descriptors(e: Emitter, op: FenceProxyOp) -> None:
    """A fence of the proxy by which copies read descriptors."""
    assert op.proxy.data == TENSORMAP
    if not e.b.target.has("tensormap_replace"):
        raise unsupported(op, f"names the proxy '{TENSORMAP}', of which nothing there is", e.b.target.name)
    scope = _SCOPES[op.mem_scope.keyword if op.mem_scope is not None else "gpu"]
    if op.descriptor is None:
        with acting_thread(e):
            tma.release_descriptors(e.b, scope)
        return
    held = e.held[op.descriptor]
    assert isinstance(held, Descriptor)
    tma.acquire_descriptor(e.b, held.pointer, scope)
