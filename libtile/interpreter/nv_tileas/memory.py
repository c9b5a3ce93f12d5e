# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiled accesses of nv_tileas: an offset in elements on top of the index, and a tile that stands out of bounds."""

from __future__ import annotations

from typing import Any

from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, effect
from libtile.interpreter.nv_tileaa.memory import is_strong, load_box, reduce_box, store_box, tokens


@effect("nv_tileas.tiled_load", synchronises=is_strong)
def tiled_load(site: Site) -> Run:
    after = tokens(site)
    read = load_box(site, "view", site.shape("value"), site.attr("padding_value"))

    def run(block: Any, view: Any, indices: tuple, offsets: tuple, other: Array | None, token: None) -> tuple[Any, ...]:
        return (read(block, view, indices, offsets, other)[()], *after)

    return run


@effect("nv_tileas.tiled_store", synchronises=is_strong)
def tiled_store(site: Site) -> Run:
    after, write = tokens(site), store_box(site, "view", site.shape("value"))

    def run(block: Any, view: Any, value: Array, indices: tuple, offsets: tuple, token: None) -> tuple[None, ...]:
        write(block, view, indices, offsets, value)
        if site.attr("mem_semantic", "weak") != "weak":
            block.memory.version += 1
        return after

    return run


@effect("nv_tileas.tiled_atomic_rmw", synchronises=is_strong)
def tiled_atomic_rmw(site: Site) -> Run:
    mode = site.attr("rmw_mode")
    mode = "addf" if mode == "add" and site.element("value").is_float else mode
    after, combine = tokens(site), reduce_box(site, "view", site.shape("value"), mode)

    def run(block: Any, view: Any, value: Array, indices: tuple, offsets: tuple, token: None) -> tuple[Any, ...]:
        return (combine(block, view, indices, offsets, value)[()], *after)

    return run


@effect("nv_tileas.fence", synchronises=lambda op: True)
def fence(site: Site) -> Run:
    """Memory has no caches here: every access is seen at once. What was stored before may be what others wait for."""
    after = tokens(site)

    def run(block: Any, token: None) -> tuple[None, ...]:
        block.memory.version += 1
        return after

    return run
