# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large a program is, so that every step of a reduction makes it smaller and the reduction comes to an end."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import IntegerType, ModuleOp, NoneAttr, UnknownLoc
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute

from libtile.dialects.cuda_tile.attributes import DILocAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, f32, i1, i32
from libtile.dialects.nv_tileaa.shapes import ConstantOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp

Weight = tuple[int, int, int]
"""Ops, values, and what types and attributes hold; compared in this order."""

_LIGHT = (OPS["constant"], OPS["make_token"], ConstantOp, CreateMemTokenOp)
"""Ops that take the place of others: they depend on nothing."""


def weight(root: Operation) -> Weight:
    """The weight of a program. What replaces a larger thing by a simpler one makes it less."""
    ops = values = rest = 0
    for op in root.walk():
        ops += 1 if isinstance(op, _LIGHT) else 4
        values += len(op.results) + len(op.operands)
        rest += isinstance(op.location, DILocAttr)
        for name, attr in (*op.properties.items(), *op.attributes.items()):
            if not _is_default(op, name):
                rest += 1 + _size(attr)
        for result in op.results:
            rest += _size(result.type)
        for region in op.regions:
            for block in region.blocks:
                values += 1 + len(block.args)
                rest += sum(_size(arg.type) for arg in block.args)
    return ops, values, rest


def _is_default(op: Operation, name: str) -> bool:
    if not isinstance(op, CudaTileOp) or name not in op.properties:
        return False
    declared = op.spec.attribute(name)
    return declared is not None and declared.default is not None and op.attribute_value(name) == declared.default


def count(root: Operation) -> int:
    """The ops below a module: what a reader of the program counts."""
    return sum(1 for op in root.walk() if not isinstance(op, (ModuleOp, OPS["module"])))


@lru_cache(maxsize=4096)
def _size(attr: Attribute) -> int:
    if attr in (f32, i32, i1):
        return 1
    if attr in NUMBER_NAMES or isinstance(attr, IntegerType):
        return 2
    if isinstance(attr, NoneAttr | UnknownLoc):
        return 0
    if isinstance(attr, ParametrizedAttribute):
        return 1 + sum(map(_size, attr.parameters))
    return 1 + (_plain(attr.data) if isinstance(attr, Data) else 0)


def _plain(value: object) -> int:
    match value:
        case bool() | None:
            return int(bool(value))
        case int():
            return value.bit_length()
        case float():
            return int(value != 0)
        case bytes():
            return len(value).bit_length() + len(value) - value.count(0)
        case Attribute():
            return _size(value)
        case dict():
            return sum(1 + _plain(inner) for inner in value.values())
        case tuple() | list() | frozenset():
            return sum(1 + _plain(inner) for inner in value)
    return 1  # a name, as short as any other
