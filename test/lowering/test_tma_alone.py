# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lower-tma-load-store-to-async` on modules written by hand: the interpreter sees the same memory before and behind
it, at edges too, and finds a wait that is missing."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import libtile
from libtile.asm.module import load
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.interpreter import FaultKind, InterpreterFault
from libtile.lowering.tileas.tma.lower_async import LowerTmaLoadStoreToAsyncPass
from libtile.support.diagnostics import DiagnosticError

MEMREF = "!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>"
LAYOUT = "#nv_tileas.layout<register=[[0,1],[0,2]], lane=[[0,4],[0,8],[0,16],[1,0],[2,0]], warp=[[4,0],[0,0]] : 8x32>"
TILING = "{tileSizes = array<i64: 8, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}"
STORE = """nv_tileas.tiled_store %w[%i, %j], %x
    {allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[32,8], mode=store>} : !v, !t, index, index"""
REDUCE = """%old = nv_tileas.tiled_atomic_rmw %w[%i, %j], %x
    {allow_tma, rmw_mode = #nv_tileaa.rmw_mode<add>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>,
     mem_scope = #nv_tileaa.mem_scope<gpu>, atom = #nv_tileas.copy_atom<tma_redg, box=[32,8], mode=reduce>}
    : !v, !t, index, index -> !t"""


def module(tiling: str = "", effect: str = STORE, groups: str = TILING) -> ModuleOp:
    """A kernel that loads a tile of one memref and stores it to another, or adds it there."""
    text = f"""
!t = tensor<8x32xf32, {LAYOUT}>
!v = !nv_tileaa.tiled_view<{MEMREF}, 8x32{tiling}>
nv_tileaa.func @k(%a: {MEMREF}, %b: {MEMREF}, %i: index, %j: index)
    attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}} {{
  %v = nv_tileaa.block_tile %a {groups} : {MEMREF} -> !v
  %w = nv_tileaa.block_tile %b {groups} : {MEMREF} -> !v
  %x = nv_tileas.tiled_load %v[%i, %j]
    {{allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[32,8], mode=tiled>}} : !v, index, index -> !t
  {effect}
  nv_tileaa.return
}}
"""
    op = load(text.encode())
    assert isinstance(op, ModuleOp)
    libtile.verify(op)
    return op


def lowered(op: ModuleOp) -> ModuleOp:
    made = op.clone()
    LowerTmaLoadStoreToAsyncPass().apply(Context(), made)
    libtile.verify(made)
    assert any(inner.name == "nv_tileas.async.tiled_tma_load" for inner in made.walk())
    return made


def memory(op: Operation, i: int, j: int) -> np.ndarray:
    """What a run on 20 x 60 elements (of rows of 80) leaves."""
    source = np.arange(24 * 80, dtype=np.float32).reshape(24, 80)
    target = np.ones_like(source)
    libtile.run(op, args=[source, 20, 60, 80, target, 20, 60, 80, i, j])
    return target


@pytest.mark.parametrize("at", [(0, 0), (1, 1), (2, 1)], ids=str)
@pytest.mark.parametrize("effect", [STORE, REDUCE], ids=["store", "reduction"])
@pytest.mark.parametrize("tiling", ["", ", #nv_tileaa.tiling<padding=zero>"], ids=["plain", "padded"])
def test_copies_by_tma_write_what_the_accesses_wrote(tiling, effect, at):
    before = module(tiling, effect)
    expected = memory(before, *at)
    assert not np.all(expected == 1)
    assert np.array_equal(memory(lowered(before), *at), expected)


def test_a_view_that_turns_dimensions_round_is_refused():
    groups = TILING.replace("i64: 0>, array<i64: 1>", "i64: 1>, array<i64: 0>")
    turned = module(", #nv_tileaa.tiling<dim_map=[1,0]>", STORE.replace("box=[32,8]", "box=[8,32]"), groups)
    (load_,) = (inner for inner in turned.walk() if inner.name == "nv_tileas.tiled_load")
    load_.properties["atom"] = CopyAtomAttr("tma_load", 0, (8, 32), "tiled")
    with pytest.raises(DiagnosticError, match=r"goes through a dim_map \[1, 0\], and a TMA copy keeps the order"):
        LowerTmaLoadStoreToAsyncPass().apply(Context(), turned)


@pytest.mark.parametrize("name", ["nv_tileas.mbarrier_wait", "nv_tileas.mbarrier_arrive"])
def test_a_copy_that_is_not_waited_for_is_found(name):
    made = lowered(module())
    (op,) = (inner for inner in made.walk() if inner.name == name)
    op.detach()
    op.erase()
    with pytest.raises(InterpreterFault) as caught:
        memory(made, 0, 0)
    assert caught.value.kind is (FaultKind.RACE if name.endswith("wait") else FaultKind.DEADLOCK)
