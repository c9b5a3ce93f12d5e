# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands are asked for by name: what an op's declaration says, and nothing else, knows where they stand."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import IndexType, IntegerAttr, f32, i32
from xdsl.ir import Block, Region

from libtile.dialects import arith, nv_tileaa, nv_tileas, scf
from libtile.dialects.cuda_tile.ops import OPS, build
from libtile.dialects.cuda_tile.types import TileType
from libtile.ir.operands import (
    declares,
    operand_groups,
    operand_of,
    operand_sizes,
    operands_of,
    set_operand,
    source_of,
    sources_of,
)
from libtile.ir.tile_form import OP_CLASSES

ROOT = Path(__file__).resolve().parents[2]
DECLARING = ("dialects", "ir")
"""The rooms that declare ops, and say where their operands stand."""


def values(*types):
    return xdsl_test.TestOp(result_types=types).results


def inner_classes():
    for room in (nv_tileaa, nv_tileas):
        for module in pkgutil.iter_modules(room.__path__):
            __import__(f"{room.__name__}.{module.name}")
    return OP_CLASSES


def numbered(tree: ast.Module) -> Iterator[int]:
    """The lines that take operands of something by number."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
            continue
        number = any(isinstance(x, ast.Constant) and isinstance(x.value, int) for x in ast.walk(node.slice))
        if node.value.attr in ("operands", "_operands") and number:
            yield node.lineno


def knows_ops(tree: ast.Module) -> bool:
    """Whether a file has to do with ops of the IR: instructions of PTX are numbered by PTX itself."""
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] == "xdsl" or name.startswith(("libtile.dialects", "libtile.ir")) for name in names)


def test_no_file_outside_the_rooms_that_declare_ops_takes_an_operand_by_number():
    found = []
    for folder in (ROOT / "libtile", ROOT / "tools"):
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).parts[0] in DECLARING:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if knows_ops(tree):
                found += [f"{path.relative_to(ROOT)}:{line}" for line in numbered(tree)]
    assert not found, "say op.lhs, op.operand('lhs'), or what libtile.ir.operands has: " + ", ".join(found)


@pytest.mark.parametrize(
    "text", ["op.operands[0]", "op.operands[-1]", "f(op).operands[1:]", "op._operands[3 + n]", "op.operands[0] = value"]
)
def test_an_operand_by_number_is_seen(text):
    assert list(numbered(ast.parse(text))) == [1]


@pytest.mark.parametrize("text", ["operands[0]", "op.operands[number]", "op.results[0]", "op.lhs", "ins.operands"])
def test_what_is_none_is_left_alone(text):
    assert not list(numbered(ast.parse(text)))


@pytest.mark.parametrize("name", OPS)
def test_the_groups_of_an_op_of_cuda_tile_are_those_of_the_spec(name):
    declared = tuple((operand.name, operand.arity == "one") for operand in OPS[name].spec.operands)
    assert operand_groups(OPS[name]) == declared


@pytest.mark.parametrize("name", sorted(inner_classes()))
def test_every_group_of_an_inner_op_is_a_member_of_its_class(name):
    cls = OP_CLASSES[name]
    for group, _ in operand_groups(cls):
        assert hasattr(inspect.getattr_static(cls, group), "__get__"), f"{cls.__name__}.{group}"


def test_a_source_is_the_operand_that_is_declared_first_whatever_it_is_called():
    tile = TileType((4,), f32)
    (value,) = values(tile)
    assert source_of(build("negf", {"source": value}, [tile])) is value
    assert source_of(build("ftof", {"from": value}, [tile])) is value
    (index,) = values(IndexType())
    assert source_of(arith.IndexCastOp(index, i32)) is index


def test_several_operands_of_a_first_group_are_no_source():
    tile = TileType((4,), f32)
    pair = values(tile, tile)
    op = build("reduce", {"operands": pair}, [tile, tile], {"dim": 0, "identities": []}, [Region(Block())])
    assert list(sources_of(op)) == list(pair)
    with pytest.raises(ValueError, match="too many values"):
        source_of(op)
    assert sources_of(arith.ConstantOp(IntegerAttr(1, i32))) == ()


def test_operands_are_found_and_replaced_by_name_behind_groups_of_any_size():
    lower, upper, step, *carried = values(*[IndexType()] * 3, f32, f32)
    (other,) = values(f32)
    loop = scf.ForOp(lower, upper, step, carried, Region(Block(arg_types=[IndexType(), f32, f32])))
    assert operand_sizes(loop) == (1, 1, 1, 2)
    assert operand_of(loop, "ub") is upper
    assert list(operands_of(loop, "iter_args")) == carried
    set_operand(loop, "iter_args", other, 1)
    assert list(loop.iter_args) == [carried[0], other]
    assert carried[1].first_use is None
    with pytest.raises(IndexError, match="has 2 operands 'iter_args'"):
        set_operand(loop, "iter_args", other, 2)
    with pytest.raises(KeyError):
        operand_of(loop, "initial")
    assert declares(loop, "lb") and not declares(loop, "initial")


def test_an_absent_optional_operand_moves_those_behind_it():
    token_type, mask_type = TileType((), i32), TileType((4,), i32)
    pointers, value, token, new = values(mask_type, mask_type, token_type, token_type)
    op = build("store_ptr_tko", {"destination": pointers, "value": value, "token": token}, [token_type])
    assert not operands_of(op, "mask")
    assert operand_of(op, "token") is token
    set_operand(op, "token", new)
    assert list(op.operands) == [pointers, value, new]
