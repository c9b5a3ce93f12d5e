# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the rules of the conversion share: the value map, the place where ops are put, types, facts, small helpers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.analysis import Facts
from libtile.dialects import arith, tensor
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import PointerType, TensorViewType, TileType, TileViewType, TokenType
from libtile.dialects.nv_tileaa.element_types import BLOCK_SCALED
from libtile.dialects.nv_tileaa.pointers import EmulatedFpToFpOp, FpToFpOp, IntToPtrOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp, SplatOp
from libtile.dialects.nv_tileaa.target import BLOCK_SCALED_MMA
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import GLOBAL, MemRefType, MemTokenType, PtrType, TiledViewType
from libtile.ir import tile_form
from libtile.ir.locations import set_location
from libtile.ir.numbers import index, integer
from libtile.ir.op_making import append
from libtile.ir.tile_form import TileOp
from libtile.lowering.rules import Rules
from libtile.lowering.to_tileaa.views import tiling_of
from libtile.lowering.to_tileaa.ways_out import WaysOut
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target

Rule = Callable[["Context", CudaTileOp], None]


class RulesByMnemonic(Rules["Context"]):
    """Rules of ops whose classes are made when a module has such an op: they are registered by what it is called."""

    def __init__(self) -> None:
        super().__init__()
        self._by_mnemonic: dict[str, Rule] = {}

    def named(self, *names: str) -> Callable[[Rule], Rule]:
        """Register the rule of one or more ops, by mnemonic; KeyError for an op that there is not."""

        def register(function: Rule) -> Rule:
            for name in names:
                if name not in OPS:
                    raise KeyError(name)
                self._by_mnemonic[name] = function
            return function

        return register

    def of_class(self, op: type[Operation]) -> Rule | None:
        """The rule of ops of a class; a class of another spec has the rule of the op of that name."""
        return self._by_mnemonic.get(op.spec.name) if issubclass(op, CudaTileOp) else None


RULES = RulesByMnemonic()
"""The rule of each op of cuda_tile: it emits ops and binds the op's results."""

rule = RULES.named


@lru_cache(maxsize=1024)  # which takes less than to make a type and to verify it
def convert_type(type_: Attribute) -> Attribute:
    """The nv_tileaa type of a cuda_tile type; LoweringError for a type that has none."""
    match type_:
        case TileType():
            return TensorType(convert_type(type_.element_type), type_.shape)
        case PointerType():
            return PtrType(convert_type(type_.pointee), GLOBAL)
        case TokenType():
            return MemTokenType()
        case TensorViewType():
            return MemRefType(convert_type(type_.element_type), type_.shape, type_.strides)
        case TileViewType():
            return TiledViewType(convert_type(type_.tensor_view), type_.tile_shape, tiling_of(type_))
    return type_


