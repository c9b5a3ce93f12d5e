# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads, stores and prefetches (PTX ISA, "ld", "ld.global.nc", "ldu", "st", "prefetch")."""

from __future__ import annotations

from typing import Any

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Addr, Instruction, Reg, Sink, Sym, Vec
from ..types import TYPES, PtxType

SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio", "acq_rel")


def access_info(cg: Emitter, ins: Instruction, kind: PtxType, vector: int = 1) -> AccessInfo:
    """The static part of an access, from the instruction's modifiers."""
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    strong = any(m in _STRONG for m in ins.modifiers)
    semantics = next((m for m in ins.modifiers if m in _STRONG), "weak")
    code = kind.code
    if code == "q":
        code, vector = "u8", 2
    return AccessInfo(ins, space, code, vector, strong, semantics)


def vector_of(ins: Instruction) -> int:
    return next((int(m[1]) for m in ins.modifiers if m in ("v2", "v4", "v8")), 1)


def type_of(cg: Emitter, ins: Instruction) -> PtxType:
    for name in reversed(ins.modifiers):
        if name in TYPES:
            return TYPES[name]
    cg.fail("the instruction has no type")


def groups_pending(cg: Emitter, ins: Instruction, name: str) -> int:
    """How many of the newest groups a wait leaves in flight: a constant; ptxas takes what a signed 64-bit one holds."""
    count = getattr(ins.operands[0], "value", None)
    if not isinstance(count, int):
        cg.fail(f"{name} needs a constant")
    if not 0 <= count < 1 << 63:
        cg.fail(f"{name} cannot leave {count} groups in flight")
    return min(count, 1 << 32)  # more than any program has


def address(cg: Emitter, operand: Any) -> str:
    """The address of a bracketed operand, as a vector of uint64 (or uint32 from a 32-bit register)."""
    if not isinstance(operand, Addr):
        cg.fail("an address in brackets is needed")
    base = operand.base
    spread, cg.uniform = cg.uniform, True
    if isinstance(base, Reg):
        code = "u4" if base.type.bits == 32 else "u8"
        name = cg.read_reg(base, code)
        if operand.offset:
            cg.uniform = False
            mask = 0xFFFFFFFF if code == "u4" else (1 << 64) - 1
            name = cg.let(f"{name} + {cg.const(operand.offset & mask, code)}")
    elif isinstance(base, Sym):
        name = cg.let(cg.address_of(Sym(base.name, base.offset + operand.offset), "u8"))
    else:
        name = cg.let(cg.const(operand.offset & ((1 << 64) - 1), "u8"))
    cg.uniform = spread
    return name


def _param_space(cg: Emitter, info: AccessInfo, operand: Any) -> str:
    """.param means the entry's parameter block, or the frame of a device function."""
    base = operand.base
    if isinstance(base, Sym):
        space = cg.program.space_of(base.name)
        if space == "entry-param":
            return "generic"
        if space in ("param", "local"):
            return "local"
        cg.fail(f"{base.name} is not a parameter")
    entry = cg.program.current.function.entry
    return "generic" if entry else "local"


def symbol_space(cg: Emitter, symbol: Sym) -> str:
    """The space that a symbol lies in, for an access that names none."""
    space = cg.program.space_of(symbol.name)
    if space is None:
        cg.fail(f"{symbol.name} is not declared")
    if space == "entry-param":
        cg.fail(f"{symbol.name} is a parameter of the entry, which accesses to other spaces do not reach")
    return "local" if space == "param" else space


@op("ld", "ldu")
def emit_ld(cg: Emitter, ins: Instruction) -> None:
    """A load, of any space."""
    kind, vector = type_of(cg, ins), vector_of(ins)
    info = access_info(cg, ins, kind, vector)
    target, source = ins.operands[0], ins.operands[1]
    if info.space == "param":
        if isinstance(source.base, Sym) and cg.program.space_of(source.base.name) == "entry-param":
            _ld_entry_param(cg, ins, kind, vector)
            return
        info.space = _param_space(cg, info, source)
    elif info.space == "generic" and isinstance(source.base, Sym):
        info.space = symbol_space(cg, source.base)
    result = cg.let(f"M.load({cg.use(info, f'a{id(info)}')}, g, {address(cg, source)}, {cg.mask()})")
    _assign(cg, target, kind, info, result)


def _assign(cg: Emitter, target: Any, kind: PtxType, info: AccessInfo, result: str) -> None:
    if kind.code == "q":
        from .move import join_quad

        cg.dst(target, kind, f"{cg.use(join_quad)}({result}[0], {result}[1])")
    elif info.vector > 1:
        if not isinstance(target, Vec) or len(target.items) != info.vector:
            cg.fail(f"a vector of {info.vector} destinations is needed")
        for k, item in enumerate(target.items):
            if not isinstance(item, Sink):
                cg.dst(item, kind, f"{result}[{k}]")
    else:
        item = target.items[0] if isinstance(target, Vec) else target
        cg.dst(item, kind, result)


