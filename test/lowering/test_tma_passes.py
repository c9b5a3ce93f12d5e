# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The TMA passes, where a test takes more than text: switches, several passes. The others are in test/lit/lowering."""

from __future__ import annotations

import pytest

from dialects.inner import GATHER, MEMREF, VIEW, messages, module
from libtile.asm import parse, print_op
from libtile.asm.module import diagnose
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

LOWER, SEPARATE, ATTACH, LEGALIZE = (
    "lower-tma-load-store-to-async",
    "separate-host-tma",
    "attach-tma-descriptor-args",
    "tileas-legalize-tmem-copy",
)
BOX = "box=[8,4]"
DESC = f"!nv_tileas.tma_desc<{MEMREF}, [8, 4]>"
TARGET = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}"


def after(passes: str, text: str) -> str:
    """The module after passes, verified; DiagnosticError when a pass or the verifier refuses it."""
    op = parse(text)
    assert diagnose(op) == []
    PassManager(parse_pipeline(passes)).run(op)
    printed = print_op(op)
    assert messages(printed) == []
    return printed


def load(attributes: str = "allow_tma, ", kind: str = "tma_load", view: str = VIEW, name: str = "%tv") -> str:
    return (
        f"%v = nv_tileas.tiled_load {name}[%i, %j] {{{attributes}atom = #nv_tileas.copy_atom<{kind}, {BOX}>}} : "
        f"{view}, index, index -> tile<4x8xf32>"
    )


def store(attributes: str = "allow_tma, ") -> str:
    return (
        f"%o = nv_tileas.tiled_store %tv[%i, %j], %v48, %t {{{attributes}atom = #nv_tileas.copy_atom<tma_store, "
        f"{BOX}>}} : {VIEW}, tile<4x8xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token"
    )


def test_a_store_fences_its_buffer_and_hands_its_token_on() -> None:
    text = after(
        LOWER, module(f"{store()}\n%u = nv_tileaa.join_mem_token %o : !nv_tileaa.mem_token -> !nv_tileaa.mem_token")
    )
    places = [
        text.index(name)
        for name in ("fence_proxy", "nv_tileas.barrier", "tiled_tma_store", "commit_group", "async.wait")
    ]
    assert places == sorted(places)
    assert "join_mem_token %arg" in text  # the copy is waited for: what is behind it comes behind its own predecessor


def test_tma_has_to_be_allowed_or_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = module(load(""))
    assert "nv_tileas.tiled_load" in after(LOWER, quiet)
    assert "tiled_tma_load" in after(f"{LOWER}{{prefer-tma=true}}", quiet)
    monkeypatch.setenv("TILEIR_PREFER_TMA_FOR_LOAD_STORE", "1")
    assert "tiled_tma_load" in after(LOWER, quiet)
    monkeypatch.setenv("TILEIR_PREFER_TMA_FOR_LOAD_STORE", "0")
    assert "nv_tileas.tiled_load" in after(LOWER, quiet)


def test_descriptors_are_numbered_in_order_and_shared_by_like_accesses() -> None:
    second = load().replace("%v =", "%w =")
    text = after(LOWER, module(f"{load()}\n{store()}\n{second}"))
    lines = [line for line in text.splitlines() if "tmaIdx" in line]
    numbers = [int(line.split("tmaIdx = ")[1].split(",")[0].split("}")[0]) for line in lines]
    assert numbers == [0, 0, 1, 1, 0]


def test_rows_selected_by_index_are_gathered() -> None:
    text = after(LOWER, module(load(view=GATHER, name="%gv")))
    assert "async.gather_tma_load" in text


# -- descriptors ------------------------------------------------------------------------------------------------------


def make(tensor: str = "%mr", index: str = ", tmaIdx = 0", more: str = "", type_: str = MEMREF) -> str:
    return (
        f"nv_tileas.make_tiled_tma_desc {tensor} {{atom = #nv_tileas.copy_atom<tma_load, {BOX}>{index}{more}}} : "
        f"{type_} -> !nv_tileas.tma_desc<{type_}, [8, 4]>"
    )


MEMREF_OF = (
    "%m = nv_tileaa.make_memref %p, %s, %j, %i, %j : !nv_tileaa.ptr<f32, 1>, index, index, index, index -> " + MEMREF
)


def test_a_kernel_without_descriptors_gets_no_host_module() -> None:
    assert "host" not in after(SEPARATE, module("%s = arith.addi %i, %j : index", TARGET))


IN_BRANCH = f"""scf.if %cond {{
  %s = arith.addi %i, %j : index
  {MEMREF_OF}
  %d = {make("%m")}
}}"""


def test_the_passes_work_one_behind_the_other() -> None:
    body = (
        f"{MEMREF_OF.replace('%s', '%i')}\n%a = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = "
        f"[array<i64: 0>, array<i64: 1>]}} : {MEMREF} -> {VIEW}\n{load(name='%a')}"
    )
    text = after(f"{LOWER},{SEPARATE},{ATTACH}", module(body, TARGET))
    kernel, host = text.split("module @k_host")
    assert "cute_nvgpu.grid_constant" in kernel and "make_tiled_tma_desc" in host and "block_tile" not in kernel


def test_a_descriptor_in_a_branch_moves_when_it_depends_on_arguments_only() -> None:
    kernel, host = after(SEPARATE, module(IN_BRANCH, TARGET, cond="i1")).split("module @k_host")
    assert "get_tma_desc" in kernel.split("scf.if")[1]
    assert "scf" not in host and "make_tiled_tma_desc" in host
