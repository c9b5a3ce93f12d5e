# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds small modules for tests: valid ones, and ones that break a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute, Block, Region, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, element_storage_bytes
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, PointerType, TensorViewType, TileType, TokenType

TOKEN = TokenType()


def element(name: str) -> Attribute:
    """The number type, or pointer to it, that `f32` or `ptr<f32>` names."""
    if name.startswith("ptr<"):
        pointee, _, ptr_attr = name[4:-1].partition(",")
        return PointerType(NUMBER_TYPES[pointee], ptr_attr or None)
    return NUMBER_TYPES[name]


def tile(name: str, *shape: int) -> TileType:
    """`tile("f32", 2, 4)` is `tile<2x4xf32>`."""
    return TileType(shape, element(name))


def view(name: str, shape: Sequence[int], strides: Sequence[int], ptr_attr: str | None = None) -> TensorViewType:
    return TensorViewType(NUMBER_TYPES[name], shape, strides, ptr_attr)


class Body:
    """Appends ops to a block. `args` are the block's arguments."""

    def __init__(self, block: Block):
        self.block = block
        self.args = tuple(block.args)

    def op(self, name: str, operands: Any = None, results: Sequence[Attribute] = (), **rest: Any) -> CudaTileOp:
        """Append an op; `operands` maps names to values, `attributes` and `regions` are keywords of `build`."""
        op = build(name, operands, results, **rest)
        self.block.add_op(op)
        return op

    def value(self, name: str, operands: Any = None, result: Attribute | None = None, **rest: Any) -> SSAValue:
        """Append an op and return its first result."""
        return self.op(name, operands, [] if result is None else [result], **rest).results[0]

    def constant(self, type_: TileType, value: int = 0) -> SSAValue:
        """A splat of an integer, or of the float with these bits."""
        width = element_storage_bytes(type_.element_type)
        raw = value.to_bytes(width, "little", signed=value < 0)
        return self.value("constant", None, type_, attributes={"value": DenseElementsAttr(type_, raw)})

    def token(self) -> SSAValue:
        return self.value("make_token", None, TOKEN)

    def region(self, types: Sequence[Attribute], fill: Callable[[Body], None]) -> Region:
        """A region of one block with arguments of these types."""
        block = Block(arg_types=types)
        fill(Body(block))
        return Region(block)


def module(*ops: CudaTileOp, name: str = "m") -> CudaTileOp:
    return build("module", attributes={"sym_name": name}, regions=[Region(Block(ops))])


def entry(
    fill: Callable[[Body], None],
    parameters: Sequence[Attribute] = (),
    name: str = "k",
    terminate: bool = True,
    **attributes: Any,
) -> CudaTileOp:
    """A kernel whose body `fill` appends; a return is added unless `terminate` is False."""
    block = Block(arg_types=parameters)
    body = Body(block)
    fill(body)
    if terminate:
        body.op("return")
    function = FunctionType.from_lists(list(parameters), [])
    return build(
        "entry", attributes={"sym_name": name, "function_type": function, **attributes}, regions=[Region(block)]
    )


def kernel(fill: Callable[[Body], None], *parameters: Attribute) -> CudaTileOp:
    """A module of one kernel."""
    return module(entry(fill, parameters))
