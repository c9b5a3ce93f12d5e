# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A thread's registers by a layout: which are copies of others, and which lie next to each other."""

from __future__ import annotations

from functools import lru_cache

from libtile.layouts.linear import LANE, REGISTER, WARP, LinearLayout


def unique_registers(layout: LinearLayout) -> list[int]:
    """The registers of a thread that are not copies of its own lower-numbered ones."""
    return list(_unique_registers(layout))


@lru_cache(maxsize=1024)
def _unique_registers(layout: LinearLayout) -> tuple[int, ...]:
    free = layout.free_bits().get(REGISTER, 0)
    return tuple(r for r in range(layout.in_size(REGISTER)) if r & free == 0)


def representatives(layout: LinearLayout) -> list[int]:
    """For every register of a thread the one among `unique_registers` that holds the same element."""
    places = [tuple(layout(register=r).values()) for r in range(layout.in_size(REGISTER))]
    unique = {places[r]: r for r in unique_registers(layout)}
    return [unique[place] for place in places]


def register_groups(layout: LinearLayout, dim: int, count: int) -> list[tuple[int, ...]]:
    """The distinct registers of a thread in groups of up to `count` that follow each other along a dimension.

    `count` is a power of two. All groups have one size: the largest that the layout has, whose first member's index
    is a multiple of it in every thread.
    """
    return list(_register_groups(layout, dim, count))


@lru_cache(maxsize=1024)
def _register_groups(layout: LinearLayout, dim: int, count: int) -> tuple[tuple[int, ...], ...]:
    registers = unique_registers(layout)
    if not layout.out_dims or count <= 1:
        return tuple((r,) for r in registers)
    size = 1
    steps: list[int] = []
    bases = [(1 << i, vector) for i, vector in enumerate(layout.basis(REGISTER))]
    others = [v[dim] for d in (LANE, WARP) for v in layout.basis(d)]
    while size < min(count, layout.shape[dim]):
        found = [r for r, v in bases if v[dim] == size and sum(v) == size]
        users = [v for _, v in bases if v[dim] & size] + [x for x in others if x & size]
        if len(found) != 1 or len(users) != 1:
            break
        steps.append(found[0])
        size *= 2
    stepping = sum(steps)
    result = []
    for first in registers:
        if first & stepping == 0:
            result.append(tuple(first + sum(s for i, s in enumerate(steps) if k >> i & 1) for k in range(size)))
    return tuple(result)
