# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each diagnostic that the documents name of the inner dialects is one of a compilation: a module goes to `tileiras`,
and it says so. The list is that of `dialects/inner_roster.toml`; the modules are the lit tests' where the verifier
finds the fault, and kernels that are written here where a pass does.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import libtile
from dialects.inner_diagnostics import expected, files
from libtile.lowering.tileas.tma.separate_host import MAX_DEVICE_DESCRIPTORS
from libtile.lowering.to_tileas.shape_layouts import spread
from libtile.support.errors import LibtileError
from lowering.tma_programs import ENTRY, TENSOR, body
from patience import PATIENCE

ROSTER = Path(__file__).parents[1] / "dialects" / "inner_roster.toml"
DIAGNOSTICS = [text for texts in tomllib.loads(ROSTER.read_text())["diagnostics"].values() for text in texts]
TARGETS = ("sm_90", "sm_100")

INSTEAD = {
    # A compilation has no functions but kernels when it comes to TMA, and verifies their kernel_spec before.
    "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function": "is no kernel",
    "expect lower MakeTiledTMADescOp": "is no kernel",
    # Descriptors are counted by the pass that checks the counts, unless it is told not to.
    "funcOp lack tmaDeviceNum and tmaHostNum attr": "",
    "tmaIdx exceed tmaHostNum.": "",
}
"""Diagnostics that no module can cause but one of a pass that runs alone: what the compilation says of the lit test's
module, or nothing where it says nothing of it."""

HEAD = f"""
!t = tensor<8x32xf32, #nv_tileas.layout<{body(spread((8, 32), 4, 4, (1, 0)))}>>
!p = !nv_tileaa.ptr<f32, 1>
!m = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!m, 8x32>
!desc = !nv_tileas.tma_desc<!m, [32, 8]>
!shared = !nv_tileas.buffer<8x32xf32, shared>
nv_tileaa.func @k(%a: !p, %rows: i32, %columns: i32, %stride: i32) {ENTRY} {{
  %m = arith.index_cast %rows : i32 to index
  %n = arith.index_cast %columns : i32 to index
  %s = arith.index_cast %stride : i32 to index
  %from = nv_tileaa.make_memref %a, %m, %n, %s {TENSOR} : !p, index, index, index -> !m
  %zero = arith.constant 0 : i32
"""
LOADS = "atom = #nv_tileas.copy_atom<tma_load, box=[32,8]>"
VIEW = """  %v = nv_tileaa.block_tile %from {tileSizes = array<i64: 8, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !m -> !v"""
BARRIER = "  %{} = nv_tileas.create_mbarrier {{arrivals = 1}} : !nv_tileas.mbarrier"
DESCRIPTOR = f"""  %d = nv_tileas.make_tiled_tma_desc %from {{{LOADS}, tmaIdx = 0}} : !m -> !desc
  %b = nv_tileas.alloc_tensor : !shared"""


def _load(barrier: str, more: str = ", tx_count = 1024") -> str:
    operand, kind = (f", {barrier}", ", !nv_tileas.mbarrier") if barrier else ("", "")
    return f"""  %t = nv_tileas.async.tiled_tma_load %d[%zero, %zero], %b{operand} {{{LOADS}, tmaIdx = 0{more}}}
    : !desc, i32, i32, !shared{kind} -> !nv_tileas.async_token"""


def _copy(tile: str) -> list[str]:
    types = [f"!nv_tileas.buffer<{tile}, {space}>" for space in ("tmem", "shared")]
    made = [f"  %{name} = nv_tileas.alloc_tensor : {kind}" for name, kind in zip("xy", types)]
    return [*made, f"  nv_tileas.copy %x, %y : {', '.join(types)}"]


PROGRAMS = {
    "TmaLoad only support zero padding now": [
        VIEW,
        "  %x = nv_tileas.tiled_load %v[%zero, %zero] {allow_tma, padding_value = #nv_tileaa.padding_value<nan>, "
        f"{LOADS}}} : !v, i32, i32 -> !t",
    ],
    "failed to get expected tx-count": [DESCRIPTOR, BARRIER.format("q"), _load("%q", "")],
    "failed to get MBarrier object": [DESCRIPTOR, _load("")],
    "failed to find smem buffer address for mbarrier": [
        DESCRIPTOR, BARRIER.format("q"), BARRIER.format("r"),
        "  %c = arith.cmpi eq, %rows, %zero : i32\n  %e = arith.select %c, %q, %r : !nv_tileas.mbarrier", _load("%e"),
    ],
    "failed to init mbarrier": [DESCRIPTOR, "  %q = nv_tileas.create_mbarrier : !nv_tileas.mbarrier", _load("%q")],
    "failed to infer register layout from tmem layout": _copy("64x32xf32"),
    "failed to infer source layout from tmem layout": _copy("128x32xf64"),
    "too many device TMA descriptors": [
        f"  %d{i} = nv_tileas.make_tiled_tma_desc %from {{{LOADS}, on_device, tmaIdx = {i}}} : !m -> !desc"
        for i in range(MAX_DEVICE_DESCRIPTORS + 1)
    ],
}  # fmt: skip
"""Kernels that a pass of the compilation refuses, by what it says."""


@cache
def _modules() -> list[tuple[str, str]]:
    """The parts of lit tests that announce errors, and all that each announces."""
    parts = [part for path in files() for part in re.split(r"^// -----$", path.read_text(), flags=re.MULTILINE)]
    return [("\n".join(found), part) for part in parts if (found := _announced(part))]


def _announced(part: str) -> list[str]:
    class Part:
        @staticmethod
        def read_text() -> str:
            return part

    return list(expected(Part()))  # type: ignore[arg-type]


def _pattern(diagnostic: str) -> str:
    return ".*".join(re.escape(text) for text in diagnostic.split("{}"))


def _said(text: str, gpu_name: str) -> str:
    try:
        libtile.compile(libtile.parse(text), gpu_name=gpu_name)
    except LibtileError as error:
        return str(error)
    return ""


def _candidates(diagnostic: str) -> list[str]:
    if diagnostic in PROGRAMS:
        return [HEAD + "\n".join(PROGRAMS[diagnostic]) + "\n  nv_tileaa.return\n}\n"]
    pattern = _pattern(diagnostic).replace(".*", r".*?")
    return [part for announced, part in _modules() if re.search(pattern, announced)]


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_a_compilation_says_it(diagnostic: str) -> None:
    candidates = _candidates(diagnostic)
    assert candidates, "no lit test announces it"
    said = [_said(text, gpu_name) for text in candidates for gpu_name in TARGETS]
    if diagnostic in INSTEAD:
        assert not any(re.search(_pattern(diagnostic), text) for text in said), "it does: take it off INSTEAD"
        assert any(INSTEAD[diagnostic] in text for text in said)
    else:
        assert any(re.search(_pattern(diagnostic), text) for text in said), said


def test_a_kernel_without_faults_compiles() -> None:
    assert _said(HEAD + "  nv_tileaa.return\n}\n", "sm_90") == ""


def test_the_command_says_it(tmp_path: Path) -> None:
    diagnostic = "failed to get MBarrier object"
    path, result = tmp_path / "k.mlir", tmp_path / "k.cubin"
    path.write_text(_candidates(diagnostic)[0])
    command = [sys.executable, "-m", "tileiras", "--gpu-name=sm_90", str(path), "-o", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 5 and not result.exists()  # as the original ends where it cannot compile
    assert f"'nv_tileas.async.tiled_tma_load' op {diagnostic}" in done.stderr
