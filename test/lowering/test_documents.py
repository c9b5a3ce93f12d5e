# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worked examples of the documents that define the inner dialects, as kernels: they agree with numpy in the
interpreter, and in the simulator on every target class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libtile
from generators.check import TARGETS

FOLDER = Path(__file__).with_name("documents")

Case = tuple[list[Any], int, np.ndarray]
"""The arguments of a run, which of them it writes, and what it leaves there."""


def product(rng: np.random.Generator) -> Case:
    """Pointers move by elements, memrefs by bytes: an offset of 8 is 12 halves into A and B, and 2 floats into C."""
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((160, 64), (64, 160)))
    given = [np.concatenate([np.full(12, np.nan, np.float16), x.reshape(-1)]) for x in (a, b)]
    c = np.zeros(2 + 160 * 160, np.float32)
    i, j, k = 17, 5, 32
    args = [*given, c, 8, 8, 8, 160, 160, 64, 64, 1, 160, 1, 160, 1, i, j, k]
    expected = c.copy()
    inside = expected[2:].reshape(160, 160)[i : i + 128, j : j + 128]
    inside[:] = 0.5 + a[i : i + 128, k:].astype(np.float32) @ b[k:, j : j + 128]
    return args, 2, expected


def queue(rng: np.random.Generator) -> Case:
    turns = 5
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((64, 32 * turns), (32 * turns, 64)))
    c = np.zeros((64, 64), np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, 64, 64, 64, 1, turns]
    return args, 8, a.astype(np.float32) @ b.astype(np.float32)


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
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_compiled_and_agrees_with_numpy(name, gpu_name):
    check(name, backend="simulator", gpu_name=gpu_name, check="full")
