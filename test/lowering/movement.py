# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of data movement share: random layouts, and kernels that read tiles, move them, and write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from memory_kernels import DTYPES, kernel, pointers, put, run

from libtile.codegen.llvm_types import GLOBAL_POINTER
from libtile.codegen.memory import load
from libtile.codegen.tile import Tile
from libtile.layouts.linear import LinearLayout
from libtile.simulator import RunResult


def move(
    arrays: Sequence[tuple[str, np.ndarray, LinearLayout]],
    build: Callable[..., Tile | Sequence[Tile]],
    *,
    gpu: str = "sm_90",
    threads: int = 128,
) -> tuple[list[np.ndarray], RunResult]:
    """Load each (element, array, layout), give the tiles to `build`, and return what its results hold."""
    b, bases = kernel(gpu, threads, len(arrays))
    tiles = [load(b, pointers(b, p, layout, e), e) for p, (e, _, layout) in zip(bases, arrays)]
    made = build(b, *tiles)
    results = []
    for tile in [made] if isinstance(made, Tile) else made:
        out = np.zeros(tile.shape, DTYPES[tile.element])
        results.append(out)
        put(b, b.add_parameter(GLOBAL_POINTER), tile)
    done = run(b, *[a for _, a, _ in arrays], *results)
    return results, done


@st.composite
def layouts(
    draw: Any, shape: Sequence[int], *, units: bool = False, warps: int = 4, min_warp_bits: int = 0
) -> LinearLayout:
    """A surjective layout of a tile: unit vectors spread over registers, lanes and warps, mixed unless `units`, with
    copies filling the lanes and warps that are left."""
    bits = [int(s).bit_length() - 1 for s in shape]
    total = sum(bits)
    columns: list[int] = list(draw(st.permutations([1 << i for i in range(total)])))
    if not units:
        for _ in range(draw(st.integers(0, 5))):
            i, j = draw(st.integers(0, max(total - 1, 0))), draw(st.integers(0, max(total - 1, 0)))
            if total > 1 and i != j:
                columns = [c ^ columns[j] if k == i else c for k, c in enumerate(columns)]
    extra = [0] if units else [0, *columns[:2]]
    warp_bits = warps.bit_length() - 1
    in_warps = min(draw(st.integers(min_warp_bits, warp_bits)), total)
    in_lanes = draw(st.integers(min(5, max(total - in_warps - 4, 0)), min(5, total - in_warps)))
    rest = columns[in_warps + in_lanes :]
    copies = st.sampled_from(extra)
    lanes = draw(st.permutations([*columns[in_warps : in_warps + in_lanes], *[draw(copies)] * (5 - in_lanes)]))
    on_warps = draw(st.permutations([*columns[:in_warps], *[draw(copies)] * (warp_bits - in_warps)]))
    if draw(st.booleans()):
        rest = [*rest, draw(copies)]
    frame = LinearLayout.of({}, {f"dim{i}": int(s) for i, s in enumerate(shape)})
    bases = {n: [frame._unpack(c) for c in cs] for n, cs in (("register", rest), ("lane", lanes), ("warp", on_warps))}
    return LinearLayout.of(bases, dict(zip(frame.out_dims, frame.shape)))
