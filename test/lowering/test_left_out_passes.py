# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pipeline of one's own that lacks a pass is refused where code would be wrong without it, and is never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from libtile.passes.pipeline import parse_pipeline, pipeline_text
from libtile.passes.pipelines import compile_pipeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ITEMS = {level: parse_pipeline(compile_pipeline(level)) for level in (0, 3)}
TURNS = """cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) {
  %i = iota : tile<1024xi32>
  %b = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %s = broadcast %b : tile<1xptr<f32>> -> tile<1024xptr<f32>>
  %q = offset %s, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
  %c = constant <i32: 1023> : tile<1024xi32>
  %j = subi %c, %i : tile<1024xi32>
  %r = offset %s, %j : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
  %f = itof %i signed rounding<nearest_even> : tile<1024xi32> -> tile<1024xf32>
  %t = store_ptr_tko weak %q, %f : tile<1024xptr<f32>>, tile<1024xf32> -> token
  %x, %u = load_ptr_tko weak %r token=%t : tile<1024xptr<f32>> -> tile<1024xf32>, token
  %v = store_ptr_tko weak %q, %x token=%u : tile<1024xptr<f32>>, tile<1024xf32> -> token
  return } }"""


def without(name: str, level: int) -> str:
    items = [item for item in ITEMS[level] if getattr(item, "name", "") != name]
    assert len(items) < len(ITEMS[level])
    return pipeline_text(items)


NAMES = sorted({getattr(item, "name", "") for item in ITEMS[3]} - {""})


@pytest.mark.parametrize("name", NAMES)
def test_without_a_pass_code_is_made_or_refused(name: str) -> None:
    for kernel, gpu in (("gemm", "sm_90"), ("attention", "sm_80"), ("gemm", "sm_100")):
        try:
            libtile.compile(EXAMPLES / f"{kernel}.bc", gpu, emit="llvm", pipeline=without(name, 3))
        except libtile.LibtileError as error:
            assert "op " in str(error)


@pytest.mark.parametrize("level", ITEMS)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
def test_without_barriers_in_shared_memory_nothing_is_made(gpu: str, level: int) -> None:
    pipeline = without("tileas-insert-shared-barriers", level)
    with pytest.raises(libtile.LibtileError, match=r"\.py:\d+:\d+: .*tileas-insert-shared-barriers"):
        libtile.compile(EXAMPLES / "gemm.bc", gpu, level, emit="llvm", pipeline=pipeline)


@pytest.mark.parametrize("level", ITEMS)
def test_without_barriers_between_accesses_nothing_is_made(level: int) -> None:
    pipeline = without("tileas-insert-barriers", level)
    with pytest.raises(libtile.LibtileError, match=r"-:11:12: 'nv_tileas.load' op .*tileas-insert-barriers"):
        libtile.compile(TURNS.encode(), "sm_90", level, emit="llvm", pipeline=pipeline)


def test_with_all_passes_it_is_the_code_of_the_level() -> None:
    for kernel, gpu in (("gemm", "sm_90"), ("attention", "sm_100"), ("softmax", "sm_80")):
        made = [
            libtile.compile(EXAMPLES / f"{kernel}.bc", gpu, emit="llvm", pipeline=text).llvm_ir
            for text in ("", pipeline_text(ITEMS[3]))
        ]
        assert made[0] == made[1]
