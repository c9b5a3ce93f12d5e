# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileaa: every diagnostic has an op that gives it and a twin that does not; every op reads as it is printed."""

from __future__ import annotations

import pytest

from dialects.inner import MEMREF, VIEW, messages, module, round_trip
from libtile.dialects.nv_tileaa import OP_CLASSES

SGN = "signedness_a = #nv_tileaa.signedness<signed>"
BOTH = f"{SGN}, signedness_b = #nv_tileaa.signedness<signed>"
F16_DOT = "%d = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>"
FP4 = "tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>"
RELAXED = "mem_semantic = #nv_tileaa.mem_semantic<relaxed>"
GPU = "mem_scope = #nv_tileaa.mem_scope<gpu>"
LOAD = "%v = nv_tileaa.load %pp {{{}}} : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>"
STORE = "nv_tileaa.store %pp, %v4 {{{}}} : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32>"
BLOCK = "%v = nv_tileaa.block_tile %mr {{{}}} : " + f"{MEMREF} -> {VIEW}"
SIZES, GROUPS = "tileSizes = array<i64: 4, 8>", "dimGroups = [array<i64: 0>, array<i64: 1>]"
PARAMS = "conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>"
UNEVEN = PARAMS.replace("stride=[1]", "stride=[1,1]")
CONV = "%v = nv_tileaa.conv_tile %mr {{tileSizes = array<i64: 4, 8>, {}}} : " + f"{MEMREF} -> {VIEW}"
FILTER, CHANNEL = "filterSizes = array<i64: 3>", "channelAxis = 1"
ASSUME = "%a = nv_tileaa.assume {} {{predicates = [#nv_tileaa.{}]}} : {} -> {}"
REDUCE = """%r = nv_tileaa.reduce %v4 {{dim = {dim}, identities = [0.0 : f32]}} ({{
^bb0(%x: tensor<f32>, %y: tensor<f32>):
  {end} %x : tile<f32>
}}) : tile<4xf32> -> tile<f32>"""


def assume(value: str, predicate: str, type_: str) -> str:
    return ASSUME.format(value, predicate, type_, type_)


def conv(*attributes: str) -> str:
    return CONV.format(", ".join(attributes))


