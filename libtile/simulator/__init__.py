# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A functional simulator of PTX: kernels run, checked, with no GPU.

    from libtile.simulator import run_ptx
    run_ptx(text, "kernel", grid=(4,), block=(128,), args=[a, b, c, n])

See docs/simulator.md.
"""

from __future__ import annotations

from .arguments import Uninitialized
from .counters import Counters
from .errors import LaunchError, PtxError, SimulationFault, SimulatorError
from .ir import Module
from .launch import RunResult, run_ptx
from .parser import parse_ptx
from .tensor_map import EncodedTensorMap, Im2colTensorMap, TensorMap

__all__ = [
    "Counters",
    "EncodedTensorMap",
    "Im2colTensorMap",
    "LaunchError",
    "Module",
    "PtxError",
    "RunResult",
    "SimulationFault",
    "SimulatorError",
    "TensorMap",
    "Uninitialized",
    "parse_ptx",
    "run_ptx",
]
