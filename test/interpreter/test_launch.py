# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From host values to a launch, and what is said of values that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from interpreter.programs import module_text, run_body, scalar_store
from libtile.interpreter.entries import LaunchError, titles

STORE = scalar_store("v", "x", "ELEM")


@pytest.mark.parametrize("elem, value, stored", [
    ("i8", 255, -1), ("i8", -128, -128), ("i32", 2**32 - 1, -1), ("i64", 2**63, -(2**63)), ("i1", 1, 1),
    ("f32", 0.1, np.float32(0.1)), ("f16", 1, 1.0), ("f64", 0.1, 0.1), ("f16", 1e9, np.inf),
    ("f32", np.float64(2), 2.0), ("i32", np.int64(7), 7),
])  # fmt: skip
def test_numbers_are_converted_to_the_parameter_s_type(elem, value, stored):
    dtype = {"i1": np.int8, "i8": np.int8, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32,
             "f64": np.float64}[elem]  # fmt: skip
    out = np.zeros(1, dtype)
    run_body(f"%x: tile<ptr<{elem}>>, %v: tile<{elem}>", STORE.replace("ELEM", elem), [out, value])
    assert out[0] == stored


@pytest.mark.parametrize("args, message", [
    ([np.zeros(1, np.int32)], "1 argument given; @k takes 2 parameters:\n  0: %x tile<ptr<i32>> (an array)\n"
                              "  1: %v tile<i32> (a number)"),
    ([np.zeros(1, np.int32), 2**32], "4294967296 does not fit parameter 1, tile<i32>"),
    ([np.zeros(1, np.int32), 1.5], "parameter 1 is tile<i32> and takes a number, not 1.5"),
    ([np.zeros(1, np.int32), "7"], "takes a number, not '7'"),
    ([np.zeros(1, np.int32), np.zeros(3)], "takes a number"),
    (["x", 1], "parameter 0 is a pointer and takes a numpy array, not str"),
    ([np.zeros((4, 4), np.int32).T, 1], "not C-contiguous"),
    ([np.zeros(4, ">i4"), 1],
     "elements of >i4, which are no device memory: convert it to the machine's order of bytes"),
    ([np.array([None]), 1], "elements of object, which are no device memory"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused_with_what_is_expected(args, message):
    with pytest.raises(LaunchError) as caught:
        run_body("%x: tile<ptr<i32>>, %v: tile<i32>", STORE.replace("ELEM", "i32"), args)
    assert message in str(caught.value)


def test_a_kernel_that_is_not_there_is_refused_by_name():
    module = libtile.parse(module_text("", ""))
    with pytest.raises(LaunchError, match=r"no kernel named 'other' \(its kernels: k\)"):
        libtile.run(module, "other")
    assert libtile.run(module).kernel == "k"


def _with_source_names(**names: str) -> libtile.Module:
    """A module of kernels that do nothing, by their symbols, and what debug information says that they are called."""
    lines = [
        '#file = #cuda_tile.di_file<"k.py" in "/tmp">',
        "#unit = #cuda_tile.di_compile_unit<file = #file>",
        'cuda_tile.module @m {',
    ]  # fmt: skip
    for symbol, name in names.items():
        lines.insert(2, (
            f'#{symbol} = #cuda_tile.di_subprogram<file = #file, line = 1, name = "{name}", linkageName = "{symbol}", '
            "compileUnit = #unit, scopeLine = 1>"
        ))  # fmt: skip
        lines.append(f'entry @{symbol}() {{ return }} loc(#cuda_tile.di_loc<loc("k.py":1:1) in #{symbol}>)')
    return libtile.parse("\n".join([*lines, "}"]))


def test_a_kernel_is_found_by_its_name_in_the_source_where_one_alone_has_it():
    module = _with_source_names(halve_K1="halve", twice_K1="twice", twice_K2="twice")
    assert titles(module.op) == {"halve_K1": "halve", "twice_K1": "twice_K1", "twice_K2": "twice_K2"}
    assert libtile.run(module, "halve").kernel == libtile.run(module, "halve_K1").kernel == "halve_K1"
    with pytest.raises(LaunchError, match=r"no kernel named 'twice' \(its kernels: halve_K1, twice_K1, twice_K2\)"):
        libtile.run(module, "twice")


@pytest.mark.parametrize("grid", [0, (1, 0), (1, 1, 1, 1), (), 2**24])
def test_a_grid_that_is_none_is_refused(grid):
    with pytest.raises(LaunchError, match="a grid has one to three extents"):
        run_body("", "", grid=grid)


def test_a_list_of_arrays_becomes_a_table_of_addresses_sizes_and_strides():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((4, 1), np.float32)]
    out = np.zeros(10, np.int64)
    body = """
    %r = reshape %table : tile<ptr<i64>> -> tile<1xptr<i64>>
    %b = broadcast %r : tile<1xptr<i64>> -> tile<16xptr<i64>>
    %i = iota : tile<16xi32>
    %ten = constant <i32: 10> : tile<16xi32>
    %m = cmpi less_than %i, %ten, signed : tile<16xi32> -> tile<16xi1>
    %p = offset %b, %i : tile<16xptr<i64>>, tile<16xi32> -> tile<16xptr<i64>>
    %l, %t = load_ptr_tko weak %p, %m : tile<16xptr<i64>>, tile<16xi1> -> tile<16xi64>, token
    %r2 = reshape %out : tile<ptr<i64>> -> tile<1xptr<i64>>
    %b2 = broadcast %r2 : tile<1xptr<i64>> -> tile<16xptr<i64>>
    %q = offset %b2, %i : tile<16xptr<i64>>, tile<16xi32> -> tile<16xptr<i64>>
    store_ptr_tko weak %q, %l, %m : tile<16xptr<i64>>, tile<16xi64>, tile<16xi1> -> token
    """
    run_body("%table: tile<ptr<i64>>, %out: tile<ptr<i64>>", body, [arrays, out])
    assert out[1:5].tolist() == [2, 3, 3, 1] and out[6:].tolist() == [4, 1, 1, 1]
    assert out[0] % 256 == 0 and out[5] % 256 == 0


def test_a_module_may_be_given_as_text_bytes_or_path(tmp_path):
    text = module_text("%x: tile<ptr<i32>>, %v: tile<i32>", STORE.replace("ELEM", "i32"))
    path = tmp_path / "k.mlir"
    path.write_text(text)
    for source in (path, str(path), text.encode(), libtile.write(libtile.parse(text), "13.1")):
        out = np.zeros(1, np.int32)
        libtile.run(source, "k", args=[out, 9])
        assert out[0] == 9


def test_what_is_no_module_is_refused(tmp_path):
    with pytest.raises(libtile.LibtileError, match="cannot open input file"):
        libtile.run(tmp_path / "none.bc")
    with pytest.raises(libtile.LibtileError, match="neither Tile IR bytecode nor text"):
        libtile.run(b"\xff\xfe\x00")


def test_an_unknown_backend_or_check_is_refused():
    module = libtile.parse(module_text("", ""))
    with pytest.raises(libtile.LibtileError, match="no backend 'cpu'"):
        libtile.run(module, backend="cpu")
    with pytest.raises(
        libtile.LibtileError, match="the interpreter has no check 'most': use off, basic, full, or assume, "
    ):
        libtile.run(module, check="most")


def test_a_module_that_breaks_a_rule_is_refused_before_it_runs():
    body = "%a = constant <i32: 1> : tile<i32>\n%b = cat %a, %a dim = 3 : tile<i32>, tile<i32> -> tile<i32>"
    text = module_text("", body)
    with pytest.raises(libtile.DiagnosticError, match=r"'cuda_tile\.cat' op"):
        libtile.run(libtile.parse(text))


def test_the_result_counts_what_was_done():
    result = run_body("%x: tile<ptr<i32>>, %v: tile<i32>", STORE.replace("ELEM", "i32"), [np.zeros(1, np.int32), 1], 1)
    assert (result.blocks, result.bytes_read, result.bytes_written) == (1, 0, 4)
    assert result.ops >= 1


def test_floats_of_another_width_than_the_pointee_are_refused_and_their_bytes_are_not():
    entry = "cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) { return } }"
    wide = np.arange(4, dtype=np.float64)
    with pytest.raises(LaunchError, match="parameter 0 points to f32, and the array has elements of float64"):
        libtile.run(libtile.parse(entry), "k", args=[wide])
    for memory in (wide.view(np.uint8), wide.view(np.float32), wide.view(np.int64)):
        libtile.run(libtile.parse(entry), "k", args=[memory])
