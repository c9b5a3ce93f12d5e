# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Canonical forms of nv_tileaa: each pattern on what it is for, and on what it must leave alone."""

from __future__ import annotations

import pytest

from dialects.inner import messages, module
from libtile.asm import parse, print_op
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

PTR, PTRS = "!nv_tileaa.ptr<f32, 1>", "tile<4x!nv_tileaa.ptr<f32, 1>>"
TOKEN = "!nv_tileaa.mem_token"
USE = "nv_tileaa.mark_for_reuse {} : {}"
TRUE = "%true = arith.constant true\n%m = nv_tileaa.splat %true : i1 -> tile<4xi1>"
FALSE = TRUE.replace("true", "false")
MASK = "%m = nv_tileaa.constant {{value = dense<{}> : !cuda_tile.tile<4xi1>}} : tile<4xi1>"


def canonical(body: str) -> list[str]:
    """The ops left in the function, without their results' names."""
    op = parse(module(body))
    PassManager(parse_pipeline("canonicalize-tileaa")).run(op)
    text = print_op(op)
    assert messages(text) == []
    lines = [line.strip() for line in text.splitlines()[2:-2]]
    return [line.split(" = ", 1)[1] if line.startswith("%") else line for line in lines][:-1]


def names(body: str) -> list[str]:
    return [line.split(" ")[0].split(".", 1)[1] for line in canonical(body)]


def use(value: str, type_: str) -> str:
    return USE.format(value, type_)


def op(name: str, source: str, before: str, after: str, attributes: str = "") -> str:
    return f"nv_tileaa.{name} {source}{attributes} : {before} -> {after}"


SPLAT = f"%s = {op('splat', '%f', 'tile<f32>', 'tile<4xf32>')}"

