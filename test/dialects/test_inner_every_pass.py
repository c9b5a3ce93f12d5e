# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op of the inner dialects through every pass: the same program comes out, or an error that says where.

Samples are those of inner_samples.py and the valid parts of the lit tests of the dialects. A new op needs a sample, a
new pass is covered by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from xdsl.context import Context
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, MemoryEffect, MemoryEffectKind, SymbolOpInterface, get_effects

from dialects.inner_diagnostics import LIT
from dialects.inner_samples import BODIES, text
from libtile.asm import parse
from libtile.asm.module import diagnose
from libtile.dialects import nv_tileas
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import OP_CLASSES, TileOp
from libtile.passes.pipeline import PassItem, make_pass
from libtile.passes.registry import PASSES
from libtile.support.diagnostics import DiagnosticError, LoweringError, has_errors
from libtile.support.errors import LibtileError
from libtile_tools import cli

assert nv_tileas.NAME == "nv_tileas"  # its ops are in OP_CLASSES once it is imported

OPTIONS = {"test-debuginfo-update-symbol-name": (("symbol-to-rename", "k"), ("new-name", "renamed"))}
"""What passes have to be told."""

TMA = ("tiled_load", "tiled_store", "tiled_atomic_rmw", "make_tiled_tma_desc", "get_tma_desc", "copy", "alloc_tensor")
QUEUES = ("execute", "create_queue", "queue.get", "queue.put")
TURNS = ("create_iterator", "producer_acquire", "producer_write", "producer_commit", "produce_one", "consumer_wait",
         "consumer_read", "consumer_release", "consume_one")  # fmt: skip
AGENTS = tuple(f"pipeline.{name}" for name in ("agent_switch", "create_pipeline", *TURNS))
REWRITTEN = {
    # Accesses get fences, directives have places, stages get buffers, to which tiles are copied.
    "convert-tileaa-to-tileas": ("fence", "pragma", "message", "copy", *AGENTS),
    "lower-tileaa-queues": (*QUEUES, *AGENTS),
    "tileas-arrange-agents": ("pipeline.agent_switch",),
    "tileas-assign-stage-layouts": ("copy", "tiled_load"),
    "inline-calls": ("call", "launch_func", "plugin"),
    "expand-tileaa-ops": (
        "load",
        "store",
        "atomic_rmw",
        "atomic_cas",
        "gather_load",
        "scatter_store",
        "tiled_load",
        "tiled_store",
        "pragma",
        "message",
    ),
    "lower-tma-load-store-to-async": TMA,
    "separate-host-tma": (*TMA, "mark_for_reuse"),
    "attach-tma-descriptor-args": TMA,
    "tileas-legalize-tmem-copy": TMA,
    "tileas-insert-barriers": ("barrier",),
    "tileas-insert-fences": ("barrier", "fence_proxy"),
}
"""The observable ops that a pass is there to make, replace or move; all others come out as they went in."""
RESPELLED = {
    ("convert-tileaa-to-tileas", "tiled_atomic_rmw"),
    ("convert-tileaa-to-tileas", "tiled_store"),
    ("tileas-select-copies", "atomic_rmw"),
    ("tileas-select-copies", "atomic_cas"),
}
"""Accesses whose attributes nv_tileas spells in another way: `addf` is `add`, a store that may leave its view pads; or
adds to: an atom."""


@cache
def lit_parts() -> dict[str, str]:
    """The valid parts of the lit tests of both dialects, by place."""
    found = {}
    for folder in ("nv_tileaa", "nv_tileas"):
        for path in sorted((LIT / folder).glob("*.mlir")):
            for number, part in enumerate(cli.split_input(path.read_text())):
                try:
                    valid = not has_errors(diagnose(parse(part)))
                except LibtileError:
                    valid = False
                if valid:
                    found[f"{path.stem}/{number}"] = part
    return found


def samples() -> dict[str, str]:
    return {**{name: text(name) for name in BODIES}, **lit_parts()}


