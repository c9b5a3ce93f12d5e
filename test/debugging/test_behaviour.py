# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparing what programs do: arguments that fit them, and every kind of difference."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from generators.programs import program
from libtile import LibtileError, compare_runs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def kernel(body: str, parameters: str = "%p: tile<ptr<i32>>, %n: tile<i32>", name: str = "k") -> bytes:
    return f"cuda_tile.module @m {{ entry @{name}({parameters}) {{\n{body}\nreturn }} }}".encode()


STORE = "%s = store_ptr_tko weak %p, %n : tile<ptr<i32>>, tile<i32> -> token"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.bc")), ids=lambda path: path.stem)
def test_arguments_are_found_for_every_example(path):
    """Among them views whose sizes and strides are parameters; the counts say that the runs did something."""
    assert compare_runs(path, path, runs=1) == libtile.debugging.behaviour.Behaviour(1)


@pytest.mark.slow
def test_arguments_are_found_for_random_programs():
    found = 0
    for seed in range(8):
        text = program(seed).text.encode()
        try:
            found += compare_runs(text, text, runs=1).runs
        except LibtileError as error:
            assert "no arguments were found on which @kernel runs to its end" in str(error)
    assert found >= 4


def test_other_bytes_in_memory_are_a_difference():
    other = kernel("%m = negi %n : tile<i32>\n" + STORE.replace("%n :", "%m :"))
    assert compare_runs(kernel(STORE), kernel(STORE)).difference is None
    difference = compare_runs(kernel(STORE), other, runs=8).difference
    assert difference is not None and "element 0 of parameter 0 is 0x" in difference


def test_other_output_is_a_difference():
    one, other = (kernel(f'%t = print_tko "{word} %d", %n : tile<i32> -> token') for word in ("one", "other"))
    difference = compare_runs(one, other).difference
    assert difference is not None and "only one of them prints 'one " in difference


def test_a_fault_of_the_second_only_is_a_difference():
    far = (
        "%c = constant <i32: 100000000> : tile<i32>\n%q = offset %p, %c : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    )
    faulty = kernel(far + STORE.replace("%p,", "%q,"))
    difference = compare_runs(kernel(STORE), faulty).difference
    assert difference is not None and "the second one ends with: -:4:" in difference
    with pytest.raises(LibtileError, match=r"no arguments were found on which @k runs to its end.*out-of-bounds"):
        compare_runs(faulty, kernel(STORE))


def test_larger_arrays_are_given_where_small_ones_do_not_do():
    far = "%c = constant <i32: 100000> : tile<i32>\n%q = offset %p, %c : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    text = kernel(far + STORE.replace("%p,", "%q,"))
    assert compare_runs(text, text).difference is None


def test_assumptions_on_parameters_are_kept():
    body = "%a = assume div_by<32>, %n : tile<i32>\n%b = assume bounded<100, 200>, %a : tile<i32>\n" + STORE.replace(
        "%n :", "%b :"
    )
    assert compare_runs(kernel(body), kernel(body), runs=6).runs == 6


def test_a_run_without_an_end_is_given_up():
    text = kernel("loop { continue }\n")
    with pytest.raises(LibtileError, match=r"more than 300000 ops|deadlock"):
        compare_runs(text, text)


def test_kernels_must_be_on_both_sides_with_the_same_parameters():
    with pytest.raises(LibtileError, match="only one of the modules has @k, @l"):
        compare_runs(kernel(STORE), kernel(STORE, name="l"))
    with pytest.raises(LibtileError, match=r"@k takes \(tile<ptr<i32>>, tile<i32>\) in one module, \(tile<i32>\)"):
        compare_runs(kernel(STORE), kernel("", "%n: tile<i32>"))


FLOATS = "%p: tile<ptr<f32>>, %q: tile<ptr<f32>>"


def floats(op: str) -> bytes:
    """A kernel that stores what an op makes of 256 floats."""
    pointers, kind = "tile<256xptr<f32>>", "tile<256xf32>"
    lines = ["%i = iota : tile<256xi32>", f"%zero = constant <f32: 0.0> : {kind}"]
    for name in "pq":
        lines.append(f"%{name}1 = reshape %{name} : tile<ptr<f32>> -> tile<1xptr<f32>>")
        lines.append(f"%{name}2 = broadcast %{name}1 : tile<1xptr<f32>> -> {pointers}")
        lines.append(f"%{name}3 = offset %{name}2, %i : {pointers}, tile<256xi32> -> {pointers}")
    lines.append(f"%x, %t = load_ptr_tko weak %p3 : {pointers} -> {kind}, token")
    lines.append(f"%y = {op} : {kind}")
    lines.append(f"%u = store_ptr_tko weak %q3, %y : {pointers}, {kind} -> token")
    return kernel("\n".join(lines), FLOATS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("maxf %x, %zero", "maxf %x, %zero propagate_nan"),
        ("addf %x, %zero ", "negf %n"),  # where %n is -x: the sum of -0 and 0 is 0
        ("mulf %zero, %zero ", "subf %x, %x "),  # infinity minus itself
    ],
)
def test_floats_that_are_no_common_numbers_are_among_the_arguments(one, other):
    texts = [floats(op) for op in (one, other)]
    if "%n" in other:
        texts[1] = floats("negf %n").replace(b"%y =", b"%n = negf %x : tile<256xf32>\n%y =")
    difference = compare_runs(*texts, runs=2).difference
    assert difference is not None and "arguments number 1 of seed 0: element" in difference
    assert compare_runs(texts[0], texts[0], runs=2).difference is None


def test_the_bits_of_a_nan_are_no_difference():
    other = floats("addf %x, %zero ").replace(b"addf %x, %zero", b"addf %zero, %x")
    assert compare_runs(floats("addf %x, %zero "), other, runs=4).difference is None