CASES: dict[str, tuple[str, str]] = {
    # reference name of the diagnostic: an op that gives it, and one that does not
    "expected the element types of A, B, C, and D to be either all integers or all floats.": (
        "%d = nv_tileaa.dot %h48, %b84, %v44 : tile<4x8xf16>, tile<8x4xi8>, tile<4x4xf32> -> tile<4x4xf32>",
        F16_DOT,
    ),
    "expects #A and #B have same bit width but got 8 vs 4": (
        f"%d = nv_tileaa.dot %b48, %i484, %x44 {{{BOTH}}} : tile<4x8xi8>, tile<8x4xi4>, tile<4x4xi32> -> tile<4x4xi32>",
        f"%d = nv_tileaa.dot %b48, %b84, %x44 {{{BOTH}}} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>",
    ),
    "expect signedness attribute for operand A": (
        "%d = nv_tileaa.dot %b48, %b84, %x44 : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>",
        f"%d = nv_tileaa.dot %b48, %b84, %x44 {{{BOTH}}} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>",
    ),
    "expect signedness attribute for operand B": (
        f"%d = nv_tileaa.dot %b48, %b84, %x44 {{{SGN}}} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>",
        f"%d = nv_tileaa.dot %b48, %b84, %x44 {{{BOTH}}} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>",
    ),
    "expects #C element type to be f32, but got bf16": (
        "%d = nv_tileaa.dot %h48, %h84, %b44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xbf16> -> tile<4x4xbf16>",
        F16_DOT,
    ),
    "expects #C element type to be either f32 or f16, but got bf16": (
        f"%d = nv_tileaa.dot %fp4a, %fp4b, %b44 : {FP4}, tile<4x4xbf16> -> tile<4x4xbf16>",
        f"%d = nv_tileaa.dot %fp4a, %fp4b, %h44 : {FP4}, tile<4x4xf16> -> tile<4x4xf16>",
    ),
    "expects rank-2 or rank-3 tensor for result, but got (1)": (
        "%d = nv_tileaa.dot %v4, %v4, %v4 : tile<4xf32>, tile<4xf32>, tile<4xf32> -> tile<4xf32>",
        F16_DOT,
    ),
    "expects the shape of operand #A and #B to be compatible": (
        "%d = nv_tileaa.dot %h48, %h48, %v44 : tile<4x8xf16>, tile<4x8xf16>, tile<4x4xf32> -> tile<4x4xf32>",
        F16_DOT,
    ),
    "expects the shape of operand #C is compatible with operands #A and #B": (
        "%d = nv_tileaa.dot %h48, %h84, %v48 : tile<4x8xf16>, tile<8x4xf16>, tile<4x8xf32> -> tile<4x8xf32>",
        F16_DOT,
    ),
    "expects both SFA and SFB to be present": (
        f"%d = nv_tileaa.dot %fp4a, %fp4b, %v44, %sa : {FP4}, tile<4x4xf32>, tile<4x1xf8E8M0FNU> -> tile<4x4xf32>",
        f"%d = nv_tileaa.dot %fp4a, %fp4b, %v44, %sa, %sb : {FP4}, tile<4x4xf32>, tile<4x1xf8E8M0FNU>, "
        "tile<1x4xf8E8M0FNU> -> tile<4x4xf32>",
    ),
    "expects non-empty tileSizes": (BLOCK.format(GROUPS), BLOCK.format(f"{SIZES}, {GROUPS}")),
    "expects non-empty dimGroups": (BLOCK.format(SIZES), BLOCK.format(f"{SIZES}, {GROUPS}")),
    "expects dim is being tiled only one time, but got 0": (
        BLOCK.format(f"{SIZES}, dimGroups = [array<i64: 0>, array<i64: 0>]"),
        BLOCK.format(f"{SIZES}, {GROUPS}"),
    ),
    "expects rank of tileSizes be equal to rank of dimGroups, but got 2 vs 1": (
        BLOCK.format(f"{SIZES}, dimGroups = [array<i64: 0>]"),
        BLOCK.format(f"{SIZES}, {GROUPS}"),
    ),
    "expects all tile size bigger than zero": (
        BLOCK.format(f"tileSizes = array<i64: 4, 0>, {GROUPS}"),
        BLOCK.format(f"{SIZES}, {GROUPS}"),
    ),
    "expects filter size must be in range 1 to 3": (
        conv(GROUPS, "filterSizes = array<i64: 4>", PARAMS, CHANNEL),
        conv(GROUPS, FILTER, PARAMS, CHANNEL),
    ),
    "expects conv params size matched with each other": (
        conv(GROUPS, FILTER, UNEVEN, CHANNEL),
        conv(GROUPS, FILTER, PARAMS, CHANNEL),
    ),
    "expects channel must be a dimGroup": (
        conv(GROUPS, FILTER, PARAMS, "channelAxis = 2"),
        conv(GROUPS, FILTER, PARAMS, CHANNEL),
    ),
    "expects channel dimGroup should contain only channel": (
        conv("dimGroups = [array<i64: 0, 2>, array<i64: 1>]", FILTER, PARAMS, "channelAxis = 2"),
        conv(GROUPS, FILTER, PARAMS, CHANNEL),
    ),
    "expects regions to end with 'nv_tileaa.yield'": (
        REDUCE.format(dim=0, end="nv_tileaa.queue.yield"),
        REDUCE.format(dim=0, end="nv_tileaa.yield"),
    ),
    "div_by requires an integer-, pointer-, or memref-like value": (
        assume("%f", "div_by<4>", "tile<f32>"),
        assume("%s32", "div_by<4>", "tile<i32>"),
    ),
    "div_by divisor must be a positive power of two": (
        assume("%s32", "div_by<12>", "tile<i32>"),
        assume("%p", "div_by<16>", "!nv_tileaa.ptr<f32, 1>"),
    ),
    "div_by every and along must appear together": (
        assume("%x4", "div_by<4, every 4>", "tile<4xi32>"),
        assume("%x4", "div_by<4, every 4 along 0>", "tile<4xi32>"),
    ),
    "div_by every must be positive": (
        assume("%x4", "div_by<4, every 0 along 0>", "tile<4xi32>"),
        assume("%x4", "div_by<4, every 1 along 0>", "tile<4xi32>"),
    ),
    "div_by along must reference a valid axis": (
        assume("%x4", "div_by<4, every 4 along 1>", "tile<4xi32>"),
        assume("%mr", "div_by<16>", MEMREF),
    ),
    "bounded requires an integer-like element type": (
        assume("%f", "bounded<0, 1>", "tile<f32>"),
        assume("%i", "bounded<0, 1>", "index"),
    ),
    "bounded lower exceeds the element's representable range": (
        assume("%s32", "bounded<-2147483649, ?>", "tile<i32>"),
        assume("%s32", "bounded<-2147483648, ?>", "tile<i32>"),
    ),
    "bounded upper exceeds the element's representable range": (
        assume("%s32", "bounded<?, 2147483648>", "tile<i32>"),
        assume("%s32", "bounded<?, 2147483647>", "tile<i32>"),
    ),
    "bounded lower must not exceed upper": (
        assume("%s32", "bounded<2, 1>", "tile<i32>"),
        assume("%s32", "bounded<1, 1>", "tile<i32>"),
    ),
    "same_elements length must match the constrained value's rank": (
        assume("%x4", "same_elements<[1, 1]>", "tile<4xi32>"),
        assume("%x4", "same_elements<[2]>", "tile<4xi32>"),
    ),
    "same_elements axis bound is out of range": (
        assume("%x4", "same_elements<[8]>", "tile<4xi32>"),
        assume("%x4", "same_elements<[4]>", "tile<4xi32>"),
    ),
    "fp_to_fp source element type is not supported": (
        "%r = nv_tileaa.fp_to_fp %x4 : tile<4xi32> -> tile<4xf32>",
        "%r = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xf32>",
    ),
    "fp_to_fp result element type is not supported": (
        "%r = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xi32>",
        "%r = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xf8E4M3FN>",
    ),
    "non-weak memory ordering requires explicit scope": (LOAD.format(RELAXED), LOAD.format(f"{RELAXED}, {GPU}")),
    "weak memory ordering must not carry a scope": (
        LOAD.format(GPU),
        LOAD.format("mem_semantic = #nv_tileaa.mem_semantic<weak>"),
    ),
    "unsupported mem_semantic: acquire": (
        STORE.format(f"mem_semantic = #nv_tileaa.mem_semantic<acquire>, {GPU}"),
        STORE.format(f"mem_semantic = #nv_tileaa.mem_semantic<release>, {GPU}"),
    ),
    "unsupported mem_semantic: acq_rel": (
        STORE.format(f"mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, {GPU}"),
        STORE.format(f"{RELAXED}, {GPU}"),
    ),
    "unsupported mem_semantic: release": (
        LOAD.format(f"mem_semantic = #nv_tileaa.mem_semantic<release>, {GPU}"),
        LOAD.format(f"mem_semantic = #nv_tileaa.mem_semantic<acquire>, {GPU}"),
    ),
    "incorrect number of in_bounds elements: expected 2, but found 1": (
        f"%v = nv_tileaa.tiled_load %tv[%i, %j] {{in_bounds = array<i1: true>}} : {VIEW}, index, index "
        "-> tile<4x8xf32>",
        f"%v = nv_tileaa.tiled_load %tv[%i, %j] {{in_bounds = array<i1: true, false>}} : {VIEW}, index, index "
        "-> tile<4x8xf32>",
    ),
    "operand group starting at #2 requires 0 or 1 element, but found 2": (
        "%v = nv_tileaa.load %pp, %m4, %m4, %v4 {operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>} : "
        "tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1>, tile<4xi1>, tile<4xf32> -> tile<4xf32>",
        "%v = nv_tileaa.load %pp, %m4, %v4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>",
    ),
    "result group starting at #1 requires 0 or 1 element, but found 2": (
        "%v, %a, %b = nv_tileaa.load %pp : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>, !nv_tileaa.mem_token, "
        "!nv_tileaa.mem_token",
        "%v, %a = nv_tileaa.load %pp : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>, !nv_tileaa.mem_token",
    ),
    "requires attribute 'rmw_mode'": (
        "%v = nv_tileaa.atomic_rmw %pp, %v4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> tile<4xf32>",
        "%v = nv_tileaa.atomic_rmw %pp, %v4 {rmw_mode = #nv_tileaa.rmw_mode<add>} : tile<4x!nv_tileaa.ptr<f32, 1>>, "
        "tile<4xf32> -> tile<4xf32>",
    ),
}


