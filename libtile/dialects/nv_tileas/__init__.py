# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileas: the operational dialect between nv_tileaa and LLVM IR.

Its tiles have layouts, its copies and products have atoms, and what runs asynchronously is spelled out: pipelines with
stages, iterators and tokens, TMA descriptors, barriers.
"""

from xdsl.ir import Dialect

from libtile.dialects.nv_tileas import async_products, memory, pipeline, products, tensor_memory, tiles, tma
from libtile.dialects.nv_tileas.attributes import ATTRIBUTES
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import TYPES
from libtile.ir.tile_form import OP_CLASSES, build

NAME = "nv_tileas"

NvTileAS = Dialect(
    NAME, [cls for name, cls in OP_CLASSES.items() if name.startswith(NAME + ".")], [*TYPES, *ATTRIBUTES]
)
"""The dialect, for `xdsl.context.Context.load_dialect`."""

__all__ = [
    "LayoutAttr",
    "NvTileAS",
    "async_products",
    "build",
    "memory",
    "pipeline",
    "products",
    "tensor_memory",
    "tiles",
    "tma",
]
