# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts and names of an input in LLVM IR, PTX and cubins: no byte of them is taken for anything else."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libtile.backend import ptx
from libtile.codegen import llvm_text, ptx_text, symbols
from libtile.targets import target

BYTES = st.binary(max_size=40) | st.text(alphabet='"\\\n\0%$.@_aé', max_size=12).map(str.encode)
NAMES = BYTES.map(lambda b: b.decode("utf-8", "surrogateescape")) | st.text(max_size=8)
HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def _byte(escape):
    return b"\\" if escape[1] == b"\\" else bytes([int(escape[1], 16)])


@given(BYTES)
def test_llvm_reads_back_the_bytes_of_a_constant(data):
    module = llvm.parse_assembly(f"@x = global {llvm_text.byte_array(data)}")
    printed = str(module)
    found = re.search(r'c"(.*)"', printed)
    held = re.sub(rb"\\(\\|[0-9A-F]{2})", _byte, found[1].encode()) if found else None
    assert held == data if any(data) else found is None


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1))
def test_llvm_reads_back_a_symbol(name):
    module = llvm.parse_assembly(f"{llvm_text.symbol(name)} = global i32 0")
    (variable,) = module.global_variables
    assert variable.name == name


def test_code_points_that_no_encoding_has_are_replaced():
    assert llvm_text.to_bytes("a\udc80\ud800é") == b"a\x80\xef\xbf\xbd\xc3\xa9"


@given(BYTES)
def test_a_string_of_ptx_is_ascii_and_ends_at_its_last_character(data):
    text = ptx_text.string(data)
    assert text.isascii() and text.isprintable()
    assert text[0] == text[-1] == '"' and '"' not in text[1:-1]
    assert ptx_text.bytes_of_llvm_string(text[1:-1]) == data


@pytest.mark.parametrize("data", [b"a" * 5000, b'"' * 5000, b"\\" * 5000, b"a\\" * 2500 + b"\xff" * 3])
def test_a_long_string_keeps_its_end(data):
    text = ptx_text.string(data)[1:-1]
    assert len(text) <= ptx_text.MAX_STRING
    kept = ptx_text.bytes_of_llvm_string(text.removeprefix("..."))
    assert len(kept) >= 1000 and data.endswith(kept)


@given(st.lists(BYTES, min_size=1, max_size=3))
def test_file_directives_are_finished_whatever_llvm_has_quoted(names):
    """LLVM's form: a backslash before quotes and backslashes, letters or octal digits for what cannot be printed."""
    letters = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}

    def printed(data):
        return "".join(letters.get(b, chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)

    files = [f'\t.file\t{i} "{printed(name)}"\n' for i, name in enumerate(names, 1)]
    text = ptx.finish(HEADER + "".join(files), target("sm_90"), {})
    assert [line for line in text.splitlines() if ".file" in line] == [
        f"\t.file\t{i} {ptx_text.string(name)}" for i, name in enumerate(names, 1)
    ]


def test_a_file_directive_of_another_form_is_refused():
    with pytest.raises(ptx.PtxFormatError, match="file directive"):
        ptx.finish(HEADER + '\t.file\t1 "a" ; .global .b8 x;\n', target("sm_90"), {})


@settings(max_examples=300)
@given(NAMES, NAMES)
def test_symbols_of_globals_are_identifiers_and_tell_names_apart(first, second):
    made = [symbols.global_name(name) for name in (first, second)]
    assert all(ptx_text.is_identifier(name) for name in made)
    assert (made[0] == made[1]) == (first == second)


@pytest.mark.parametrize(
    "name, other",
    [
        ("a b", "a$20b"),
        ("a b", "__libtile_global_a$20b"),
        ("é", "Ã©"),
        ("\udcc3\udca9", "é"),
        ("\ud800", "\ufffd"),
        ("x" * 40000, "x" * 40001),
        ("\n" * 20000, symbols.global_name("\n" * 20000)),
    ],
)
def test_names_that_look_alike_are_kept_apart(name, other):
    assert symbols.global_name(name) != symbols.global_name(other)
    assert len(symbols.global_name(name)) <= symbols.MAX_LENGTH + 100


@pytest.mark.parametrize("name", ["table", "T", "a_1", "x$y", "abs", "tid", "parameter0", "_table"])
def test_a_plain_name_of_a_global_is_kept(name):
    assert symbols.global_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("_", "$", "WARP_SZ", "vprintf", "malloc", "free", "__nv_expf", "___NV_TILE_LAUNCH_META_DATA___"),
        *("k_param_0", "param0", "retval0", "func_retval0", "__local_depot0", "$L__BB0_1", "llvm.nvvm.barrier0"),
        *("__libtile_scratch_k", "__libtile_global_x", "%tid", "a.b", "1a", ""),
    ],
)
def test_a_name_that_something_else_has_is_not_kept(name):
    made = symbols.global_name(name)
    assert made.startswith(symbols.OWN) and ptx_text.is_identifier(made)


def test_no_kernel_has_a_name_of_the_compilers_own():
    for own in (symbols.own_name("scratch", "k"), symbols.own_name("text", "k", 3), symbols.global_name("a b")):
        assert "is taken" in symbols.kernel_problem(own)
