# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference assembler takes what the optimizer writes, at every level, and what passes beside the levels write."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from generators.programs import program
from oracle import run_tileiras

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.bc"))
pytestmark = pytest.mark.oracle


def check(source: object, gpu_name: str = "sm_90", **options: object) -> None:
    optimized = libtile.optimize(source, **options)  # type: ignore[arg-type]
    done = run_tileiras(libtile.write(optimized), gpu_name)
    assert done.rc == 0, done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_accepted(path: Path) -> None:
    level = EXAMPLES.index(path) % 3 + 1  # so that every level has its turn
    check(path, level=level, after="infer-in-bounds, strip-debug-info" if level == 3 else "")


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_level_of_every_example_is_accepted(path: Path, level: int) -> None:
    check(path, level=level)
    check(path, level=level, fuse_fma=True, after="infer-in-bounds")


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_are_accepted(seed: int) -> None:
    check(program(seed, "control").text.encode())


@pytest.mark.slow
def test_many_random_programs_are_accepted() -> None:
    for seed in range(3, 60):
        check(program(seed, "control").text.encode(), level=seed % 3 + 1)


@pytest.mark.slow
def test_kernels_of_the_corpus_are_accepted() -> None:
    pytest.importorskip("cuda.tile", reason="the corpus is exported by the cuda-tile package")
    from kernels import corpus

    for kernel in corpus.KERNELS.values():
        data = corpus.export(kernel, "13.3" if "13.3" in kernel.versions else str(kernel.versions[-1]))
        if run_tileiras(data, "sm_100").rc == 0:
            check(data, "sm_100")
