# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers and strings come back from text as they were, and look as MLIR writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libtile.asm import parse, print_op
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.ir.strings import quote, unquote
from libtile.numerics.elements import FORMATS
from libtile.numerics.float_bits import decode
from libtile.numerics.text import float_bits, float_text, integer_text


@pytest.mark.parametrize(
    "bits, name, text",
    [
        (0x3F800000, "f32", "1.000000e+00"),
        (0x3DCCCCCD, "f32", "1.000000e-01"),
        (0x80000000, "f32", "-0.000000e+00"),
        (0x7F800000, "f32", "0x7F800000"),
        (0xFFC00000, "f32", "0xFFC00000"),
        (0x4B800000, "f32", "0x4B800000"),  # 16777216: enough digits leave no decimal point
        (0x3EAAAAAB, "f32", "0.333333343"),
        (0x00000001, "f32", "1.401300e-45"),
        (0x7F7FFFFF, "f32", "3.40282347E+38"),
        (0xC248, "f16", "-3.140630e+00"),
        (0x4005BF0A8B145769, "f64", "2.7182818284590451"),
        (0x7E, "f8E4M3FN", "4.480000e+02"),
        (0x7F, "f8E4M3FN", "0x7F"),
        (0x7F, "f8E8M0FNU", "1.000000e+00"),
        (0x7, "f4E2M1FN", "6.000000e+00"),
    ],
)
def test_float_text(bits: int, name: str, text: str) -> None:
    assert float_text(bits, name) == text


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.data())
def test_every_float_reads_back_as_the_same_bits(name: str, data: st.DataObject) -> None:
    bits = data.draw(st.integers(0, (1 << FORMATS[name].bits) - 1))
    text = float_text(bits, name)
    again = int(text, 16) if text.startswith("0x") else float_bits(float(text), name)
    if decode(bits, name) == decode(bits, name):
        assert again == bits
    else:
        assert text.startswith("0x") and int(text, 16) == bits


@pytest.mark.parametrize(
    "value, name, bits",
    [
        (70000.0, "f16", 0x7C00),
        (-70000.0, "f16", 0xFC00),
        (1000.0, "f8E4M3FN", 0x7F),
        (464.0, "f8E4M3FN", 0x7E),
        (100.0, "f4E2M1FN", 0x7),
    ],
)
def test_a_number_out_of_range_becomes_what_the_type_has_for_it(value: float, name: str, bits: int) -> None:
    assert float_bits(value, name) == bits


@given(st.integers(0, 255))
def test_integer_text_is_signed(bits: int) -> None:
    assert int(integer_text(bits, 8)) % 256 == bits
    assert integer_text(bits & 1, 1) == ("true" if bits & 1 else "false")


@given(st.text())
def test_strings_come_back(value: str) -> None:
    text = quote(value.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
    assert text.isascii() and text.isprintable()
    assert quote(unquote(text)) == text


def test_strings_escape_as_mlir_does() -> None:
    assert quote('a"b\\c\n\té') == '"a\\22b\\\\c\\0A\\09\\C3\\A9"'
    assert unquote('"\\n\\t\\"\\41\\C3\\A9"') == '\n\t"Aé'


def constant(literal: str) -> DenseElementsAttr:
    module = parse(f"cuda_tile.module @m {{ global @g {literal} }}", implicit_module=False)
    op = module.regions[0].block.first_op
    assert op is not None
    value = op.properties["value"]
    assert isinstance(value, DenseElementsAttr)
    return value


@given(st.lists(st.integers(-(2**31), 2**32 - 1), min_size=4, max_size=4))
def test_integer_constants_keep_their_elements(values: list[int]) -> None:
    attr = constant(f"<i32: {values}> : tile<4xi32>")
    expected = [v % 2**32 for v in values]
    assert attr.elements() == (expected[:1] if len(set(expected)) == 1 else expected)


def test_equal_elements_are_a_splat() -> None:
    assert constant("<f32: [1.0, 1.0]> : tile<2xf32>").is_splat
    assert constant("<f32: 1.0> : tile<2xf32>") == constant("<f32: [1.0, 1.0]> : tile<2xf32>")


def test_large_constants_are_one_string_that_reads_back() -> None:
    values = list(range(128))
    text = print_op(parse(f"cuda_tile.module @m {{ global @g <i16: {values}> : tile<128xi16> }}"))
    assert '<i16: "0x000001000200' in text
    assert print_op(parse(text)) == text


@pytest.mark.parametrize("literal", ['"0x00"', '"xyz"', '"0x0"', '""', '"0x0G"'])
def test_a_bad_string_of_elements_is_refused(literal: str) -> None:
    with pytest.raises(Exception, match="hex"):
        constant(f"<i16: {literal}> : tile<4xi16>")
