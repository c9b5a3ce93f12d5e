# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No attribute of an op of nv_tileaa is dropped without a word on the way to LLVM IR.

Each sample (test/dialects/inner_samples.py) is compiled in a kernel of scalar parameters, and again with each of its
op's attributes changed: the code changes, or the change is refused where the op stands, or the attribute is one of
those that code need not be made of, with the reason in the legality table or below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from test_attributes_of_functions import VARIED
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i1, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

import libtile
from dialects.inner import GATHER, MEMREF, VIEW
from dialects.inner import module as text_of
from dialects.inner_samples import BODIES, TARGET, head
from libtile.asm import parse
from libtile.asm.module import diagnose
from libtile.dialects.nv_tileaa.attributes import KeywordAttr, MemScopeAttr, MemSemanticAttr
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import OP_CLASSES, TileOp
from libtile.lowering.tileas.memory.barriers import InsertBarriersPass
from libtile.lowering.tileas.pipelines.materialize import MaterializeSchedulePass
from libtile.lowering.to_llvm.conversion import convert_module as to_llvm
from libtile.lowering.to_llvm.emitter import RULES
from libtile.lowering.to_llvm.legality import HONOURED, INFORMATION, STRUCTURE, left_out
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline, passes_in
from libtile.support.diagnostics import LoweringError, has_errors
from libtile.targets import target

P = "tile<!nv_tileaa.ptr<f32, 1>>"
POINTERS = "tile<4x!nv_tileaa.ptr<f32, 1>>"
SCALARS = {
    "f": "f32", "s32": "i32", "s64": "i64", "c": "i1", "h": "f16", "e": "f8E4M3FN", "e8": "f8E8M0FNU", "w8": "i8",
}  # fmt: skip
PARAMETERS = ", ".join([f"%base: {P}", *(f"%{name}: tile<{element}>" for name, element in SCALARS.items())])
PRELUDE = {
    "i": "%i_ = tensor.extract %s32[] : tensor<i32>\n%i = arith.index_cast %i_ : i32 to index",
    "j": "%j_ = tensor.extract %s64[] : tensor<i64>\n%j = arith.index_cast %j_ : i64 to index",
    "p": "%p = tensor.extract %base[] : tensor<!nv_tileaa.ptr<f32, 1>>",
    "mr": f"%mr = nv_tileaa.make_memref %base, %i, %j, %j, %j : {P}, index, index, index, index -> {MEMREF}",
    "tv": f"%tv = nv_tileaa.block_tile %mr {{tileSizes = array<i64: 4, 8>, "
    f"dimGroups = [array<i64: 0>, array<i64: 1>]}} : {MEMREF} -> {VIEW}",
    "gv": f"%gv = nv_tileaa.block_tile %mr {{tileSizes = array<i64: 4, 8>, "
    f"dimGroups = [array<i64: 0>, array<i64: 1>]}} : {MEMREF} -> {GATHER}",
    "x4": "%x4 = nv_tileaa.splat %s32 : tile<i32> -> tile<4xi32>",
    "pp": "%lanes = nv_tileaa.make_range {start = 0 : i64} : tile<4xi32>\n"
    f"%bases = nv_tileaa.splat %base : {P} -> {POINTERS}\n"
    f"%pp = nv_tileaa.addptr %bases, %lanes : {POINTERS}, tile<4xi32> -> {POINTERS}",
    **{
        name: f"%{name} = nv_tileaa.splat %{source} : tile<{element}> -> tile<{shape}x{element}>"
        for name, source, shape, element in (
            ("v4", "f", "4", "f32"), ("m4", "c", "4", "i1"), ("l4", "s64", "4", "i64"), ("one", "f", "1x8", "f32"),
            ("v48", "f", "4x8", "f32"), ("v84", "f", "8x4", "f32"), ("v44", "f", "4x4", "f32"),
            ("h48", "h", "4x8", "f16"), ("h84", "h", "8x4", "f16"), ("qa", "e", "4x64", "f8E4M3FN"),
            ("qb", "e", "64x4", "f8E4M3FN"), ("qs", "e8", "4x2", "f8E8M0FNU"), ("qt", "e8", "2x4", "f8E8M0FNU"),
            ("b48", "w8", "4x8", "i8"), ("b84", "w8", "8x4", "i8"), ("x44", "s32", "4x4", "i32"),
        )
    },
    "t": "%t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token",
    "t2": "%t2 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token",
}  # fmt: skip
"""How a sample's values are made of parameters of a kernel."""
NEEDS = {"tv": ("mr",), "gv": ("mr",), "mr": ("i", "j")}
ORDER = list(PRELUDE)


