# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic of single elements as ops of arith, and back: what MLIR folds, compares and propagates.

The ops of arith are those that the lowering gives. Shifts and divisions, which are not defined for all operands, are
left out, and so are ops that rule out overflow: MLIR would have to know what a broken promise means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects import arith
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, element_storage_bytes
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1
from libtile.lowering.to_tileaa.arithmetic import BY_SIGN, PLAIN, SIGNED, UNSIGNED, WRAPPING
from libtile.support.errors import LibtileError

_Settings = dict[str, Any]

_NO_FLAGS: dict[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}

_Row = tuple[str, _Settings, type[Operation], dict[str, Attribute]]


def _comparison(name: str, signedness: str, number: int) -> _Row:
    settings = {"comparison_predicate": name, "signedness": signedness}
    return "cmpi", settings, arith.CmpiOp, {"predicate": IntegerAttr(number, i64)}


_ROWS: tuple[_Row, ...] = (
    *((name, {}, cls, {}) for name, cls in PLAIN.items()),
    *((name, {"overflow": "none"}, WRAPPING[name], dict(_NO_FLAGS)) for name in ("addi", "subi", "muli", "trunci")),
    *(
        (name, {"signedness": signedness}, cls, {})
        for name in ("maxi", "mini", "exti")
        for signedness, cls in zip(("signed", "unsigned"), BY_SIGN[name])
    ),
    *(_comparison(name, "signed", number) for name, number in SIGNED.items()),
    *(_comparison(name, "unsigned", number) for name, number in UNSIGNED.items() if number not in SIGNED.values()),
)
"""Mnemonic and attributes in cuda_tile, class and properties in arith."""


def scalar_type(type_: Attribute) -> Attribute:
    """What stands for a type in the structural form: integers for single integers, else the type itself."""
    if isinstance(type_, TileType) and not type_.shape and isinstance(type_.element_type, IntegerType):
        return type_.element_type
    return type_


def tile_type(type_: Attribute) -> Attribute:
    """The type that one of the structural form stands for."""
    return TileType((), type_) if isinstance(type_, IntegerType) else type_


def to_arith(op: CudaTileOp, operands: Sequence[SSAValue]) -> Operation | None:
    """The op of arith that does what `op` does, where there is one; all its values have to be single integers."""
    found = [scalar_type(value.type) for value in (*op.operands, *op.results)]
    types = [type_ for type_ in found if isinstance(type_, IntegerType)]
    if len(types) != len(found) or not types:
        return None
    mnemonic = op.spec.name
    if mnemonic == "constant":
        bits = op.attribute_value("value").elements()[0]
        return arith.ConstantOp(IntegerAttr(_signed(bits, types[0].width.data), types[0]))
    for name, settings, cls, properties in _ROWS:
        if name == mnemonic and all(op.attribute_value(key) == value for key, value in settings.items()):
            return cls.create(operands=operands, result_types=types[-1:], properties=dict(properties))
    return None


def from_arith(op: Operation, operands: Sequence[SSAValue]) -> list[CudaTileOp]:
    """The ops of cuda_tile that do what an op of arith does; the last one has the result.

    Overflow that is ruled out is not taken over: nobody asked for it. LibtileError for an op that has no equal.
    """
    types = [tile_type(result.type) for result in op.results]
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr) and isinstance(types[0], TileType):
        size = element_storage_bytes(types[0].element_type)
        value = op.value.value.data & ((1 << bit_width(types[0].element_type)) - 1)
        return [build("constant", {}, types, {"value": DenseElementsAttr(types[0], value.to_bytes(size, "little"))})]
    for name, settings, cls, properties in _ROWS:
        if isinstance(op, cls) and op.properties.get("predicate") == properties.get("predicate"):
            spread = _spread_condition(operands) if name == "select" else []
            values = [spread[-1].results[0], *operands[1:]] if spread else operands
            names = [operand.name for operand in OPS[name].spec.operands]
            return [*spread, build(name, dict(zip(names, values)), types, settings)]
    raise LibtileError(f"Tile IR has no op for '{op.name}', which MLIR's passes made")


def _spread_condition(operands: Sequence[SSAValue]) -> list[CudaTileOp]:
    """The ops that give the condition of a select the shape of its values: that of arith may be one for all."""
    condition, value = operands[0], operands[1]
    shape = value.type.shape if isinstance(value.type, TileType) else ()
    made: list[CudaTileOp] = []
    for mnemonic, wanted in (("reshape", (1,) * len(shape)), ("broadcast", shape)):
        if condition.type != TileType(wanted, i1):
            made.append(build(mnemonic, {"source": condition}, [TileType(wanted, i1)]))
            condition = made[-1].results[0]
    return made


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if width > 1 and value >> (width - 1) else value
