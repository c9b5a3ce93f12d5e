# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tracing: one line for each op that runs, with what its results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.types import TileType, type_text
from libtile.interpreter.formats import element
from libtile.interpreter.location import source_location


def summarise(value: Any, type_: Any) -> str:
    """A value in a few words: a scalar itself; of a tile, its type, extremes, and how many elements are NaN."""
    if not isinstance(type_, TileType):
        return type_text(type_)
    elem = element(type_)
    array = np.asarray(value)
    if elem.is_pointer:
        shown = [f"{int(a):#x}" for a in (array.min(), array.max())]
    elif elem.is_float:
        wide = array.astype(np.float64)
        nan = int(np.count_nonzero(np.isnan(wide)))
        rest = wide[~np.isnan(wide)]
        shown = [f"{v:.6g}" for v in (rest.min(), rest.max())] if rest.size else ["nan"]
        if nan and rest.size:
            shown.append(f"{nan} nan")
    else:
        shown = [str(array.min()), str(array.max())]
    if array.ndim == 0 or len(shown) == 1 or shown[0] == shown[1]:
        return f"{type_text(type_)} = {', '.join([shown[0], *shown[2:]])}"
    low, *high = shown
    return f"{type_text(type_)} in {' .. '.join([low, *high[:1]])}" + "".join(f", {s}" for s in high[1:])


class Tracer:
    """Writes a line for each op to a stream, at most `limit` lines (None: all of them)."""

    def __init__(self, out: TextIO, limit: int | None = None):
        self.out = out
        self.limit = limit
        self.lines = 0

    def __call__(self, block: Any, op: Operation, values: Sequence[Any]) -> None:
        if self.limit is not None and self.lines >= self.limit:
            return
        self.lines += 1
        where = source_location(op)
        shown = [f"%{r.name_hint or i}: {summarise(v, r.type)}" for i, (r, v) in enumerate(zip(op.results, values))]
        place = f"{where}: " if where is not None else ""
        x, y, z = block.id
        self.out.write(f"({x}, {y}, {z}) {place}{op.name.removeprefix('cuda_tile.')}")
        self.out.write(" -> " + "; ".join(shown) + "\n" if shown else "\n")
