# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05: tensor memory and the tensor cores that work on it (PTX ISA, "TensorCore 5th Generation Family")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..access import AccessInfo
from ..codegen import Emitter, op, terminator
from ..ir import Addr, Imm, Instruction, Reg, Vec
from ..tensor_descriptors import KINDS, SCALES
from ..tensor_memory import MAX_REGISTERS, SHAPES, TensorMove
from ..types import TYPES
from . import tcgen05_copy
from .memory import address
from .tcgen05_mma import COLLECTS, Multiplication
from .tcgen05_shift import TensorShift

_B32, _U32 = TYPES["b32"], TYPES["u32"]


@terminator("tcgen05")
def _alloc(cg: Emitter, ins: Instruction) -> str:
    """tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols: it may wait, and ends a unit."""
    _cta_group(cg, ins)
    cg.uniform = True
    where, count = address(cg, ins.operands[0]), cg.src(ins.operands[1], _U32)
    cg.uniform = False
    return f"({where}, {count})"


@op("tcgen05")
def _tcgen05(cg: Emitter, ins: Instruction) -> None:
    emit = _EMITTERS.get(ins.modifiers[0])
    if emit is None:
        cg.fail(f"tcgen05.{ins.modifiers[0]} is not simulated")
    cg.uniform = True
    emit(cg, ins)
    cg.uniform = False


def _cta_group(cg: Emitter, ins: Instruction) -> int:
    """How many CTAs work together."""
    groups = [m.removeprefix("cta_group::") for m in ins.modifiers if m.startswith("cta_group::")]
    if groups not in (["1"], ["2"]):
        cg.fail(f"tcgen05.{ins.modifiers[0]} needs .cta_group::1 or .cta_group::2")
    return int(groups[0])


def _static(cg: Emitter, ins: Instruction) -> str:
    return cg.use(ins, f"i{id(ins)}")


def _tensor_address(cg: Emitter, operand: Any) -> str:
    """[n] of an address of tensor memory, as uint32."""
    if isinstance(operand, Addr) and isinstance(operand.base, Reg) and operand.base.type.bits != 32:
        cg.fail("an address of tensor memory has 32 bits")
    name = address(cg, operand) if isinstance(operand, Addr) else cg.src(operand, _U32)
    return cg.let(f"{name}.astype(np.uint32)")


def _relinquish(cg: Emitter, ins: Instruction) -> None:
    _cta_group(cg, ins)
    cg.emit(f"M.tensor_relinquish(g, {_static(cg, ins)})")


def _dealloc(cg: Emitter, ins: Instruction) -> None:
    _cta_group(cg, ins)
    where, count = _tensor_address(cg, ins.operands[0]), cg.src(ins.operands[1], _U32)
    cg.emit(f"M.tensor_free(g, {_static(cg, ins)}, {where}, {count})")


def _wait(cg: Emitter, ins: Instruction) -> None:
    cg.emit(f"M.tensor_wait(g, {ins.modifiers[0] == 'wait::st'})")


def _fence(cg: Emitter, ins: Instruction) -> None:
    cg.emit(f"M.tensor_fence(g, {ins.modifiers[0] == 'fence::before_thread_sync'}, {cg.mask()})")


def _move(cg: Emitter, ins: Instruction, kind: str) -> tuple[str, Any, Any]:
    """(static form, address operand, register operand) of a load or store."""
    modifiers = ins.modifiers
    shape = next((m for m in modifiers if m in SHAPES), None)
    count = next((m for m in modifiers if m[:1] == "x" and m[1:].isdigit()), None)
    if shape is None or count is None:
        cg.fail(f"tcgen05.{kind} needs a shape and a count: .{', .'.join(SHAPES)} and .x1 to .x{MAX_REGISTERS}")
    number = int(count[1:])
    registers = SHAPES[shape][0] * number
    if number & (number - 1) or number < 1 or registers > MAX_REGISTERS:
        cg.fail(f"tcgen05.{kind}.{shape}.{count} does not exist")
    operands = list(ins.operands)
    if "red" in modifiers:
        if shape not in ("32x32b", "16x32bx2") or number < 2 or len(operands) < 3:
            cg.fail("tcgen05.ld.red has the shape .32x32b or .16x32bx2, .x2 and more, and a register for the result")
        operands.pop(1)
    where = operands.pop(1 if kind == "ld" else 0)
    split = 0
    if shape == "16x32bx2":
        constant = operands.pop(1 if kind == "ld" else 0)
        if not isinstance(constant, Imm) or not isinstance(constant.value, int):
            cg.fail("the offset of the second half has to be a constant")
        split = constant.value
    items = operands[0].items if isinstance(operands[0], Vec) else (operands[0],)
    if len(operands) != 1 or len(items) != registers:
        cg.fail(f"tcgen05.{kind}.{shape}.{count} has {registers} registers, not {len(items)}")
    packed = ("pack::16b" if kind == "ld" else "unpack::16b") in modifiers
    targets = tuple(item.index for item in items if isinstance(item, Reg)) if kind == "ld" else ()
    move = TensorMove(ins, shape, number, split, packed, targets)
    return cg.use(move, f"t{id(ins)}"), where, items


