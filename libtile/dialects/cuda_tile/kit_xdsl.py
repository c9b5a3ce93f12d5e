# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `bridge` makes IR of xDSL's of. `kit_light` has the same names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC as UNKNOWN_LOC
from xdsl.dialects.builtin import ArrayAttr as ArrayAttr
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr
from xdsl.dialects.builtin import DictionaryAttr as DictionaryAttr
from xdsl.dialects.builtin import FloatAttr as FloatAttr
from xdsl.dialects.builtin import StringAttr as StringAttr
from xdsl.dialects.builtin import SymbolRefAttr as SymbolRefAttr
from xdsl.dialects.builtin import UnitAttr as UnitAttr
from xdsl.ir import Attribute
from xdsl.ir import Block as Block
from xdsl.ir import Region as Region

from libtile.dialects.cuda_tile.attributes import BoundedAttr as BoundedAttr
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr as DenseElementsAttr
from libtile.dialects.cuda_tile.attributes import DICompileUnitAttr as DICompileUnitAttr
from libtile.dialects.cuda_tile.attributes import DIFileAttr as DIFileAttr
from libtile.dialects.cuda_tile.attributes import DILexicalBlockAttr as DILexicalBlockAttr
from libtile.dialects.cuda_tile.attributes import DILocAttr as DILocAttr
from libtile.dialects.cuda_tile.attributes import DISubprogramAttr as DISubprogramAttr
from libtile.dialects.cuda_tile.attributes import DivByAttr as DivByAttr
from libtile.dialects.cuda_tile.attributes import EnumAttr as EnumAttr
from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr as OptimizationHintsAttr
from libtile.dialects.cuda_tile.attributes import SameElementsAttr as SameElementsAttr
from libtile.dialects.cuda_tile.attributes import TestValueAttr as TestValueAttr
from libtile.dialects.cuda_tile.locations import call_site_loc as call_site_loc
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, OpClasses
from libtile.dialects.cuda_tile.types import NUMBER_TYPES as NUMBER_TYPES
from libtile.dialects.cuda_tile.types import GatherScatterViewType as GatherScatterViewType
from libtile.dialects.cuda_tile.types import PartitionViewType as PartitionViewType
from libtile.dialects.cuda_tile.types import PointerType as PointerType
from libtile.dialects.cuda_tile.types import StridedViewType as StridedViewType
from libtile.dialects.cuda_tile.types import TensorViewType as TensorViewType
from libtile.dialects.cuda_tile.types import TestEvolvedType as TestEvolvedType
from libtile.dialects.cuda_tile.types import TileType as TileType
from libtile.dialects.cuda_tile.types import TokenType as TokenType
from libtile.ir.op_making import put_in as put_in
from libtile.spec import Spec, default_spec

integer = IntegerAttr
function_type = FunctionType.from_lists


@lru_cache(maxsize=4096)
def dense_array(element_type: Any, values: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(element_type, list(values))


_other_classes: list[tuple[Spec, Mapping[str, type[CudaTileOp]]]] = []


def op_classes(spec: Spec) -> Mapping[str, type[CudaTileOp]]:
    """The op classes of a spec; those of the few others than the package's own are made once each."""
    if spec is default_spec():
        return OPS
    for known, classes in _other_classes:
        if known is spec:
            return classes
    _other_classes.append((spec, OpClasses(spec)))
    return _other_classes[-1][1]