@cache
def compiled_names() -> tuple[str, ...]:
    """The ops of nv_tileaa whose samples are made of values that a kernel can have, and can be compiled."""
    found = []
    for name in BODIES:
        if name.startswith("nv_tileaa.") and (given := kernel(name)) is not None:
            outcome = outcome_of(parse(given))
            if not isinstance(outcome, LoweringError):
                found.append(name)
    return tuple(found)


def kernel(name: str, body: str = "") -> str | None:
    """A kernel around a sample, or another body with the op; None when it takes a value that no kernel has."""
    body = body or BODIES[name]
    values = re.sub('"[^"]*"', "", body)
    made = set(re.findall(r"(?:^|[\s,(])%(\w+)(?= =|:)", values))
    wanted = set(re.findall(r"%(\w+)", values)) - made - set(SCALARS)
    if not wanted <= set(PRELUDE) or "@" in body:
        return None
    for value in list(wanted):
        for need in NEEDS.get(value, ()):
            wanted |= {need, *NEEDS.get(need, ())}
    prelude = "\n".join(PRELUDE[value] for value in ORDER if value in wanted)
    return f"module {{\nnv_tileaa.func @k({PARAMETERS}) {head(name)} {{\n{prelude}\n{body}\nnv_tileaa.return\n}}\n}}\n"


BEHIND = [item for item in passes_in(parse_pipeline("O3")) if item.name.startswith("tileas-")]
"""What a compilation runs behind the conversion to nv_tileas."""
FIRST = parse_pipeline("expand-tileaa-ops")
"""What it runs in front."""


def outcome_of(module: Operation) -> str | LoweringError:
    """The LLVM IR of a module, or why there is none."""
    assert isinstance(module, ModuleOp)
    try:
        PassManager(FIRST, verify_each=False).run(module)
        to_tileas(module)
        PassManager(BEHIND, verify_each=False).run(module)
        return to_llvm(module, target("sm_90")).text()
    except LoweringError as error:
        return error


def subject(module: Operation, name: str) -> TileOp:
    """The op that a sample is of: the last one of its kind."""
    return [op for op in module.walk() if isinstance(op, TileOp) and op.name == name][-1]


def others(op: TileOp, name: str) -> list[Attribute | None]:
    """Other values for an attribute, None for its absence; none where only the op's own rules could tell one."""
    given, cls = op.properties.get(name), op.property_class(name)
    if cls is not None and issubclass(cls, KeywordAttr):
        return [cls(k) for k in cls.keywords if not isinstance(given, KeywordAttr) or k != given.keyword]
    if cls is UnitAttr:
        return [UnitAttr() if given is None else None]
    if cls is IntegerAttr:
        was = given.value.data if isinstance(given, IntegerAttr) else 0
        return [IntegerAttr(n, i64) for n in (was + 1, was * 2) if n != was]
    if cls is StringAttr:
        return [StringAttr("other")]
    if cls is DictionaryAttr:
        return [DictionaryAttr({"latency": IntegerAttr(9, i64)})]
    if cls is DenseArrayBase and name == "in_bounds":
        rank = len(op.group("indices"))
        return [DenseArrayBase.from_list(i1, [1] * rank)] if rank else []
    if isinstance(given, DenseArrayBase):
        values = list(given.get_values())
        changed = ([*values[:at], values[at] + 1, *values[at + 1 :]] for at in range(len(values)))
        return [DenseArrayBase.from_list(given.elt_type, some) for some in changed]
    return []


