# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of the inner dialects for tests: one function, whose arguments are values of every kind that a case needs."""

from __future__ import annotations

import re

from libtile.asm import parse, print_op
from libtile.asm.module import diagnose
from libtile.support.diagnostics import DiagnosticError

MEMREF = "!nv_tileaa.memref<?x?xf32, 1>"
VIEW = f"!nv_tileaa.tiled_view<{MEMREF}, 4x8>"
GATHER = f"!nv_tileaa.tiled_view<{MEMREF}, 4x8, #nv_tileaa.tiling<sparse_dim=0>>"
PIPE = "!nv_tileas.pipeline<3, (tile<4xf32>)>"
DESC = f"!nv_tileas.tma_desc<{MEMREF}, [8, 4]>"
SHARED = "!nv_tileas.buffer<4x8xf32, shared>"
SPEC = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}"

ARGUMENTS: dict[str, str] = {
    "i": "index",
    "j": "index",
    "s32": "tile<i32>",
    "s64": "tile<i64>",
    "c": "tile<i1>",
    "f": "tile<f32>",
    "t": "!nv_tileaa.mem_token",
    "t2": "!nv_tileaa.mem_token",
    "cube": "tile<2x4x8xf32>",
    "pid": "!nv_tileaa.program_id",
    "q": "!nv_tileaa.queue<(tile<4xf32>)>",
    "p": "!nv_tileaa.ptr<f32, 1>",
    "p3": "!nv_tileaa.ptr<f32, 3>",
    "pi": "!nv_tileaa.ptr<i32, 1>",
    "v4": "tile<4xf32>",
    "h4": "tile<4xf16>",
    "x4": "tile<4xi32>",
    "m4": "tile<4xi1>",
    "m8": "tile<8xi1>",
    "pp": "tile<4x!nv_tileaa.ptr<f32, 1>>",
    "mr": MEMREF,
    "tv": VIEW,
    "gv": GATHER,
    "v48": "tile<4x8xf32>",
    "v84": "tile<8x4xf32>",
    "v32": "tile<32xf32>",
    "h48": "tile<4x8xf16>",
    "h84": "tile<8x4xf16>",
    "b48": "tile<4x8xi8>",
    "b84": "tile<8x4xi8>",
    "i484": "tile<8x4xi4>",
    "v44": "tile<4x4xf32>",
    "x44": "tile<4x4xi32>",
    "fp4a": "tile<4x8xf4E2M1FN>",
    "fp4b": "tile<8x4xf4E2M1FN>",
    "b44": "tile<4x4xbf16>",
    "h44": "tile<4x4xf16>",
    "sa": "tile<4x1xf8E8M0FNU>",
    "sb": "tile<1x4xf8E8M0FNU>",
    "pipe": PIPE,
    "it": f"!nv_tileas.pipeline_iterator<{PIPE}>",
    "pt": "!nv_tileas.producer_token<(tile<4xf32>)>",
    "ct": "!nv_tileas.consumer_token<(tile<4xf32>)>",
    "at": "!nv_tileas.async_token",
    "mb": "!nv_tileas.mbarrier",
    "desc": DESC,
    "sm": SHARED,
    "tm": "!nv_tileas.buffer<128x32xf32, tmem>",
}


def module(body: str, attributes: str = SPEC, outside: str = "", **arguments: str) -> str:
    """A module with one function around `body`; it has the arguments that the body names (and those given)."""
    known = {**ARGUMENTS, **arguments}
    words = set(re.findall(r"%(\w+)", body))
    used = [name for name in known if name in words]
    head = ", ".join(f"%{name}: {known[name]}" for name in used)
    return f"module {{\n{outside}\nnv_tileaa.func @k({head}) {attributes} {{\n{body}\nnv_tileaa.return\n}}\n}}\n"


def messages(text: str) -> list[str]:
    """What is wrong with a module, without positions."""
    try:
        found = diagnose(parse(text))
    except DiagnosticError as error:
        return [d.message for d in error.diagnostics]
    return [d.message for d in found]


def round_trip(text: str) -> str:
    """The printed module; AssertionError unless printing what it reads as gives the same text."""
    module = parse(text)
    printed = print_op(module)
    if printed != text:  # else it is shown already
        assert print_op(parse(printed)) == printed
    generic = print_op(module, generic=True)
    assert print_op(parse(generic)) == printed, "the generic form reads as something else"
    return printed
