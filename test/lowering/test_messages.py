# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels print, and how assertions end them."""

from __future__ import annotations

import io

import memory_kernels as mk
import numpy as np
import pytest

import libtile
from libtile.backend import ptxas
from libtile.codegen.builder import integer
from libtile.codegen.llvm_types import I8, I32, I64
from libtile.codegen.memory import load
from libtile.codegen.messages import assert_, print_tile, report_failures
from libtile.codegen.tile import Tile, scalar
from libtile.simulator import SimulationFault
from libtile.support.diagnostics import LoweringError

GPUS = ["sm_80", "sm_90"]


def scalar_of(b, base, element):
    return load(b, Tile(mk.SCALAR, "ptr", (base,)), element)


def printed(format_, element, value, gpu="sm_90"):
    """What a scalar read from memory prints as."""
    b, (memory,) = mk.kernel(gpu, parameters=1)
    print_tile(b, format_, [scalar_of(b, memory, element)])
    return mk.run(b, np.array([value], mk.DTYPES[element])).output


@pytest.mark.parametrize(
    ("format_", "element", "value", "text"),
    [
        ("%d;", "i32", -5, "-5;"),
        ("%i", "i64", -(1 << 40), str(-(1 << 40))),
        ("%lld", "i32", -5, "-5"),
        ("%5d|", "i8", -3, "   -3|"),
        ("%u", "i8", -3, "253"),
        ("%x", "i16", -1, "ffff"),
        ("%llu", "i64", -1, str((1 << 64) - 1)),
        ("%u", "i1", True, "1"),
        ("%d", "i1", True, "-1"),
        ("%c", "i32", 65, "A"),
        ("%.3f", "f32", 1.5, "1.500"),
        ("%g", "f64", 1e100, "1e+100"),
        ("%.2f", "f16", -2.25, "-2.25"),
        ("%f", "bf16", 3.0, "3.000000"),
        ("%f", "f8E5M2", 1.75, "1.750000"),
        ("%.1f", "i32", 7, "7.0"),
        ("%d", "f32", -7.9, "-7"),
        ("100%% of %d", "i32", 3, "100% of 3"),
    ],
)
def test_a_scalar_prints_as_in_c(format_, element, value, text):
    assert printed(format_, element, value) == text


def test_a_message_without_values_prints_once_for_each_tile_block():
    b, _ = mk.kernel(parameters=0)
    print_tile(b, "hello 100%%\n", [])
    assert mk.run(b, grid=3).output == "hello 100%\n" * 3


FORMATS = {
    "nothing but text": ("a\0b\n", "a"),
    "before a scalar": ("a\0b %d\n", "a7\n"),
    "with an escaped percent sign": ("a%%\0b%% %d%%\n", "a%7%\n"),
    "between scalars": ("%d x\0y %d\0", "7 x7"),
    "around a tile": ("\0a%d\0]", "7"),
    "no NUL, but more than a page": ("x" * 5000 + "%d", "x" * 5000 + "7"),
}


@pytest.mark.parametrize("case", FORMATS)
def test_text_behind_a_nul_is_not_printed_up_to_the_next_value(case):
    """The reference gives each part of a format to a printf of its own, which a NUL ends."""
    format_, expected = FORMATS[case]
    escaped = "".join(f"\\{ord(c):02X}" if c in "\0\n" else c for c in format_)
    values = ", ".join(["%x"] * (format_.count("%d")))
    values = f", {values} : {', '.join(['tile<i32>'] * format_.count('%d'))}" if values else ""
    text = f"""cuda_tile.module @m {{ entry @k() {{
      %x = constant <i32: 7> : tile<i32>
      %t = print_tko "{escaped}"{values} -> token
      return }} }}"""
    for backend in ("interpreter", "simulator"):
        assert libtile.run(libtile.parse(text), backend=backend, out=io.StringIO()).output == expected, backend


def test_text_behind_a_nul_of_an_assertion_is_not_printed():
    text = """cuda_tile.module @m { entry @k() {
      %x = constant <i1: 0> : tile<i1>
      assert %x, "m\\00n" : tile<i1> loc("a.py":3:1)
      return } }"""
    said = {}
    for backend in ("interpreter", "simulator"):
        out = io.StringIO()
        with pytest.raises(libtile.LibtileError):
            libtile.run(libtile.parse(text), backend=backend, out=out)
        said[backend] = out.getvalue()
    assert set(said.values()) == {"a.py:3: tile block: [0, 0, 0], position: []: m"}