def changed(name: str, attribute: str) -> Iterator[tuple[Attribute | None, ModuleOp]]:
    """The valid modules that a sample is with other values of an attribute."""
    given = kernel(name)
    assert given is not None
    for value in others(subject(parse(given), name), attribute):
        module = parse(given)
        op = subject(module, name)
        if value is None:
            del op.properties[attribute]
        else:
            op.properties[attribute] = value
        if attribute == "mem_semantic" and value != MemSemanticAttr("weak"):
            op.properties["mem_scope"] = MemScopeAttr("gpu")
        if attribute == "mem_scope" and "mem_semantic" not in op.properties:
            op.properties["mem_semantic"] = MemSemanticAttr("relaxed")
        try:
            op.verify_()
        except VerifyException:
            continue
        if not has_errors(diagnose(module)):
            assert isinstance(module, ModuleOp)
            yield value, module


def problem_of(name: str, attribute: str) -> list[str]:
    given = kernel(name)
    assert given is not None
    baseline = outcome_of(parse(given))
    problems, none = [], True
    for value, module in changed(name, attribute):
        none, op = False, subject(module, name)
        outcome = outcome_of(module)
        if isinstance(outcome, LoweringError):
            if outcome.location is None:
                problems.append(f"{value}: refused without a place: {outcome}")
        elif outcome == baseline and not is_said(op, attribute, value):
            problems.append(f"{value}: dropped")
    if none != ((name, attribute) in ONE_VALUE) and (name, attribute) not in ELSEWHERE:
        problems.append("no other value verifies" if none else "another value verifies")
    return problems


ATOMICS = ("atomic_rmw", "tiled_atomic_rmw", "atomic_cas")
DEFAULTS = {
    "rounding_mode": ("nearest_even", "full", "nearest_int_to_zero"),
    "propagate_nan": ("none",),
    "cache_modifier": ("none", "wb", "ca"),
    "eviction_policy": ("none", "normal"),
    "mem_semantic": ("weak",),
}
"""Keywords that say what holds without the attribute."""
SAME_CODE = {
    ("nv_tileaa.elementwise_inline_asm", "packed_element"): "one element is what the text takes without it",
    ("nv_tileaa.conv_dot", "activation_layout"): "of a tile of rank 2 the last axis has the channels",
    ("nv_tileaa.pragma", "directives"): "no directive is known: each becomes a remark that says so",
    ("nv_tileaa.tiled_atomic_rmw", "rmw_mode"): "`add` and `addf` are one for the sample's floats",
    **{(f"nv_tileaa.{name}", "mem_scope"): "a cluster's scope is that of the device" for name in ATOMICS},
}
"""Attributes of an op that change nothing in its sample, with the reason."""


def is_said(op: TileOp, attribute: str, value: Attribute | None) -> bool:
    """Whether the same code is right for another value."""
    if isinstance(value, KeywordAttr) and value.keyword in DEFAULTS.get(attribute, ()):
        return True
    lowered = OP_CLASSES.get(op.name.replace("nv_tileaa", "nv_tileas"), type(op))
    honoured = HONOURED.get(type(op), frozenset()) | HONOURED.get(lowered, frozenset())
    return (op.name, attribute) in SAME_CODE or (attribute in INFORMATION and attribute not in honoured)


I8 = "tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>"
TOKEN = "!nv_tileaa.mem_token"
ORDERED = "mem_semantic = #nv_tileaa.mem_semantic<{}>, mem_scope = #nv_tileaa.mem_scope<gpu>"
SUM = """%r = nv_tileaa.{op} %v44 {{dim = {dim} : i64, identities = [0.0 : f32]{more}}} ({{
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
  nv_tileaa.yield %s : tile<f32>
}}) : tile<4x4xf32> -> {result}
nv_tileaa.print %r {{format = "%f"}} : {result}"""
ASM = """%r = nv_tileaa.elementwise_inline_asm %v4 {{asm_string = "mov.b32 $0, $1;", constraints = "{}",
packed_element = 1 : i64}} : tile<4xf32> -> tile<4xf32>
nv_tileaa.print %r {{format = "%f"}} : tile<4xf32>"""
LAID = 'nv_tileaa.print %r {format = "%d"} : '


def _adds(semantic: str) -> str:
    given = f"{{rmw_mode = #nv_tileaa.rmw_mode<addf>, {ORDERED.format(semantic)}}}"
    return f"%r:2 = nv_tileaa.atomic_rmw %pp, %v4 {given} : {POINTERS}, tile<4xf32> -> tile<4xf32>, {TOKEN}"


