# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wide accesses that depend on the launch: a tile that lies inside of its tensor, with aligned rows, takes them.

What analysis does not know (that a tile is not cut by the tensor's end, that strides and the base are aligned) costs a
few instructions to find out, once per tile and alike for all threads. When that makes the accesses wider, both forms
are emitted, behind a branch.
"""

from __future__ import annotations

from dataclasses import replace

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I1, I64
from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.codegen.tile import Tile
from libtile.codegen.views import TiledView, ViewFacts, access_width, contiguous_dim, element_bits
from libtile.layouts import LinearLayout

MAX_REGISTERS = 64
"""Tiles of more registers per thread take one form only: code would grow too much."""


def wide_facts(
    b: KernelBuilder, tiled: TiledView, index: list[Value | Tile], layout: LinearLayout, facts: ViewFacts
) -> tuple[Value, ViewFacts] | None:
    """The condition under which an access can be wider, and what is known then; None when it would not be wider."""
    assumed = checked_facts(tiled, layout, facts)
    if assumed is None:
        return None
    t, most = contiguous_dim(tiled), _most(tiled)
    condition = integer(I1, 1)
    for dim in range(len(tiled.tile)):
        if facts.needs_mask(tiled, dim):
            condition = b.and_(condition, _inside(b, tiled, index[dim], dim))
        if dim != t and facts.stride(tiled, dim) % most and tiled.size(dim).constant != 1:
            condition = b.and_(condition, _divides(b, tiled.stride(dim), most))
    if facts.alignment % MAX_ACCESS_BYTES:
        condition = b.and_(condition, _divides(b, b.cast("ptrtoint", tiled.view.base, I64), MAX_ACCESS_BYTES))
    return condition, assumed


def checked_facts(tiled: TiledView, layout: LinearLayout, facts: ViewFacts) -> ViewFacts | None:
    """What is known of an access behind the checks; None when it would not be wider, or they are known to fail."""
    if contiguous_dim(tiled) is None or tiled.sparse is not None or layout.in_size("register") > MAX_REGISTERS:
        return None
    sizes = (tiled.size(t).constant for t in range(len(tiled.tile)))
    if any(size is not None and size < tile for size, tile in zip(sizes, tiled.tile)):
        return None
    divisors = facts.stride_divisors or (1,) * len(tiled.view.shape)
    assumed = replace(
        facts,
        alignment=max(facts.alignment, MAX_ACCESS_BYTES),
        stride_divisors=tuple(
            divisor if stride.constant is not None else max(divisor, _most(tiled))
            for divisor, stride in zip(divisors, tiled.view.strides)
        ),
        inbounds=(True,) * len(tiled.tile),
    )
    return assumed if access_width(tiled, assumed, layout) > access_width(tiled, facts, layout) else None


def _most(tiled: TiledView) -> int:
    """The most elements of an access along the contiguous dimension."""
    t = contiguous_dim(tiled)
    assert t is not None
    return min(MAX_ACCESS_BYTES * 8 // element_bits(tiled.view.element), tiled.tile[t])


def _inside(b: KernelBuilder, tiled: TiledView, number: Value | Tile, dim: int) -> Value:
    """Whether the tile's last element along a dimension is one of the tensor's."""
    value = number.registers[0] if isinstance(number, Tile) else number
    start = b.mul(b.cast("zext", value, I64), integer(I64, tiled.steps[dim]))
    return b.compare("ule", b.add(start, integer(I64, tiled.tile[dim])), tiled.size(dim))


def _divides(b: KernelBuilder, value: Value, power: int) -> Value:
    low = b.and_(value, integer(I64, power - 1))
    return b.compare("eq", low, integer(I64, 0))
