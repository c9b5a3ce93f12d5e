# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's types as values."""

import ast
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import libtile.codegen
from libtile.codegen.builder import Value, float_constant, integer
from libtile.codegen.llvm_types import (
    BFLOAT,
    DOUBLE,
    ELEMENT_TYPES,
    GENERIC_POINTER,
    GLOBAL_POINTER,
    I1,
    I8,
    I32,
    I64,
    VOID,
    FloatType,
    IntType,
    PointerType,
    StructType,
    VectorType,
    registers_type,
)
from libtile.numerics.elements import ELEMENTS


@pytest.mark.parametrize(
    ("made", "text", "bits", "suffix", "constraint"),
    [
        (IntType(1), "i1", 1, "i1", "b"),
        (IntType(8), "i8", 8, "i8", ""),
        (IntType(64), "i64", 64, "i64", "l"),
        (FloatType("bfloat"), "bfloat", 16, "bf16", "h"),
        (FloatType("double"), "double", 64, "f64", "d"),
        (PointerType(0), "ptr", 64, "p0", "l"),
        (PointerType(3), "ptr addrspace(3)", 64, "p3", "l"),
        (VectorType(2, FloatType("half")), "<2 x half>", 32, "v2f16", ""),
        (StructType((I32, DOUBLE)), "{ i32, double }", 96, "", ""),
        (VOID, "void", 0, "", ""),
    ],
)
def test_a_type_knows_its_text_width_and_names(made, text, bits, suffix, constraint):
    assert (str(made), made.text, made.bits, made.suffix, made.constraint) == (text, text, bits, suffix, constraint)


def test_equal_types_are_one_object():
    assert IntType(32) is I32
    assert VectorType(4, IntType(8)) is VectorType(4, I8)
    assert StructType((I32, I32)) is StructType((I32, I32)) is registers_type(I32, 2)
    assert registers_type(I32, 1) is I32
    assert PointerType(1) is GLOBAL_POINTER is not GENERIC_POINTER
    assert IntType(1) is I1 and IntType(1) is not PointerType(1)


def test_a_type_is_frozen():
    with pytest.raises(FrozenInstanceError):
        I32.text = "i64"


def test_each_element_has_the_register_that_the_declarations_name():
    assert {name: str(type_) for name, type_ in ELEMENT_TYPES.items()} == {n: e.llvm for n, e in ELEMENTS.items()}


@pytest.mark.parametrize(
    ("type_", "number", "text", "constant"),
    [(I8, 255, "-1", -1), (I8, -128, "-128", -128), (I1, 3, "true", 1), (I1, 2, "false", 0), (I64, 1 << 64, "0", 0)],
)
def test_integer_constants_keep_the_low_bits(type_, number, text, constant):
    assert integer(type_, number) == Value(type_, text, constant)


def test_constants_of_other_types_are_refused():
    with pytest.raises(ValueError, match="float is not an integer type"):
        integer(FloatType("float"), 1)
    with pytest.raises(ValueError, match="bfloat"):
        float_constant(BFLOAT, 1.0)


def _picked_apart(tree: ast.AST) -> list[str]:
    """Where a type or the text of a value or an instruction is taken for a string: sliced, split or searched."""
    found = []
    for node in ast.walk(tree):
        whole = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("startswith", "endswith", "split", "removeprefix", "removesuffix", "lstrip", "strip"):
                whole = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            whole = node.value
        if isinstance(whole, ast.Attribute) and whole.attr in ("type", "llvm_type", "typed", "text", "lines"):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


SOURCES = sorted(Path(libtile.codegen.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[p.stem for p in SOURCES])
def test_no_type_and_no_emitted_text_is_picked_apart(path):
    assert not _picked_apart(ast.parse(path.read_text()))


def test_the_search_for_what_is_picked_apart_finds_it():
    text = "bits = int(value.type[1:])\nif value.text.startswith('%'):\n    rest = block.lines[3:]"
    assert len(_picked_apart(ast.parse(text))) == 3