def _adds_tile(semantic: str) -> str:
    given = f"{{rmw_mode = #nv_tileaa.rmw_mode<addf>, {ORDERED.format(semantic)}}}"
    types = f"{VIEW}, tile<4x8xf32>, index, index -> tile<4x8xf32>, {TOKEN}"
    return f"%r:2 = nv_tileaa.tiled_atomic_rmw %tv[%i, %j], %v48 {given} : {types}"


def _swaps(semantic: str) -> str:
    types = f"{POINTERS}, tile<4xf32>, tile<4xf32> -> tile<4xf32>, {TOKEN}"
    return f"%r:2 = nv_tileaa.atomic_cas %pp, %v4, %v4 {{{ORDERED.format(semantic)}}} : {types}"


def _dot(signs: str) -> str:
    return f"%r = nv_tileaa.dot %b48, %b84, %x44 {{{signs}}} : {I8}\n{LAID}tile<4x4xi32>"


def _slice(offset: int, stride: int = 1) -> str:
    given = f"{{offsets = array<i64: {offset}>, strides = array<i64: {stride}>}}"
    numbers = "%n = nv_tileaa.make_range {start = 0 : i64} : tile<4xi32>\n"
    return f"{numbers}%r = nv_tileaa.extract_slice %n {given} : tile<4xi32> -> tile<2xi32>\n{LAID}tile<2xi32>"


def _convolved(layout: str) -> str:
    """A convolution whose axes are all of one size."""
    numbers = "%n = nv_tileaa.make_range {start = 0 : i64} : tile<64xi32>\n"
    floats = "%g = nv_tileaa.int_to_fp %n : tile<64xi32> -> tile<64xf32>\n"
    cube = "%x = nv_tileaa.view %g : tile<64xf32> -> tile<4x4x4xf32>\n"
    axes = f"activation_layout = #nv_tileaa.activation_layout<{layout}>"
    given = f"{{{axes}, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>}}"
    types = "tile<4x4x4xf32>, tile<4x4xf32>, tile<4x4x4xf32> -> tile<4x4x4xf32>"
    return f"{numbers}{floats}{cube}%r = nv_tileaa.conv_dot %x, %v44, %x {given} : {types}\n{LAID}tile<4x4x4xf32>"


def _filtered(**given: str) -> str:
    """A view of an activation by places of a filter."""
    words = {"filterSizes": "array<i64: 3>", "lower": "1", "channelAxis": "1", **given}
    params = f"#nv_tileaa.conv_params<pad_lower=[{words.pop('lower')}], pad_upper=[1], stride=[1], dilation=[1]>"
    listed = ", ".join(f"{name} = {value}" for name, value in {**words, "conv_params": params}.items())
    blocks = "tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]"
    made = f"%w = nv_tileaa.conv_tile %mr {{{blocks}, {listed}}} : {MEMREF} -> {VIEW}"
    return f"{made}\n%r = nv_tileaa.tiled_load %w[%i, %j] : {VIEW}, index, index -> tile<4x8xf32>\n{LAID}tile<4x8xf32>"


def _signs(a: str, b: str) -> str:
    return f"signedness_a = #nv_tileaa.signedness<{a}>, signedness_b = #nv_tileaa.signedness<{b}>"


