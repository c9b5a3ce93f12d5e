# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each pass of the lowering keeps what a kernel does: the interpreter, which knows nothing of the lowering, runs the
module before it and behind it, on the examples, the corpus and random programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Operation

import libtile
from generators.check import TARGETS, parsed
from generators.core import Program
from generators.programs import program
from libtile.asm.module import load
from lowering import pass_checks
from lowering.pass_checks import Seen, check_passes, copied, passes_that_change, watch

ROOT = Path(__file__).resolve().parents[2]
FEW = (
    "atomic_view_add_f16", "gather_rows", "mma_chained", "mma_scaled_f4_f8e8m0fnu_16",
    "ordered_views", "scatter_rows",
)  # fmt: skip
"""Kernels of the corpus with accesses of all kinds, products, loops, reductions, conversions."""


def check_kernel(name: str) -> None:
    corpus = pytest.importorskip("kernels.corpus", reason="the cuTile frontend (cuda-tile) is not installed")
    kernel = corpus.KERNELS[name]
    case = corpus.case(kernel, seed=1)
    module = load(corpus.export(kernel, kernel.versions[-1]))
    check_passes(module, name, case.grid, lambda: copied(case.args), kernel.gpu_code)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.bc")), ids=lambda p: p.stem)
def test_every_pass_keeps_what_an_example_does(path):
    check_kernel(path.stem)


@pytest.mark.parametrize("options", [{}, {"backend": "simulator"}], ids=["interpreter", "simulator"])
def test_what_the_last_stage_prints_runs_with_the_descriptors_that_its_host_code_makes(options):
    corpus = pytest.importorskip("kernels.corpus", reason="the cuTile frontend (cuda-tile) is not installed")
    kernel = corpus.KERNELS["gemm"]
    case = corpus.case(kernel, seed=1)
    printed = libtile.compile(corpus.export(kernel, kernel.versions[-1]), "sm_90", emit="tileas").tileas
    assert "nv_tileas.hidden" in printed
    wanted, found = copied(case.args), copied(case.args)
    libtile.run(libtile.parse(printed), "gemm", grid=case.grid, args=found, gpu_name="sm_90", **options)
    libtile.run(corpus.export(kernel, kernel.versions[-1]), "gemm", grid=case.grid, args=wanted)
    for one, other in zip(wanted, found, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", FEW)
def test_every_pass_keeps_what_a_kernel_does(name):
    check_kernel(name)


@pytest.mark.slow
def test_every_pass_keeps_what_every_kernel_does():
    corpus = pytest.importorskip("kernels.corpus", reason="the cuTile frontend (cuda-tile) is not installed")
    for kernel in corpus.KERNELS.values():
        if kernel.problem is not None:
            check_kernel(kernel.name)


def check_program(p: Program, gpu_name: str) -> None:
    check_passes(parsed(p).op, "kernel", p.grid, p.arguments, gpu_name)


@pytest.mark.parametrize("seed", range(8))
def test_every_pass_keeps_what_a_random_program_does(seed):
    check_program(program(1000 + seed, "all"), TARGETS[seed % len(TARGETS)])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 50))
def test_every_pass_keeps_what_many_random_programs_do(start):
    for seed in range(start, start + 50):
        p = program(seed, "all")
        try:
            check_program(p, TARGETS[seed % len(TARGETS)])
        except Exception as error:
            error.add_note(f"in test/: python -m generators {seed} --profile all --print")
            raise


def test_large_tiles_that_are_worked_through_in_pieces_stay_what_they_are():
    text = """cuda_tile.module @m {
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
        %i = iota : tile<131072xi32>
        %s = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
        %b = broadcast %s : tile<1xptr<f32>> -> tile<131072xptr<f32>>
        %a = offset %b, %i : tile<131072xptr<f32>>, tile<131072xi32> -> tile<131072xptr<f32>>
        %x, %t = load_ptr_tko weak %a : tile<131072xptr<f32>> -> tile<131072xf32>, token
        %y = reduce %x dim=0 identities=[0.0 : f32] : tile<131072xf32> -> tile<f32>
          (%l: tile<f32>, %r: tile<f32>) {
            %m = maxf %l, %r : tile<f32>
            yield %m : tile<f32>
          }
        %u = store_ptr_tko weak %q, %y : tile<ptr<f32>>, tile<f32> -> token
        return
      }
    }"""
    source = np.sin(np.arange(131072, dtype=np.float32) * 7)
    module = load(text.encode())
    assert "strip-mine" in passes_that_change(module, "sm_90")
    check_passes(module, "k", 1, lambda: [source.copy(), np.zeros(1, np.float32)])


ADD_SEVEN = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %c = constant <i32: 7> : tile<i32>
    %y = addi %x, %c : tile<i32>
    %t = store_ptr_tko weak %p, %y : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}"""


def test_a_pass_that_changes_what_a_kernel_does_is_found(monkeypatch):
    def broken(module: Operation, gpu_name: str, seen: Seen) -> int:
        def behind(name: str, made: Operation) -> None:
            if name == "convert-tileaa-to-tileas":
                (op,) = (o for o in made.walk() if o.name == "arith.addi")
                op.operands = [op.operands[0], op.operands[0]]
            seen(name, made)

        return watch(module, gpu_name, behind)

    monkeypatch.setattr(pass_checks, "watch", broken)
    with pytest.raises(AssertionError, match="convert-tileaa-to-tileas changes array 0"):
        check_passes(load(ADD_SEVEN.encode()), "k", 1, lambda: [np.zeros(1, np.int32), 5])