def _ld(cg: Emitter, ins: Instruction) -> None:
    move, where, registers = _move(cg, ins, "ld")
    result = cg.let(f"M.tensor_memory_load({move}, g, {_tensor_address(cg, where)})")
    for number, register in enumerate(registers):
        cg.dst(register, _B32, f"{result}[{number}]")
    if "red" in ins.modifiers:
        kind = next((m for m in ins.modifiers if m in ("f32", "s32", "u32")), None)
        name = next((m for m in ins.modifiers if m in ("min", "max")), None)
        if kind is None or name is None or (kind != "f32" and {"abs", "NaN"} & set(ins.modifiers)):
            cg.fail("tcgen05.ld.red is .min or .max of .f32{.abs}{.NaN}, .s32 or .u32")
        cg.require("tcgen05_ld_red", "tcgen05.ld.red")
        flags = tuple(m for m in ins.modifiers if m in ("abs", "NaN"))
        cg.dst(ins.operands[1], _B32, f"{cg.use(reduce_columns)}({result}, {name!r}, {kind!r}, {flags})")


def reduce_columns(words: list[np.ndarray], name: str, kind: str, flags: tuple[str, ...]) -> np.ndarray:
    """[n] as uint32: the least or greatest of each thread's words."""
    values = np.stack(words)
    choose = np.min if name == "min" else np.max
    if kind != "f32":
        return np.asarray(choose(values.view(TYPES[kind].dtype), axis=0)).view(np.uint32)
    if "abs" in flags:
        values = values & np.uint32(0x7FFFFFFF)
    missing = np.isnan(values.view(np.float32))
    # Numbers that are in the order of the floats, -0 before +0.
    signed = values.view(np.int32)
    order = np.where(signed < 0, signed ^ np.int32(0x7FFFFFFF), signed)
    limits = np.iinfo(np.int32)
    found = np.asarray(choose(np.where(missing, limits.max if name == "min" else limits.min, order), axis=0))
    bits = np.where(found < 0, found ^ np.int32(0x7FFFFFFF), found).astype(np.int32).view(np.uint32)
    bad = missing.any(axis=0) if "NaN" in flags else missing.all(axis=0)
    return np.where(bad, np.uint32(0x7FFFFFFF), bits)


def _st(cg: Emitter, ins: Instruction) -> None:
    move, where, registers = _move(cg, ins, "st")
    values = ", ".join(cg.src(register, _B32) for register in registers)
    cg.emit(f"M.tensor_memory_store({move}, g, {_tensor_address(cg, where)}, ({values},))")


def _mma(cg: Emitter, ins: Instruction) -> None:
    """tcgen05.mma.cta_group.kind [d], a | [a], b, idesc {, [scale-a], [scale-b]} {, {lanes}}, add {, shift}."""
    modifiers = ins.modifiers
    for word, what in (("ws", "weight-stationary"), ("sp", "sparse"), ("ashift", "shifting")):
        if word in modifiers:
            cg.fail(f"{what} tcgen05.mma is not simulated")
    kind = next((m.removeprefix("kind::") for m in modifiers if m.startswith("kind::")), "")
    if kind not in KINDS:
        cg.fail(f"tcgen05.mma needs a kind: {', '.join(KINDS)}")
    if ("block_scale" in modifiers) != KINDS[kind].scaled:
        cg.fail(f"tcgen05.mma.kind::{kind} {'needs' if KINDS[kind].scaled else 'has no'} .block_scale")
    ctas, factors = _cta_group(cg, ins), _factors(cg, ins, kind)
    d, a, b, word, *rest = ins.operands
    numbers = [_tensor_address(cg, d)]
    numbers.append(_tensor_address(cg, a) if isinstance(a, Addr) else cg.src(a, TYPES["b64"]))
    numbers += [cg.src(b, TYPES["b64"]), cg.src(word, _B32)]
    scales = [_tensor_address(cg, rest.pop(0)) for _ in range(2 if factors else 0)]
    lanes = rest.pop(0).items if rest and isinstance(rest[0], Vec) else ()
    if lanes and len(lanes) != 4 * ctas:
        cg.fail(f"the lanes that are not written are {4 * ctas} words, not {len(lanes)}")
    numbers.append(cg.pred(rest.pop(0)))
    shift = rest.pop(0).value if rest else 0
    if rest or not isinstance(shift, int) or not 0 <= shift < 16 or (shift and kind not in ("f16", "tf32")):
        cg.fail("the shift of D is a constant from 0 to 15, for kind::f16 and kind::tf32")
    numbers += scales + [cg.src(x, _B32) for x in lanes]
    collects = [m for m in modifiers if m.startswith("collector::")]
    if len(collects) > 1 or not all(m.removeprefix("collector::a::") in COLLECTS for m in collects):
        cg.fail(f"the use of the collector is one of .collector::a::{', '.join(COLLECTS)}")
    collect = collects[0].removeprefix("collector::a::") if collects else "discard"
    call = cg.use(Multiplication(ins, kind, ctas, isinstance(a, Addr), factors, shift, collect), f"t{id(ins)}")
    cg.emit(f"M.tensor_issue({call}, g, ({', '.join(numbers)},), {cg.mask()})")