TEXTS: dict[tuple[str, str], tuple[str, str]] = {
    ("atomic_rmw", "mem_semantic"): (_adds("relaxed"), _adds("acq_rel")),
    ("tiled_atomic_rmw", "mem_semantic"): (_adds_tile("relaxed"), _adds_tile("acq_rel")),
    ("atomic_cas", "mem_semantic"): (_swaps("relaxed"), _swaps("acq_rel")),
    ("dot", "signedness_a"): (_dot(_signs("signed", "signed")), _dot(_signs("unsigned", "signed"))),
    ("dot", "signedness_b"): (_dot(_signs("signed", "signed")), _dot(_signs("signed", "unsigned"))),
    ("reduce", "dim"): (
        SUM.format(op="reduce", dim=0, more="", result="tile<4xf32>"),
        SUM.format(op="reduce", dim=1, more="", result="tile<4xf32>"),
    ),
    ("scan", "dim"): (
        SUM.format(op="scan", dim=0, more="", result="tile<4x4xf32>"),
        SUM.format(op="scan", dim=1, more="", result="tile<4x4xf32>"),
    ),
    ("elementwise_inline_asm", "constraints"): (ASM.format("=f,f"), ASM.format("=r,r")),
    ("constant", "value"): (
        f"%r = nv_tileaa.constant {{value = dense<1> : !cuda_tile.tile<4xi32>}} : tile<4xi32>\n{LAID}tile<4xi32>",
        f"%r = nv_tileaa.constant {{value = dense<2> : !cuda_tile.tile<4xi32>}} : tile<4xi32>\n{LAID}tile<4xi32>",
    ),
    ("permute", "permutation"): tuple(
        "%n = nv_tileaa.make_range {start = 0 : i64} : tile<16xi32>\n"
        "%m = nv_tileaa.view %n : tile<16xi32> -> tile<4x4xi32>\n"
        f"%r = nv_tileaa.permute %m {{permutation = array<i32: {order}>}} : tile<4x4xi32> -> tile<4x4xi32>\n"
        f"{LAID}tile<4x4xi32>"
        for order in ("1, 0", "0, 1")
    ),
    ("extract_slice", "offsets"): (_slice(0), _slice(1)),
    ("conv_dot", "activation_layout"): (_convolved("nwc"), _convolved("ncw")),
    ("conv_tile", "filterSizes"): (_filtered(), _filtered(filterSizes="array<i64: 2>")),
    ("conv_tile", "conv_params"): (_filtered(), _filtered(lower="0")),
    ("conv_tile", "channelAxis"): (_filtered(), _filtered(channelAxis="0")),
    ("extract_slice", "strides"): (_slice(0), _slice(0, 2)),
}  # fmt: skip
"""Texts with two values of an attribute, for which the sample above has no other that verifies."""


def test_two_texts_that_differ_in_an_attribute_differ_in_code() -> None:
    for (name, attribute), texts in TEXTS.items():
        codes = []
        for body in texts:
            given = kernel(f"nv_tileaa.{name}", body)
            assert given is not None, name
            module = parse(given)
            assert not diagnose(module), (name, attribute, diagnose(module)[0].message)
            codes.append(outcome_of(module))
        assert all(isinstance(code, str) for code in codes) and codes[0] != codes[1], (name, attribute, codes)


DECLARED = [
    (name, attribute)
    for name, cls in OP_CLASSES.items()
    if name.startswith("nv_tileaa.")
    for attribute in cls.get_irdl_definition().properties
    if attribute != SEGMENTS
]
"""Every attribute that an op of nv_tileaa declares."""
CASES = [(name, attribute) for name, attribute in DECLARED if name in BODIES and kernel(name) is not None]
ELSEWHERE = {(f"nv_tileaa.{op}", attribute) for op, attribute in [*TEXTS, *(case[:2] for case in VARIED)]}
"""Those that are varied by texts, here and in test_attributes_of_functions.py."""
REPEATED = "repeats what the types say"
ONE_VALUE: dict[tuple[str, str], str] = {
    ("nv_tileaa.expand_dims", "axes"): REPEATED,
    ("nv_tileaa.cat", "dim"): REPEATED,
    ("nv_tileaa.scaled_dot", "packed"): REPEATED,
    ("nv_tileaa.block_tile", "tileSizes"): REPEATED,
    ("nv_tileaa.block_tile", "dimGroups"): REPEATED,
    ("nv_tileaa.conv_tile", "tileSizes"): REPEATED,
    ("nv_tileaa.conv_tile", "dimGroups"): REPEATED,
    ("nv_tileaa.conv_dot", "conv_params"): "those of the activation's view count",
    ("nv_tileaa.reduce", "identities"): INFORMATION["identities"],
    ("nv_tileaa.scan", "identities"): INFORMATION["identities"],
    ("nv_tileaa.assume", "predicates"): INFORMATION["predicates"],
    **{(f"nv_tileaa.{op}", "in_bounds"): "is of views: an access by pointers has no indices"
       for op in ("load", "store", "atomic_rmw", "atomic_cas")},
}  # fmt: skip
"""Attributes that are varied nowhere, with the reason."""


