# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes that ops do not declare, in modules that are written by hand: taken, refused, or a remark says that they
are not followed; and tiles of such modules that are too large."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation

import libtile
from libtile.compiler.entry import entered
from libtile.dialects.nv_tileaa.kernels import TILEAS
from libtile.lowering.discardable import DECISIONS, FACTS, SCHEDULE
from libtile.support.diagnostics import LoweringError
from libtile.targets import target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = [("gemm", "sm_90"), ("attention", "sm_100")]
WRONG = (StringAttr("a\nb"), UnitAttr(), IntegerAttr(1 << 40, i64), DenseArrayBase.from_list(i64, [3] * 9))
TABLES = {**FACTS, **DECISIONS, **SCHEDULE}


@cache
def made(name: str, gpu: str) -> libtile.Compiled:
    return libtile.compile(EXAMPLES / f"{name}.bc", gpu, emit="ptx", keep_text=True)


def attributes_of(op: Operation) -> list[tuple[Operation, str, Attribute]]:
    """The attributes below an op, one of each kind of op."""
    found = {(inner.name, name): (inner, name, attr) for inner in op.walk() for name, attr in inner.attributes.items()}
    return list(found.values())


@pytest.mark.parametrize(("name", "gpu"), KERNELS[:1])
def test_a_value_of_another_form_is_refused_where_it_stands(name: str, gpu: str) -> None:
    module = libtile.parse(made(name, gpu).tileas, filename="k.mlir")
    seen = set()
    for op, key, given in attributes_of(module.op):
        for wrong in WRONG:
            if type(wrong) is type(given) and not isinstance(given, IntegerAttr | DenseArrayBase):
                continue
            op.attributes[key] = wrong
            declared = TABLES.get(key)
            if declared is None or not declared.form.fits(op, wrong):
                with pytest.raises(
                    LoweringError, match=rf"^k\.mlir:\d+:\d+: '{op.name}' op has the attribute '{key}' "
                ):
                    entered(module.op, TILEAS, target(gpu), "ptx")
                seen.add(key)
        op.attributes[key] = given
    assert len(seen) > 10


@pytest.mark.parametrize(("name", "gpu"), KERNELS)
def test_what_is_printed_has_no_attribute_that_is_decided_otherwise(name: str, gpu: str) -> None:
    again = libtile.compile(made(name, gpu).tileas.encode(), gpu, emit="ptx")
    assert again.ptx == made(name, gpu).ptx
    assert not [remark for remark in again.remarks if remark.name == "RemarkAttributeIgnored"]


@pytest.mark.parametrize(
    ("given", "changed", "kernel", "said"),
    [
        ("shared_bytes = 65664", "shared_bytes = 70000", ("gemm", "sm_90"), ("70000 : i64", "for 65664 : i64")),
        ("barriers_offset = 65536", "barriers_offset = 64", ("gemm", "sm_90"), ("64 : i64", "for 65536 : i64")),
        ('num-host-tmas" = 3', 'num-host-tmas" = 2', ("gemm", "sm_90"), ("2 : i32", "for 3 : i32")),
        ("tensor_columns = 256", "tensor_columns = 32", ("attention", "sm_100"), ("32 : i64", "for 256 : i64")),
    ],
)
def test_what_is_decided_otherwise_is_said(
    given: str, changed: str, kernel: tuple[str, str], said: tuple[str, str]
) -> None:
    text = made(*kernel).tileas
    assert given in text
    again = libtile.compile(text.replace(given, changed).encode(), kernel[1], emit="ptx")
    assert again.ptx == made(*kernel).ptx
    (remark,) = (r for r in again.remarks if r.name == "RemarkAttributeIgnored")
    assert remark.message.endswith(given.partition(" = ")[0].rstrip('"'))
    assert remark.location is not None
    assert remark.arguments[0] == ("Value", said[0])
    assert said[1] in remark.arguments[1][1]