CASES: dict[str, tuple[str, list[str]]] = {
    "a chain of additions to a pointer is one": (
        f"%a = nv_tileaa.addptr %p, %i : {PTR}, index -> {PTR}\n%b = nv_tileaa.addptr %a, %j : {PTR}, index -> {PTR}\n"
        + use("%b", PTR),
        ["addi", "addptr", "mark_for_reuse"],
    ),
    "offsets of two types are not added": (
        f"%a = nv_tileaa.addptr %p, %i : {PTR}, index -> {PTR}\n%b = nv_tileaa.addptr %a, %s32 : {PTR}, tile<i32> -> "
        f"{PTR}\n" + use("%b", PTR),
        ["addptr", "addptr", "mark_for_reuse"],
    ),
    "an offset of zero goes": (
        f"%z = arith.constant 0 : index\n%a = nv_tileaa.addptr %p, %z : {PTR}, index -> {PTR}\n" + use("%a", PTR),
        ["mark_for_reuse"],
    ),
    "a view that changes nothing goes": (
        f"%a = {op('view', '%v4', 'tile<4xf32>', 'tile<4xf32>')}\n" + use("%a", "tile<4xf32>"),
        ["mark_for_reuse"],
    ),
    "a view of a view is one": (
        f"%a = {op('view', '%v48', 'tile<4x8xf32>', 'tile<32xf32>')}\n"
        f"%b = {op('view', '%a', 'tile<32xf32>', 'tile<8x4xf32>')}\n" + use("%b", "tile<8x4xf32>"),
        ["view", "mark_for_reuse"],
    ),
    "a view of a splat is a splat": (
        f"{SPLAT}\n%a = {op('view', '%s', 'tile<4xf32>', 'tile<2x2xf32>')}\n" + use("%a", "tile<2x2xf32>"),
        ["splat", "mark_for_reuse"],
    ),
    "a broadcast of a splat is a splat": (
        f"%s = {op('splat', '%f', 'tile<f32>', 'tile<1x4xf32>')}\n"
        f"%a = {op('broadcast', '%s', 'tile<1x4xf32>', 'tile<8x4xf32>')}\n" + use("%a", "tile<8x4xf32>"),
        ["splat", "mark_for_reuse"],
    ),
    "new axes of a splat are a splat": (
        f"{SPLAT}\n%a = {op('expand_dims', '%s', 'tile<4xf32>', 'tile<1x4xf32>', ' {axes = array<i64: 0>}')}\n"
        + use("%a", "tile<1x4xf32>"),
        ["splat", "mark_for_reuse"],
    ),
    "two permutations are one": (
        f"%a = {op('permute', '%cube', 'tile<2x4x8xf32>', 'tile<4x8x2xf32>', ' {permutation = array<i64: 1, 2, 0>}')}\n"
        f"%b = {op('permute', '%a', 'tile<4x8x2xf32>', 'tile<8x2x4xf32>', ' {permutation = array<i64: 1, 2, 0>}')}\n"
        + use("%b", "tile<8x2x4xf32>"),
        ["permute", "mark_for_reuse"],
    ),
    "a permutation and its inverse are nothing": (
        f"%a = {op('permute', '%v48', 'tile<4x8xf32>', 'tile<8x4xf32>', ' {permutation = array<i64: 1, 0>}')}\n"
        f"%b = {op('permute', '%a', 'tile<8x4xf32>', 'tile<4x8xf32>', ' {permutation = array<i64: 1, 0>}')}\n"
        + use("%b", "tile<4x8xf32>"),
        ["mark_for_reuse"],
    ),
    "a part of a splat is a splat": (
        f"{SPLAT}\n%a = nv_tileaa.extract %s[%i] : tile<4xf32>, index -> tile<2xf32>\n" + use("%a", "tile<2xf32>"),
        ["splat", "mark_for_reuse"],
    ),
    "a splat behind itself is a splat": (
        f"{SPLAT}\n%a = nv_tileaa.cat %s, %s {{dim = 0}} : tile<4xf32>, tile<4xf32> -> tile<8xf32>\n"
        + use("%a", "tile<8xf32>"),
        ["splat", "mark_for_reuse"],
    ),
    "an address as an integer as an address is the address": (
        f"%a = {op('ptr_to_int', '%p', PTR, 'tile<i64>')}\n%b = {op('int_to_ptr', '%a', 'tile<i64>', PTR)}\n"
        + use("%b", PTR),
        ["mark_for_reuse"],
    ),
    "bits cast there and back are the bits": (
        f"%a = {op('bitcast', '%v4', 'tile<4xf32>', 'tile<4xi32>')}\n"
        f"%b = {op('bitcast', '%a', 'tile<4xi32>', 'tile<4xf32>')}\n" + use("%b", "tile<4xf32>"),
        ["mark_for_reuse"],
    ),
    "a mask that is true goes, and the fallback with it": (
        f"{TRUE}\n%v = nv_tileaa.load %pp, %m, %v4 : {PTRS}, tile<4xi1>, tile<4xf32> -> tile<4xf32>\n"
        + use("%v", "tile<4xf32>"),
        ["load", "mark_for_reuse"],
    ),
    "a load whose mask is false is its fallback, and hands its token on": (
        f"{FALSE}\n%v, %o = nv_tileaa.load %pp, %m, %v4, %t : {PTRS}, tile<4xi1>, tile<4xf32>, {TOKEN} -> tile<4xf32>, "
        f"{TOKEN}\nnv_tileaa.mark_for_reuse %v, %o : tile<4xf32>, {TOKEN}",
        ["mark_for_reuse"],
    ),
    "a load whose mask is false keeps its order when it has one": (
        f"{FALSE}\n%v, %o = nv_tileaa.load %pp, %m, %v4 {{mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = "
        f"#nv_tileaa.mem_scope<gpu>}} : {PTRS}, tile<4xi1>, tile<4xf32> -> tile<4xf32>, {TOKEN}\n"
        + use("%v", "tile<4xf32>"),
        ["constant", "splat", "load", "mark_for_reuse"],
    ),
    "a store whose mask is false goes": (
        f"{MASK.format('false')}\n%o = nv_tileaa.store %pp, %v4, %m : {PTRS}, tile<4xf32>, tile<4xi1> -> {TOKEN}\n"
        + use("%o", TOKEN),
        ["create_mem_token", "mark_for_reuse"],
    ),
    "a mask that is true in places stays": (
        f"{MASK.format('[true, true, false, true]')}\nnv_tileaa.store %pp, %v4, %m : {PTRS}, tile<4xf32>, tile<4xi1>",
        ["constant", "store"],
    ),
    "joins of joins are one, and repeated tokens are left out": (
        f"%a = nv_tileaa.join_mem_token %t, %t2 : {TOKEN}, {TOKEN} -> {TOKEN}\n"
        f"%b = nv_tileaa.join_mem_token %a, %t : {TOKEN}, {TOKEN} -> {TOKEN}\n" + use("%b", TOKEN),
        ["join_mem_token", "mark_for_reuse"],
    ),
    "a join with a token that orders nothing is the other token": (
        f"%n = nv_tileaa.create_mem_token : {TOKEN}\n"
        f"%a = nv_tileaa.join_mem_token %n, %t : {TOKEN}, {TOKEN} -> {TOKEN}\n" + use("%a", TOKEN),
        ["mark_for_reuse"],
    ),
    "a join of nothing orders nothing": (
        f"%a = nv_tileaa.join_mem_token : {TOKEN}\n" + use("%a", TOKEN),
        ["create_mem_token", "mark_for_reuse"],
    ),
    "facts stated twice are stated once": (
        "%a = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.div_by<4>]} : tile<i32> -> tile<i32>\n"
        "%b = nv_tileaa.assume %a {predicates = [#nv_tileaa.div_by<4>]} : tile<i32> -> tile<i32>\n"
        + use("%b", "tile<i32>"),
        ["assume", "mark_for_reuse"],
    ),
    "other facts stay": (
        "%a = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.div_by<4>]} : tile<i32> -> tile<i32>\n"
        "%b = nv_tileaa.assume %a {predicates = [#nv_tileaa.div_by<8>]} : tile<i32> -> tile<i32>\n"
        + use("%b", "tile<i32>"),
        ["assume", "assume", "mark_for_reuse"],
    ),
    "what nothing uses goes, effects stay": (
        f"%a = {op('view', '%v48', 'tile<4x8xf32>', 'tile<32xf32>')}\nnv_tileaa.store %pp, %v4 : {PTRS}, tile<4xf32>",
        ["store"],
    ),
}


@pytest.mark.parametrize("behaviour", CASES)
def test_canonical_form(behaviour: str) -> None:
    body, expected = CASES[behaviour]
    assert names(body) == expected


def test_two_permutations_compose_in_their_order() -> None:
    (line, _) = canonical(CASES["two permutations are one"][0])
    assert "permutation = array<i64: 2, 0, 1>" in line and line.endswith("-> tile<8x2x4xf32>")


def test_layouts_stay_in_the_types() -> None:
    layout = "#nv_tileas.layout<register=[[1]], lane=[[2]] : 4>"
    view = op("view", "%s", "tile<4xf32>", f"tile<4xf32, {layout}>")
    body = f"{SPLAT}\n%a = {view}\n"
    lines = canonical(body + use("%a", f"tile<4xf32, {layout}>"))
    assert lines[0] == f"nv_tileaa.splat %arg0 : tile<f32> -> tile<4xf32, {layout}>"
