# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that are compared by their speed: products, attention, rows, copies, in cuTile.

Each is a `kernels.model.Kernel` with a small problem, ragged where its tiles allow it, for the simulator. The names say
the types and the tile: `gemm_f16nt_128x256x64` multiplies f16 tiles of 128x64 by 64x256, of which the second lies n x k
in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [p for p in (str(ROOT), str(ROOT / "test"), str(ROOT / "bench")) if p not in sys.path]

import perf_attention  # noqa: E402
import perf_products  # noqa: E402
import perf_rows  # noqa: E402

from kernels import corpus  # noqa: E402
from kernels.model import Kernel, as_mapping  # noqa: E402

KERNELS: dict[str, Kernel] = dict(
    as_mapping([*perf_products.KERNELS, *perf_products.SCALED, *perf_attention.KERNELS, *perf_rows.KERNELS])
)
"""By name."""

corpus.KERNELS.update(KERNELS)  # that it exports them


def kernels_for(gpu_name: str) -> list[str]:
    """The names of those that are compared on a target: products with factors where tensor cores take them."""
    scaled = {kernel.name for kernel in perf_products.SCALED}
    return [name for name in KERNELS if name not in scaled or int(gpu_name[3:]) >= 100]