def _ld_entry_param(cg: Emitter, ins: Instruction, kind: PtxType, vector: int) -> None:
    """A parameter with a known offset is one value for all threads."""
    source = ins.operands[1]
    function = cg.program.current.function
    offset = cg.program.parameter_offsets(function)[source.base.name] + source.offset + source.base.offset
    end = max(
        (o + p.size for o, p in zip(cg.program.parameter_offsets(function).values(), function.params, strict=True)),
        default=0,
    )
    if offset < 0 or offset + kind.size * vector > end:
        cg.fail("this reads outside the entry's parameters")
    items = ins.operands[0].items if isinstance(ins.operands[0], Vec) else (ins.operands[0],)
    if kind.code == "q":
        cg.fail("128-bit parameters are not simulated")
    for k, item in enumerate(items):
        cg.dst(item, kind, f"M.launch.param({offset + k * kind.size}, {kind.code}, g.n)")


@op("st")
def emit_st(cg: Emitter, ins: Instruction) -> None:
    """A store, to any space."""
    if "bulk" in ins.modifiers:
        _st_bulk(cg, ins)
        return
    kind, vector = type_of(cg, ins), vector_of(ins)
    if "async" in ins.modifiers:
        given = ins.operands[1]
        store_later(cg, ins, kind, given.items if isinstance(given, Vec) else (given,), "None")
        return
    info = access_info(cg, ins, kind, vector)
    target, source = ins.operands[0], ins.operands[1]
    if info.space == "param":
        info.space = _param_space(cg, info, target)
    elif info.space == "generic" and isinstance(target.base, Sym):
        info.space = symbol_space(cg, target.base)
    where = address(cg, target)
    cg.uniform = True
    if kind.code == "q":
        value = cg.src(source, kind)
        values = f"({value}['lo'], {value}['hi'])"
    elif info.vector > 1:
        if not isinstance(source, Vec) or len(source.items) != info.vector:
            cg.fail(f"a vector of {info.vector} sources is needed")
        values = "(" + ", ".join(cg.src(x, kind) for x in source.items) + ")"
    else:
        item = source.items[0] if isinstance(source, Vec) else source
        values = cg.src(item, kind)
    cg.emit(f"M.store({cg.use(info, f'a{id(info)}')}, g, {where}, {values}, {cg.mask()})")


def store_later(cg: Emitter, ins: Instruction, kind: PtxType, items: Any, combine: str) -> None:
    """st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{.vec}.type [a], b, [mbar], and red.async."""
    if "mbarrier::complete_tx::bytes" not in ins.modifiers or len(ins.operands) != 3:
        cg.fail(f"{ins.opcode}.async that signals no mbarrier is not simulated")
    if kind.size not in (4, 8) or len(items) not in (1, 2, 4) or kind.size * len(items) > 16:
        cg.fail(f"{ins.opcode}.async has 1, 2 or 4 values of 4 or 8 bytes, and at most 16 bytes in all")
    info = cg.use(AccessInfo(ins, "shared", f"u{kind.size}", counted=False), f"a{id(ins)}")
    cg.uniform = True
    values = "(" + ", ".join(cg.src(x, TYPES[f"b{kind.bits}"]) for x in items) + ",)"
    places = address(cg, ins.operands[0]), address(cg, ins.operands[2])
    cg.uniform = False
    cg.emit(f"M.store_later({info}, g, {places[0]}, {values}, {places[1]}, {combine}, {cg.mask()})")


def _st_bulk(cg: Emitter, ins: Instruction) -> None:
    """st.bulk{.weak}{.shared::cta} [a], size, 0."""
    where, size, value = ins.operands
    if getattr(value, "value", None) != 0:
        cg.fail("st.bulk stores zeros")
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    info = cg.use(AccessInfo(ins, space, "u8", counted=False), f"a{id(ins)}")
    cg.uniform = True
    names = f"{address(cg, where)}, {cg.src(size, TYPES['u64'])}"
    cg.uniform = False
    cg.emit(f"M.store_zeros({info}, g, {names}, {cg.mask()})")


@op("prefetch", "prefetchu", "applypriority", "discard", "createpolicy")
def _hint(cg: Emitter, ins: Instruction) -> None:
    """Cache hints have no effect that a program can see; a policy is an opaque value."""
    if ins.opcode == "createpolicy":
        cg.uniform = True
        from ..ir import Imm

        cg.dst(ins.operands[0], TYPES["b64"], cg.src(Imm(0), TYPES["b64"]))
