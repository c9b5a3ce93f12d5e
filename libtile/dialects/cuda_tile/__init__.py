# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cuda_tile dialect on xDSL, derived from `libtile.spec`."""

from typing import TYPE_CHECKING, Any

from xdsl.ir import Dialect

from libtile.dialects.cuda_tile.attributes import ATTRIBUTES
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, build
from libtile.dialects.cuda_tile.types import TYPES

if TYPE_CHECKING:
    CudaTile: Dialect

__all__ = ["OPS", "CudaTile", "CudaTileOp", "build"]


def __getattr__(name: str) -> Any:
    """`CudaTile` is the dialect, for `xdsl.context.Context.load_dialect`. It has a class for every op, most of which a
    program does without, so it is made when somebody asks for it."""
    if name != "CudaTile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    dialect = globals()[name] = Dialect("cuda_tile", list(OPS.values()), [*TYPES, *ATTRIBUTES])
    return dialect