def test_many_scalars_print_in_order():
    b, _ = mk.kernel(parameters=0)
    tiles = [scalar(integer(I32 if i % 2 else I64, i), "i32" if i % 2 else "i64", mk.SCALAR) for i in range(40)]
    print_tile(b, " ".join(["%d"] * 40), tiles)
    assert mk.run(b).output == " ".join(map(str, range(40)))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("layout", ["rows of 2", "copies"])
@pytest.mark.parametrize(("element", "conversion"), [("i32", "%d"), ("f16", "%.2f"), ("i64", "%d"), ("i1", "%u")])
def test_a_tile_prints_as_nested_lists(gpu, layout, element, conversion):
    b, (memory,) = mk.kernel(gpu, parameters=1)
    tile = load(b, mk.pointers(b, memory, mk.LAYOUTS[layout], element), element)
    print_tile(b, f"t={conversion} n=%d\n", [tile, scalar(integer(I32, 9), "i32", mk.SCALAR)])
    data = mk.random_array(element, tile.shape)
    rows = ["[" + ", ".join(conversion % v for v in row) + "]" for row in data.tolist()]
    assert mk.run(b, data).output == f"t=[{', '.join(rows)}] n=9\n"


@pytest.mark.parametrize("order", [None, 1, 2])
def test_messages_of_different_tile_blocks_do_not_mix(order):
    layout = mk.builders.blocked((4,), (1,), (32,), (4,), (0,))
    b, _ = mk.kernel(parameters=0)
    print_tile(b, "%d\n", [scalar(b.block_id("x"), "i32", layout)])
    lines = mk.run_text(mk.ptx_of(b), b, grid=4, order=order).output.splitlines()
    assert sorted(lines) == [f"[{i}, {i}, {i}, {i}]" for i in range(4)]


def test_the_assembler_takes_what_prints_and_traps():
    layout = mk.LAYOUTS["rows of 2"]
    b, (memory,) = mk.kernel("sm_80", parameters=1)
    tile = load(b, mk.pointers(b, memory, layout, "i1"), "i1")
    print_tile(b, "%d\n", [tile])
    assert_(b, tile, "wrong")
    assert ptxas.assemble(mk.ptx_of(b), "sm_80").cubin


@pytest.mark.parametrize(
    ("format_", "count", "message"),
    [("%s", 1, "'%s' is not a conversion"), ("%d %d", 1, "takes 2 values"), ("50%", 0, "ends within")],
)
def test_a_format_that_does_not_fit_is_refused(format_, count, message):
    b, _ = mk.kernel()
    with pytest.raises(LoweringError, match=message):
        print_tile(b, format_, [scalar(integer(I32, 1), "i32", mk.SCALAR)] * count)


@pytest.mark.parametrize("gpu", GPUS)
def test_every_false_element_is_reported_once_with_its_position(gpu):
    layout = mk.LAYOUTS["copies"]
    b, (memory,) = mk.kernel(gpu, parameters=1)
    condition = load(b, mk.pointers(b, memory, layout, "i1"), "i1")
    report_failures(b, condition, "below 100%", file="a.py", line=12)
    data = np.ones((8, 8), bool)
    data[3, 5] = data[7, 0] = False
    lines = mk.run(b, data, grid=2).output.splitlines()
    expected = [
        f"a.py:12: tile block: [{x}, 0, 0], position: [{p}]: below 100%" for x in range(2) for p in ("3, 5", "7, 0")
    ]
    assert sorted(lines) == sorted(expected)


@pytest.mark.parametrize("layout", ["copies", "rows of 8"])
def test_a_failed_assertion_ends_the_kernel(layout):
    b, (memory,) = mk.kernel(parameters=1)
    condition = load(b, mk.pointers(b, memory, mk.LAYOUTS[layout], "i1"), "i1")
    assert_(b, condition, "no")
    data = np.ones(condition.shape, bool)
    assert mk.run(b, data).output == ""
    data[3, 7] = False
    with pytest.raises(SimulationFault, match="trap"):
        mk.run(b, data)


@pytest.mark.parametrize(("conversion", "text"), [("%d", "-4"), ("%u", "12")])
def test_a_four_bit_integer_prints_its_four_bits(conversion, text):
    b, _ = mk.kernel(parameters=0)
    print_tile(b, conversion, [scalar(integer(I8, 0x5C), "i4", mk.SCALAR)])
    assert mk.run(b).output == text


def test_brackets_nest_as_deep_as_the_tile_has_dimensions():
    layout = mk.builders.blocked((2, 1, 4), (1, 1, 2), (2, 1, 16), (4, 1, 1), (2, 1, 0))
    b, _ = mk.kernel(parameters=0)
    print_tile(b, "%d", [mk.positions(b, layout)])
    assert mk.run(b).output == str(np.arange(8).reshape(2, 1, 4).tolist())
