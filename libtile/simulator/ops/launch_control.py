# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cluster launch control: a running cluster takes over one that has not started (PTX ISA, "clusterlaunchcontrol").

The response of 16 bytes is opaque: here its lower half is 1 or 0 and, above 32 bits, the x of the cluster's first CTA;
the upper half is that CTA's y and z. Where there is none, they are indices that no CTA has.
"""

from __future__ import annotations

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Instruction, Vec
from ..types import TYPES
from .memory import SPACES, address

_SHIFTS = {"x": ("lo", 32), "y": ("hi", 0), "z": ("hi", 32)}


@op("clusterlaunchcontrol")
def _control(cg: Emitter, ins: Instruction) -> None:
    if ins.modifiers[0] == "try_cancel":
        _try_cancel(cg, ins)
        return
    if ins.modifiers[0] != "query_cancel":
        cg.fail(f"clusterlaunchcontrol.{ins.modifiers[0]} is not simulated")
    target, response = ins.operands
    value = cg.let(cg.src(response, TYPES["b128"]))
    if ins.modifiers[1] == "is_canceled":
        cancelled = cg.let(f"({value}['lo'] & np.uint64(1)).astype(bool)")
        cg.emit(f"M.observe_answer(g, {cancelled}, {cg.mask()})")
        cg.dst(target, TYPES["pred"], cancelled)
        return
    axes = ins.modifiers[1].removeprefix("get_first_ctaid").removeprefix("::") or "xyz"
    targets = target.items[:3] if isinstance(target, Vec) else (target,)
    for axis, register in zip(axes, targets, strict=True):
        half, shift = _SHIFTS[axis]
        cg.dst(register, TYPES["b32"], f"({value}['{half}'] >> np.uint64({shift})).astype(np.uint32)")


def _try_cancel(cg: Emitter, ins: Instruction) -> None:
    """try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [addr], [mbar]."""
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    into = cg.use(AccessInfo(ins, space, "u8", 2, counted=False), f"a{id(ins)}")
    barrier = cg.use(AccessInfo(ins, space, "u8", 1, True), f"b{id(ins)}")
    everywhere = "multicast::cluster::all" in ins.modifiers
    cg.uniform = True
    names = f"{address(cg, ins.operands[0])}, {address(cg, ins.operands[1])}"
    cg.uniform = False
    cg.emit(f"M.try_cancel({into}, {barrier}, g, {names}, {everywhere}, {cg.mask()})")
