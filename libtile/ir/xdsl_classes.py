# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""xDSL's classes that the names of `libtile.ir.forms` stand for."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, TypeAttribute

from libtile.ir import light


def attach() -> None:
    """Called by whatever makes IR of xDSL's; once is enough."""
    light.stand_for(
        builtin.ArrayAttr,
        builtin.CallSiteLoc,
        builtin.DenseArrayBase,
        builtin.DictionaryAttr,
        builtin.FileLineColLoc,
        builtin.FloatAttr,
        builtin.FunctionType,
        builtin.FusedLoc,
        builtin.IntegerAttr,
        builtin.IntegerType,
        builtin.ModuleOp,
        builtin.NameLoc,
        builtin.NoneAttr,
        builtin.StringAttr,
        builtin.SymbolRefAttr,
        builtin.UnitAttr,
        builtin.UnknownLoc,
        builtin.UnregisteredAttr,
        builtin.UnregisteredOp,
        Attribute,
        Block,
        BlockArgument,
        Operation,
        OpResult,
        Region,
        SSAValue,
        TypeAttribute,
    )
