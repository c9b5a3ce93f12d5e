# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compilation runs, on one page: the passes in order, and at which of `-O0` to `-O3`.

A pass is added by a line here and one in `libtile.passes.registry`. The options of a pass stand in braces, as on a
command line; `gpu-name` is the compilation's. Behind the last one `lowering.to_llvm` emits LLVM IR, which LLVM and
ptxas optimize at the same level.
"""

from __future__ import annotations

from libtile.support.errors import LibtileError

TILE_STEPS: tuple[tuple[str, str], ...] = (
    ("canonicalize", "123"),
    ("loop-unroll", "23"),
    ("loop-peel", "23"),
    ("cse", "123"),
    ("sccp", "23"),
    ("loop-once", "23"),
    ("simplify-integers", "123"),
    ("recover-views{everywhere=false}", "3"),
    ("eliminate-redundant-tokens{every-store=false}", "123"),
    ("merge-loads", "23"),
    ("expand-views", "3"),
    ("licm", "23"),
    ("loop-split", "3"),
    ("if-to-select", "23"),
    ("canonicalize", "123"),
    ("cse", "23"),
    ("dce", "123"),
    ("deduplicate-symbols", "123"),
    ("symbol-dce", "123"),
)
"""The optimizer of cuda_tile, each pass with its levels: what `cuda-tile-optimize` and `libtile.optimize` run.

`infer-in-bounds` is none of them: its flags need a bytecode version that the consumer may not read. `loop-unroll` and
`loop-peel` follow hints, and do nothing without.
"""

ADDRESSES = "reorder-broadcast, strength-reduce, canonicalize, cse, licm, dce"
"""Address arithmetic on fewer elements, and in fewer iterations: for consumers that compute every address themselves.

No level runs it: the assemblers here hold on to what is hoisted in registers, and need more of these and of
instructions for most kernels.
"""

LOCALITY = "eliminate-redundant-tokens, loop-interchange, merge-loads{adjacent=true}, canonicalize, cse, licm, dce"
"""Accesses in an order that suits the caches, and fewer and larger ones.

No level runs it: which order of loops is the better one depends on what the blocks beside share, and two tiles at once
need the registers of both.
"""

MASKED = "expand-views, canonicalize, cse, licm, dce"
"""Ragged tiles of elementwise kernels by masked pointers, for NVIDIA's assembler, which looks for each element.

