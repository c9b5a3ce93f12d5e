# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses to multicast objects (PTX ISA, "multimem.ld_reduce, multimem.st, multimem.red").

The simulator has one device: a multicast address is that device's own, a reduction over the devices is what it holds.
"""

from __future__ import annotations

from ..codegen import Emitter, op
from ..ir import Instruction
from .atomic import emit_red
from .memory import emit_ld, emit_st

_FORMS = {"ld_reduce": emit_ld, "st": emit_st, "red": emit_red}


@op("multimem")
def _multimem(cg: Emitter, ins: Instruction) -> None:
    form = next((emit for name, emit in _FORMS.items() if name in ins.modifiers), None)
    if form is None:
        cg.fail("unknown multimem operation")
    form(cg, ins)