@pytest.mark.parametrize("message", CASES)
def test_a_diagnostic_is_given_where_it_belongs_only(message: str) -> None:
    bad, good = CASES[message]
    (found,) = messages(module(bad))
    assert found.startswith("'nv_tileaa.") and found.endswith(f"' op {message}")
    text = module(good)
    assert messages(text) == []
    round_trip(text)


OUTSIDE: dict[str, tuple[str, str]] = {
    "'nv_tileaa.yield' op expects parent op 'nv_tileaa.func'": (
        "module { nv_tileaa.yield }",
        module("nv_tileaa.pragma {directives = {}} ({ nv_tileaa.yield })"),
    ),
    "'nv_tileaa.queue.yield' op expects parent op 'nv_tileaa.func'": (
        "module { nv_tileaa.queue.yield }",
        module(
            "nv_tileaa.queue.put %q ({ nv_tileaa.queue.yield %v4 : tile<4xf32> }) : !nv_tileaa.queue<(tile<4xf32>)>"
        ),
    ),
    "'nv_tileaa.return' op expects parent op 'nv_tileaa.func'": (
        "module { nv_tileaa.return }",
        module(""),
    ),
    "'nv_tileaa.execute' op expects parent op 'nv_tileaa.func'": (
        "module { nv_tileaa.execute }",
        module("nv_tileaa.execute ({ nv_tileaa.yield }, { nv_tileaa.yield })"),
    ),
    "'nv_tileaa.func' op expects no cuda_tile operations, but got 'cuda_tile.make_token'": (
        module("%x = cuda_tile.make_token : token"),
        module("%x = nv_tileaa.create_mem_token : !nv_tileaa.mem_token"),
    ),
    "'nv_tileaa.call' op 'g' does not reference a valid nv_tileaa.func": (
        module("nv_tileaa.call {callee = @g}"),
        module("nv_tileaa.call {callee = @g}", outside="nv_tileaa.func @g() { nv_tileaa.return }"),
    ),
    "'nv_tileaa.get_global' op 'g' does not reference a valid nv_tileaa.global": (
        module("%x = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f32, 1>"),
        module(
            "%x = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f32, 1>",
            outside='nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<4xf32>}',
        ),
    ),
    "'nv_tileaa.load' op requires zero regions": (
        module('%x = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> ({}) : '
               "(!nv_tileaa.ptr<f32, 1>) -> f32"),
        module('%x = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> : '
               "(!nv_tileaa.ptr<f32, 1>) -> f32"),
    ),
    "'nv_tileaa.load' op requires 0 successors but found 1": (
        module('%x = "nv_tileaa.load"(%p)[^end] <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> : '
               "(!nv_tileaa.ptr<f32, 1>) -> f32\n^end:"),
        module("%x = nv_tileaa.load %p : !nv_tileaa.ptr<f32, 1> -> f32"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", OUTSIDE)
def test_structure_around_an_op(message: str) -> None:
    bad, good = OUTSIDE[message]
    assert message in messages(bad)
    assert messages(good) == []
    round_trip(good)


FP8_SCALES = CASES["expects both SFA and SFB to be present"][1]
TO_FP4 = "%r = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xf4E2M1FN>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (TO_FP4, "fp_to_fp block-scaled format requires a target that supports block-scaled MMA"),
        (FP8_SCALES, "block-scaled MMA requires a target that supports block-scaled MMA, but got sm_90"),
    ],
)
def test_block_scaled_formats_need_a_target_that_has_them(body: str, message: str) -> None:
    old = "attributes {compute_capability = #nv_tileaa.compute_capability<sm_90>}"
    (found,) = messages(module(body, old))
    assert found.endswith(f"' op {message}")
    assert messages(module(body, old.replace("sm_90", "sm_100"))) == []


def test_only_the_first_failing_predicate_is_reported() -> None:
    body = (
        "%a = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<2, 1>, #nv_tileaa.div_by<3>]} : "
        "tile<i32> -> tile<i32>"
    )
    assert messages(module(body)) == ["'nv_tileaa.assume' op bounded lower must not exceed upper"]


@pytest.mark.parametrize(
    "legacy",
    [
        'attributes {"compute-capability" = #nv_tileaa.compute_capability<sm_90>}',
        "attributes {compute_capability = #nv_tileaa.compute-capability<sm_90>}",
    ],
)
def test_the_legacy_spelling_of_the_capability_prints_as_the_canonical_one(legacy: str) -> None:
    printed = round_trip(module("", legacy))
    assert "compute_capability = #nv_tileaa.compute_capability<sm_90>" in printed
    assert "compute-capability" not in printed


def test_an_unknown_keyword_of_an_enum_is_refused_where_it_stands() -> None:
    (found,) = messages(module(LOAD.format("mem_semantic = #nv_tileaa.mem_semantic<strong>")))
    assert "expected nv_tileaa.mem_semantic to be one of: weak, relaxed, acquire, release, acq_rel" in found


def test_segments_are_written_where_the_types_do_not_tell_them() -> None:
    """A value for masked elements without a mask looks like a mask."""
    given = (
        "%v = nv_tileaa.load %pp, %v4 {operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>} : "
        "tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> tile<4xf32>"
    )
    assert "operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>" in round_trip(module(given))
    masked = "%v = nv_tileaa.load %pp, %m4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1> -> tile<4xf32>"
    assert "operandSegmentSizes" not in round_trip(module(masked))


def test_the_whole_roster_is_there() -> None:
    roster = [
        "addf",
        "subf",
        "mulf",
        "divf",
        "fma",
        "sqrt",
        "rsqrt",
        "exp2",
        "clampf",
        "mulhiui",
        "dot",
        "conv_dot",
        "reduce",
        "scan",
        "histogram",
        "splat",
        "broadcast",
        "expand_dims",
        "extract",
        "extract_slice",
        "view",
        "cat",
        "permute",
        "make_range",
        "generate",
        "block_tile",
        "conv_tile",
        "get_dim_size",
        "addptr",
        "int_to_ptr",
        "ptr_to_int",
        "make_memref",
        "bitcast",
        "fp_to_fp",
        "extern_elementwise",
        "elementwise_inline_asm",
        "call_elementwise_intrinsic",
        "get_global",
        "load",
        "store",
        "tiled_load",
        "tiled_store",
        "gather_load",
        "scatter_store",
        "atomic_cas",
        "atomic_rmw",
        "tiled_atomic_rmw",
        "create_mem_token",
        "join_mem_token",
        "mark_for_reuse",
        "assert",
        "assume",
        "optimization_barrier",
        "pragma",
        "message",
        "print",
        "func",
        "call",
        "return",
        "yield",
        "global",
        "launch_func",
        "execute",
        "plugin",
        "inject_ir",
        "get_program_id",
        "get_num_programs",
        "is_valid_program_id",
        "cancel_next_program_id",
        "create_queue",
        "queue.get",
        "queue.put",
        "queue.yield",
    ]
    assert [name for name in roster if f"nv_tileaa.{name}" not in OP_CLASSES] == []


@pytest.mark.parametrize("opening", ["tile<", "!nv_tileaa.ptr<", "!nv_tileaa.queue<(", "tile<4x!nv_tileaa.ptr<"])
def test_types_nested_too_deep_are_refused(opening: str) -> None:
    text = f"module {{ nv_tileaa.func @f(%a: {opening * 20000}f32) {{ nv_tileaa.return }} }}"
    assert "nesting" in messages(text)[0]