Level 3 does the same before it tidies up; this is for what lower levels, or no level, have made.
"""

FOR_OTHERS = {
    "recover-views{everywhere=false}": "",
    "expand-views": "",
    "deduplicate-symbols": "",
    "eliminate-redundant-tokens{every-store=false}": "eliminate-redundant-tokens",
}
"""What the optimizer runs and a compilation does not, and what that has in its place: pointers are lowered without a
check at run time of how wide an access may be, which makes two accesses of one through a view, so that views of ragged
tiles stay, too (and come back: `contract-views`); a compilation keeps the globals that it is given, and has a
barrier less for each store that waits for none."""

STEPS: tuple[tuple[str, str], ...] = (
    # cuda_tile
    ("contract-views", "123"),
    *((FOR_OTHERS.get(step, step), levels) for step, levels in TILE_STEPS if FOR_OTHERS.get(step, step)),
    ("infer-in-bounds", "123"),
    ("view-operands", "23"),
    ("collapse-loops", "23"),
    ("strip-mine{refuse-uncut=true}", "0123"),
    ("keep-tiles", "3"),
    ("convert-cuda-tile-to-tileaa", "0123"),
    # nv_tileaa
    ("canonicalize-tileaa", "123"),
    ("lower-tileaa-queues", "0123"),
    ("propagate-pipeline-iterators", "0123"),
    ("split-over-ctas", "0123"),
    ("order-programs", "23"),
    ("fit-registers", "23"),
    ("convert-tileaa-to-tileas", "0123"),
    # nv_tileas
    ("tileas-remove-layout-conversions", "0123"),
    ("tileas-arrange-agents", "0123"),
    ("tileas-assign-stage-layouts", "0123"),
    ("tileas-generate-schedule", "0123"),
    ("tileas-materialize-schedule", "0123"),
    ("separate-host-tma", "0123"),
    ("attach-tma-descriptor-args", "0123"),
    ("tileas-insert-barriers", "0123"),
    ("tileas-select-collectives", "0123"),
    ("tileas-materialize-convert-layout", "0123"),
    ("tileas-compare-places", "23"),
    ("tileas-allocate-tensor-memory", "0123"),
    ("tileas-allocate-shared-memory", "0123"),
    ("tileas-insert-shared-barriers", "0123"),
    ("tileas-count-arrivals", "0123"),
    ("tileas-select-copies", "0123"),
    ("tileas-insert-fences", "0123"),
    ("tileas-widen-apart", "3"),
)
"""Each pass, and the levels that run it."""

LEVELS = ("0", "1", "2", "3")


def pipeline_text(level: str, steps: tuple[tuple[str, str], ...]) -> str:
    """The steps of an optimization level, as the text of a pipeline."""
    return ", ".join(step for step, levels in steps if level in levels)


def _with_agents(specialize: str) -> dict[str, str]:
    """What a schedule with agents has in place of which step, with the pass that makes these."""
    return {
        "if-to-select": "if-to-select, loop-unsplit, loop-unguard",
        "convert-tileaa-to-tileas": "convert-tileaa-to-tileas{for-agents=true}",
        "tileas-generate-schedule": f"{specialize}, tileas-legalize-tmem-copy, tileas-select-tma-stores, "
        "tileas-hand-over-stores, lower-tma-load-store-to-async, tileas-generate-schedule",
    }


_INSTEAD: dict[str, dict[str, str]] = {
    "serial": {"tileas-generate-schedule": "", "tileas-materialize-schedule": ""},
    "pipelined": {},
    "specialized": _with_agents("tileas-specialize{by-threads=true}"),
}
"""What each schedule has in place of which step."""
SCHEDULES = tuple(_INSTEAD)
"""How loops overlap with the copies of their tiles: not at all, by the warps that compute, or by a producer agent where
a loop with a product can be parted (and by the warps that compute elsewhere)."""
DEFAULT_SCHEDULES = {"0": "pipelined", "1": "pipelined", "2": "specialized", "3": "specialized"}
"""The schedule of each level. As such, `specialized` changes nothing on targets without TMA: there it has to be asked
for."""
_BY_LEVEL = _INSTEAD | {"specialized": _with_agents("tileas-specialize")}


def schedule_at(level: int, asked: str = "") -> str:
    """The schedule of `SCHEDULES` that a compilation at a level has: the one that was asked for, or the level's."""
    return asked or DEFAULT_SCHEDULES[str(level)]


def compile_pipeline(level: int, schedule: str = "") -> str:
    """What a compilation runs at a level, with a schedule of `SCHEDULES`, or without one with the level's."""
    instead = _INSTEAD[schedule] if schedule else _BY_LEVEL[schedule_at(level)]
    steps = (instead.get(step, step) for step, levels in STEPS if str(level) in levels)
    return ", ".join(filter(None, steps))


def tile_pipeline(level: int, fuse_fma: bool = False) -> str:
    """The optimizer's pipeline, behind `fuse-fma` if that is asked for. LibtileError for a level that there is not."""
    if str(level) not in LEVELS:
        raise LibtileError(f"there is no optimization level {level}: the levels are {', '.join(LEVELS)}")
    return ", ".join([*(["fuse-fma"] if fuse_fma else []), pipeline_text(str(level), TILE_STEPS)]).rstrip(", ")


PIPELINES: dict[str, str] = {
    **{f"O{level}": compile_pipeline(int(level)) for level in LEVELS},
    **{f"tile-O{level}": pipeline_text(level, TILE_STEPS) for level in LEVELS},
    "tile-addresses": ADDRESSES,
    "tile-locality": LOCALITY,
    "tile-masked": MASKED,
    **{schedule: compile_pipeline(3, schedule) for schedule in SCHEDULES},
}
"""Pipelines by the name that stands for them in the text of others."""
