# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels bring along of LLVM: functions of libraries are there, and fragments of LLVM IR are valid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.functions import InjectIrOp
from libtile.dialects.nv_tileaa.pointers import ExternElementwiseOp
from libtile.ir.places import walk
from libtile.lowering.errors import unsupported
from libtile.numerics import intrinsics
from libtile.targets import Target


def check_symbols(module: Operation, gpu: Target, libraries: Sequence[bytes]) -> None:
    """LoweringError for a call of a function that no library defines; LibraryError for a library that is none."""
    calls = [op for op in walk(module) if isinstance(op, ExternElementwiseOp)]
    if not calls and not libraries:
        return
    from libtile.backend.bitcode import defined_functions

    known = defined_functions(libraries)
    for op in calls:
        if (name := op.symbol.data) not in known:
            raise unsupported(op, f"calls '{name}', which no library that is linked defines, nor libdevice", gpu.name)


def check_fragments(module: Operation, gpu: Target) -> None:
    """LoweringError for LLVM IR that is not the body of one function, or calls what no code is made for."""
    for op in walk(module):
        if isinstance(op, InjectIrOp):
            from libtile.backend.bitcode import FragmentError, check_fragment
            from libtile.lowering.to_llvm.fragments import definition

            try:
                check_fragment(*definition(op, gpu), intrinsics.INTRINSICS)
            except FragmentError as problem:
                raise unsupported(op, str(problem), gpu.name) from None
