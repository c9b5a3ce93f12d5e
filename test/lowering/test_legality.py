# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The legality tables: what they let through can be lowered, and what they keep out is an error with its place.

Which ops of the inner dialects are lowered at all, test/dialects/test_inner_census.py holds true.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

import libtile
import libtile.lowering.to_llvm.conversion
from asm.op_texts import CASES
from dialects.inner_samples import TARGET
from libtile.asm import parse
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.nv_tileaa.arithmetic import OPS as ELEMENTWISE
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.module_pass import ModulePass
from libtile.lowering.legality import check
from libtile.lowering.rules import Rules
from libtile.lowering.to_llvm.conversion import convert_module
from libtile.lowering.to_llvm.emitter import RULES, Emitter
from libtile.lowering.to_llvm.legality import STAGE as FOR_LLVM
from libtile.lowering.to_tileaa.context import RULES as TO_TILEAA
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileaa.legality import REFUSED, UNREAD
from libtile.lowering.to_tileaa.legality import STRUCTURE as TILE_STRUCTURE
from libtile.lowering.to_tileas.assignment import LOWERED
from libtile.lowering.to_tileas.legality import STAGE as LAID_OUT
from libtile.lowering.to_tileas.legality import TAKEN
from libtile.passes import registry
from libtile.passes.pipelines import STEPS
from libtile.spec import default_spec
from libtile.support.diagnostics import LoweringError
from libtile.targets import target
from libtile.transforms.canonicalize_tileaa import canonicalize_inner


def test_each_op_of_tile_ir_can_be_converted_or_is_refused_with_a_reason() -> None:
    declared = {name for name, op in default_spec().ops.items() if not default_spec().is_testing_op(op)}
    without = {name for name in declared if TO_TILEAA.of_class(OPS[name]) is None}
    assert without == {cls.spec.name for cls in TILE_STRUCTURE} | set(REFUSED) | {"module"}


class Recording(dict[str, Attribute]):
    """The declared attributes of an op, with the names that were asked for."""

    def __init__(self, given: dict[str, Attribute]):
        super().__init__(given)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Attribute:
        self.asked.add(name)
        return super().__getitem__(name)


def test_what_the_conversion_makes_of_each_op_of_tile_ir_can_be_lowered_and_reads_its_attributes() -> None:
    """Each sample: the ops, types and attributes made are those of the next table, each op gets to one with an emission
    rule, and each declared attribute is read or is named in the table, with the reason why nothing is lost."""
    problems: list[str] = []
    unread: set[tuple[str, str]] = set()
    for name, cls in OPS.items():
        if TO_TILEAA.of_class(cls) is None and cls not in TILE_STRUCTURE:
            continue
        asked: set[str] = set()
        for text in sample_texts(name):
            (module,) = [op for op in parse(text).walk() if isinstance(op, OPS["module"])]
            samples = [op for op in module.walk() if isinstance(op, cls)]
            for op in samples:
                op.properties = Recording(op.properties)
            made = to_tileaa(module, target("sm_90"))
            canonicalize_inner(made)
            for kernel in [op for op in made.body.block.ops if isinstance(op, FuncOp)]:
                check(TAKEN, kernel, "sm_90", attributes=True)
                for op in kernel.walk():
                    final = LOWERED.get(type(op), type(op))
                    if RULES.of_class(final) is None and final not in FOR_LLVM.ops:
                        problems.append(f"{name}: {op.name} has no emission rule")
            for op in samples:
                assert isinstance(op.properties, Recording)
                asked |= op.properties.asked
        unread |= {(name, a.name) for a in cls.spec.attributes if a.name not in asked}
    assert problems == []
    assert unread == set(UNREAD)


def sample_texts(name: str) -> list[str]:
    """Modules with each sample of an op in an entry; what stands beside functions, in one of its own."""
    texts = []
    for types, body in CASES.get(name, [([], "")]):
        arguments = ", ".join(f"%arg{i}: {type_}" for i, type_ in enumerate(types))
        texts.append(
            "cuda_tile.module @m {\n  global @data <f32: [1.0, 2.0]> : tile<2xf32>\n"
            f"  entry @f({arguments}) {{\n{body}\nreturn\n}}\n}}\n"
        )
    return texts


