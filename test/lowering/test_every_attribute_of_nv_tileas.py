# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every attribute that an op of nv_tileas declares has other values in a kernel that has the op: the code, the tensor
maps or the remarks change, or the change is refused where the op stands, or there is a reason in the legality table or
below."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import test_every_attribute_compiled as compiled
from attention_kernels import attention
from inner_programs import PROGRAMS, buffer
from queue_kernels import TWO_CONSUMERS
from test_clusters import clustered
from test_cta_pairs import pair
from tma_programs import ENTRY, HANDED_ON, IN_LOOP, REPLACED, gathered
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

import libtile
from libtile.asm import parse
from libtile.asm.module import diagnose
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import OP_CLASSES, TileOp, operand_group
from libtile.lowering.tileas.copies.select_copies import SelectCopiesPass
from libtile.lowering.to_llvm.emitter import RULES
from libtile.lowering.to_llvm.legality import left_out
from libtile.support.diagnostics import LoweringError, has_errors

FOLDER = Path(__file__).parent
F32 = "!nv_tileaa.ptr<f32, 1>"
NUMBERS = "tile<64x{}, #nv_tileas.layout<register=[[1]], lane=[[2],[4],[8],[16],[32]], warp=[[0],[0]] : 64>>".format
STORAGE = buffer((64,), "f32")
COPIED = f"""
nv_tileaa.func @k(%x_p: {F32}, %o_p: {F32}) {ENTRY} {{
  %r = nv_tileaa.make_range : {NUMBERS("i32")}
  %s = nv_tileaa.splat %x_p : {F32} -> {NUMBERS(F32)}
  %a = nv_tileaa.addptr %s, %r : {NUMBERS(F32)}, {NUMBERS("i32")} -> {NUMBERS(F32)}
  %b = nv_tileas.alloc_tensor {{alignment = 128}} : {STORAGE}
  %c = nv_tileas.async.load %a, %b {{atom = #nv_tileas.copy_atom<ldgsts, bits=32>}} : {NUMBERS(F32)}, {STORAGE}
    -> !nv_tileas.async_token
  %g = nv_tileas.async.commit_group %c : !nv_tileas.async_token -> !nv_tileas.async_token
  nv_tileas.async.wait %g {{pending = 0 : i64}} : !nv_tileas.async_token
  nv_tileas.barrier
  %y = nv_tileas.copy %b {{atom = #nv_tileas.copy_atom<lds, bits=32>}} : {STORAGE} -> {NUMBERS("f32")}
  %p = nv_tileaa.splat %o_p : {F32} -> {NUMBERS(F32)}
  %q = nv_tileaa.addptr %p, %r : {NUMBERS(F32)}, {NUMBERS("i32")} -> {NUMBERS(F32)}
  %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %u = nv_tileas.fence %t {{mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<gpu>}}
    : !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileas.store %q, %y {{atom = #nv_tileas.copy_atom<stg, bits=32>}} : {NUMBERS(F32)}, {NUMBERS("f32")}
  nv_tileaa.return
}}
"""
"""64 numbers through shared memory, by copies of threads, and a fence."""
IN_TURNS = f"""
nv_tileaa.func @k() {ENTRY} {{
  nv_tileas.async.pipeline.agent_switch {{agent_warps = [8]}} ({{
    nv_tileas.hand_on_turn {{id = 3 : i64, groups = 2 : i64, first}}
    nv_tileas.take_turn {{id = 3 : i64, groups = 2 : i64}}
    nv_tileas.hand_on_turn {{id = 3 : i64, groups = 2 : i64}}
    nv_tileas.take_turn {{id = 3 : i64, groups = 2 : i64, last}}
    nv_tileas.async.pipeline.yield
  }})
  nv_tileaa.return
}}
"""


TEXTS: dict[str, tuple[str, Callable[[], str]]] = {
    "handed on": ("sm_90", lambda: HANDED_ON),
    "gathered": ("sm_100", lambda: gathered(8)),
    "replaced": ("sm_90", lambda: REPLACED),
    "in loop": ("sm_90", lambda: IN_LOOP),
    "slices": ("sm_90", PROGRAMS["slices of nv_tileas"].text),
    "shapes": ("sm_90", PROGRAMS["tiles of nv_tileas in other shapes, types and lanes"].text),
    "copied": ("sm_90", lambda: COPIED),
    "in turns": ("sm_90", lambda: IN_TURNS),
    "turns": ("sm_90", (FOLDER / "documents" / "turns.mlir").read_text),
    "queue": ("sm_90", (FOLDER / "documents" / "queue.mlir").read_text),
    "two consumers": ("sm_90", lambda: TWO_CONSUMERS),
    "attention": ("sm_90", lambda: attention(128, 64, 64)),
    "cluster": ("sm_90", clustered),
    "pair": ("sm_100", pair),
    "counted": ("sm_80", clustered),
}


