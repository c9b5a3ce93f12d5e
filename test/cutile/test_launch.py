# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cutile.launch` and `cutile.on_host`: kernels of cuTile Python over arrays of the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
import pytest
from cuda.tile._exception import TypeCheckingError

from examples.export import portable_file_names
from libtile import cutile
from libtile.interpreter import InterpreterFault
from libtile.simulator import SimulationFault
from libtile.support.errors import LibtileError

TEST = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _portable():
    """cuTile keeps what it makes of its own functions, file names included, and other tests compare the bytes."""
    with portable_file_names():
        yield


BACKENDS = ("interpreter", "simulator")


@ct.kernel
def add(a, b, c, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, i, ct.load(a, i, (n,)) + ct.load(b, i, (n,)))


@ct.kernel
def scale(a, b, factor, wanted, shape: ct.Constant[tuple[int, int]]):
    at = (ct.bid(0), ct.bid(1))
    tile = ct.load(a, at, shape).astype(ct.float32)
    if wanted:
        tile = tile * factor
    ct.store(b, at, tile.astype(b.dtype))


@ct.kernel
def total(arrays, out, n: ct.Constant[int]):
    result = ct.zeros((n, n), ct.float32)
    for i in range(len(arrays)):
        result = result + ct.load(arrays[i], (0, 0), (n, n))
    ct.store(out, (0, 0), result)


@ct.kernel
def beyond(a, b):
    ct.scatter(b, ct.arange(16, dtype=ct.int32) + 8, ct.load(a, 0, (16,)), check_bounds=False)


@ct.kernel
def shout(n):
    ct.printf("block %d of %d", ct.bid(0), n)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_are_modified_in_place(backend: str):
    a, b = np.random.default_rng(0).random((2, 100), np.float32)
    c = np.zeros_like(a)
    result = cutile.launch(add, (7,), (a, b, c, 16), backend=backend, check="full,-view-range,-load-range")
    np.testing.assert_array_equal(c, a + b)
    assert result.blocks == 7


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_strided_views_scalars_and_tuples(backend: str, dtype: Any):
    whole = np.arange(40 * 40).reshape(40, 40).astype(dtype)
    a, b = whole[2:34, 1:33:2], np.zeros((16, 32), dtype).T
    for wanted in (True, False):
        cutile.launch(scale, (4, 2), (a, b, 0.5, wanted, (8, 8)), backend=backend)
        expected = a.astype(np.float32) * np.float32(0.5) if wanted else a
        np.testing.assert_array_equal(b, expected.astype(dtype))
    assert (whole == np.arange(40 * 40).reshape(40, 40).astype(dtype)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_of_strided_arrays(backend: str):
    rng = np.random.default_rng(0)
    arrays = [
        rng.random((16, 8), np.float32),
        rng.random((8, 8), np.float32).T,
        rng.random((40, 9), np.float32)[::2, 1:],
    ]
    out = np.zeros((8, 8), np.float32)
    cutile.launch(total, (1,), (arrays, out, 8), backend=backend)
    np.testing.assert_allclose(out, sum(a[:8, :8] for a in arrays), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_overlap_are_one_memory(backend: str):
    memory = np.arange(64, dtype=np.float32)
    expected = memory[1:17] + memory[4:20]
    cutile.launch(add, (1,), (memory[1:17], memory[4:20], memory[3:19], 16), backend=backend)
    np.testing.assert_array_equal(memory[3:19], expected)


def test_a_fault_names_the_line_of_the_kernel():
    a = np.zeros(16, np.float32)
    with pytest.raises(InterpreterFault) as caught:
        cutile.launch(beyond, (1,), (a, a.copy()))
    line = beyond._pyfunc.__code__.co_firstlineno + 2
    assert f"test_launch.py:{line}:" in str(caught.value) and "out-of-bounds" in str(caught.value)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_fault_of_compiled_code_names_that_line_too(gpu_name: str):
    a = np.zeros(16, np.float32)
    with pytest.raises(SimulationFault, match="out-of-bounds") as caught:
        cutile.launch(beyond, (1,), (a, a.copy()), backend="simulator", gpu_name=gpu_name)
    line = beyond._pyfunc.__code__.co_firstlineno + 2
    assert caught.value.source is not None and caught.value.source[1] == line
    assert f"test_launch.py:{line}]" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_kernel_prints_goes_to_stdout(backend: str, capsys: pytest.CaptureFixture[str]):
    cutile.launch(shout, (2,), (2,), backend=backend)
    assert sorted(capsys.readouterr().out.split("block ")[1:]) == ["0 of 2", "1 of 2"]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((1,), "Kernel expects 4 arguments but 1 was given"),
        ((np.zeros(3), np.zeros(3), np.zeros(3), "x"), "kernel argument #3: Could not interpret object of type 'str'"),
        ((object(), 1, 1, 1), "Invalid kernel argument #0: Objects of type 'object' are not supported"),
        (([], 1, 1, 1), "Empty lists are not supported"),
        (([1], 1, 1, 1), "Expected list items to be arrays, got int"),
        ((np.zeros(3, np.complex64), 1, 1, 1), "Unsupported array dtype"),
        ((np.zeros(3)[::-1], 1, 1, 1), "negative strides"),
        ((1 << 31, 1, 1, 1), "does not fit into the 32 bits"),
    ],
)
def test_arguments_that_are_refused(args: tuple[Any, ...], problem: str):
    with pytest.raises((TypeError, ValueError, OverflowError), match=problem) as caught:
        cutile.launch(add, (1,), args)
    assert isinstance(caught.value, LibtileError)


