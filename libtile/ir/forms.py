# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of builtin attributes, ops and values for code that runs on IR of xDSL's and on `light` IR alike.

The verifier and the printer of cuda_tile are such code: they ask with `isinstance` and `match` of which class an object
is, and read its members. To a type checker the names here are xDSL's classes. In a running program they are those of
`libtile.ir.light`, of which xDSL's objects are to `isinstance` as well, so that nothing of xDSL is loaded for them. No
object is made by these names: code that makes IR knows of which kind.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xdsl.dialects.builtin import (
        ArrayAttr,
        CallSiteLoc,
        DenseArrayBase,
        DictionaryAttr,
        FileLineColLoc,
        FloatAttr,
        FunctionType,
        FusedLoc,
        IntegerAttr,
        IntegerType,
        ModuleOp,
        NameLoc,
        NoneAttr,
        StringAttr,
        SymbolRefAttr,
        UnitAttr,
        UnknownLoc,
        UnregisteredAttr,
        UnregisteredOp,
    )
    from xdsl.ir import (
        Attribute,
        Block,
        BlockArgument,
        Operation,
        OpResult,
        Region,
        SSAValue,
        TypeAttribute,
    )
else:
    from libtile.ir.light import (
        ArrayAttr,
        Attribute,
        Block,
        BlockArgument,
        CallSiteLoc,
        DenseArrayBase,
        DictionaryAttr,
        FileLineColLoc,
        FloatAttr,
        FunctionType,
        FusedLoc,
        IntegerAttr,
        IntegerType,
        ModuleOp,
        NameLoc,
        NoneAttr,
        Operation,
        OpResult,
        Region,
        SSAValue,
        StringAttr,
        SymbolRefAttr,
        TypeAttribute,
        UnitAttr,
        UnknownLoc,
        UnregisteredAttr,
        UnregisteredOp,
    )

__all__ = [
    "ArrayAttr",
    "Attribute",
    "Block",
    "BlockArgument",
    "CallSiteLoc",
    "DenseArrayBase",
    "DictionaryAttr",
    "FileLineColLoc",
    "FloatAttr",
    "FunctionType",
    "FusedLoc",
    "IntegerAttr",
    "IntegerType",
    "ModuleOp",
    "NameLoc",
    "NoneAttr",
    "OpResult",
    "Operation",
    "Region",
    "SSAValue",
    "StringAttr",
    "SymbolRefAttr",
    "TypeAttribute",
    "UnitAttr",
    "UnknownLoc",
    "UnregisteredAttr",
    "UnregisteredOp",
]
