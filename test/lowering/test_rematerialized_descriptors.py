# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors of what lies in the only stage of a pipeline: those of a right operand, and of a left one of many parts,
are made where they are used, as their product says."""

import re

import pytest
from attention_kernels import attention
from decoding_kernels import bytecode

import libtile
from libtile.asm import parse
from libtile.asm.module import diagnose

MADE = 'asm sideeffect "mov.b32 $0, $1;", "=r,r"'
"""How emission makes a word of a descriptor where it is used."""
PRODUCT = re.compile(r"nv_tileas\.async\.dot (?:%\w+, )+%\w+ (\{.*?\}) :")


def products(text: str) -> list[str]:
    """The attributes of the asynchronous products, in their order."""
    return PRODUCT.findall(text)


def code(text: str) -> str:
    return libtile.compile(parse(text), gpu_name="sm_90", emit="llvm").llvm_ir


def queries(depth: int, keys: int) -> str:
    """Attention of 64 queries, which stay in one stage: they are `depth` / 16 parts of a left operand."""
    return libtile.compile(libtile.parse(attention(64, keys, depth)), gpu_name="sm_90", emit="tileas").tileas


@pytest.fixture(scope="module")
def many() -> str:
    return queries(512, 32)


def test_a_left_operand_of_many_parts_is_rematerialized(many):
    scores, values = products(many)
    assert "rematerialized_a" in scores and "rematerialized_b" not in scores
    assert "rematerialized" not in values  # its left operand lies in registers


def test_a_left_operand_of_few_parts_is_held():
    found = products(queries(256, 64))
    assert found and not any("rematerialized" in attributes for attributes in found)


def test_a_right_operand_in_the_only_stage_is_rematerialized():
    made = libtile.compile(bytecode("split", (0, 128, 64, 8), "sm_90"), gpu_name="sm_90", emit="tileas").tileas
    found = products(made)
    assert len(found) == 2 and all("rematerialized_b" in attributes for attributes in found)


def test_emission_does_what_the_product_says_and_nothing_else(many):
    held = many.replace(", rematerialized_a", "")
    assert held != many
    other = re.sub(r"(executed = #nv_tileas\.executed<[^>]*>)\}", r"\1, rematerialized_b}", held)
    assert other.count("rematerialized_b") == 2
    counts = [code(text).count(MADE) for text in (many, held, other)]
    assert counts == [1, 0, 2]


def test_descriptors_are_of_buffers(many):
    _, values = products(many)
    wrong = many.replace(values, values[:-1] + ", rematerialized_a}")
    assert wrong != many
    found = [d.message for d in diagnose(parse(wrong))]
    assert len(found) == 1 and "expects descriptors of a buffer, but got tile<64x32xf16" in found[0]