@pytest.mark.parametrize("stage", ["tileaa", "tileas"])
def test_a_module_and_what_is_beside_kernels_have_no_attributes_without_a_meaning(stage: str) -> None:
    text = getattr(made("gemm", "sm_90"), stage)
    spec = "nv_tileaa.target_spec = #nv_tileaa.target_spec<compute_capability=sm_90>"
    assert spec in text
    with pytest.raises(
        LoweringError, match=r"'builtin.module' op has the attribute 'nv_tileaa.target_spec' \(4 : i64\)"
    ):
        libtile.compile(text.replace(spec, "nv_tileaa.target_spec = 4").encode(), "sm_90", emit="tileas")
    with pytest.raises(LoweringError, match=r"'nv_tileas.mine' \(4 : i64\), which means nothing of a module on sm_90"):
        libtile.compile(text.replace(spec, f"{spec}, nv_tileas.mine = 4").encode(), "sm_90", emit="tileas")
    libtile.compile(text.replace(spec, f"{spec}, mine.note = 4").encode(), "sm_90", emit="tileas")


SPEC = "kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>"
POINTER = "!nv_tileaa.ptr<f32, 1>"
LARGE = f"""
nv_tileaa.func @k(%p: tile<{POINTER}>, %f: tile<f32>) attributes {{{SPEC}}} {{
  %v = nv_tileaa.splat %f : tile<f32> -> tile<SIZExf32>
  %l = nv_tileaa.make_range {{start = 0 : i64}} : tile<SIZExi32>
  %b = nv_tileaa.splat %p : tile<{POINTER}> -> tile<SIZEx{POINTER}>
  %q = nv_tileaa.addptr %b, %l : tile<SIZEx{POINTER}>, tile<SIZExi32> -> tile<SIZEx{POINTER}>
  nv_tileaa.store %q, %v : tile<SIZEx{POINTER}>, tile<SIZExf32>
  nv_tileaa.return
}}
"""


def test_a_tile_that_no_thread_could_hold_is_refused_before_llvm_is_asked() -> None:
    message = r"^k\.mlir:3:8: 'nv_tileaa\.splat' op has a tile that would take 131072 registers a thread, where 512 is "
    with pytest.raises(LoweringError, match=message):
        libtile.compile(libtile.parse(LARGE.replace("SIZE", "16777216"), "k.mlir"), "sm_90", emit="tileas")
    libtile.compile(libtile.parse(LARGE.replace("SIZE", "65536"), "k.mlir"), "sm_90", emit="tileas")


def test_the_layout_says_how_many_registers_a_tile_takes() -> None:
    registers = ", ".join(f"[{1 << bit}]" for bit in range(12))
    lone = f"#nv_tileas.layout<register=[{registers}], lane=[], warp=[] : 4096>"
    text = f"""
nv_tileaa.func @k(%f: f32) attributes {{{SPEC}}} {{
  %s = nv_tileaa.splat %f : f32 -> tile<4096xf32, {lone}>
  nv_tileaa.return
}}
"""
    with pytest.raises(LoweringError, match=r"a tile that would take 4096 registers a thread, where 2048 is the limit"):
        libtile.compile(libtile.parse(text, "k.mlir"), "sm_90", emit="tileas")


@pytest.mark.parametrize(
    ("given", "said"), [("is_volatile", True), ("foo = 1 : i32", True), ("my.foo = 1 : i32", False)]
)
def test_an_attribute_that_an_op_of_cuda_tile_does_not_have_is_said(given: str, said: bool) -> None:
    """One with the name of a dialect is for passes of that."""
    module = libtile.parse(f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{
      %c = constant <f32: 1.0> : tile<f32>
      %t = "cuda_tile.store_ptr_tko"(%p, %c) <{{
        memory_ordering_semantics = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 0, 0>}}> {{{given}}}
        : (!cuda_tile.tile<ptr<f32>>, !cuda_tile.tile<f32>) -> !cuda_tile.token
      return }} }}""")
    found = [r for r in libtile.compile(module, "sm_90", emit="ptx").remarks if r.name == "RemarkAttributeIgnored"]
    assert [r.message for r in found] == ([f"Attribute ignored {given.split()[0]}"] if said else [])
    assert all(dict(r.arguments)["Reason"] == "'cuda_tile.store_ptr_tko' has no such attribute" for r in found)
