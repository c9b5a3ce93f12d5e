# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes, strides, indices, addresses and launches at the ends of their ranges: a result, or a located error of ours."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import libtile
from libtile.interpreter import memory
from libtile.interpreter.address_space import FIRST_ADDRESS, GUARD, Memory
from libtile.interpreter.entries import LaunchError
from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.interpreter.machine import Launch, Scheduler
from libtile.support.errors import LibtileError

from .programs import fault_of, module_text, run_body

SIZES = [0, 1, 7, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
STRIDES = [0, 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
INDICES = [0, 1, 2**31 - 1, 2**63 - 1, -1, -(2**63)]
PARAMETERS = "%p: tile<ptr<f32>>, %size: tile<i64>, %stride: tile<i64>, %i: tile<i64>"
TENSOR = "tensor_view<?x4xf32, strides=[?,1]>"
MAKE = f"""%z = constant <i64: 0> : tile<i64>
%tv = make_tensor_view %p, shape = [%size, 4], strides = [%stride, 1] : tile<i64> -> {TENSOR}
"""
PARTITION = f"partition_view<tile=(2x4), padding_value = zero, {TENSOR}>"
GATHER = f"gather_scatter_view<tile=(2x4), padding_value = zero, {TENSOR}, sparse_dim=0>"
TILES = {
    "partition": f"""%v = make_partition_view %tv : {PARTITION}
%l, %t = load_view_tko weak %v[%i, %z] : {PARTITION}, tile<i64> -> tile<2x4xf32>, token
%u = store_view_tko weak %l, %v[%i, %z] : tile<2x4xf32>, {PARTITION}, tile<i64> -> token
%d:2 = get_index_space_shape %v : {PARTITION} -> tile<i64>""",
    "gather": f"""%i1 = reshape %i : tile<i64> -> tile<1xi64>
%i2 = broadcast %i1 : tile<1xi64> -> tile<2xi64>
%v = make_gather_scatter_view %tv : {GATHER}
%l, %t = load_view_tko weak %v[%i2, %z] : {GATHER}, tile<2xi64>, tile<i64> -> tile<2x4xf32>, token
%u = store_view_tko weak %l, %v[%i2, %z] : tile<2x4xf32>, {GATHER}, tile<2xi64>, tile<i64> -> token""",
}


def signed(number: int) -> int:
    """The number whose 64 bits are those of an unsigned one."""
    number %= 1 << 64
    return number - (1 << 64) if number >> 63 else number


@pytest.mark.parametrize("check", ["off", "full"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", TILES)
def test_views_of_any_size_and_stride_run_or_fault_at_their_op(kind, size, check):
    module = libtile.parse(module_text(PARAMETERS, MAKE + TILES[kind]))
    for stride, index in itertools.product(STRIDES, INDICES):
        data = np.arange(32, dtype=np.float32).reshape(8, 4)
        before = data.copy()
        try:
            libtile.run(module, args=[data, signed(size), signed(stride), index], check=check)
        except InterpreterFault as fault:
            assert fault.op in (
                "cuda_tile.load_view_tko",
                "cuda_tile.store_view_tko",
                "cuda_tile.get_index_space_shape",
            )
            assert fault.location is not None
        assert np.array_equal(data, before), "what is loaded is stored where it was"


def test_an_element_that_no_address_reaches_is_out_of_bounds():
    args = [np.zeros((8, 4), np.float32), 7, signed(2**62), 0]
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, PARAMETERS, MAKE + TILES["partition"], args)
    assert "is beyond every address" in fault.message
    assert fault.index == (1, 3)


@pytest.mark.parametrize("address", [2**63 - 1, 2**63 - 8, -1, -(2**63), 0])
def test_an_access_at_the_end_of_the_addresses_is_out_of_bounds(address):
    body = """%q = int_to_ptr %a : tile<i64> -> tile<ptr<i8>>
    %l, %t = load_ptr_tko weak %q : tile<ptr<i8>> -> tile<i8>, token"""
    fault_of(FaultKind.OUT_OF_BOUNDS, "%p: tile<ptr<f32>>, %a: tile<i64>", body, [np.zeros(4, np.float32), address])


def test_allocas_have_a_limit_together(monkeypatch):
    monkeypatch.setattr(memory, "MAX_ALLOCA", 1000)
    twice = "\n".join(f"%a{i} = alloca num_elem = 600, alignment = 4 : tile<ptr<i8>>" for i in range(2))
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "", twice)
    assert "600 bytes cannot be satisfied beside 600 bytes of others" in fault.message
    one = "%a = alloca num_elem = 600, alignment = 4 : tile<ptr<i8>>"
    run_body("", one, grid=3)  # one after the other


def test_alignments_that_leave_no_address_are_a_fault():
    body = "\n".join(f"%a{i} = alloca num_elem = 1, alignment = {2**62} : tile<ptr<i8>>" for i in range(2))
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "", body)
    assert "no address that is a multiple of" in fault.message


def test_memory_that_the_machine_does_not_have_is_a_fault_of_the_op(monkeypatch):
    def none(*_, **__):
        raise MemoryError("none left")

    monkeypatch.setattr(memory.np, "full", none)
    fault = fault_of(FaultKind.MEMORY, "", "%a = alloca num_elem = 8, alignment = 4 : tile<ptr<i8>>")
    assert fault.op == "cuda_tile.alloca"
    assert "not enough of it: none left" in fault.message


MISFITS = {
    "%p: tile<ptr<f32>>": [2**63, -1, 10**5000, 1.5, float("nan"), "7", None, {}, 1j, b"x"],
    "%a: tile<i8>": [256, -129, 10**5000, 1.5, float("inf"), float("nan"), "x", None, {}, 1j, np.array([1, 2])],
    "%f: tile<f32>": [10**5000, "x", None, {}, 1j, np.array([1.0, 2.0])],
}


@pytest.mark.parametrize(("parameter", "number"), [(p, n) for p, values in MISFITS.items() for n in range(len(values))])
def test_an_argument_that_does_not_fit_is_a_launch_error(parameter, number):
    with pytest.raises(LaunchError):
        libtile.run(libtile.parse(module_text(parameter, "")), args=[MISFITS[parameter][number]])


GRIDS = ["a", None, (1.5,), (1, "x"), {}, 1j, float("inf"), 0, (1, 2, 3, 4), 2**127, ()]


@pytest.mark.parametrize("number", range(len(GRIDS)))
def test_a_grid_that_is_none_is_a_launch_error(number):
    with pytest.raises(LaunchError, match="a grid has one to three"):
        libtile.run(libtile.parse(module_text("", "")), grid=GRIDS[number])


def test_a_grid_of_thousands_of_digits_is_an_error_of_one_line():
    with pytest.raises(LibtileError, match=r"^run: grid is a number of more than 128 bits$"):
        libtile.run(libtile.parse(module_text("", "")), grid=10**5000)


def test_a_random_order_of_a_huge_grid_takes_no_list_of_it():
    def scheduler(*grid: int) -> Scheduler:
        return Scheduler(Launch(SimpleNamespace(ctas=1), grid, None), (), 3)

    first = list(itertools.islice(scheduler(2**24 - 1, 2**24 - 1, 2**24 - 1).sequence(), 1000))
    assert len(set(first)) == 1000
    assert sorted(scheduler(50, 100, 1).sequence()) == list(range(5000))


def test_addresses_do_not_tell_where_the_host_has_arrays():
    room = np.zeros(4096, np.uint8)
    low, high = room[:256], room[2048:2304]
    for arrays in ((low, high), (high, low)):
        addresses = Memory().map_arrays([(array, "an array") for array in arrays])
        assert addresses == [FIRST_ADDRESS, FIRST_ADDRESS + 256 + GUARD]