@pytest.mark.parametrize(("name", "attribute"), CASES, ids=lambda value: value)
def test_an_attribute_changes_the_code_or_is_refused_or_need_not(name: str, attribute: str) -> None:
    assert problem_of(name, attribute) == []


def test_every_attribute_has_another_value_in_some_test_or_a_reason() -> None:
    assert set(DECLARED) - set(CASES) - ELSEWHERE <= set(ONE_VALUE) <= set(DECLARED)


def test_most_samples_compile() -> None:
    assert len(compiled_names()) > 60


def test_the_tables_name_attributes_that_their_ops_have() -> None:
    RULES.load()
    for cls, attributes in HONOURED.items():
        assert attributes <= set(cls.get_irdl_definition().properties), cls
        assert cls in RULES or cls in STRUCTURE, cls
    classes = [*RULES, *STRUCTURE]
    declared = {a for cls in classes if issubclass(cls, TileOp) for a in cls.get_irdl_definition().properties}
    assert set(INFORMATION) <= declared


@pytest.mark.parametrize(("name", "attribute"), SAME_CODE, ids=lambda value: value)
def test_what_is_said_to_change_nothing_changes_nothing(name: str, attribute: str, monkeypatch: Any) -> None:
    monkeypatch.delitem(SAME_CODE, (name, attribute))
    assert problem_of(name, attribute) != []


LEFT_OUT = [
    ("nv_tileas.barrier {id = 1 : i64, num_warps = 2 : i64}", None),
    (
        f"%r = nv_tileas.tiled_load %tv[%i, %j], %i, %j {{atom = #nv_tileas.copy_atom<ldg, bits=32>}} : {VIEW}, index, "
        "index, index, index -> tile<4x8xf32>",
        "offsets",
    ),
    (f"%r = nv_tileas.load %pp {{is_volatile}} : {POINTERS} -> tile<4xf32>", "has the attribute 'is_volatile'"),
    (f"%r = nv_tileas.load %pp {{atom = #nv_tileas.copy_atom<lds>}} : {POINTERS} -> tile<4xf32>", "attribute 'atom'"),
    (f"%r = nv_tileas.load %pp : {POINTERS} -> tile<4xf32>", "has no atom with the bits of one instruction"),
    (f"%r = nv_tileas.load %pp {{atom = #nv_tileas.copy_atom<ldg>}} : {POINTERS} -> tile<4xf32>", "has no atom with"),
    (f"%r = nv_tileas.load %pp {{atom = #nv_tileas.copy_atom<ldg, bits=32>}} : {POINTERS} -> tile<4xf32>", None),
    (
        f"%r = nv_tileas.tiled_load %tv[%i, %j] {{padding_value = #nv_tileaa.padding_value<nan>}} : {VIEW}, index, "
        "index -> tile<4x8xf32>",
        "has the attribute 'padding_value' (#nv_tileaa.padding_value<nan>), which code generation does not honour but "
        "where its view pads with the same",
    ),
    (
        "%r = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>",
        "has 2 consumers",
    ),
    (
        "%r = nv_tileas.async.pipeline.create_pipeline {producer_group = 1 : i64} : "
        "!nv_tileas.pipeline<3, (tile<4xf32>)>",
        None,
    ),
    ("%r = nv_tileas.convert_layout %v4 {atom = #nv_tileas.copy_atom<ldmatrix>} : tile<4xf32> -> tile<4xf32>", "atom"),
]


@pytest.mark.parametrize(("body", "said"), LEFT_OUT)
def test_what_code_would_leave_out_is_said(body: str, said: str | None) -> None:
    parsed = parse(text_of(body, TARGET))
    assert diagnose(parsed) == []
    op = [op for op in parsed.walk() if isinstance(op, TileOp) and op.name.startswith("nv_tileas.")][-1]
    found = left_out(op)
    assert found is None if said is None else found is not None and said in found


