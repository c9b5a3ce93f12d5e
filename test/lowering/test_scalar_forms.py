# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalars and tiles of rank 0 stand for each other, and numbers have any width: whatever the form in which a program
written by hand has them, compiled code leaves what the interpreter leaves."""

from __future__ import annotations

import re

import pytest

import libtile
from lowering.inner_programs import Program, floats, memref, pointer, zeros

P, RELAXED = pointer("f32"), "mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>"
ADD = """({
  ^bb0(%a: TYPE, %b: TYPE):
    %s = nv_tileaa.addf %a, %b : OP, OP -> OP
    nv_tileaa.yield %s : OP
  })"""
ZERO = "{identities = [0.0 : f32], dim = 0}"
OF_SCALARS, OF_TILES = (
    ADD.replace("TYPE", "f32").replace("OP", "f32"),
    ADD.replace("TYPE", "tensor<f32>").replace("OP", "tile<f32>"),
)
FORMS = [
    "%r = nv_tileaa.constant {value = dense<1.5> : !cuda_tile.tile<f32>} : f32",
    "%r = nv_tileaa.splat %x : f32 -> f32",
    "%r = nv_tileaa.broadcast %f : tile<f32> -> f32",
    "%r = nv_tileaa.view %x : f32 -> tile<f32>",
    "%r = nv_tileaa.permute %f {permutation = array<i64>} : tile<f32> -> f32",
    "%r = nv_tileaa.expand_dims %f {axes = array<i64>} : tile<f32> -> f32",
    "%r = nv_tileaa.extract %v[%i] : tile<4xf32>, index -> f32",
    "%c = arith.constant 3 : i8\n%r = nv_tileaa.extract %v[%c] : tile<4xf32>, i8 -> tile<f32>",
    f"%r = nv_tileaa.reduce %v {ZERO} {OF_TILES} : tile<4xf32> -> f32",
    f"%r = nv_tileaa.reduce %v {ZERO} {OF_SCALARS} : tile<4xf32> -> tile<f32>",
    f"%w = nv_tileaa.scan %v {ZERO} {OF_SCALARS} : tile<4xf32> -> tile<4xf32>\n"
    "%r = nv_tileaa.extract %w[%i] : tile<4xf32>, index -> f32",
    "%r = nv_tileaa.generate ({\n  nv_tileaa.yield %f : tile<f32>\n}) : f32",
    "%w = nv_tileaa.generate %x ({\n^bb0(%k: index, %y: f32):\n  %h = arith.constant 0.5 : f32\n"
    "  %z = nv_tileaa.mulf %y, %h : f32, f32 -> f32\n  nv_tileaa.yield %z : f32\n}) : f32 -> tile<4xf32>\n"
    "%r = nv_tileaa.extract %w[%i] : tile<4xf32>, index -> f32",
    "%w = nv_tileaa.insert_slice %x, %v, %i : f32, tile<4xf32>, index -> tile<4xf32>\n"
    "%r = nv_tileaa.extract %w[%i] : tile<4xf32>, index -> f32",
    "%w = nv_tileaa.insert_slice %f, %v, %0 : tile<f32>, tile<4xf32>, index -> tile<4xf32>\n"
    "%r = nv_tileaa.extract %w[%0] : tile<4xf32>, index -> tile<f32>",
    f"%a = nv_tileaa.ptr_to_int %p : {P} -> i64\n%q = nv_tileaa.int_to_ptr %a : i64 -> tile<{P}>\n"
    f"%r = nv_tileaa.load %q : tile<{P}> -> tile<f32>",
    f"%c = nv_tileaa.constant {{value = dense<1> : !cuda_tile.tile<i32>}} : tile<i32>\n"
    f"%q = nv_tileaa.addptr %p, %c : {P}, tile<i32> -> tile<{P}>\n%r = nv_tileaa.load %q : tile<{P}> -> tile<f32>",
    f"%q = nv_tileaa.bitcast %p : {P} -> tile<{P}>\n%r = nv_tileaa.load %q : tile<{P}> -> tile<f32>",
    f"%q = nv_tileaa.get_global {{name = @g}} : tile<{P}>\n%r = nv_tileaa.load %q : tile<{P}> -> tile<f32>",
    f"%q = nv_tileaa.alloca {{count = 1}} : {P}\n%t = nv_tileaa.store %q, %x : {P}, f32 -> !nv_tileaa.mem_token\n"
    f"%r, %u = nv_tileaa.load %q, %t : {P}, !nv_tileaa.mem_token -> f32, !nv_tileaa.mem_token",
    *(
        f"%c = nv_tileaa.get_dim_size %m {{dim = 0}} : {memref('f32')} -> {t}\n"
        f"%r = nv_tileaa.int_to_fp %c : {t} -> {'tile<f32>' if '<' in t else 'f32'}"
        for t in ("i8", "i32", "i64", "tile<i32>")
    ),
    f"%r = nv_tileaa.load %p {{is_volatile}} : {P} -> f32",
]
"""Each gives `%r`, of the numbers `%x` (a scalar), `%f` (a tile of rank 0) and `%v` (of rank 1), and memory `%p`."""


def stored(number: int, form: str) -> str:
    """The ops of a form with names of their own, and what stores its result."""
    type_ = form.rsplit("->" if "->" in form else ":", 1)[1].split(", !nv_tileaa")[0].strip()
    type_ = type_ if "mem_token" not in form else "f32"
    text = f"{form}\nnv_tileaa.store %o[%at], %r : {memref('f32')}, {type_}, index"
    given = {"x", "f", "v", "i", "0", "p", "o", "m"}
    text = re.sub(r"%(\w+)", lambda m: m[0] if m[1] in given else f"{m[0]}_{number}", text)
    return f"%at_{number} = arith.constant {number} : index\n{text}\n"


def program(forms: list[str], volatile: str = "") -> Program:
    body = f"""
      %0 = arith.constant 0 : index
      %v = nv_tileaa.tiled_load %m[%0] {volatile} : {memref("f32")}, index -> tile<4xf32>
      %f = nv_tileaa.splat %x : f32 -> tile<f32>
    """
    given = {
        "m": (memref("f32"), floats(4)), "x": ("f32", 2.5), "i": ("index", 1), "p": (P, floats(2)),
        "o": (memref("f32"), zeros(len(forms))),
    }  # fmt: skip
    outside = 'nv_tileaa.global {sym_name = "g", value = dense<3.0> : !cuda_tile.tile<1xf32>}'
    return Program("", given, body + "".join(stored(n, form) for n, form in enumerate(forms)), outside=outside)


@pytest.mark.parametrize("gpu_name", ["sm_80", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_a_scalar_is_a_tile_of_rank_0_wherever_one_of_them_is_taken(gpu_name: str) -> None:
    made = program(FORMS)
    outs = []
    for options in ({"backend": "interpreter"}, {"backend": "simulator", "gpu_name": gpu_name, "check": "full"}):
        args = made.arguments()
        libtile.run(libtile.parse(made.text()), args=args, **options)
        outs.append(args[-3])
    assert (outs[0] != 0).all(), "a form has stored nothing"
    for n, form in enumerate(FORMS):
        assert outs[0][n] == outs[1][n], form


def test_volatile_accesses_are_done_as_often_as_they_stand() -> None:
    """Also one whose value nobody uses; they are relaxed ones of the system, which PTX has `ld.volatile` for."""
    twice = f"%r = nv_tileaa.load %p {{is_volatile}} : {P} -> f32\n" * 2
    made = program([], "{is_volatile}")
    text = made.text().replace("nv_tileaa.return", twice.replace("%r", "%a", 1) + "nv_tileaa.return")
    ptx = libtile.compile(libtile.parse(text), "sm_90", emit="ptx").ptx
    assert ptx is not None
    assert len(re.findall(r"ld\.relaxed\.sys\.global", ptx)) == 3