ABSENT = {
    "held_pins": "array<i64: 0>",
    "atom": "#nv_tileas.copy_atom<ldg, bits=32>",
    "agent_ids": "[7 : i64]",
    "agent_registers": "[64 : i64]",
    "agent_elected": "[1 : i64]",
    "hints": "{latency = 9 : i64}",
    "ocgEnterDirectives": "{a = 1 : i32}",
    "ocgLeaveDirectives": "{a = 1 : i32}",
    "strides": "array<i64: 1, 2>",
    "offsets": "array<i64: 0, 1>",
    "dim_map": "array<i64: 1, 0>",
    "masked": "array<i64>",
    "in_bounds": "array<i1: true>",
    "element_strides": "array<i64: 2, 1>",
    "tma_internal_type": "f16",
    "layout": "#nv_tileas.layout<offset=[[1,0],[0,1]] : 2x2>",
}
"""Values for attributes of which keywords and numbers are not the values."""


def others(op: TileOp, name: str) -> list[Attribute | None]:
    """Other values for an attribute of an op; None for its absence."""
    if found := list(compiled.others(op, name)):
        return found
    if name == "in_bounds" and (rank := len(operand_group(op, "indices"))):
        return [DenseArrayBase.from_list(i1, [1] * rank)]
    if op.property_class(name) is IntegerAttr:
        return [IntegerAttr(n, i64) for n in (1, 2)]
    made = parse("nv_tileaa.func @f() { nv_tileaa.return {x = " + ABSENT[name] + "} }")
    return [next(inner.attributes["x"] for inner in made.walk() if "x" in inner.attributes)]


@cache
def given(kernel: str) -> tuple[str, str]:
    """A target, and the text of a kernel for it in nv_tileas."""
    if kernel == "reduced":
        gpu, text = given("in loop")
        text = text.replace("async.tiled_tma_store", "async.tiled_atomic_rmw").replace("tma_store", "tma_redg")
        mode = "rmw_mode = #nv_tileaa.rmw_mode<add>"
        return gpu, re.sub(r"(async.tiled_atomic_rmw [^{]*\{)", rf"\1{mode}, ", text)
    if kernel not in TEXTS:
        name, gpu = kernel.split()
        return gpu, compiled.text_of(name, gpu)
    gpu, made = TEXTS[kernel]
    return gpu, libtile.compile(parse(made()), gpu, emit="tileas").tileas


WHERE = {
    "two consumers": "async.pipeline.consume_one async.tiled_load dot",
    "turns": "async.pipeline.create_iterator async.pipeline.inc_iter copy tiled_store",
    "counted": "async.pipeline.consumer_wait",
    "cluster": "async.pipeline.create_pipeline async.tiled_tma_load",
    "queue": "async.dot wait_dot async.pipeline.agent_switch",
    "pair": "async.pipeline.producer_commit async.pipeline.consumer_release async.dot_into",
    "gathered": "async.gather_tma_load async.scatter_tma_store",
    "in loop": "async.tiled_tma_store async.wait create_mbarrier mbarrier_arrive make_tiled_tma_desc",
    "reduced": "async.tiled_atomic_rmw",
    "replaced": "fence_proxy tensormap_replace",
    "slices": "extract_slice insert_slice",
    "shapes": "expand_dims convert_layout",
    "copied": "alloc_tensor async.load async.commit_group barrier fence",
    "in turns": "take_turn hand_on_turn",
    "prefix_sum sm_120": "reduce scan tiled_load",
    "histogram sm_90": "load atomic_rmw",
    "store sm_90": "store",
    "atomic_cas sm_90": "atomic_cas",
    "tiled_atomic_rmw sm_90": "tiled_atomic_rmw",
    "multimem_load_reduce sm_90": "multimem_load_reduce",
    "multimem_reduce sm_90": "multimem_reduce",
    "multimem_store sm_90": "multimem_store",
    "pragma sm_90": "pragma",
    "scaled_dot sm_90": "scaled_dot",
}
"""By kernel, the ops whose attributes are varied in it."""
CASES = [(kernel, f"nv_tileas.{op}") for kernel, ops in WHERE.items() for op in ops.split()]
SAME_CODE = {
    "async.pipeline.create_pipeline alignment": "the place that was chosen is a multiple of it",
    "async.gather_tma_load tx_count": "the bytes of the buffer are counted without it",
    "async.tiled_load cut": "no vector of the kernel's copies can be cut",
    "async.tiled_tma_load num_multicast": "one CTA is what copies are for without it",
    "async.gather_tma_load num_multicast": "one CTA is what copies are for without it",
    "create_mbarrier arrivals": "one is counted without it",
    "fence mem_semantic": "one instruction acquires and releases",
    "fence mem_scope": "a cluster's scope is that of the device",
    "fence_proxy mem_scope": "that of the device is meant without it",
    "tiled_store masked": "all dimensions are, as without it",
    "tiled_load masked": "all dimensions are, as without it",
    "tensormap_replace mem_scope": "is read by tileas-insert-fences: see below",
}
"""Attributes whose change is no change for an op of these kernels, with the reason."""
NO_CODE = {"nv_tileas.get_tma_desc": "is made by separate-host-tma, which the reference has; compilations go without"}
"""Ops that no kernel has when LLVM IR is made of it, with the reason."""


