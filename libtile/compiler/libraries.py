# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels bring along of LLVM: functions of libraries are there, fragments of LLVM IR are valid, and LLVM has code
for what others have written."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.compiler.options import Options
from libtile.dialects.nv_tileaa.functions import InjectIrOp
from libtile.dialects.nv_tileaa.pointers import ElementwiseInlineAsmOp, ExternElementwiseOp
from libtile.ir.places import ops_of
from libtile.lowering.errors import unsupported
from libtile.numerics import intrinsics
from libtile.targets import Target


def check_symbols(module: Operation, gpu: Target, libraries: Sequence[bytes]) -> None:
    """LoweringError for a call of a function that no library defines, or that has another type than the elements of the
    call; LibraryError for a library that is none."""
    calls = ops_of(module, ExternElementwiseOp)
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
    for op in ops_of(module):
        if isinstance(op, InjectIrOp):
            from libtile.backend.bitcode import FragmentError, check_fragment
            from libtile.lowering.to_llvm.fragments import definition

            try:
                check_fragment(definition(op, gpu)[1], op.ir.data, intrinsics.INTRINSICS)
            except FragmentError as problem:
                raise unsupported(op, str(problem), gpu.name) from None


def try_foreign_code(module: Operation, gpu: Target, llvm_ir: str, options: Options) -> None:
    """LoweringError where LLVM has no code for a fragment of LLVM IR or for inline PTX, which may end its process: the
    LLVM IR of a module with such ops is compiled in another process first."""
    foreign = ops_of(module, InjectIrOp, ElementwiseInlineAsmOp)
    if not foreign:
        return
    from libtile.backend.trial import TrialError, attempt

    try:
        attempt(llvm_ir, gpu, options.opt_level, options.libraries)
    except TrialError as problem:
        op = _meant(foreign, gpu, str(problem))
        what = "LLVM IR" if isinstance(op, InjectIrOp) else "PTX"
        raise unsupported(op, f"has {what} that LLVM has no code for: {problem}", gpu.name) from None


def _meant(foreign: Sequence[InjectIrOp | ElementwiseInlineAsmOp], gpu: Target, said: str) -> Operation:
    """The op that LLVM stopped at: whose text it says, or whose fragment it has no code for by itself; else the
    first."""
    from libtile.backend.trial import TrialError, attempt
    from libtile.lowering.to_llvm.fragments import definition

    if len(foreign) == 1:
        return foreign[0]
    for op in foreign:
        if isinstance(op, ElementwiseInlineAsmOp):
            if any(f"{q}{' '.join(op.asm_string.data.split())}{q}" in said for q in "'\""):
                return op
            continue
        try:
            attempt(definition(op, gpu)[1].replace("define internal", "define", 1), gpu, 0, ())
        except TrialError:
            return op
    return foreign[0]
