# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes that are computed four at a time are those that the interpreter gives, in code that keeps them in words."""

import numpy as np
import pytest

import libtile
from libtile.asm.module import Module
from libtile.codegen import byte_words
from libtile.codegen.builder import integer
from libtile.codegen.llvm_types import I8, I32
from lowering.elementwise import Case, evaluate

RNG = np.random.default_rng(4)
WORDS = [RNG.integers(0, 2**32, 4096, dtype=np.uint32) for _ in range(2)]
WORDS[0][:8] = [0, 2**32 - 1, 0x80808080, 0x7F7F7F7F, 0x00FF00FF, 0x01010101, 0x80FF7F00, 0xFF008001]
WORDS[1][:8] = [0, 1, 0x80808080, 0x01010101, 0xFF00FF00, 0x02020202, 0x01010101, 0x7F80FF01]

OPS = {
    "bits_and": lambda x, y: x & y,
    "bits_or": lambda x, y: x | y,
    "bits_xor": lambda x, y: x ^ y,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
}
SHIFTS = {
    "shift_left": lambda x, n: x << n,
    "shift_right_unsigned": lambda x, n: x >> n,
    "shift_right_signed": lambda x, n: (x.view(np.int8) >> np.int8(n)).view(np.uint8),
}


def test_each_byte_of_a_word_is_computed_like_a_byte():
    cases, expected = [], []
    x, y = (word.view(np.uint8) for word in WORDS)
    for name, op in OPS.items():
        cases.append(Case(name, getattr(byte_words, name), [("i32", w) for w in WORDS], "i32"))
        expected.append(op(x, y))
    for name, op in SHIFTS.items():
        shift = getattr(byte_words, name)
        for n in range(8):
            by = integer(I32, n * 0x01010101)
            emit = lambda b, word, f=shift, by=by: f(b, word, by)  # noqa: E731
            cases.append(Case(f"{name} {n}", emit, [("i32", WORDS[0])], "i32"))
            expected.append(op(x, np.uint8(n)))
    for case, want, got in zip(cases, expected, evaluate("sm_80", cases)):
        np.testing.assert_array_equal(got.view(np.uint8), want, case.name)


def kernel(ops: str, n: int = 1024) -> Module:
    text = f"""cuda_tile.module @m {{
      entry @k(%x: tile<ptr<i8>>, %y: tile<ptr<i8>>, %out: tile<ptr<f16>>) {{
        %place = iota : tile<{n}xi32>
        {
        "".join(
            f'''
        %{name}0 = reshape %{name} : tile<ptr<{kind}>> -> tile<1xptr<{kind}>>
        %{name}1 = broadcast %{name}0 : tile<1xptr<{kind}>> -> tile<{n}xptr<{kind}>>
        %{name}2 = offset %{name}1, %place : tile<{n}xptr<{kind}>>, tile<{n}xi32> -> tile<{n}xptr<{kind}>>
        '''
            for name, kind in (("x", "i8"), ("y", "i8"), ("out", "f16"))
        )
    }
        %a, %t0 = load_ptr_tko weak %x2 : tile<{n}xptr<i8>> -> tile<{n}xi8>, token
        %b, %t1 = load_ptr_tko weak %y2 : tile<{n}xptr<i8>> -> tile<{n}xi8>, token
        %low = constant <i8: 15> : tile<{n}xi8>
        %four = constant <i8: 4> : tile<{n}xi8>
        %eight = constant <i8: 8> : tile<{n}xi8>
        {ops}
        %t2 = store_ptr_tko weak %out2, %f : tile<{n}xptr<f16>>, tile<{n}xf16> -> token
        return
      }}
    }}"""
    return libtile.parse(text)


def op(name: str, x: str, y: str, flags: str = "") -> str:
    return f"{name} {x}, {y}{flags} : tile<1024xi8>"


NIBBLES = f"""%n = {op("andi", "%a", "%low")}
        %c = {op("subi", "%n", "%eight", " overflow<none>")}
        %f = itof %c signed : tile<1024xi8> -> tile<1024xf16>"""
HIGH = f"""%n = {op("shri", "%a", "%four", " signed")}
        %c = {op("addi", "%n", "%b", " overflow<none>")}
        %d = {op("xori", "%c", "%low")}
        %e = {op("shli", "%d", "%eight", " overflow<none>").replace("%eight", "%four")}
        %g = {op("ori", "%e", "%b")}
        %f = itof %g unsigned : tile<1024xi8> -> tile<1024xf16>"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("ops", [NIBBLES, HIGH], ids=["nibbles", "high"])
def test_tiles_of_nagree_with_the_interpreter(ops, gpu_name):
    x, y = (word.view(np.int8)[:1024].copy() for word in WORDS)
    results = []
    for backend in ("interpreter", "simulator"):
        out = np.zeros(1024, np.float16)
        libtile.run(kernel(ops), "k", args=[x, y, out], backend=backend, gpu_name=gpu_name)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_nibbles_are_computed_in_words():
    """Eight bytes a thread: a difference, an op on bits and two halves for each word, and no conversion."""
    ptx = libtile.compile(kernel(NIBBLES), gpu_name="sm_80").ptx
    assert "cvt.rn.f16.s" not in ptx
    assert ptx.count("0x64646464") + ptx.count("1684300900") == ptx.count("add.rn.f16x2") == 4


def test_nof_different_words_are_no_word():
    from lowering.memory_kernels import kernel as build

    b, _ = build("sm_80")
    one, other = (b.pieces(b.add(b.thread_id(), integer(I32, n)), I8) for n in (1, 2))
    assert b.as_word(one) is not None
    assert b.as_word([*one[:2], *other[2:]]) is None
    assert b.as_word([one[1], one[0], *one[2:]]) is None
    assert b.as_word(one[:2]) is None
    assert b.as_word([integer(I8, -1)] * 4) == integer(I32, -1)
