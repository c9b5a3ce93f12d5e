# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which functions take tiles as a whole, so that a compiler brings what they load to shared memory, by TMA if it can.

Seen of NVIDIA's assembler on sm_90: whatever feeds these ops it copies by TMA where the tensor allows it, and nothing
else; in functions of elementwise ops every thread loads its own elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.transforms.products import PRODUCTS

_ATOMICS = ("atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko")
_WHOLE = frozenset([*PRODUCTS, *_ATOMICS, "reduce", "scan", "print_tko"])


def first_that_takes_whole_tiles(ops: Sequence[CudaTileOp]) -> CudaTileOp | None:
    """The first of the ops of a function that takes a tile as a whole."""
    return next((op for op in ops if op.spec.name in _WHOLE), None)