def function(body: str, head: str = "%x: tile<f32>") -> ModuleOp:
    module = parse(
        f"module {{\n  nv_tileaa.func @k({head}) {TARGET} {{\n    {body}\n    nv_tileaa.return\n  }}\n}}", "k.mlir"
    )
    assert isinstance(module, ModuleOp)
    return module


LAYOUT = "#nv_tileas.layout<register=[], lane=[[],[],[],[],[]], warp=[[],[]] : scalar>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "%y = nv_tileaa.absf %x : tile<f32> -> tile<f32>",
            "has a tile<f32> without a layout, in nv_tileas for LLVM IR",
        ),
    ],
)
def test_what_has_no_place_in_a_table_is_an_error_with_op_types_target_and_location(body: str, said: str) -> None:
    with pytest.raises(LoweringError) as refused:
        convert_module(function(body), target("sm_90"))
    text = str(refused.value)
    assert said in text and "on sm_90" in text
    assert ("(types: " in text) == ("'nv_tileaa.func'" not in text)  # which has neither operands nor results
    assert refused.value.location is not None and refused.value.location.filename == "k.mlir"


def test_an_op_that_no_table_has_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    module = function(
        f"%y = nv_tileaa.absf %x : tile<f32, {LAYOUT}> -> tile<f32, {LAYOUT}>", f"%x: tile<f32, {LAYOUT}>"
    )
    convert_module(module, target("sm_90"))
    RULES.load()
    rules: Rules[Emitter] = Rules()
    rules.update({cls: rule for cls, rule in RULES.items() if cls is not ELEMENTWISE["absf"]})
    without = dataclasses.replace(FOR_LLVM, rules=rules)
    monkeypatch.setattr("libtile.lowering.to_llvm.conversion.STAGE", without)
    with pytest.raises(LoweringError, match=r"^k\.mlir:3:10: 'nv_tileaa\.absf' op cannot be compiled on sm_90"):
        convert_module(module, target("sm_90"))


def test_nothing_in_nv_tileas_is_without_a_layout() -> None:
    (kernel,) = function("%y = nv_tileaa.absf %x : tile<f32> -> tile<f32>").body.block.ops
    with pytest.raises(
        LoweringError, match=r"'nv_tileaa\.func' op has a tile<f32> without a layout, in nv_tileas on sm_90"
    ):
        check(LAID_OUT, kernel, "sm_90")


def test_an_attribute_that_means_nothing_is_refused_in_a_module_from_outside() -> None:
    body = "%t = nv_tileaa.create_mem_token {vector_width = 4 : i64, mine.note = 1 : i64} : !nv_tileaa.mem_token"
    text = f"nv_tileaa.func @k(%n: i32) {TARGET} {{\n  {body}\n  nv_tileaa.return\n}}\n"
    with pytest.raises(LoweringError, match=r"attribute 'vector_width' .* which means nothing in nv_tileaa on sm_90"):
        libtile.compile(text.encode(), "sm_90", emit="llvm")
    libtile.compile(text.replace("vector_width = 4 : i64, ", "").encode(), "sm_90", emit="llvm")


@dataclasses.dataclass(frozen=True)
class NotingPass(ModulePass):
    """Leaves a note that no table has."""

    name = "noting"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel = next(inner for inner in op.walk() if isinstance(inner, FuncOp | OPS["entry"]))
        kernel.attributes["noted"] = StringAttr("here")


@pytest.mark.parametrize("behind", ["canonicalize", "canonicalize-tileaa", "tileas-select-copies"])
def test_what_a_pass_leaves_is_held_against_the_table_of_its_stage(behind: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(registry.PASSES, "noting", registry.Entry(f"{__name__}:NotingPass"))
    text = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
    passes = [step for step, levels in STEPS if "1" in levels]
    passes.insert(passes.index(behind) + 1, "noting")
    for verify_each in (False, True):
        with pytest.raises(LoweringError) if verify_each else nullcontext() as refused:
            libtile.compile(text.encode(), "sm_90", emit="llvm", pipeline=", ".join(passes), verify_each=verify_each)
    assert "in noting:" in str(refused.value) and "has the attribute 'noted' (\"here\")" in str(refused.value)
