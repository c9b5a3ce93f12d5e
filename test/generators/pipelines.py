# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pipelines of passes over Tile IR that tests and measurements run: every pass by itself, and the named ones."""

from __future__ import annotations

from libtile.passes.pipeline import before_pass, parse_pipeline, pipeline_text
from libtile.passes.registry import CUDA_TILE, PASSES

ASKED = {
    "expand-views": "{everywhere=true}",
    "if-to-select": "{max-ops=60 max-elements=100000}",
    "loop-peel": "{front=1 back=2}",
    "loop-unroll": "{factor=2}",
    "merge-loads": "{adjacent=true}",
    "strength-reduce": "{min-ops=1}",
}
"""Options with which passes have more to do than by default."""
NAMED = ("tile-O1", "tile-O2", "tile-O3", "tile-addresses", "tile-locality", "tile-masked")
"""The levels of the optimizer, and the pipelines beside them."""


def single() -> list[str]:
    """Every pass of the optimizer by itself."""
    names = [
        name
        for name, entry in PASSES.items()
        if CUDA_TILE in entry.works_on and not entry.required and not name.startswith("test-")
    ]
    return [name + ASKED.get(name, "") for name in sorted(names)]


def compiled() -> list[str]:
    """What compilations run on Tile IR at each level."""
    return [str(pipeline_text(before_pass(parse_pipeline(f"O{level}"), "strip-mine"))) for level in (1, 2, 3)]


def every() -> list[str]:
    """All of them."""
    return [*single(), *NAMED, *compiled()]
