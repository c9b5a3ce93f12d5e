# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parsing PTX: what is accepted, and what an error says."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulatorError, parse_ptx, run_ptx
from libtile.simulator.ir import Imm, Reg, Sym, Vec
from libtile.simulator.program import Program

from .ptx import each_thread, module


def error(text: str) -> PtxError:
    with pytest.raises(PtxError) as caught:
        run_ptx(text, "k", args=[np.zeros(64, dtype=np.uint32)])
    return caught.value


def test_error_names_line_column_and_instruction() -> None:
    header = ".version 9.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out)\n"
    text = header + "{\n  .reg .b32 %r<2>;\n  add.s32 %r1, %r9, 1;\n}\n"
    caught = error(text)
    assert (caught.line, caught.column) == (7, 16)
    assert caught.text == "add.s32 %r1, %r9, 1;"
    assert "undeclared register %r9" in str(caught)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.b32 %r1, %r2;", "instruction frobnicate.b32 is not simulated"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1,%r2}, {%r1,%r2}, {%r1,%r2}, {%r1,%r2}, %r3, 0;",
         "sparse mma is not simulated"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r1,%r2}, "
         "{%f1,%f2,%f3,%f4};",
         "the fragment of A needs 4 registers, not 2"),
        ("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r1,%r2}, "
         "{%f1,%f2,%f3,%f4};",
         "mma.m16n8k99 does not exist for .f16"),
        ("bra nowhere;", "branch to unknown label nowhere"),
        ("add.s32 %r1, %r2;", "the instruction needs more operands"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16 {%f1};", "mma needs the types of d, a, b and c"),
        ("shfl.sync.b32 %r1, %r2, %r3, %r4, %r5;", "modifiers and operands do not make an instruction"),
        ("add.s32 %rd1, %r1, %r2; add.u64 %r1, %rd1, %rd2;", "the destination has 32 bits, the result 64"),
        ("add.s32 %r1, %p1, 1;", "a predicate register cannot be used here"),
        ("mov.u32 %r1, nosuch;", "undefined symbol nosuch"),
        ("mov.u32 %r1, %tid;", "%tid needs a component"),
        ("call nofunc, ();", "nofunc is declared but not defined"),
        ("cvt.rs.f16x2.f32 %r1, %f1, %f2, %r3;", "stochastic rounding (.rs) is not simulated"),
        ("cvt.s32.f32 %r1, %f1;", "needs .rni, .rzi, .rmi or .rpi"),
        ("ld.param.u32 %r1, [out+12];", "this reads outside the entry's parameters"),
        ("{ .reg .b32 %x; }\n mov.b32 %x, 0;", "undeclared register %x"),
        ("lop3.b32 %r1, %r2, %r3, %r4, 300;", "must be an immediate from 0 to 255"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "cp.async.cg copies 16 bytes"),
    ],
)  # fmt: skip
def test_wrong_instruction_is_refused_with_its_reason(body: str, message: str) -> None:
    assert message in str(error(module(body)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no .version directive"),
        (".version 9.0\n.address_size 32\n", "only .address_size 64"),
        (".version 9.0\n.entry k(", "expected .param or .reg"),
        (".version 9.0\n.entry k()\n{ ret;", "the body of k is not closed"),
        (".version 9.0\n.global .texref t;", "not a type"),
        (".version 9.0\n.entry k(.param .pred a)", "predicate variable a must be in register state space"),
        (".version 9.0\n.entry k() { .reg .v4 .f32 %v; }", "vector registers"),
        (".version 9.0\n`", "unexpected character"),
        (".version 9.0\n/* open", "unterminated comment"),
        (".version 9.0\n.entry k() {} .entry k() {}", "already defined"),
        (".version 9.0\n.entry k() { A: A: ret; }", "label A is defined twice"),
        (".version 9.0\n.global .b8 x[2] = {1,2,3};", "its initialiser has 3"),
    ],
)
def test_wrong_module_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(PtxError) as caught:
        parse_ptx(text)
    assert message in str(caught.value)


def test_literals_of_every_form_have_their_values() -> None:
    body = """
    mov.u32 %r1, 0x1F;    mov.u32 %r2, 0b101;  mov.u32 %r3, 017;  mov.u32 %r4, 12U;  mov.u32 %r5, -3;
    mov.f32 %f1, 0f3FC00000;  mov.f32 %f2, 2.5;  mov.f64 %fd1, 0d4004000000000000;  mov.f32 %f3, -1.5e1;
    mov.u32 %r6, WARP_SZ;
    """
    entry = parse_ptx(module(body)).functions["k"]
    values = [i.operands[1] for i in entry.body or [] if getattr(i, "opcode", "") == "mov"]
    assert values == [
        Imm(31), Imm(5), Imm(15), Imm(12), Imm(-3), Imm(0x3FC00000, 32), Imm(2.5), Imm(0x4004000000000000, 64),
        Imm(-15.0), Imm(32),
    ]  # fmt: skip


