# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of examples/, as part of the corpus."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np

from examples.export import VERSIONS
from kernels.model import Kernel, Problem, Tolerance

#: What the results of the examples may be off by: their sums run in another order than the reference's.
TOLERANCES = {
    "gemm": Tolerance(1e-5, 1e-5),
    "softmax": Tolerance(2e-6, 1e-9),
    "layer_norm": Tolerance(1e-5, 2e-6),
    "attention": Tolerance(2e-3, 2e-3),
    "prefix_sum": Tolerance(1e-5, 1e-5),
}


def _kernel(name: str) -> Kernel:
    module: ModuleType = importlib.import_module(f"examples.{name}")

    def problem(rng: np.random.Generator) -> Problem:
        grid, values = module.problem(rng)
        return Problem(grid, values)

    return Kernel(
        name,
        module.KERNEL,
        module.PARAMETERS,
        problem,
        module.reference,
        TOLERANCES.get(name, Tolerance()),
        tags=frozenset({"example", "real"}),
    )


KERNELS = [_kernel(name) for name in VERSIONS]
