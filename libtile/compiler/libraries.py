# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels call of libraries is there."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.pointers import ExternElementwiseOp
from libtile.lowering.errors import unsupported
from libtile.targets import Target


def check_symbols(module: Operation, gpu: Target, libraries: Sequence[bytes]) -> None:
    """LoweringError for a call of a function that no library defines; LibraryError for a library that is none."""
    calls = [op for op in module.walk() if isinstance(op, ExternElementwiseOp)]
    if not calls and not libraries:
        return
    from libtile.backend.bitcode import defined_functions

    known = defined_functions(libraries)
    for op in calls:
        if (name := op.symbol.data) not in known:
            raise unsupported(op, f"calls '{name}', which no library that is linked defines, nor libdevice", gpu.name)
