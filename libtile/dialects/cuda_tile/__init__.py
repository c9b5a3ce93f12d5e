# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cuda_tile dialect on xDSL, derived from `libtile.spec`."""

from xdsl.ir import Dialect

from libtile.dialects.cuda_tile.attributes import ATTRIBUTES
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, build
from libtile.dialects.cuda_tile.types import TYPES

CudaTile = Dialect("cuda_tile", list(OPS.values()), [*TYPES, *ATTRIBUTES])
"""The dialect, for `xdsl.context.Context.load_dialect`."""

__all__ = ["OPS", "CudaTile", "CudaTileOp", "build"]
