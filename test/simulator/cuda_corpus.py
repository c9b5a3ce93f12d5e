# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA C++ corpus: every kernel of `cuda/*.cu` with its launch and its expected results.

The table is the union of the family modules in `cuda_cases/`, one per source file. Expectations are computed from
independent formulas (Python integers, exact fractions, `math`, numpy), never by the simulator.
"""

from __future__ import annotations

from importlib import import_module

from .cuda_cases.table import Case, Family, Source

FAMILY_MODULES = (
    "integer",
    "floating",
    "memory",
    "atomics",
    "control",
    "warp",
    "shared",
    "system",
    "approx",
    "libdevice",
    "half",
    "conversion",
    "mma",
    "wmma",
    "pipelines",
    "hopper",
    "algorithms",
    "library",
    "blackwell",
    "faults",
)


def _families() -> list[Family]:
    package = f"{__package__}.cuda_cases"
    return [
        family
        for name in FAMILY_MODULES
        for family in vars(import_module(f"{package}.{name}")).values()
        if isinstance(family, Family)
    ]


FAMILIES: list[Family] = _families()
SOURCES: list[Source] = [family.source for family in FAMILIES]
CASES: list[Case] = [case for family in FAMILIES for case in family.cases]
