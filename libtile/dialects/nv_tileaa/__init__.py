# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileaa: the alias-aware dialect between cuda_tile and nv_tileas.

Its ops keep the mathematical shape of the program, and say where memory comes from (pointers with address spaces,
memrefs with strides and alias scopes, tiled views) and what orders accesses to it (tokens). Integer arithmetic is
`arith`'s, control flow is `scf`'s. `OP_CLASSES["nv_tileaa.addf"]` is the class of an op; `build` makes one by name.
"""

from xdsl.ir import Dialect

from libtile.dialects.nv_tileaa import (
    arithmetic,
    collectives,
    functions,
    memory,
    pointers,
    queues,
    shapes,
    terminators,
    tokens,
)
from libtile.dialects.nv_tileaa.assumptions import PREDICATES
from libtile.dialects.nv_tileaa.attributes import ATTRIBUTES
from libtile.dialects.nv_tileaa.types import TYPES
from libtile.ir.tile_form import OP_CLASSES, build

NAME = "nv_tileaa"

NvTileAA = Dialect(
    NAME,
    [cls for name, cls in OP_CLASSES.items() if name.startswith(NAME + ".")],
    [*TYPES, *ATTRIBUTES, *PREDICATES],
)
"""The dialect, for `xdsl.context.Context.load_dialect`."""

__all__ = [
    "OP_CLASSES",
    "NvTileAA",
    "arithmetic",
    "build",
    "collectives",
    "functions",
    "memory",
    "pointers",
    "queues",
    "shapes",
    "terminators",
    "tokens",
]  # fmt: skip
