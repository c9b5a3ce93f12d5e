# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A valid text of every op of the inner dialects, in a function that defines what it uses.

The texts are in inner_samples.txt, and those of elementwise ops come from their declarations. What a pure op makes is
printed, or handed to another op that stays.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from dialects.inner import GATHER, MEMREF, PIPE, SHARED, VIEW, module
from libtile.dialects.nv_tileaa.arithmetic import ROWS

TARGET = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}"
TENSOR_MEMORY = ("nv_tileas.async.dot_into", "nv_tileas.dealloc_tensor")
"""Ops whose samples are for a target with tensor memory."""
NAMES = {
    "GATHER": GATHER,
    "MEMREF": MEMREF,
    "PIPE": PIPE,
    "SHARED": SHARED,
    "VIEW": VIEW,
    "POINTERS": "tile<4x!nv_tileaa.ptr<f32, 1>>",
    "TOKEN": "!nv_tileaa.mem_token",
    "DESC": f"!nv_tileas.tma_desc<{MEMREF}, [8, 4]>",
    "LOAD_ATOM": "#nv_tileas.copy_atom<tma_load, box=[8,4], mode=tiled>",
    "STORE_ATOM": "#nv_tileas.copy_atom<tma_store, box=[8,4], mode=store>",
    "FA": "tensor<16x16xf8E4M3FN, #nv_tileas.layout<register=[[0,1],[8,0],[0,8]], "
    "lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x16>>",
    "FB": "tensor<16x8xf8E4M3FN, #nv_tileas.layout<register=[[1,0],[8,0]], "
    "lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], warp=[] : 16x8>>",
    "FC": "tensor<16x8xf32, #nv_tileas.layout<register=[[0,1],[8,0]], "
    "lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x8>>",
    "FS": "tensor<16x1xf8E8M0FNU, #nv_tileas.layout<register=[[8,0]], "
    "lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[] : 16x1>>",
    "FT": "tensor<1x8xf8E8M0FNU, #nv_tileas.layout<register=[[0,1]], "
    "lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x8>>",
    "RELAXED": "#nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>",
}
"""What texts say as `$NAME`."""

ARGUMENTS = {
    "one": "tile<1x8xf32>",
    "l4": "tile<4xi64>",
    "b4": "!nv_tileas.buffer<4xf32, shared>",
    "qa": "tile<4x64xf8E4M3FN>",
    "qb": "tile<64x4xf8E4M3FN>",
    "qs": "tile<4x2xf8E8M0FNU>",
    "qt": "tile<2x4xf8E8M0FNU>",
    **{name: NAMES[name.upper()] for name in ("fa", "fb", "fc", "fs", "ft")},
}
"""Types of values that only samples need."""

OUTSIDE = """\
nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<1xf32>}
nv_tileaa.func @started(%x: tile<f32>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
nv_tileaa.func @other(%x: tile<f32>) -> tile<f32> {
  nv_tileaa.return %x : tile<f32>
}"""
"""What samples refer to that name `@g`, `@other` or `@started`."""


def _elementwise() -> dict[str, str]:
    texts = {}
    for name, row in ROWS.items():
        kinds = ["x4" if row.kind == "int" or o == row.integer_operand else "v4" for o in row.operands.split()]
        types = ", ".join("tile<4xi32>" if k == "x4" else "tile<4xf32>" for k in kinds)
        result = "tile<4xi32>" if row.kind == "int" else "tile<4xf32>"
        texts[f"nv_tileaa.{name}"] = (
            f"%r = nv_tileaa.{name} {', '.join('%' + k for k in kinds)} : {types} -> {result}\n"
            f'nv_tileaa.print %r {{format = "%f"}} : {result}'
        )
    return texts


def _written() -> dict[str, str]:
    parts = re.split(r"^## (\S+)\n", Path(__file__).with_suffix(".txt").read_text(), flags=re.MULTILINE)
    return {name: Template(body).safe_substitute(NAMES) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


BODIES: dict[str, str] = {**_elementwise(), **_written()}
"""By op, the body of a function."""


def head(name: str) -> str:
    """The attributes of the function around the sample of an op."""
    return TARGET.replace("sm_90", "sm_100") if name in TENSOR_MEMORY else TARGET


def text(name: str) -> str:
    """The module around the sample of an op."""
    body = BODIES[name]
    return module(body, head(name), OUTSIDE if "@" in body else "", **ARGUMENTS)
