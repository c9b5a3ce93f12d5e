# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what MLIR prints of a module in the generic form: see `spelling` for what rides as something else there."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    NoneAttr,
    TensorType,
    UnrealizedConversionCastOp,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region

from libtile.asm.dialect import OpParser
from libtile.asm.parser import Parser
from libtile.dialects.arith import IntegerOverflowAttr
from libtile.dialects.cuda_tile.attributes import DebugAttr, DILocAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.ir.tile_form import TileOp

HOLD_TILES = (CudaTileOp, TileOp, UnrealizedConversionCastOp, FuncOp)
"""Ops whose constants are tiles: our dialects', and what stands for them in the structural form."""


NO_FLAGS = IntegerOverflowAttr("none")


class MlirParser(Parser):
    """The generic form of MLIR: tensors of numbers in our dialects' ops are tiles, fused locations with a scope are
    debug locations.
    """

    _holds_tiles = False
    """Whether the op that is being read is one whose constants are tiles."""

    def tile_of(self, type_: Attribute) -> TileType | None:
        if self._holds_tiles and isinstance(type_, TensorType) and isinstance(type_.encoding, NoneAttr):
            return TileType(type_.get_shape(), type_.element_type)
        return super().tile_of(type_)

    def _generic_rest(self, cls: type[Operation], parser: OpParser | None, start: int) -> Operation:
        outer, self._holds_tiles = self._holds_tiles, issubclass(cls, HOLD_TILES)
        op = super()._generic_rest(cls, parser, start)
        self._holds_tiles = outer
        definition = getattr(cls, "get_irdl_definition", None)
        if definition is not None and not issubclass(cls, UnregisteredOp):
            for name in sorted(set(op.properties) - set(definition().properties)):  # that MLIR has and xDSL has not
                value = op.properties.pop(name)
                if value != NO_FLAGS:
                    op.attributes[name] = value
        return op

    def region(self, *given: Any, **options: Any) -> Region:
        outer = self._holds_tiles
        region = super().region(*given, **options)
        self._holds_tiles = outer
        return region

    def _fused(self) -> FusedLoc | DILocAttr:  # type: ignore[override]  # a location, as all of them are
        found = super()._fused()
        if isinstance(found.metadata, DebugAttr) and isinstance(found.locations, ArrayAttr):
            match list(found.locations):
                case [FileLineColLoc() as place]:
                    return DILocAttr(found.metadata, place.filename.data, place.line.data, place.column.data)
        return found
