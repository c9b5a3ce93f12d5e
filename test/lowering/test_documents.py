# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worked examples of the documents that define the inner dialects, as kernels: what can be compiled agrees with
numpy in the simulator on every target class, and what cannot be yet runs in the interpreter and is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libtile
from generators.check import TARGETS
from libtile.support.diagnostics import LoweringError

FOLDER = Path(__file__).with_name("documents")

NOT_COMPILED = {
    "queue": r"queue.mlir:11:8: 'nv_tileaa.create_queue' op has a type that hands on tiles",
    "turns": r"'nv_tileas.async.pipeline.producer_write' op holds a !nv_tileas.buffer<64xf32, shared>",
}
"""The examples that no target compiles: what is said of them."""

Case = tuple[list[Any], int, np.ndarray]
"""The arguments of a run, which of them it writes, and what it leaves there."""


def product(rng: np.random.Generator) -> Case:
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((160, 64), (64, 160)))
    c = np.zeros((160, 160), np.float32)
    i, j, k = 17, 5, 32
    args = [a, b, c, 0, 0, 0, 160, 160, 64, 64, 1, 160, 1, 160, 1, i, j, k]
    expected = c.copy()
    expected[i : i + 128, j : j + 128] = 0.5 + a[i : i + 128, k:].astype(np.float32) @ b[k:, j : j + 128]
    return args, 2, expected


def queue(rng: np.random.Generator) -> Case:
    turns = 5
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((64, 32 * turns), (32 * turns, 64)))
    c = np.zeros((64, 64), np.float32)
    args = [a, *a.shape, a.shape[1], 1, b, *b.shape, b.shape[1], 1, c, 64, 64, 64, 1, turns]
    return args, 10, a.astype(np.float32) @ b.astype(np.float32)


def turns(rng: np.random.Generator) -> Case:
    items = 7
    source, target = rng.standard_normal(64 * items, np.float32), np.zeros(64 * items, np.float32)
    return [source, source.size, 1, target, target.size, 1, items], 3, 2 * source


EXAMPLES = {"product": product, "queue": queue, "turns": turns}


def check(name: str, **options: Any) -> None:
    args, written, expected = EXAMPLES[name](np.random.default_rng(0))
    libtile.run(FOLDER / f"{name}.mlir", args=args, **options)
    assert np.array_equal(args[written], expected)


def test_every_example_is_a_test():
    assert {path.stem for path in FOLDER.glob("*.mlir")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_in_the_interpreter(name):
    check(name)


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NOT_COMPILED])
def test_an_example_is_compiled_and_agrees_with_numpy(name, gpu_name):
    check(name, backend="simulator", gpu_name=gpu_name, check="full")


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", NOT_COMPILED)
def test_an_example_that_cannot_be_compiled_is_refused_by_name(name, gpu_name):
    with pytest.raises(LoweringError, match=NOT_COMPILED[name]):
        libtile.compile(FOLDER / f"{name}.mlir", gpu_name)