def test_inner_scopes_have_registers_and_labels_of_their_own() -> None:
    body = """
    mov.u32 %r1, 0;
    { .reg .b32 %t; mov.u32 %t, 1; bra DONE; mov.u32 %t, 100; DONE: add.u32 %r1, %r1, %t; }
    { .reg .b32 %t; mov.u32 %t, 2; bra DONE; mov.u32 %t, 100; DONE: add.u32 %r1, %r1, %t; }
    """
    assert each_thread(body).tolist() == [3] * 32


def test_unknown_directives_of_entries_and_debug_sections_are_skipped() -> None:
    text = module("", directives='.maxntid 64, 1, 1 .minnctapersm 2 .pragma "nounroll"; .frobnicate 7')
    text += '.section .debug_str\n{\nL0:\n.b8 1,2\n.b32 .debug_line\n}\n.file 1 "a.cu", 12, 34\n'
    parsed = parse_ptx(text)
    assert parsed.functions["k"].directives["maxntid"] == (64, 1, 1)
    assert parsed.files == {1: "a.cu"}


@pytest.mark.parametrize("directive", ["maxnreg", "maxntid", "minnctapersm", "reqntid", "reqnctapercluster"])
def test_a_directive_that_says_how_many_has_a_number(directive: str) -> None:
    with pytest.raises(PtxError, match=rf"\.{directive} has no number"):
        parse_ptx(module("", directives=f".{directive}"))


def test_operands_are_resolved_to_records() -> None:
    text = module("ld.global.v2.u32 {%r1, %r2}, [%rd1+-8]; mov.u32 %r3, var+4;", prelude=".global .u32 var[2];")
    load, move = (i for i in parse_ptx(text).functions["k"].body or [] if getattr(i, "opcode", "") in ("ld", "mov"))
    vector, where = load.operands
    assert isinstance(vector, Vec) and [r.name for r in vector.items] == ["%r1", "%r2"]
    assert isinstance(where.base, Reg) and where.offset == -8
    assert move.operands[1] == Sym("var", 4)


def test_source_positions_come_from_loc() -> None:
    text = module(".loc 1 7 3\nmov.u32 %r1, 0;\n.loc 1 9 1, function_name F, inlined_at 1 20 5\nmov.u32 %r2, 0;")
    text += '.file 1 "a.cu"\n'
    first, second = (i for i in parse_ptx(text).functions["k"].body or [] if getattr(i, "opcode", "") == "mov")
    assert (first.source.file, first.source.line, first.source.caller) == ("a.cu", 7, None)
    assert (second.source.line, second.source.caller) == (9, ("a.cu", 20))


SEEDS = [
    "ld.global.v2.u32 {%r1, %r2}, [%rd1+8]; @%p1 add.s32 %r1, %r2, -5; setp.lt.and.u32 %p1|%p2, %r1, 7, %p3;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
    "{%r5,%r6}, {%f1,%f2,%f3,%f4};",
    "L: shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1; @%p1 bra L; bar.red.and.pred %p1, 0, %p2; "
    "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
    "{ .param .b32 a; .param .b32 v; st.param.b32 [a], %r2; call (v), f, (a); ld.param.b32 %r1, [v]; }",
    "mov.u32 %r1, s; cp.async.ca.shared.global [%r1], [%rd1], 4, %r2; "
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%r9], 16; "
    "lop3.b32 %r1, %r2, %r3, %r4, 0x96;",
    "T: .branchtargets A, B; brx.idx %r1, T; A: atom.shared.cas.b32 %r1, [s+4], 1, %r2; "
    "B: vadd4.u32.u32.u32.sat %r1, %r2, %r3, 0;",
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_text_gives_an_error_of_the_simulator_and_nothing_else(seed: str) -> None:
    rng = random.Random(len(seed))
    prelude = ".shared .align 16 .b8 s[64]; .func (.param .b32 v) f (.param .b32 a) { st.param.b32 [v], 1; ret; }"
    tokens = re.findall(r"\s+|[^\s\w.%]|[\w.%]+", seed)
    for _ in range(150):
        damaged = list(tokens)
        at = rng.randrange(len(damaged))
        damaged[at] = rng.choice(["", rng.choice(tokens), damaged[at] + rng.choice(tokens), damaged[at][:-1] or ","])
        try:
            program = Program(parse_ptx(module("".join(damaged), prelude=prelude)), fine=False, trace=False)
            program.code("k")
        except SimulatorError:
            pass
