# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointers, memrefs and views of nv_tileaa, and conversions between types.

A memref is a `TensorView`: an address, sizes and strides. A tiled view is the memref that it views; its type says how
tiles lie on it.
"""

from __future__ import annotations

from typing import Any

from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, TiledViewType
from libtile.interpreter.core import bytes_of, from_bytes
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import RULES, Run, Site, made_by, pure, same
from libtile.interpreter.nv_tileaa.views import tile_counts
from libtile.interpreter.views import TensorView
from libtile.support.records import replace

same("nv_tileaa.addptr", "offset", "ptr offset")
same("nv_tileaa.int_to_ptr", "int_to_ptr")
same("nv_tileaa.ptr_to_int", "ptr_to_int")
same("nv_tileaa.fp_to_fp", "ftof", "from")
same("nv_tileaa.emulated_fp_to_fp", "ftof", "from")
same("nv_tileaa.get_global", "get_global")


def _by_sign(name: str, rule: str) -> None:
    """Register a conversion of integers, which are signed unless the op says `unsigned`."""
    same(name, rule, "from")
    known = RULES[name]

    def make(site: Site) -> Run:
        signedness = "unsigned" if site.attr("unsigned") else "signed"
        return known.make(replace(site, given={"signedness": signedness}))

    RULES[name] = replace(known, make=make)


_by_sign("nv_tileaa.int_to_fp", "itof")
_by_sign("nv_tileaa.fp_to_int", "ftoi")


@pure("nv_tileaa.bitcast", elementwise=True)
def bitcast(site: Site) -> Run:
    source, result = site.element("source"), site.element("result")
    if site.attr("packed"):
        return lambda value: from_bytes(bytes_of(value, source), result)
    return made_by("bitcast")(replace(site, names=("source",)))


@pure("nv_tileaa.make_memref")
def make_memref(site: Site) -> Run:
    type_ = site.type_of("result")
    if not isinstance(type_, MemRefType):
        raise TypeError("make_memref makes a memref")
    shape, strides = type_.shape, type_.strides

    def fill(static: tuple[int, ...], dynamic: tuple) -> tuple[int, ...]:
        values = iter(dynamic)
        return tuple(int(next(values)) if s == DYNAMIC else s for s in static)

    def run(base: Array, offset: Array | None, sizes: tuple, steps: tuple) -> TensorView:
        made = TensorView(int(base) + (0 if offset is None else int(offset)), fill(shape, sizes), fill(strides, steps))
        for what, numbers in (("size", made.shape), ("stride", made.strides)):
            for dim, number in enumerate(numbers):
                if number < 0:
                    raise Fault(FaultKind.INDEX, f"the {what} {number} of dimension {dim} is negative", (dim,))
        return made

    return run


@pure("nv_tileaa.block_tile")
def block_tile(site: Site) -> Run:
    """A tiled view of a memref is the memref; one of a tile would be a copy of it, which nothing reads."""
    type_ = site.type_of("result")
    if not isinstance(type_, TiledViewType) or not isinstance(type_.source, MemRefType):
        raise Fault(FaultKind.UNSUPPORTED, "a tiled view of what is no memref")
    return lambda source: source


@pure("nv_tileaa.get_dim_size")
def get_dim_size(site: Site) -> Run:
    type_, dim, elem = site.type_of("source"), site.attr("dim"), site.element("result")

    def run(source: Any) -> Array:
        if isinstance(type_, TiledViewType):
            return elem.dtype.type(tile_counts(type_, source)[dim])
        return elem.dtype.type(source.shape[dim])

    return run
