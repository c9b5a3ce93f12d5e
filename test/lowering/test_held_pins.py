# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which pins of a wait for products machine code computes in front of it, too: the wait says it, by their numbers, and
whether the question that holds them is its own (test/lit/lowering/compare-places.mlir)."""

import re

import pytest
from attention_kernels import attention

import libtile
from libtile.asm import parse
from libtile.asm.module import diagnose

HELD = {"shared": "setp.eq.u32 p, $0, 0; @p st.shared", "own": "setp.lt.s32 p, $0, 0; @p st.shared"}
"""How emission holds pins; and where the question is the wait's own."""


def questions(text: str) -> dict[str, int]:
    code = libtile.compile(parse(text), gpu_name="sm_90", emit="llvm").llvm_ir
    return {name: code.count(question) for name, question in HELD.items()}


@pytest.fixture(scope="module")
def plain() -> str:
    return libtile.compile(libtile.parse(attention(128, 128, 128)), gpu_name="sm_90", emit="tileas").tileas


def test_the_row_is_held_and_the_tile_is_not(plain):
    (wait,) = re.findall(r"wait_dot .*held_pins.*", plain)
    assert "held_pins = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 2>" in wait and "apart" not in wait
    types = wait.split(" -> ")[1].split("tile<")[1:]
    assert [t.split(", #")[0] for t in types] == ["128x128xf32", "128x128xf32", "128x1xf32"]


def test_emission_holds_what_the_wait_says(plain):
    # What is narrowed ahead of a product is held in front of that in the same way.
    assert questions(plain) == {"shared": 2, "own": 0}
    assert questions(plain.replace("{held_pins", "{apart, held_pins")) == {"shared": 1, "own": 1}
    assert questions(plain.replace("held_pins = array<i64: 1>, ", "")) == {"shared": 1, "own": 0}


@pytest.mark.parametrize("numbers", ["2", "-1", "1, 0", "1, 1"])
def test_numbers_are_those_of_pins_in_their_order(plain, numbers):
    wrong = plain.replace("held_pins = array<i64: 1>", f"held_pins = array<i64: {numbers}>")
    (found,) = [d.message for d in diagnose(parse(wrong))]
    assert f"expects held_pins to count some of 2 pins, but got [{numbers}]" in found


def test_what_holds_no_pins_is_not_apart(plain):
    wrong = plain.replace("{held_pins = array<i64: 1>", "{apart")
    (found,) = [d.message for d in diagnose(parse(wrong))]
    assert "expects held_pins where what holds them is apart" in found
