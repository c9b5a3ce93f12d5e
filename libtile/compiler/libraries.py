# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels bring along of LLVM: functions of libraries are there, and fragments of LLVM IR are valid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import InjectIrOp
from libtile.dialects.nv_tileaa.pointers import ExternElementwiseOp
from libtile.ir.places import walk
from libtile.lowering.errors import unsupported
from libtile.numerics import intrinsics
from libtile.targets import Target


def check_symbols(module: Operation, gpu: Target, libraries: Sequence[bytes]) -> None:
    """LoweringError for a call of a function that no library defines, or that has another type than the elements of the
    call; LibraryError for a library that is none."""
    calls = [op for op in walk(module) if isinstance(op, ExternElementwiseOp)]
    if not calls and not libraries:
        return
    from libtile.backend.bitcode import defined_functions

    known = defined_functions(libraries)
    for op in calls:
        if (name := op.symbol.data) not in known:
            raise unsupported(op, f"calls '{name}', which no library that is linked defines, nor libdevice", gpu.name)
        if known[name] != (called := _called(op)):
            raise unsupported(op, f"calls '{name}' as {called}, and it is {known[name]}", gpu.name)


def _called(op: ExternElementwiseOp) -> str:
    """The type by which an op calls its function, once for each element, as LLVM IR writes it."""
    from libtile.lowering.to_llvm.emitter import llvm_type

    def types(values: Sequence[SSAValue]) -> list[str]:
        elements = (v.type.element_type if isinstance(v.type, TensorType) else v.type for v in values)
        return [str(llvm_type(element)) for element in elements]

    return f"{', '.join(types(op.outputs)) or 'void'} ({', '.join(types(op.inputs))})"


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