@pytest.mark.parametrize(
    ("grid", "problem"),
    [
        ([1], "must be a tuple"),
        ((1, 1, 1, 1), "at most 3"),
        ((1 << 24,), "24-bit limit"),
        ((None,), r"Grid\[0\] must be an integer, got NoneType"),
        ((1, (2,)), r"Grid\[1\] must be an integer, got tuple"),
    ],
)
def test_grids_that_are_refused(grid: Any, problem: str):
    with pytest.raises((TypeError, ValueError), match=problem) as caught:
        cutile.launch(shout, grid, (1,))
    assert isinstance(caught.value, LibtileError)


def test_a_kernel_that_cutile_refuses_is_an_error_of_its_own_class_and_of_ours():
    with pytest.raises(TypeCheckingError, match="Expected an array") as caught:
        cutile.launch(add, (1,), (1, 1, 1, 16))
    assert isinstance(caught.value, LibtileError) and type(caught.value).__name__ == "TypeCheckingError"
    with pytest.raises(LibtileError, match="not positive"):
        cutile.bytecode_for(add, (*(np.zeros(16, np.float32) for _ in range(3)), 0))


JUNK = [None, 1, 1.5, "x", b"x", [1], (1,), (None,), {}, object(), np.zeros(3), len, ct.launch]


@pytest.mark.parametrize("value", JUNK, ids=[type(value).__name__ + str(n) for n, value in enumerate(JUNK)])
def test_whatever_is_given_the_error_is_libtile_s(value: Any):
    a = np.zeros(16, np.float32)
    good = (a, a.copy(), a.copy(), 16)
    attempts: list[Callable[[], object]] = [
        lambda: cutile.launch(value, (1,), good),
        lambda: cutile.launch(add, value, good),
        lambda: cutile.launch(add, (1,), value),
        lambda: cutile.launch(add, (1,), (value, *good[1:])),
        lambda: cutile.launch(add, (1,), (*good[:3], value)),
        lambda: cutile.bytecode_for(add, good, gpu_name=value),
        lambda: cutile.bytecode_for(add, value),
        lambda: cutile.launched_kernels(value),
        *(
            partial(cutile.launch, add, (1,), good, backend=backend, **{option: value})
            for backend in BACKENDS
            for option in ("gpu_name", "check", "block_order", "out")
        ),
        lambda: cutile.launch(add, (1,), good, backend=value),
    ]
    for attempt in attempts:
        with suppress(LibtileError):
            attempt()


