# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of passes for a reader."""

from __future__ import annotations

from libtile.passes.pipeline import pass_options
from libtile.passes.pipelines import PIPELINES, SCHEDULES
from libtile.passes.registry import PASSES, pass_class

PARTS = {
    "tile-addresses": "addresses worked out on fewer elements; no level runs it",
    "tile-locality": "accesses in an order that suits caches; no level runs it",
    "tile-masked": "ragged tiles by masked pointers, which suits NVIDIA's assembler; level 3 has it",
}
"""Pipelines that no level has."""


def passes_text() -> str:
    """Each pass with what it does, and its options with their defaults; then the pipelines that have a name."""
    lines = ["Passes:"]
    for name in sorted(PASSES):
        lines.append(f"  {name:36} {_summary(name)}")
        lines += [f"    {option:34} {_default(value)}" for option, value in pass_options(name).items()]
    lines.append("Pipelines:")
    lines += [f"  {name:36} {_what_runs(name)}" for name in PIPELINES]
    return "\n".join(lines) + "\n"


def _what_runs(pipeline: str) -> str:
    if pipeline in SCHEDULES:
        return f"what a compilation runs at -O3 with --schedule={pipeline}"
    if pipeline in PARTS:
        return PARTS[pipeline]
    tool, _, level = pipeline.rpartition("-")
    return f"what {'cuda-tile-optimize' if tool else 'a compilation'} runs at -{level}"


def _summary(name: str) -> str:
    return " ".join((pass_class(name).__doc__ or "").split("\n\n")[0].split())


def _default(value: str) -> str:
    return f"default {value}" if value else "has to be given, or is empty"
