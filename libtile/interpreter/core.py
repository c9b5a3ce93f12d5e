# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of the core group but for `reduce` and `scan`: shapes, constants, pointers, the grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.interpreter.address_space import first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, from_bits, to_bits
from libtile.interpreter.integer import signed, wrap
from libtile.interpreter.rules import Run, Site, combine_masks, effect, pure


@pure("broadcast", undefined="structural", elementwise=False)
def broadcast(site: Site) -> Run:
    shape = site.shape("result")
    return lambda source: np.broadcast_to(source, shape)


@pure("reshape", undefined="structural", elementwise=False)
def reshape(site: Site) -> Run:
    shape = site.shape("result")
    return lambda source: np.reshape(source, shape)[()]


@pure("permute", undefined="structural", elementwise=False)
def permute(site: Site) -> Run:
    order = site.attr("permutation")
    return lambda source: np.transpose(source, order)


@pure("cat", undefined="structural", elementwise=False)
def cat(site: Site) -> Run:
    dim = site.attr("dim")
    return lambda lhs, rhs: np.concatenate((lhs, rhs), axis=dim)


def _window(site: Site, whole: tuple[int, ...], part: tuple[int, ...], indices: tuple) -> tuple[slice, ...]:
    """The box of the part with these indices (unsigned, in units of its size). A fault when there is none such."""
    starts = []
    for dim, (index, size, count) in enumerate(zip(indices, part, whole)):
        number = int(index) & 0xFFFFFFFF
        if number >= count // size:
            if site.on("index"):
                raise Fault(
                    FaultKind.INDEX, f"index {number} of dimension {dim} is not less than {count // size}", (dim,)
                )
            number %= count // size
        starts.append(slice(number * size, (number + 1) * size))
    return tuple(starts)


@pure("extract", undefined="structural", elementwise=False)
def extract(site: Site) -> Run:
    whole, part = site.shape("source"), site.shape("result")
    return lambda source, indices: np.asarray(source)[_window(site, whole, part, indices)][()]


@pure("insert", undefined="structural", elementwise=False)
def insert(site: Site) -> Run:
    whole, part = site.shape("destination"), site.shape("source")

    def run(source: Array, destination: Array, indices: tuple) -> Array:
        result = np.array(destination)
        result[_window(site, whole, part, indices)] = source
        return result[()]

    return run


@pure("iota", elementwise=False)
def iota(site: Site) -> Run:
    (size,) = site.shape("result")
    value = wrap(np.arange(size), site.element("result"))
    return lambda: value


def _select_mask(site: Site) -> Any:
    shape = site.shape("result")

    def mask(values: tuple, masks: tuple) -> Any:
        condition = np.asarray(values[0])
        own, true, false = (np.zeros(shape, bool) if m is None else m for m in masks)
        return combine_masks((own | np.where(condition, true, false),), shape)

    return mask


@pure("select", undefined=_select_mask)
def select(site: Site) -> Run:
    return np.where


# -- bytes ----------------------------------------------------------------------------------------------------------


def bytes_of(value: Array, elem: Element) -> np.ndarray:
    """The elements' bits, one after the other from the lowest bit of the first byte, as bytes."""
    bits = to_bits(value, elem)
    if elem.width == 1:
        return np.packbits(bits, bitorder="little")
    if elem.width == 4:
        return bits[0::2] | bits[1::2] << np.uint8(4)
    return np.ascontiguousarray(bits).view(np.uint8)


def from_bytes(data: np.ndarray, elem: Element) -> np.ndarray:
    if elem.width == 1:
        return np.unpackbits(data, bitorder="little") != 0
    if elem.width == 4:
        return from_bits(np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=1).reshape(-1), elem)
    return from_bits(np.ascontiguousarray(data).view(elem.unsigned_dtype), elem)


def _regrouped(site: Site) -> Any:
    """A mask for `pack` and `unpack`: a byte is uninitialised if any element in it is, and the other way round."""
    (size,) = site.shape("result")

    def mask(values: tuple, masks: tuple) -> Any:
        (source,) = masks
        if source.size >= size:
            return combine_masks((source.reshape(size, -1).any(axis=1),), (size,))
        return np.repeat(source, size // source.size)

    return mask


@pure("pack", undefined=_regrouped, elementwise=False)
def pack(site: Site) -> Run:
    elem = site.element("source")
    return lambda source: bytes_of(source, elem).view(np.int8)


@pure("unpack", undefined=_regrouped, elementwise=False)
def unpack(site: Site) -> Run:
    elem = site.element("result")
    return lambda source: from_bytes(np.ascontiguousarray(source).view(np.uint8), elem)


# -- pointers and the grid ------------------------------------------------------------------------------------------


@pure("offset")
def offset(site: Site) -> Run:
    pointee = site.element("ptr").pointee
    elem = site.element("offset")
    if pointee is None:
        raise TypeError("offset needs pointers")
    size = pointee.storage_bytes
    limit = (2**63 - 1) // size

    def run(ptr: Array, offset: Array) -> Array:
        distance = np.asarray(signed(offset, elem)).astype(np.int64)
        if site.on("overflow") and elem.width == 64:
            bad = np.abs(distance) > limit
            if bad.any():
                raise Fault(FaultKind.OVERFLOW, f"the offset times {size} does not fit 64 bits", first_index(bad))
        return ptr + distance * size

    return run


@pure("get_global", elementwise=False)
def get_global(site: Site) -> Run:
    name = site.attr("name")
    if name not in site.globals:
        raise Fault(FaultKind.UNSUPPORTED, f"the module has no global @{name}")
    address = np.int64(site.globals[name])
    return lambda: address


@effect("get_tile_block_id")
def get_tile_block_id(site: Site) -> Run:
    return lambda block: tuple(np.int32(i) for i in block.id)


@effect("get_num_tile_blocks")
def get_num_tile_blocks(site: Site) -> Run:
    return lambda block: tuple(np.int32(n) for n in block.grid)
