# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that the frontend writes without complaint and that the reference tools refuse to read.

They are not part of `corpus.KERNELS`; `corpus.REFUSED` has them, with what the reference says.
"""

from __future__ import annotations

import cuda.tile as ct

from examples.signatures import array
from kernels.model import Kernel


@ct.kernel
def rank_zero_view(x, out):
    ct.store(out, (), ct.load(x, (), ()) * 2)


@ct.kernel
def unsigned_floor_division(x, y, out):
    a, b = ct.load(x, (0,), (32,)), ct.load(y, (0,), (32,))
    ct.store(out, (0,), a // b)


#: Kernel -> the gist of the refusal.
REFUSED: list[tuple[Kernel, str]] = [
    (
        Kernel("rank_zero_view", rank_zero_view, (array(ct.float32, 0), array(ct.float32, 0)), None, None,
               compile_only="a tile view has at least one dimension"),
        "0-dimension tile shape is not supported",
    ),
    (
        Kernel("unsigned_floor_division", unsigned_floor_division, (array(ct.uint32),) * 3, None, None,
               compile_only="an unsigned quotient is rounded to zero or up"),
        "'cuda_tile.divi' op rounding mode 'negative_inf' is not allowed with 'unsigned' flag",
    ),
]  # fmt: skip