def _factors(cg: Emitter, ins: Instruction, kind: str) -> int:
    """How many factors a row of A has for one instruction; 0 for a kind without."""
    if not KINDS[kind].scaled:
        return 0
    names = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
    names |= {"block32": KINDS[kind].k // 32, "block16": KINDS[kind].k // 16}
    found = [names[m] for m in ins.modifiers if m in names]
    count = found[0] if found else min(SCALES[kind])
    if count not in SCALES[kind] or (not found and len(SCALES[kind]) > 1):
        cg.fail(f"tcgen05.mma.kind::{kind} has {' or '.join(map(str, SCALES[kind]))} factors a row: say which")
    return count


def _commit(cg: Emitter, ins: Instruction) -> None:
    """tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbar] {, ctaMask}."""
    _cta_group(cg, ins)
    space = "shared" if "shared::cluster" in ins.modifiers else "generic"
    info = cg.use(AccessInfo(ins, space, "u8", 1, True), f"b{id(ins)}")
    ctas = cg.src(ins.operands[1], TYPES["u16"]) if "multicast::cluster" in ins.modifiers else "None"
    cg.emit(f"M.tensor_commit({info}, g, {address(cg, ins.operands[0])}, {ctas}, {cg.mask()})")


def _cp(cg: Emitter, ins: Instruction) -> None:
    """tcgen05.cp.cta_group.shape{.multicast}{.dst_fmt.src_fmt} [taddr], s-desc."""
    shape = next((m for m in ins.modifiers if m in tcgen05_copy.SHAPES), None)
    if shape is None:
        cg.fail(f"tcgen05.cp needs a shape: .{', .'.join(tcgen05_copy.SHAPES)}")
    known = tcgen05_copy.MULTICASTS.get(shape, {})
    multicast = next((m for m in ins.modifiers if m in known), "")
    if (known and not multicast) or (not known and any(m.startswith("warpx") for m in ins.modifiers)):
        cg.fail(f"tcgen05.cp.{shape} {'needs .' + ' or .'.join(known) if known else 'goes to one place'}")
    packed = next((m for m in ins.modifiers if m in tcgen05_copy.PACKED), "")
    if bool(packed) != ("b8x16" in ins.modifiers):
        cg.fail(f"the formats of tcgen05.cp are .b8x16 and one of .{', .'.join(tcgen05_copy.PACKED)}")
    call = cg.use(tcgen05_copy.TensorFill(ins, _cta_group(cg, ins), shape, multicast, packed), f"t{id(ins)}")
    where, word = _tensor_address(cg, ins.operands[0]), cg.src(ins.operands[1], TYPES["b64"])
    cg.emit(f"M.tensor_issue({call}, g, ({where}, {word}), {cg.mask()})")


def _shift(cg: Emitter, ins: Instruction) -> None:
    """tcgen05.shift.cta_group.down [taddr]."""
    if "down" not in ins.modifiers or len(ins.operands) != 1:
        cg.fail("tcgen05.shift goes .down, and has an address")
    call = cg.use(TensorShift(ins, _cta_group(cg, ins)), f"t{id(ins)}")
    cg.emit(f"M.tensor_issue({call}, g, ({_tensor_address(cg, ins.operands[0])},), {cg.mask()})")


_EMITTERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "relinquish_alloc_permit": _relinquish,
    "dealloc": _dealloc,
    "wait::ld": _wait,
    "wait::st": _wait,
    "fence::before_thread_sync": _fence,
    "fence::after_thread_sync": _fence,
    "ld": _ld,
    "st": _st,
    "mma": _mma,
    "commit": _commit,
    "cp": _cp,
    "shift": _shift,
}