class Context:
    """The state of the conversion of one function."""

    def __init__(self, facts: Facts, target: Target, block: Block):
        self.facts = facts
        self.target = target
        self.block = self.outermost = block
        self.values: dict[SSAValue, SSAValue] = {}
        self.location: Attribute | None = None
        self.ways_out = WaysOut()
        self.early_returns: Mapping[Operation, int] = {}
        """The ops that may return before a program multiplies, and the number of the branch that does."""

    # -- placing ops ----------------------------------------------------------------------------------------------

    def emit(self, op: Operation) -> Operation:
        """Put an op at the end of the current block, at the current source location."""
        if self.location is not None:
            set_location(op, self.location)
        append(self.block, op)
        return op

    def make(
        self,
        cls: type[TileOp],
        operands: Sequence[tile_form.Given] = (),
        types: Sequence[Attribute | Sequence[Attribute] | None] = (),
        regions: Sequence[Region] = (),
        **attributes: Any,
    ) -> Operation:
        """Emit an op of nv_tileaa, from its operand groups."""
        return self.emit(cls.make(*operands, results=types, regions=regions, **attributes))

    def one(
        self, cls: type[TileOp], operands: Sequence[tile_form.Given], type_: Attribute, **attributes: Any
    ) -> SSAValue:
        """Like `make`, for an op with one result: returns that."""
        return self.make(cls, operands, [type_], **attributes).results[0]

    def builtin(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        type_: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """Emit an op of arith, tensor or another dialect of MLIR, with one result."""
        op = cls.create(operands=operands, result_types=[type_], properties=dict(properties or {}))
        return self.emit(op).results[0]

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Emit into another block for a while."""
        before, self.block = self.block, block
        yield
        self.block = before

    # -- values -----------------------------------------------------------------------------------------------------

    def get(self, value: SSAValue) -> SSAValue:
        """The converted value."""
        return self.values[value]

    def all(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [self.values[v] for v in values]

    def operand(self, op: CudaTileOp, name: str) -> SSAValue:
        """The converted value of the operand declared as `name`."""
        return self.values[op.operand(name)]

    def optional(self, op: CudaTileOp, name: str) -> SSAValue | None:
        """The converted value of an optional operand, or None."""
        value = op.optional_operand(name)
        return None if value is None else self.values[value]

    def bind(self, old: SSAValue, new: SSAValue) -> None:
        if old.name_hint and not new.name_hint:
            new.name_hint = old.name_hint
        self.values[old] = new

    def bind_all(self, op: Operation, news: Sequence[SSAValue]) -> None:
        for old, new in zip(op.results, news, strict=True):
            self.bind(old, new)

    # -- small values -----------------------------------------------------------------------------------------------

    def scalar(self, value: SSAValue) -> SSAValue:
        """The element of a tile of rank 0."""
        assert isinstance(value.type, TensorType)
        return self.builtin(tensor.ExtractOp, [value], value.type.element_type)

    def tile(self, value: SSAValue) -> SSAValue:
        """A scalar as a tile of rank 0."""
        return self.one(SplatOp, [value], TensorType(value.type, []))

    def index(self, value: SSAValue) -> SSAValue:
        """A scalar tile of integers, which are unsigned, as an index."""
        scalar = self.scalar(value)
        assert isinstance(scalar.type, IntegerType)
        if scalar.type.width.data < 64:
            scalar = self.builtin(arith.ExtUIOp, [scalar], i64)
        return self.builtin(arith.IndexCastOp, [scalar], index)

    def constant_scalar(self, value: int, type_: IntegerType | IndexType = i32) -> SSAValue:
        return self.emit(arith.ConstantOp(integer(value, type_), type_)).results[0]

    def true(self) -> SSAValue:
        return self.constant_scalar(1, i1)

    def false(self) -> SSAValue:
        return self.constant_scalar(0, i1)

    def constant(self, value: DenseElementsAttr) -> SSAValue:
        """A tile constant."""
        return self.one(ConstantOp, [], convert_type(value.type), value=value)

    def zero(self, type_: Attribute) -> SSAValue:
        """Some value of a type, for places where it does not matter which."""
        match type_:
            case MemTokenType():
                return self.one(CreateMemTokenOp, [], type_)
            case TensorType(element_type=PtrType()):
                address = self.zero(TensorType(i64, type_.get_shape()))
                return self.one(IntToPtrOp, [address], type_)
            case TensorType():
                source = TileType(type_.get_shape(), type_.element_type)
                dense = DenseElementsAttr(source, b"")
                return self.constant(DenseElementsAttr(source, bytes(dense.element_bytes)))
            case IntegerType() | IndexType():
                return self.constant_scalar(0, type_)
        raise LoweringError(f"a value of type {type_} cannot leave a branch that another branch does not give it")

    def float_conversion(self, value: SSAValue, type_: Attribute, **attributes: Any) -> SSAValue:
        """Floats in another type: by the op whose formats the target has."""
        elements = [t.element_type for t in (value.type, type_) if isinstance(t, TensorType)]
        emulated = not self.target.has(BLOCK_SCALED_MMA) and any(isinstance(e, BLOCK_SCALED) for e in elements)
        return self.one(EmulatedFpToFpOp if emulated else FpToFpOp, [value], type_, **attributes)

    # -- ops --------------------------------------------------------------------------------------------------------

    def convert(self, op: Operation) -> None:
        """Convert one op by its rule; LoweringError for an op without."""
        function = RULES.of(op)
        assert function is not None  # the legality table has seen to it
        outer, self.location = self.location, op.location
        function(self, op)
        self.location = outer