def is_said(op: TileOp, name: str, value: Attribute | None) -> bool:
    if name == "in_bounds" and op.name in BOUNDED:
        return True  # see below
    return f"{op.name.removeprefix('nv_tileas.')} {name}" in SAME_CODE or compiled.is_said(op, name, value)


def outcome(module: ModuleOp, gpu: str, op: TileOp) -> tuple[str, str, str] | None:
    """The code that a module becomes, its tensor maps and its remarks; None where the change is refused."""
    try:
        op.verify_()
        if has_errors(diagnose(module)):
            return None
        return compiled.outcome(module, gpu)
    except VerifyException:
        return None
    except LoweringError as refused:
        assert refused.location is not None or " op " in str(refused), f"without a place: {refused}"
        return None


def subjects(module: ModuleOp, name: str, attribute: str) -> list[TileOp]:
    """The first op that has an attribute, and the first one that has it not."""
    ops = [op for op in module.walk() if isinstance(op, TileOp) and op.name == name]
    first = (next((op for op in ops if (attribute in op.properties) is has), None) for has in (True, False))
    return [op for op in first if op is not None]


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_an_attribute_changes_what_comes_out_or_is_refused(kernel: str, name: str) -> None:
    gpu, text = given(kernel)
    module = parse(text)
    assert isinstance(module, ModuleOp)
    before, problems = compiled.outcome(module, gpu), []
    for attribute in DECLARED[name]:
        varied = [(op, value) for op in subjects(module, name, attribute) for value in others(op, attribute)]
        if not varied:
            problems.append(f"{attribute} has no other value")
        for op, value in varied:
            was = op.properties.pop(attribute, None)
            if value is not None:
                op.properties[attribute] = value
            if outcome(module, gpu, op) == before and not is_said(op, attribute, value):
                problems.append(f"{attribute} = {value} is dropped")
            op.properties.pop(attribute, None)
            if was is not None:
                op.properties[attribute] = was
    assert not problems, "\n".join(problems)


DECLARED = {
    name: [a for a in cls.get_irdl_definition().properties if a != SEGMENTS]
    for name, cls in OP_CLASSES.items()
    if name.startswith("nv_tileas.")
}
"""The attributes that each op of nv_tileas declares."""


def test_every_op_with_attributes_is_varied_in_a_kernel_or_has_none() -> None:
    assert {name for name, attributes in DECLARED.items() if attributes} == {name for _, name in CASES} | set(NO_CODE)


@pytest.mark.parametrize("name", NO_CODE)
def test_ops_that_no_kernel_has_have_no_code(name: str) -> None:
    assert OP_CLASSES[name] not in RULES


BOUNDED = {
    f"nv_tileas.{op}": kernel
    for op, kernel in (
        ("tiled_load", "prefix_sum sm_120"), ("tiled_store", "turns"), ("async.tiled_load", "counted"),
        ("tiled_atomic_rmw", "tiled_atomic_rmw sm_90"), ("multimem_load_reduce", "multimem_load_reduce sm_90"),
        ("multimem_store", "multimem_store sm_90"), ("multimem_reduce", "multimem_reduce sm_90"),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_decide_what_is_masked(name: str) -> None:
    _, text = given(BOUNDED[name])
    found = []
    for inside in (0, 1):
        module = parse(text)
        assert isinstance(module, ModuleOp)
        op = subjects(module, name, "masked")[0]
        for decided in ("masked", "atom"):
            op.properties.pop(decided, None)
        op.properties["in_bounds"] = DenseArrayBase.from_list(i1, [inside] * len(op.group("indices")))
        SelectCopiesPass().apply(Context(), module)
        found.append(integers_of(subjects(module, name, "masked")[0].properties["masked"]))
    assert found[0] and not found[1]


def test_the_widest_scope_of_a_descriptor_s_changes_counts() -> None:
    codes = []
    for scope in ("tl_blk", "cluster", "gpu", "sys"):
        said = f", mem_scope = #nv_tileaa.mem_scope<{scope}>}} : !d"
        text = re.sub(r"(tensormap_replace [^}]*)\} : !d", lambda m: m[1] + said, REPLACED)  # noqa: B023
        codes.append(libtile.compile(parse(text), "sm_90", emit="ptx").ptx)
    assert len(set(codes)) == 4


@pytest.mark.parametrize(("inside", "refused"), [("f32", False), ("tf32", False), ("i32", True), ("i16", True)])
def test_tensor_maps_have_the_tensor_s_elements_or_tf32(inside: str, refused: bool) -> None:
    module = parse(re.sub(r"(make_tiled_tma_desc [^{]*\{)", rf"\1tma_internal_type = {inside}, ", given("in loop")[1]))
    found = [left_out(op) for op in module.walk() if isinstance(op, TileOp) and "make_tiled" in op.name]
    assert found and all((text is not None) == refused for text in found)