def ops_in(module: Operation) -> Iterator[TileOp]:
    return (op for op in module.walk() if isinstance(op, TileOp) and not op.has_trait(SymbolOpInterface))


def is_observable(op: Operation) -> bool:
    """Whether an op does more than compute: no pass may lose it."""
    effects = get_effects(op)
    return not op.has_trait(IsTerminator) and (
        effects is None or any(e.kind == MemoryEffectKind.WRITE for e in effects)
    )


def mnemonic(op: Operation) -> str:
    return op.name.partition(".")[2].removeprefix("async.")


def described(op: TileOp, pass_name: str) -> tuple[object, ...]:
    """An op without what layouts change: its attributes, the numbers of its operands, results and regions' ops."""
    properties = {name: str(value) for name, value in op.properties.items() if name != SEGMENTS}
    if (pass_name, mnemonic(op)) in RESPELLED:
        properties = {}
    inside = tuple(sum(1 for block in region.blocks for _ in block.ops) for region in op.regions)
    return mnemonic(op), tuple(sorted(properties.items())), len(op.operands), len(op.results), inside


def observed(module: Operation, pass_name: str) -> Counter[tuple[object, ...]]:
    rewritten = REWRITTEN.get(pass_name, ())
    return Counter(
        described(op, pass_name) for op in ops_in(module) if is_observable(op) and mnemonic(op) not in rewritten
    )


def problem(pass_name: str, given: str) -> str | None:
    """What is wrong with what a pass makes of a module; None when nothing is."""
    module = parse(given)
    before, names = observed(module, pass_name), Counter(map(mnemonic, ops_in(module)))
    try:
        make_pass(PassItem(pass_name, OPTIONS.get(pass_name, ()))).apply(Context(), module)
    except LoweringError as error:
        return None if error.location is not None and "'nv_tilea" in error.reason else f"no place: {error}"
    except DiagnosticError as error:
        return None if all(d.location is not None for d in error.diagnostics) else f"no place: {error}"
    except LibtileError as error:
        return f"no place: {error}"
    if errors := [d.message for d in diagnose(module)]:
        return f"does not verify: {errors[0]}"
    if (after := observed(module, pass_name)) != before:
        return f"lost {dict(before - after)}, made {dict(after - before)}"
    if pass_name == "convert-tileaa-to-tileas" and (lost := names - Counter(map(mnemonic, ops_in(module)))):
        # A pragma's region is between two places behind the pass, and has no end.
        return f"lost {dict(lost)}" if set(lost) != {"yield"} or "pragma" not in names else None
    return None


def test_every_op_has_a_sample() -> None:
    seen = {op.name for given in samples().values() for op in parse(given).walk()}
    assert set(OP_CLASSES) - seen == set()


def test_every_sample_is_of_its_op_and_valid() -> None:
    for name in BODIES:
        module = parse(text(name))
        assert diagnose(module) == [], name
        assert name in {op.name for op in module.walk()}


@pytest.mark.parametrize("name", OP_CLASSES)
def test_every_op_says_what_it_does_besides_computing(name: str) -> None:
    """By one trait (dialects/effect_traits.py), so that passes need know no names."""
    traits = OP_CLASSES[name].get_irdl_definition().traits
    effects = [trait for trait in traits if isinstance(trait, MemoryEffect)]
    if any(isinstance(trait, IsTerminator | SymbolOpInterface) for trait in traits):
        assert len(effects) <= 1
    else:
        assert len(effects) == 1, effects


@pytest.mark.parametrize("pass_name", PASSES)
def test_every_op_comes_out_of_every_pass_or_is_refused_where_it_stands(pass_name: str) -> None:
    found = {}
    for name, given in samples().items():
        if pass_name in OPTIONS and name not in BODIES:
            continue  # the function there has another name
        if (wrong := problem(pass_name, given)) is not None:
            found[name] = wrong
    assert found == {}
