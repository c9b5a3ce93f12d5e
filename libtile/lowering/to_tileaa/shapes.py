# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes, constants, reductions and products."""

from __future__ import annotations

from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, TensorType, f16
from xdsl.ir import Attribute, Block, Region, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp, ScaledDotOp, ScanOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    CatOp,
    ExtractOp,
    InsertSliceOp,
    MakeRangeOp,
    PermuteOp,
    ViewOp,
)
from libtile.dialects.nv_tileaa.terminators import YieldOp
from libtile.lowering.to_tileaa.context import Context, convert_type, rule


@rule("constant")
def _constant(c: Context, op: CudaTileOp) -> None:
    value = op.properties["value"]
    assert isinstance(value, DenseElementsAttr)  # as declared
    c.bind(op.results[0], c.constant(value))


@rule("iota")
def _iota(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(MakeRangeOp, [], convert_type(op.results[0].type)))


@rule("broadcast")
def _broadcast(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(BroadcastOp, c.all(op.operands), convert_type(op.results[0].type)))


@rule("reshape")
def _reshape(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(ViewOp, c.all(op.operands), convert_type(op.results[0].type)))


@rule("permute")
def _permute(c: Context, op: CudaTileOp) -> None:
    type_ = convert_type(op.results[0].type)
    c.bind(op.results[0], c.one(PermuteOp, c.all(op.operands), type_, permutation=op.properties["permutation"]))


@rule("cat")
def _cat(c: Context, op: CudaTileOp) -> None:
    type_ = convert_type(op.results[0].type)
    c.bind(op.results[0], c.one(CatOp, c.all(op.operands), type_, dim=op.properties["dim"]))


@rule("extract")
def _extract(c: Context, op: CudaTileOp) -> None:
    indices = [c.index(c.get(v)) for v in op.operand_group("indices")]
    c.bind(op.results[0], c.one(ExtractOp, [c.get(op.operand("source")), indices], convert_type(op.results[0].type)))


@rule("insert")
def _insert(c: Context, op: CudaTileOp) -> None:
    source, destination = (c.get(op.operand(name)) for name in ("source", "destination"))
    indices = [c.index(c.get(v)) for v in op.operand_group("indices")]
    type_ = convert_type(op.results[0].type)
    c.bind(op.results[0], c.one(InsertSliceOp, [source, destination, indices], type_))


@rule("reduce", "scan")
def _collective(c: Context, op: CudaTileOp) -> None:
    """The body's arguments come in pairs (accumulated, next) there, and all accumulated ones first here."""
    old = op.regions[0].block
    count = len(op.operands)
    types = [convert_type(v.type) for v in old.args]
    block = Block(arg_types=[*types[0::2], *types[1::2]])
    for i in range(count):
        c.bind(old.args[2 * i], block.args[i])
        c.bind(old.args[2 * i + 1], block.args[count + i])
    with c.inside(block):
        for inner in old.ops:
            if isinstance(inner, OPS["yield"]):
                c.make(YieldOp, [c.all(inner.operands)])
            else:
                c.convert(inner)
    made = c.make(
        ScanOp if op.spec.name == "scan" else ReduceOp,
        [c.all(op.operands)],
        [[convert_type(r.type) for r in op.results]],
        [Region(block)],
        dim=op.properties["dim"],
        identities=op.properties["identities"],
        **({"reverse": op.attribute_value("reverse")} if op.spec.name == "scan" else {}),
    )
    c.bind_all(op, made.results)


_FLOAT8 = {Float8E4M3FNType(): "e4m3", Float8E5M2Type(): "e5m2"}


@rule("mmaf")
def _mmaf(c: Context, op: CudaTileOp) -> None:
    """8-bit floats become f16, which holds them exactly, where no tensor core takes them."""
    a, b, acc = c.all(op.operands)
    assert isinstance(acc.type, TensorType)
    a, b = (_widened(c, v, acc.type.element_type) for v in (a, b))
    c.bind(op.results[0], c.one(DotOp, [a, b, acc], acc.type, fast_acc=op.attribute_value("fast_acc")))


def _widened(c: Context, value: SSAValue, result: Attribute) -> SSAValue:
    assert isinstance(value.type, TensorType)
    name = _FLOAT8.get(value.type.element_type)
    if name is None or c.target.mma(name, name, "f16" if result == f16 else "f32"):
        return value
    return c.float_conversion(value, TensorType(f16, value.type.get_shape()))


@rule("mmai")
def _mmai(c: Context, op: CudaTileOp) -> None:
    result = c.one(
        DotOp,
        c.all(op.operands),
        convert_type(op.results[0].type),
        signedness_a=op.attribute_value("signedness_lhs"),
        signedness_b=op.attribute_value("signedness_rhs"),
    )
    c.bind(op.results[0], result)


@rule("mmaf_scaled")
def _mmaf_scaled(c: Context, op: CudaTileOp) -> None:
    operands = c.all(op.operands)
    c.bind(op.results[0], c.one(ScaledDotOp, operands, operands[2].type))
