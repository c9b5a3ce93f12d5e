# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of the dialect's types, attributes and ops for code that runs on IR of xDSL's and on `light` IR alike.

See `libtile.ir.forms`: to a type checker these are xDSL's classes, and in a running program what both have as a base.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from libtile.dialects.cuda_tile.attributes import (
        BoundedAttr,
        CudaTileAttribute,
        DebugAttr,
        DenseElementsAttr,
        DICompileUnitAttr,
        DIFileAttr,
        DILexicalBlockAttr,
        DILocAttr,
        DISubprogramAttr,
        DivByAttr,
        EnumAttr,
        FileLineColRange,
        OptimizationHintsAttr,
        SameElementsAttr,
        TestValueAttr,
    )
    from libtile.dialects.cuda_tile.ops import CudaTileOp
    from libtile.dialects.cuda_tile.types import (
        CudaTileType,
        GatherScatterViewType,
        PartitionViewType,
        PointerType,
        StridedViewType,
        TensorViewType,
        TestEvolvedType,
        TileType,
        TileViewType,
        TokenType,
    )
else:
    from libtile.dialects.cuda_tile.attribute_forms import AttributeForm as CudaTileAttribute
    from libtile.dialects.cuda_tile.attribute_forms import BoundedForm as BoundedAttr
    from libtile.dialects.cuda_tile.attribute_forms import DebugForm as DebugAttr
    from libtile.dialects.cuda_tile.attribute_forms import DenseElementsForm as DenseElementsAttr
    from libtile.dialects.cuda_tile.attribute_forms import DICompileUnitForm as DICompileUnitAttr
    from libtile.dialects.cuda_tile.attribute_forms import DIFileForm as DIFileAttr
    from libtile.dialects.cuda_tile.attribute_forms import DILexicalBlockForm as DILexicalBlockAttr
    from libtile.dialects.cuda_tile.attribute_forms import DILocForm as DILocAttr
    from libtile.dialects.cuda_tile.attribute_forms import DISubprogramForm as DISubprogramAttr
    from libtile.dialects.cuda_tile.attribute_forms import DivByForm as DivByAttr
    from libtile.dialects.cuda_tile.attribute_forms import EnumForm as EnumAttr
    from libtile.dialects.cuda_tile.attribute_forms import OptimizationHintsForm as OptimizationHintsAttr
    from libtile.dialects.cuda_tile.attribute_forms import SameElementsForm as SameElementsAttr
    from libtile.dialects.cuda_tile.attribute_forms import TestValueForm as TestValueAttr
    from libtile.dialects.cuda_tile.op_forms import OpForm as CudaTileOp
    from libtile.dialects.cuda_tile.type_forms import GatherScatterViewForm as GatherScatterViewType
    from libtile.dialects.cuda_tile.type_forms import PartitionViewForm as PartitionViewType
    from libtile.dialects.cuda_tile.type_forms import PointerForm as PointerType
    from libtile.dialects.cuda_tile.type_forms import StridedViewForm as StridedViewType
    from libtile.dialects.cuda_tile.type_forms import TensorViewForm as TensorViewType
    from libtile.dialects.cuda_tile.type_forms import TestEvolvedForm as TestEvolvedType
    from libtile.dialects.cuda_tile.type_forms import TileForm as TileType
    from libtile.dialects.cuda_tile.type_forms import TileViewForm as TileViewType
    from libtile.dialects.cuda_tile.type_forms import TokenForm as TokenType
    from libtile.dialects.cuda_tile.type_forms import TypeForm as CudaTileType
    from libtile.ir.light import FileLineColRange

__all__ = [
    "PREDICATES",
    "BoundedAttr",
    "CudaTileAttribute",
    "CudaTileOp",
    "CudaTileType",
    "DICompileUnitAttr",
    "DIFileAttr",
    "DILexicalBlockAttr",
    "DILocAttr",
    "DISubprogramAttr",
    "DebugAttr",
    "DenseElementsAttr",
    "DivByAttr",
    "EnumAttr",
    "FileLineColRange",
    "GatherScatterViewType",
    "OptimizationHintsAttr",
    "PartitionViewType",
    "PointerType",
    "SameElementsAttr",
    "StridedViewType",
    "TensorViewType",
    "TestEvolvedType",
    "TestValueAttr",
    "TileType",
    "TileViewType",
    "TokenType",
]

PREDICATES: tuple[type[CudaTileAttribute], ...] = (DivByAttr, SameElementsAttr, BoundedAttr)
