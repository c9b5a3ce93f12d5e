# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is too large to compile is refused with its place, before memory is spent on it; what is not is compiled."""

import tracemalloc

import numpy as np
import pytest

import libtile
from generators import growing
from libtile.codegen import limits
from libtile.support.diagnostics import LoweringError


def module_of(variable: str) -> libtile.Module:
    """A kernel that copies the first element of a variable."""
    body = [
        "%a = get_global @g : tile<ptr<i32>>",
        "%x, %t = load_ptr_tko weak %a : tile<ptr<i32>> -> tile<i32>, token",
        growing.stored("%x"),
    ]
    return libtile.parse(growing.module(f"  {variable}\n", growing.kernel(body)), "big.mlir")


def refusal(module: libtile.Module) -> str:
    with pytest.raises(LoweringError) as caught:
        libtile.compile(module, gpu_name="sm_90")
    return str(caught.value)


def test_a_large_splat_is_refused_where_it_stands_and_takes_no_memory() -> None:
    module = module_of("global @g <i32: 7> : tile<16777216xi32>")
    libtile.compile(module_of("global @g <i32: 7> : tile<1xi32>"), gpu_name="sm_90", emit="llvm")
    tracemalloc.start()
    try:
        message = refusal(module)
        data = libtile.write(module, "13.3")
        assert len(libtile.print_module(libtile.read(data))) < 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "big.mlir:2:" in message
    assert "has 67108864 bytes of initial values that are not all zero, and 16777216 is the most on sm_90" in message
    assert len(data) < 500
    assert peak < 16 << 20


def test_a_large_variable_of_zeros_takes_no_room_in_ptx_and_cubin() -> None:
    made = libtile.compile(module_of("global @g <i32: 0> : tile<16777216xi32>"), gpu_name="sm_90")
    assert ".b8 g[67108864]" in made.ptx
    assert len(made.cubin) < 100_000


def test_the_interpreter_reads_variables_of_one_value() -> None:
    for value in (0, 7):
        out = np.full(1, -1, np.int32)
        module = module_of(f"global @g <i32: {value}> : tile<1048576xi32>")
        libtile.run(module, "k", grid=1, args=[out, 0])
        assert out[0] == value


def test_an_absurd_alignment_of_a_variable_is_refused_where_it_stands() -> None:
    message = refusal(module_of("global @g alignment = 1073741824 <i32: [7, 8]> : tile<2xi32>"))
    assert "big.mlir:2:" in message
    assert "asks for an alignment of 1073741824 bytes, and 65536 is the most on sm_90" in message
    most = limits.MAX_GLOBAL_ALIGNMENT
    made = libtile.compile(module_of(f"global @g alignment = {most} <i32: [7, 8]> : tile<2xi32>"), gpu_name="sm_90")
    assert len(made.cubin) < 10 * most


@pytest.mark.parametrize("size", ["num_elem = 64, alignment = 1073741824", "num_elem = 17179869184, alignment = 128"])
def test_absurd_sizes_of_an_alloca_are_asked_of_the_heap_when_the_kernel_runs(size: str) -> None:
    body = [
        f"%a = alloca {size} : tile<ptr<i32>>",
        "%t = store_ptr_tko weak %a, %n : tile<ptr<i32>>, tile<i32> -> token",
        "%x, %u = load_ptr_tko weak %a token=%t : tile<ptr<i32>> -> tile<i32>, token",
        growing.stored("%x"),
    ]
    made = libtile.compile(libtile.parse(growing.module(growing.kernel(body))), gpu_name="sm_90")
    assert "malloc" in made.ptx
    assert len(made.cubin) < 100_000


@pytest.mark.parametrize("conversion", ["%2000000000d", "%.2000000000f", f"%{'9' * 5000}d", "%1025d"])
def test_a_print_of_absurd_width_is_refused_where_it_stands(conversion: str) -> None:
    number = "%n" if conversion.endswith("d") else "%f"
    type_ = "tile<i32>" if number == "%n" else "tile<f32>"
    body = ["%f = constant <f32: 1.0> : tile<f32>", f'print_tko "{conversion}", {number} : {type_} -> token']
    message = refusal(libtile.parse(growing.module(growing.kernel(body)), "wide.mlir"))
    assert "wide.mlir:4:" in message
    assert "asks for more than 1024 characters" in message