def test_clusters_have_a_remark_and_parameters_that_are_tiles_are_refused_where_they_stand() -> None:
    given = kernel("nv_tileaa.print")
    assert given is not None
    clusters = libtile.compile(parse(given.replace("num_ctas=1", "num_ctas=2")), emit="ptx")
    (said,) = [dict(r.arguments)["Reason"] for r in clusters.remarks if "num_cta_in_cga" in r.message]
    assert said == "'nv_tileaa.print' would be done by each CTA" and ".reqnctapercluster" not in clusters.ptx
    tiles = outcome_of(parse(given.replace("%f: tile<f32>", "%f: tile<f32>, %more: tile<4xf32>")))
    assert "has a parameter (number 2)" in str(tiles) and str(tiles).startswith("-:2:1: ")


TWO_VIEWS = """
%ma = nv_tileaa.make_memref %base, %i, %i, %j, %j {{{first}}} : {p}, index, index, index, index -> {memref}
%mb = nv_tileaa.make_memref %base, %i, %i, %j, %j {{{second}}} : {p}, index, index, index, index -> {memref}
%va = nv_tileaa.block_tile %ma {{{tiling}}} : {memref} -> {view}
%vb = nv_tileaa.block_tile %mb {{{tiling}}} : {memref} -> {view}
%t = nv_tileaa.tiled_store %va[%i, %j], %v48 : {view}, tile<4x8xf32>, index, index -> !nv_tileaa.mem_token
%r, %u = nv_tileaa.tiled_load %vb[%i, %j], %t : {view}, index, index, !nv_tileaa.mem_token -> tile<4x8xf32>, !nv_tileaa.mem_token
nv_tileaa.print %r {{format = "%f"}} : tile<4x8xf32>
"""  # noqa: E501


@pytest.mark.parametrize(
    ("first", "second", "barriers"),
    [("", "", 1), ("alias_scope = 1", "", 1), ("alias_scope = 1", "alias_scope = 1", 1),
     ("alias_scope = 1", "alias_scope = 2", 0)],
)  # fmt: skip
def test_memory_of_different_alias_scopes_needs_no_barrier(first: str, second: str, barriers: int) -> None:
    tiling = "tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]"
    body = TWO_VIEWS.format(first=first, second=second, p=P, memref=MEMREF, view=VIEW, tiling=tiling)
    prelude = "\n".join(PRELUDE[value] for value in ("i", "j", "v48"))
    module = parse(f"nv_tileaa.func @k({PARAMETERS}) {TARGET} {{\n{prelude}\n{body}\nnv_tileaa.return\n}}")
    assert isinstance(module, ModuleOp)
    to_tileas(module)
    InsertBarriersPass().apply(Context(), module)
    assert sum(op.name == "nv_tileas.barrier" for op in module.walk()) == barriers


SCHEDULED = """
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
scf.for %n = %zero to %zero step %one : i32 {
  %r = nv_tileas.tiled_load %tv[%i, %j] {LOAD} : VIEW, index, index -> tile<4x8xf32>
} {LOOP}
"""


@pytest.mark.parametrize(
    ("loop", "load", "said"),
    [
        ('num_stages = "many"', "stage = 0 : i64, order = 0 : i64", "'scf.for' op has no 'num_stages' of at least 1"),
        ("num_stages = 2 : i64", "stage = 0 : i64", "'nv_tileas.tiled_load' op has no 'order' of at least 0"),
        ("num_stages = 2 : i64", "stage = 1 : i64, order = 0 : i64", "has 'stage', which only a load has, and which"),
        ("num_stages = 2 : i64", "", "'scf.for' op has 'num_stages', and no load in it can run ahead"),
    ],
)
def test_a_schedule_that_cannot_be_made_is_refused_where_it_stands(loop: str, load: str, said: str) -> None:
    prelude = "\n".join(PRELUDE[value] for value in ("i", "j", "mr", "tv"))
    body = SCHEDULED.replace("LOAD", load).replace("LOOP", loop).replace("VIEW", VIEW)
    module = parse(f"nv_tileaa.func @k({PARAMETERS}) {TARGET} {{\n{prelude}\n{body}\nnv_tileaa.return\n}}")
    assert isinstance(module, ModuleOp)
    with pytest.raises(LoweringError) as refused:
        MaterializeSchedulePass().apply(Context(), module)
    assert said in str(refused.value) and refused.value.location is not None
