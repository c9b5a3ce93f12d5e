# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compilation runs, on one page: the passes in order, and at which of `-O0` to `-O3`.

A pass is added by a line here and one in `libtile.passes.registry`. The options of a pass stand in braces, as on a
command line; `gpu-name` is the compilation's. Behind the last one `lowering.to_llvm` emits LLVM IR, which LLVM and
ptxas optimize at the same level.
"""

from __future__ import annotations

STEPS: tuple[tuple[str, str], ...] = (
    # cuda_tile
    ("strip-mine{refuse-uncut=true}", "0123"),
    ("convert-cuda-tile-to-tileaa", "0123"),
    # nv_tileaa
    ("convert-tileaa-to-tileas", "0123"),
    # nv_tileas
    ("tileas-remove-layout-conversions", "0123"),
    ("tileas-generate-schedule", "0123"),
    ("tileas-materialize-schedule", "0123"),
    ("tileas-insert-barriers", "0123"),
)
"""Each pass, and the levels that run it."""

LEVELS = ("0", "1", "2", "3")


def pipeline_text(level: str) -> str:
    """The passes of an optimization level, as the text of a pipeline for a `builtin.module`."""
    return ", ".join(step for step, levels in STEPS if level in levels)


PIPELINES: dict[str, str] = {f"O{level}": pipeline_text(level) for level in LEVELS}
"""Pipelines by the name that stands for them in the text of others."""
