# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cuda_tile dialect, derived from `libtile.spec`: on xDSL, and as `light` IR for what only reads and prints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from xdsl.ir import Dialect

    from libtile.dialects.cuda_tile.ops import OPS as OPS
    from libtile.dialects.cuda_tile.ops import CudaTileOp as CudaTileOp
    from libtile.dialects.cuda_tile.ops import build as build

    CudaTile: Dialect

__all__ = ["OPS", "CudaTile", "CudaTileOp", "build"]


def __getattr__(name: str) -> Any:
    """`CudaTile` is the dialect, for `xdsl.context.Context.load_dialect`. It has a class for every op, most of which a
    program does without, so it is made when somebody asks for it. The other names are those of `ops`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from libtile.dialects.cuda_tile import ops

    if name != "CudaTile":
        return getattr(ops, name)
    from xdsl.ir import Dialect

    from libtile.dialects.cuda_tile.attributes import ATTRIBUTES
    from libtile.dialects.cuda_tile.types import TYPES

    dialect = globals()[name] = Dialect("cuda_tile", list(ops.OPS.values()), [*TYPES, *ATTRIBUTES])
    return dialect
