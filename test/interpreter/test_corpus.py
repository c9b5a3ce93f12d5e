# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the real frontend give the results that numpy gives, under every check and in every bytecode version."""

from __future__ import annotations

import pytest

import libtile

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

from kernels import corpus

RUNNABLE = [k for k in corpus.KERNELS.values() if k.problem is not None]


def check_kernel(kernel: corpus.Kernel, version: str, **options) -> None:
    data = corpus.export(kernel, version)
    case = corpus.case(kernel, seed=1)
    before = corpus.snapshot(case.args)
    libtile.run(data, kernel.name, grid=case.grid, args=case.args, **options)
    corpus.check_case(case, before, case.args)


@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_kernel_gives_its_result_and_has_no_fault(kernel):
    check_kernel(kernel, kernel.versions[-1], check="full")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_kernel_gives_its_result_in_every_version_and_order(kernel):
    for number, version in enumerate(kernel.versions):
        order = (None, "reverse", 1, 2, 3)[number]
        check_kernel(kernel, version, check=("basic", "off")[number % 2], block_order=order)


def test_a_kernel_gives_its_result_through_text():
    kernel = corpus.KERNELS["softmax"]
    module = libtile.parse(libtile.print_module(libtile.read(corpus.export(kernel, "13.4"))))
    case = corpus.case(kernel, seed=2)
    before = corpus.snapshot(case.args)
    libtile.run(module, kernel.name, grid=case.grid, args=case.args)
    corpus.check_case(case, before, case.args)


def test_an_array_list_is_a_list_of_arrays():
    import numpy as np

    kernel = corpus.KERNELS["array_list"]
    arrays = [np.arange(16, dtype=np.float32), np.arange(10, dtype=np.float32) + 100, np.ones(3, np.float32)]
    data = corpus.export(kernel, "13.4")
    entry_types = libtile.read(data).tile_module
    from libtile.interpreter.entries import find_entry

    count = len(find_entry(entry_types, None).parameters)
    elem = np.float32
    out = np.zeros((3, 16), elem)
    args = [[a.astype(elem) for a in arrays], 3, out, *out.shape, 16, 1]
    assert count == len(args)
    libtile.run(data, kernel.name, args=args)
    want = np.zeros((3, 16), elem)
    for row, array in zip(want, arrays):
        row[: array.size] = array
    assert np.array_equal(out, want)
