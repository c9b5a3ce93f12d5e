# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The legality tables: what they let through can be lowered, and what they keep out is an error with its place."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import pytest
from xdsl.dialects.builtin import ModuleOp

import libtile.lowering.to_llvm.conversion  # noqa: F401  (registers the rules)
from dialects.inner_samples import TARGET
from libtile.asm import parse
from libtile.ir.tile_form import OP_CLASSES
from libtile.lowering.legality import check
from libtile.lowering.to_llvm.conversion import convert_module
from libtile.lowering.to_llvm.emitter import RULES
from libtile.lowering.to_llvm.legality import STAGE as FOR_LLVM
from libtile.lowering.to_llvm.legality import STRUCTURE
from libtile.lowering.to_tileas.legality import STAGE as LAID_OUT
from libtile.support.diagnostics import LoweringError
from libtile.targets import target

for late in RULES.late.values():
    import_module(late)


def test_each_op_of_the_table_has_an_emission_rule_and_no_other_has() -> None:
    assert {cls.name for cls in RULES} == FOR_LLVM.ops - STRUCTURE


def test_ops_of_the_inner_dialects_in_the_table_are_declared() -> None:
    named = {name for name in FOR_LLVM.ops if name.partition(".")[0] in ("nv_tileaa", "nv_tileas")}
    assert named <= set(OP_CLASSES)


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
    assert said in str(refused.value) and "on sm_90 (types: " in str(refused.value)
    assert refused.value.location is not None and refused.value.location.filename == "k.mlir"


def test_an_op_that_no_table_has_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    module = function(
        f"%y = nv_tileaa.absf %x : tile<f32, {LAYOUT}> -> tile<f32, {LAYOUT}>", f"%x: tile<f32, {LAYOUT}>"
    )
    convert_module(module, target("sm_90"))
    without = dataclasses.replace(FOR_LLVM, ops=FOR_LLVM.ops - {"nv_tileaa.absf"})
    monkeypatch.setattr("libtile.lowering.to_llvm.conversion.STAGE", without)
    with pytest.raises(LoweringError, match=r"^k\.mlir:3:10: 'nv_tileaa\.absf' op cannot be compiled on sm_90"):
        convert_module(module, target("sm_90"))


def test_nothing_in_nv_tileas_is_without_a_layout() -> None:
    (kernel,) = function("%y = nv_tileaa.absf %x : tile<f32> -> tile<f32>").body.block.ops
    with pytest.raises(
        LoweringError, match=r"'nv_tileaa\.func' op has a tile<f32> without a layout, in nv_tileas on sm_90"
    ):
        check(LAID_OUT, kernel, "sm_90")