def test_on_host_ct_launch_runs_kernels():
    from cuda.tile import launch as copied

    a, b = np.random.default_rng(0).random((2, 100), np.float32)
    c = np.zeros_like(a)
    with cutile.on_host():
        ct.launch(None, (7,), add, (a, b, c, 16))
        assert ct.launch is not copied
    np.testing.assert_array_equal(c, a + b)
    assert ct.launch is copied


def test_what_is_tuned_with_no_gpu_is_the_first_that_compiles():
    from cuda.tile import tune

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    asked: list[int] = []

    def arguments(size: int) -> tuple[object, ...]:
        asked.append(size)
        return (x, x, y, size)

    def search(space: list[int]) -> tune.TuningResult[int]:
        return tune.exhaustive_search(
            space, None, lambda n: (-(-32 // n),), add, arguments, lambda n: {"occupancy": 2}, quiet=True
        )

    with cutile.on_host():
        found = search([3, 16, 8])
        assert found.best.config == 16 and found.best.num_samples == 0 and found.best.mean_us != found.best.mean_us
        assert asked == [3, 16], "those behind the first are not looked at"
        assert [(size, "power of two" in said) for size, _, said in found.failures] == [(3, True)]
        with pytest.raises(ValueError, match=r"No valid config found in search space\.\nConfig: 3\n"):
            search([3])
        with pytest.raises(ValueError, match="Search space is empty"):
            search([])
    assert (y == 0).all(), "nothing is run"


def test_on_host_replaces_copies_of_the_function():
    global copy_of_launch
    copy_of_launch = original = ct.launch
    with cutile.on_host():
        assert copy_of_launch is ct.launch is not original
    assert copy_of_launch is original
    del copy_of_launch


def test_bytecode_for_gives_what_is_run():
    data, name = cutile.bytecode_for(add, (np.zeros(64, np.float32),) * 3 + (16,))
    assert data.startswith(b"\x7fTileIR") and name.startswith("add")


def test_an_unknown_target_is_an_error():
    with pytest.raises(LibtileError, match="sm_42"), cutile.on_host(gpu_name="sm_42"):
        pass


def test_what_is_assumed_is_what_cutile_assumes():
    command = [sys.executable, "-m", "cutile.driver", "0", "60"]
    done = subprocess.run(command, cwd=TEST, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout == "60 compared\n"


@ct.kernel
def copy_part(x, y, start: int, stop: int):
    part, into = x.slice(0, start, stop), y.slice(0, start, stop)
    ct.store(into, (0,), ct.load(part, (0,), (8,)))


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_an_empty_slice_is_copied_to_an_empty_slice(backend: str):
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    cutile.launch(copy_part, (1,), (x, y, 4, 4), backend=backend)
    assert not y.any()
    with pytest.raises(LibtileError, match="index 0 of dimension 0 is outside of the view's 0"):
        cutile.launch(copy_part, (1,), (x, y, 4, 4), check="basic")


@ct.kernel
def multiply(a, b, c, tile: ct.Constant[int]):
    result = ct.zeros((tile, tile), ct.float32)
    for k in range(ct.num_tiles(a, 0, (tile, tile))):
        left = ct.transpose(ct.load(a, (k, 0), (tile, tile), padding_mode=ct.PaddingMode.ZERO))
        result = ct.mma(left, ct.load(b, (k, 0), (tile, tile), padding_mode=ct.PaddingMode.ZERO), result)
    ct.store(c, (0, 0), result)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_a_column_is_copied_whatever_its_stride(gpu_name: str):
    """Its second dimension has one element: cuTile promises that the stride there is a multiple of 16 bytes."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (240, n)).astype(np.float16) for n in (1, 64))
    c = np.zeros((1, 64), np.float32)
    cutile.launch(multiply, (1,), (a, b, c, 64), backend="simulator", gpu_name=gpu_name)
    np.testing.assert_array_equal(c, a.T.astype(np.float32) @ b.astype(np.float32))
