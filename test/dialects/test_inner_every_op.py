# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Properties that every op of the inner dialects has, from its declaration alone."""

from __future__ import annotations

import random

import pytest
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32, i64
from xdsl.ir import Block, Region
from xdsl.irdl import OptionalDef, VariadicDef
from xdsl.utils.exceptions import VerifyException

from dialects.inner import messages, module
from libtile.asm import parse, print_op
from libtile.dialects import nv_tileas
from libtile.dialects.nv_tileaa.arithmetic import OPS, ROWS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.tile_form import OP_CLASSES, TileOp, attribute_of, build, tile
from libtile.support.errors import LibtileError

assert nv_tileas.NAME == "nv_tileas"  # its ops are in OP_CLASSES once it is imported

ORDINARY = {name: cls for name, cls in OP_CLASSES.items() if not issubclass(cls, FuncOp)}


def an_op(cls: type[TileOp], rng: random.Random) -> tuple[xdsl_test.TestOp, TileOp]:
    """An op with any number of operands and results that its declaration allows, and the op that makes the operands."""
    definition = cls.get_irdl_definition()
    sizes = [
        (rng.randint(0, 1) if isinstance(d, OptionalDef) else rng.randint(0, 3)) if isinstance(d, VariadicDef) else 1
        for _, d in definition.operands
    ]
    types = [
        [MemTokenType() if name == "token" else tile((4,), f32) for _ in range(n)]
        for n, (name, _) in zip(sizes, definition.operands)
    ]
    source = xdsl_test.TestOp(result_types=[t for group in types for t in group])
    values = iter(source.results)
    operands = [[next(values) for _ in group] for group in types]
    results = [[tile((4,), f32)] for _ in definition.results]
    regions = [Region(Block()) for _ in definition.regions]
    op = cls.make(*operands_of(cls, operands), results=results_of(cls, results), regions=regions, note=7)
    return source, op


def operands_of(cls: type[TileOp], groups: list[list]) -> list:
    kinds = [d for _, d in cls.get_irdl_definition().operands]
    return [g if isinstance(d, VariadicDef) else g[0] for g, d in zip(groups, kinds)]


def results_of(cls: type[TileOp], groups: list[list]) -> list:
    kinds = [d for _, d in cls.get_irdl_definition().results]
    return [g if isinstance(d, VariadicDef) else g[0] for g, d in zip(groups, kinds)]


@pytest.mark.parametrize("name", ORDINARY)
def test_an_op_reads_as_it_is_printed(name: str) -> None:
    """With any operands that the declaration allows, valid or not: the text loses nothing."""
    rng = random.Random(name)
    for _ in range(4):
        source, op = an_op(ORDINARY[name], rng)
        text = print_op(ModuleOp([source, op]))
        again = parse(text)
        assert print_op(again) == text
        (_, read) = again.regions[0].block.ops
        assert type(read) is ORDINARY[name]
        assert read.properties == op.properties and read.attributes == op.attributes
        assert [v.type for v in read.operands] == [v.type for v in op.operands]


@pytest.mark.parametrize("name", ORDINARY)
def test_verifying_any_op_gives_a_diagnostic_or_nothing(name: str) -> None:
    """Operands of senseless types, missing attributes and empty regions never raise anything else."""
    rng = random.Random(name)
    for _ in range(4):
        source, op = an_op(ORDINARY[name], rng)
        ModuleOp([source, op])
        try:
            op.verify_()
        except VerifyException as found:
            assert str(found)


@pytest.mark.parametrize("name", OP_CLASSES)
def test_an_op_says_what_it_is(name: str) -> None:
    assert OP_CLASSES[name].__doc__


@pytest.mark.parametrize("name", ROWS)
def test_an_elementwise_op_asks_for_operands_of_the_result_type(name: str) -> None:
    row = ROWS[name]
    element = "f32" if row.kind == "float" else "i32"
    types = ["tile<4xi32>" if o == row.integer_operand else f"tile<4x{element}>" for o in row.operands.split()]
    values = ["%x4" if "i32" in t else "%v4" for t in types]
    text = f"%r = nv_tileaa.{name} {', '.join(values)} : {', '.join(types)} -> "
    assert messages(module(f"{text}tile<4x{element}>")) == []
    (found,) = messages(module(f"{text}tile<8x{element}>"))
    assert f"'nv_tileaa.{name}' op expects operand '{row.operands.split()[0]}' and the result to have" in found
    assert OPS[name].name == f"nv_tileaa.{name}"


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.roundings])
def test_an_op_takes_its_rounding_modes_only(name: str) -> None:
    values = ", ".join(["%v4"] * len(ROWS[name].operands.split()))
    types = ", ".join(["tile<4xf32>"] * len(ROWS[name].operands.split()))
    text = f"%r = nv_tileaa.{name} {values} {{rounding_mode = #nv_tileaa.rounding_mode<MODE>}} : {types} -> tile<4xf32>"
    for mode in ("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_away"):
        refusal = f"'nv_tileaa.{name}' op rounding mode '{mode}' is not supported"
        wrong = [] if mode in ROWS[name].roundings else [refusal]
        assert messages(module(text.replace("MODE", mode))) == wrong


def test_python_values_stand_for_attributes() -> None:
    assert attribute_of(3) == IntegerAttr(3, i64)
    assert attribute_of(None) is None and attribute_of(False) is None
    assert str(attribute_of([True, False])) == "array<i1: true, false>"
    assert str(attribute_of((1, 2))) == "array<i64: 1, 2>"
    load = build("nv_tileaa.create_mem_token", [], [MemTokenType()], {"latency": 3})
    assert load.attributes == {"latency": IntegerAttr(3, i64)}
    with pytest.raises(TypeError, match="no attribute stands for"):
        attribute_of([1.5])


def test_an_enum_takes_its_keywords_only() -> None:
    from libtile.dialects.nv_tileaa.attributes import MemSemanticAttr

    assert MemSemanticAttr("acquire").number == 2
    with pytest.raises(LibtileError, match="one of: weak, relaxed"):
        MemSemanticAttr("strong")
