# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX as records, and that nothing else looks for something in it, or in what NVIDIA's tools print."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from libtile.ptx.errors import PtxFormatError
from libtile.ptx.reader import Directive, Instruction, Label, directive, edited, outline, statements
from libtile.simulator import parse_ptx

ROOT = Path(__file__).resolve().parents[2]

MODULE = """// a comment with .entry in it
.version 8.8
.target sm_90a, debug
.address_size 64
.global .align 4 .b8 words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.extern .func (.param .b32 r) helper
(
\t.param .b64 a
);
.visible .func other(.param .b64 a) { .reg .b32 %r<2>; ret; }
\t// .globl k
.visible .entry k(
\t.param .u64 .ptr .global .align 16 a,
\t.param .align 64 .b8 b[128]
) /* } */
.maxntid 128, 1, 1
.minnctapersm 2
{
\t.reg .b32 %r<2>;
\t// }
\tret;
}
.weak .entry bare
{
\tret;
}
\t.file\t1 "/a b/k.py"
\t.file\t2 "/a\\"b\\\\"
\t.section\t.debug_abbrev
\t{
.b8 1
\t}
"""


def test_a_module_is_read_with_the_places_of_what_it_declares():
    module = outline(MODULE)
    assert module.directives["version"].arguments[0].text == "8.8"
    assert [t.text for t in module.directives["target"].arguments] == ["sm_90a", ",", "debug"]
    assert [(f.number, MODULE[f.start : f.end]) for f in module.files] == [(1, "/a b/k.py"), (2, '/a\\"b\\\\')]
    k, bare = module.entries
    assert (k.name, bare.name) == ("k", "bare")
    assert MODULE[k.start : k.named] == ".visible .entry k"
    assert MODULE[k.opened] == "(" and MODULE[k.closed - 1] == ")" and MODULE[k.body] == "{"
    assert [MODULE[p:].split("\n")[0] for p in k.parameters] == [
        ".param .u64 .ptr .global .align 16 a,",
        ".param .align 64 .b8 b[128]",
    ]
    assert [(d.name, d.numbers()) for d in k.directives] == [("maxntid", (128, 1, 1)), ("minnctapersm", (2,))]
    assert bare.opened == bare.closed == bare.named and MODULE[bare.start :].startswith(".weak")


def test_the_simulator_sees_the_same_kernels():
    text = MODULE.replace('\t.file\t2 "/a\\"b\\\\"\n', "")
    assert [e.name for e in outline(text).entries] == [f.name for f in parse_ptx(text).functions.values() if f.entry]


@pytest.mark.parametrize(
    "text, what",
    [
        (".entry k(.param .b64 a", "unbalanced '('"),
        (".entry k() { ret;", "unbalanced '{'"),
        (".entry", "without a name"),
        (".file 1 name", "without a string"),
        ('.file 1 "name', "end of its string"),
        (".version 9.2\n`", "unexpected character"),
        ("/* no end", "unterminated comment"),
    ],
)
def test_a_text_of_another_form_is_refused_with_the_place(text, what):
    with pytest.raises(PtxFormatError, match=what.replace("(", r"\(").replace("{", r"\{")) as caught:
        outline(text)
    assert 0 <= caught.value.offset <= len(text)


def test_edits_are_made_in_order_of_their_places():
    assert edited("abcdef", [(4, 5, "E"), (1, 1, "+"), (1, 3, "")]) == "a+dEf"


@pytest.mark.parametrize(
    "line, expected",
    [
        ("\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2};", [("mma", (16, 8, 16))]),
        ("\t@!%p1 bra $L__BB0_2;", [("bra", None)]),
        ("\t{ .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, p; }",
         [("setp", None), ("wgmma", (64, 8, 16))]),
        ("$L__BB0_1: add.s32 %r1, %r2, 1;", [("add", None)]),
        ("\tret;", [("ret", None)]),
        ("\tcall.uni (retval0),", [("call", None)]),
        ("\tvprintf,", []),
        ("\tparam0,", []),
        ("\t{%r1, %r2}, [%rd1];", []),
        ("\t// ld.global", []),
        ("", []),
    ],
)  # fmt: skip
def test_the_instructions_of_a_line(line, expected):
    found = [s for s in statements(line) if isinstance(s, Instruction)]
    assert [(i.opcode, i.shape) for i in found] == expected


def test_a_product_says_its_shape_and_a_label_its_name():
    (product,) = statements("\ttcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, p;")
    assert isinstance(product, Instruction) and product.shape is None and product.modifiers[2] == "kind::f16"
    assert list(statements("$L__tmp1:")) == [Label("$L__tmp1")]
    assert [s.name for s in statements("\t.reg .b32 \t%r<2>;") if isinstance(s, Directive)] == ["reg"]


def test_one_directive_of_a_line():
    found = directive("\t.loc\t1 21 7, function_name $L__a, inlined_at 1 3 4", "loc")
    assert found is not None and found.numbers()[:3] == (1, 21, 7)
    assert directive("\t.loc\t1 21 7", "file") is None
    assert directive("\tmov.u32 %r1, 1;", "loc") is None
    assert directive("", "loc") is None


READERS = {
    "libtile/ptx/lexer.py": "tokens of PTX",
    "libtile/ptx/reader.py": "records of PTX",
    "libtile/backend/nvdisasm.py": "what nvdisasm prints",
    "libtile/backend/ptxas.py": "what ptxas prints",
}
"""The one place that reads each text with a grammar of its own."""

OTHERS = {
    "libtile/backend/bitcode.py": "where a fragment of LLVM IR ends, and its inline PTX",
    "libtile/codegen/llvm_text.py": "which names LLVM takes without quotes",
    "libtile/codegen/ptx_text.py": "which names PTX takes, and C's escapes in strings",
    "libtile/codegen/symbols.py": "which names are taken",
    "libtile/codegen/messages.py": "a program's formats of printf",
    "libtile/compiler/cache.py": "names of files",
    "libtile/explore/listings.py": "layouts in the text of nv_tileas",
    "libtile/explore/reference.py": "what differs from one message of the reference to another",
    "libtile/explore/sass.py": "opcodes by kind",
}
"""Patterns of rooms that have to do with code, and what they are matched against: names, and what people are shown."""


def test_ptx_machine_code_and_reports_have_one_reader_each():
    found = set()
    for room in ("ptx", "codegen", "backend", "compiler", "explore", "lowering"):
        for path in (ROOT / "libtile" / room).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
            names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            if "re" in names:
                found.add(path.relative_to(ROOT).as_posix())
    assert found == {*READERS, *OTHERS}, "what looks for something in PTX, or a tool's output, asks records of it"
