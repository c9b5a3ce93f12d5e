# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fragments of LLVM IR (`nv_tileaa.inject_ir`) take and give numbers and addresses, as their threads hold them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from libtile.codegen import fragments
from libtile.dialects.nv_tileaa.functions import InjectIrOp
from libtile.dialects.nv_tileaa.kernels import scalar_type
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import llvm_type
from libtile.targets import Target


def fragment_elements(op: InjectIrOp, values: Sequence[SSAValue], gpu: Target) -> list[Attribute]:
    """The types of scalars, and of tiles of rank 0. LoweringError for a value that is something else."""
    found = []
    for value in values:
        element = scalar_type(value.type)
        if element is None:
            raise unsupported(op, f"has a value of type {value.type}, and LLVM IR takes and gives scalars", gpu.name)
        found.append(element)
    return found


def definition(op: InjectIrOp, gpu: Target) -> tuple[str, str]:
    """(name, text) of the LLVM function of a fragment. LoweringError for an operand or a result that is no scalar."""
    operands, results = (
        [llvm_type(element) for element in fragment_elements(op, values, gpu)] for values in (op.operands, op.results)
    )
    return fragments.definition(op.ir.data, operands, results)
