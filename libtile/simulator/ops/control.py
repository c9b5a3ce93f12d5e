# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Barriers, fences, and instructions that only steer execution (PTX ISA, "Parallel Synchronization",
"Miscellaneous").
"""

from __future__ import annotations

from typing import Any

from ..access import AccessInfo
from ..barriers import BarrierArrival
from ..codegen import Emitter, op, terminator
from ..ir import Addr, Imm, Instruction, Pair, Reg, Sink
from ..limits import MAX_THREAD_REGISTERS, REGISTER_STEP
from ..mbarrier import WaitRequest
from ..types import TYPES
from .memory import SPACES, address

_U32 = TYPES["u32"]


@terminator("bar", "barrier")
def _barrier(cg: Emitter, ins: Instruction) -> str:
    """bar.sync / arrive / red and barrier(.cta), and barrier.cluster."""
    modifiers = ins.modifiers
    if "cluster" in modifiers:
        return repr("arrive" if "arrive" in modifiers else "wait")
    operation = next((m for m in modifiers if m in ("sync", "arrive", "red")), None)
    if operation is None:
        cg.fail("unknown barrier operation")
    operands: list[Any] = list(ins.operands)
    result, predicate, reduction = -1, "None", ""
    if operation == "red":
        reduction = next(m for m in modifiers if m in ("popc", "and", "or"))
        target = operands.pop(0)
        result = target.index
        predicate = cg.pred(operands.pop())
    cg.uniform = True
    number = cg.src(operands[0], _U32) if operands else cg.src(Imm(0), _U32)
    count = cg.src(operands[1], _U32) if len(operands) > 1 else "None"
    cg.uniform = False
    return f"{cg.use(BarrierArrival)}({operation!r}, {reduction!r}, {number}, {count}, {predicate}, {result})"


@op("bar", "barrier")
def _warp_barrier(cg: Emitter, ins: Instruction) -> None:
    """bar.warp.sync: the gate before the unit has waited already."""
    if ins.modifiers[:1] != ("warp",):
        cg.fail("unknown barrier")
    if ins.operands:
        cg.emit(f"M.check_member(g, {cg.src(ins.operands[0], TYPES['b32'])}, {cg.use(ins, f'i{id(ins)}')})")
    cg.emit("M.warp_synced(g)")


@op("fence", "membar", "griddepcontrol")
def _fence(cg: Emitter, ins: Instruction) -> None:
    """Memory is sequentially consistent here, so fences only matter to the checks."""
    if ins.opcode != "fence":
        return
    if "mbarrier_init" in ins.modifiers:
        cg.emit(f"M.fence_mbarrier_init(g, {cg.mask()}, False)")
    elif "tensormap::generic" in ins.modifiers:
        if "release" in ins.modifiers:
            cg.emit(f"M.release_maps(g, {cg.mask()})")
        else:
            cg.uniform = True
            where = address(cg, ins.operands[0])
            cg.uniform = False
            cg.emit(f"M.acquire_map({where}, g, {cg.mask()})")
    elif "proxy" in ins.modifiers and any(m.startswith("async") for m in ins.modifiers):
        named = [SPACES[m] for m in ins.modifiers if m in SPACES]
        spaces = tuple(named) or ("shared", "global")
        cg.emit(f"M.proxy_fence(g, {cg.mask()}, {spaces})")
        if "shared" in spaces:
            cg.emit(f"M.fence_mbarrier_init(g, {cg.mask()}, True)")


@op("activemask")
def _activemask(cg: Emitter, ins: Instruction) -> None:
    cg.dst(ins.operands[0], TYPES["b32"], "M.active_mask(g)")


@terminator("setmaxnreg")
def _setmaxnreg(cg: Emitter, ins: Instruction) -> str:
    """The machine changes the warp's share of the CTA's registers, or waits."""
    wanted = getattr(ins.operands[0], "value", None)
    if not isinstance(wanted, int) or wanted % REGISTER_STEP or not 24 <= wanted <= MAX_THREAD_REGISTERS:
        cg.fail(f"setmaxnreg needs a multiple of {REGISTER_STEP} from 24 to {MAX_THREAD_REGISTERS}")
    if not {"inc", "dec"} & set(ins.modifiers):
        cg.fail("setmaxnreg needs .inc or .dec")
    return str(wanted)


@op("pmevent", "brkpt")
def _no_effect(cg: Emitter, ins: Instruction) -> None:
    """Profiler events and breakpoints change no value."""


@op("alloca")
def _alloca(cg: Emitter, ins: Instruction) -> None:
    cg.uniform = True
    size = cg.src(ins.operands[1], TYPES["u64"])
    align = getattr(ins.operands[2], "value", None) if len(ins.operands) > 2 else 8
    if not isinstance(align, int) or align < 1 or ins.guard is not None:
        cg.fail("this form of alloca is not simulated")
    cg.uniform = False
    call = f"M.stack_allocate(g, {size}, {align}, {cg.use(ins, f'i{id(ins)}')})"
    cg.dst(ins.operands[0], TYPES["u64"], call)


@op("stacksave")
def _stacksave(cg: Emitter, ins: Instruction) -> None:
    cg.dst(ins.operands[0], TYPES["u64"], "M.stack_save(g)")


@op("stackrestore")
def _stackrestore(cg: Emitter, ins: Instruction) -> None:
    cg.emit(f"M.stack_restore(g, {cg.src(ins.operands[0], TYPES['u64'])})")


@op("mapa")
def _mapa(cg: Emitter, ins: Instruction) -> None:
    """Address of a shared variable in another CTA of the cluster."""
    kind = TYPES[ins.modifiers[-1]]
    value, rank = cg.src(ins.operands[1], TYPES[f"u{kind.bits}"]), cg.src(ins.operands[2], _U32)
    cg.dst(ins.operands[0], kind, f"M.map_address({value}, {rank}, {kind.bits})")


@op("getctarank")
def _getctarank(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    value = cg.src(ins.operands[1], TYPES[f"u{kind.bits}"])
    cg.dst(ins.operands[0], _U32, f"M.rank_of_address(g, {value})")


# -- mbarrier


def _info(ins: Instruction) -> AccessInfo:
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    return AccessInfo(ins, space, "u8", 1, True)


def _state_destination(operand: Any) -> bool:
    return isinstance(operand, Reg | Sink)


@op("mbarrier")
def _mbarrier(cg: Emitter, ins: Instruction) -> None:
    name = ins.modifiers[0]
    info = cg.use(_info(ins), f"b{id(ins)}")
    operands: list[Any] = list(ins.operands)
    cg.uniform = True
    if name == "init":
        where = address(cg, operands[0])
        cg.emit(f"M.mbarrier_init({info}, g, {where}, {cg.src(operands[1], _U32)}, {cg.mask()})")
    elif name == "inval":
        cg.emit(f"M.mbarrier_invalidate({info}, g, {address(cg, operands[0])}, {cg.mask()})")
    elif name in ("arrive", "arrive_drop", "expect_tx", "complete_tx"):
        _arrive(cg, ins, info, name, operands)
    elif name == "test_wait":
        request = _wait_request(cg, ins, operands)
        cg.uniform = False
        cg.dst(operands[0], TYPES["pred"], f"M.mbarrier_test({request}, g, {cg.mask()})")
    elif name == "pending_count":
        value = cg.src(operands[1], TYPES["b64"])
        cg.uniform = False
        cg.dst(operands[0], _U32, f"({value} & {cg.const(0xFFFFFFFF, 'u8')}).astype(u4)")
    else:
        cg.fail(f"mbarrier.{name} is not simulated")
    cg.uniform = False


def _arrive(cg: Emitter, ins: Instruction, info: str, name: str, operands: list[Any]) -> None:
    target = operands.pop(0) if _state_destination(operands[0]) and not isinstance(operands[0], Addr) else None
    where = address(cg, operands[0])
    amount = cg.src(operands[1], _U32) if len(operands) > 1 else cg.src(Imm(1), _U32)
    drop = name == "arrive_drop"
    if name == "complete_tx":
        less = f"-{amount}.astype(i8)"
        cg.emit(f"M.mbarrier_arrive({info}, g, {where}, {cg.src(Imm(0), _U32)}, {less}, False, {cg.mask()}, False)")
        return
    if name == "expect_tx":
        cg.emit(f"M.mbarrier_arrive({info}, g, {where}, {cg.src(Imm(0), _U32)}, {amount}, False, {cg.mask()}, False)")
        return
    if "expect_tx" in ins.modifiers:
        call = f"M.mbarrier_arrive({info}, g, {where}, {cg.src(Imm(1), _U32)}, {amount}, {drop}, {cg.mask()})"
    else:
        call = f"M.mbarrier_arrive({info}, g, {where}, {amount}, None, {drop}, {cg.mask()})"
    token = cg.let(call)
    cg.uniform = False
    if isinstance(target, Reg):
        cg.dst(target, TYPES["b64"], token)


def _wait_request(cg: Emitter, ins: Instruction, operands: list[Any]) -> str:
    parity = "parity" in ins.modifiers
    where = address(cg, operands[1])
    value = cg.src(operands[2], TYPES["u32" if parity else "b64"])
    target = operands[0]
    result = target.index if isinstance(target, Reg) else -1
    info = cg.use(_info(ins), f"b{id(ins)}")
    return f"{cg.use(WaitRequest)}({info}, {where}, {value}, {parity}, {result})"


@terminator("mbarrier")
def _try_wait(cg: Emitter, ins: Instruction) -> str:
    cg.uniform = True
    request = _wait_request(cg, ins, list(ins.operands))
    cg.uniform = False
    return request


__all__ = ["Pair"]
