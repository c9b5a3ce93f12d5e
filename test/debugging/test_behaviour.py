# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparing what programs do: arguments that fit them, and every kind of difference."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from generators.programs import program
from libtile import LibtileError, compare_runs
from libtile.support.limits import COMPARED_RUNS

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


@pytest.mark.parametrize("runs", [-(2**70), -1, 0, COMPARED_RUNS + 1, 2**70])
def test_no_runs_and_runs_without_an_end_are_refused(runs):
    with pytest.raises(LibtileError, match=rf"^{runs} runs of each kernel .*: give 1 to {COMPARED_RUNS}$"):
        compare_runs(kernel(STORE), kernel(STORE), runs=runs)


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


POINTERS = "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>"
LOAD_Q = "%x, %t = load_ptr_tko weak %q {token}: tile<ptr<i32>> -> tile<i32>, token\n"
STORE_P = "%u = store_ptr_tko weak %p, %one {token}: tile<ptr<i32>>, tile<i32> -> token\n"
SUM = "%y = addi %x, %one : tile<i32>\n%v = store_ptr_tko weak %q, %y token={} : tile<ptr<i32>>, tile<i32> -> token\n"
ONE = "%one = constant <i32: 1> : tile<i32>\n"


def test_an_order_that_only_shared_memory_shows_is_a_difference():
    store_first = ONE + STORE_P.format(token="") + LOAD_Q.format(token="token=%u ") + SUM.format("%t")
    load_first = ONE + LOAD_Q.format(token="") + STORE_P.format(token="token=%t ") + SUM.format("%u")
    one, other = kernel(store_first, POINTERS), kernel(load_first, POINTERS)
    assert compare_runs(one, other, runs=2).difference is None  # in memory of their own
    difference = compare_runs(one, other).difference
    assert difference is not None and "where pointers to elements of one type point to the same memory" in difference
    assert compare_runs(one, one).difference is None


def test_accesses_that_no_token_orders_get_memory_of_their_own():
    store_first = ONE + STORE_P.format(token="") + LOAD_Q.format(token="") + SUM.format("%t")
    load_first = ONE + LOAD_Q.format(token="") + STORE_P.format(token="") + SUM.format("%t")
    assert compare_runs(kernel(store_first, POINTERS), kernel(load_first, POINTERS), runs=6).difference is None


@pytest.mark.parametrize(
    ("type_", "one", "other", "differs"),
    [
        ("i32", "1", "2", True), ("i8", "1", "1", False), ("f32", "0.0", "-0.0", True),
        ("f32", "0x7FC00000", "0xFFC00001", False),
    ],
)  # fmt: skip
def test_what_is_left_in_variables_is_compared(type_, one, other, differs):
    texts = [
        kernel(
            f"%w = constant <{type_}: {number}> : tile<{type_}>\n%a = get_global @g : tile<ptr<{type_}>>\n"
            f"%t = store_ptr_tko weak %a, %w : tile<ptr<{type_}>>, tile<{type_}> -> token"
        ).replace(b"@m {", f"@m {{ global @g <{type_}: [5.0, 6.0]> : tile<2x{type_}>".encode())
        for number in (one, other)
    ]
    texts = [text.replace(b"[5.0, 6.0]", b"[5, 6]") if type_[0] == "i" else text for text in texts]
    difference = compare_runs(*texts).difference
    assert (difference is not None and "element 0 of variable @g differs" in difference) == differs


def test_an_assertion_that_only_the_first_one_has_is_a_difference():
    asserted = (
        "%four = constant <i32: 4> : tile<i32>\n%c = cmpi less_than %n, %four, signed : tile<i32> -> tile<i1>\n"
        'assert %c, "small" : tile<i1>\n' + STORE
    )
    dropped = asserted.replace('assert %c, "small" : tile<i1>\n', "")
    assert compare_runs(kernel(asserted), kernel(asserted), runs=6).difference is None
    difference = compare_runs(kernel(asserted), kernel(dropped), runs=6).difference
    assert difference is not None and "only the first one ends with" in difference
