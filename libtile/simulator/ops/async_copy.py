# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cp.async and its groups, and bulk copies (PTX ISA, "Asynchronous copy")."""

from __future__ import annotations

from functools import partial

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Addr, Instruction, Reg
from ..tensor_copy import TensorCopy
from ..types import TYPES
from .atomic import REDUCTIONS, reduction_for
from .memory import SPACES, address, groups_pending

_U32 = TYPES["u32"]


@op("cp")
def _cp(cg: Emitter, ins: Instruction) -> None:
    modifiers = ins.modifiers
    if "tensor" in modifiers:
        _tensor(cg, ins)
    elif modifiers[0] == "reduce":
        _bulk_reduce(cg, ins)
    elif "bulk" in modifiers:
        _bulk(cg, ins)
    elif "commit_group" in modifiers:
        cg.emit(f"M.copy_commit(g, {cg.mask()})")
    elif "wait_group" in modifiers:
        keep = groups_pending(cg, ins, "cp.async.wait_group")
        cg.emit(f"M.copy_wait(g, {keep}, {cg.mask()})")
    elif "wait_all" in modifiers:
        cg.emit(f"M.copy_wait(g, None, {cg.mask()})")
    elif "mbarrier" in modifiers:
        space = next((SPACES[m] for m in modifiers if m in SPACES), "generic")
        info = cg.use(AccessInfo(ins, space, "u8", 1, True), f"b{id(ins)}")
        cg.uniform = True
        where = address(cg, ins.operands[0])
        cg.emit(f"M.copy_arrive({info}, g, {where}, {'noinc' in modifiers}, {cg.mask()})")
        cg.uniform = False
    else:
        _copy(cg, ins)


def _copy(cg: Emitter, ins: Instruction) -> None:
    """cp.async.ca/cg.shared.global [dst], [src], size {, src-size | ignore-src} {, policy}."""
    dst, src, size, *rest = ins.operands
    count = getattr(size, "value", None)
    if count not in (4, 8, 16):
        cg.fail("cp.async copies 4, 8 or 16 bytes")
    if "cg" in ins.modifiers and count != 16:
        cg.fail("cp.async.cg copies 16 bytes")
    if "L2::cache_hint" in ins.modifiers and rest:
        rest = rest[:-1]
    cg.uniform = True
    given = "None"
    if rest:
        if isinstance(rest[0], Reg) and rest[0].type.kind == "pred":
            given = cg.let(f"np.where({cg.pred(rest[0])}, np.uint32(0), np.uint32({count}))")
        else:
            given = cg.src(rest[0], _U32)
    into = AccessInfo(ins, "shared", "u4", count // 4)
    origin = AccessInfo(ins, "global", "u4", count // 4)
    a, b = address(cg, dst), address(cg, src)
    cg.uniform = False
    names = f"{cg.use(into, f'a{id(into)}')}, {cg.use(origin, f'a{id(origin)}')}"
    cg.emit(f"M.copy_async({names}, g, {a}, {b}, {given}, {cg.mask()})")


def _bulk(cg: Emitter, ins: Instruction) -> None:
    modifiers = ins.modifiers
    if "commit_group" in modifiers:
        cg.emit(f"M.bulk_commit(g, {cg.mask()})")
        return
    if "wait_group" in modifiers:
        keep = groups_pending(cg, ins, "cp.async.bulk.wait_group")
        cg.emit(f"M.bulk_wait(g, {keep}, {'read' in modifiers}, {cg.mask()})")
        return
    if modifiers[2:3] == ("prefetch",):
        return
    if "multicast::cluster" in modifiers:
        cg.fail("multicast bulk copies are not simulated")
    spaces = [m for m in modifiers if m in SPACES]
    if len(spaces) < 2:
        cg.fail("cp.async.bulk needs two state spaces")
    dst, src, size, *rest = ins.operands
    into = cg.use(AccessInfo(ins, SPACES[spaces[0]], "u1", counted=False), f"a{id(ins)}d")
    origin = cg.use(AccessInfo(ins, SPACES[spaces[1]], "u1", counted=False), f"a{id(ins)}s")
    cg.uniform = True
    barrier = "None"
    if any(m.startswith("mbarrier::") for m in modifiers):
        if not rest or not isinstance(rest[0], Addr):
            cg.fail("this bulk copy needs an mbarrier")
        barrier = address(cg, rest[0])
    a, b, count = address(cg, dst), address(cg, src), cg.src(size, _U32)
    cg.uniform = False
    cg.emit(f"M.bulk_copy({into}, {origin}, g, {a}, {b}, {count}, {barrier}, {cg.mask()})")


def _reduction_of(cg: Emitter, ins: Instruction) -> str:
    """The operation of a cp.reduce.async.bulk."""
    name = next((m for m in ins.modifiers if m in REDUCTIONS), None)
    if name is None:
        cg.fail("this reduction is not simulated")
    return name


def _bulk_reduce(cg: Emitter, ins: Instruction) -> None:
    """cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type [dst], [src], size."""
    spaces = [SPACES[m] for m in ins.modifiers if m in SPACES]
    if spaces != ["global", "shared"]:
        cg.fail("cp.reduce.async.bulk is simulated from shared to global memory only")
    name, kind = _reduction_of(cg, ins), ins.modifiers[-1]
    combine = reduction_for(name, kind)
    if combine is None or kind not in TYPES:
        cg.fail(f"cp.reduce.async.bulk has no .{name}.{kind}")
    code = f"u{TYPES[kind].bits // 8}"
    into = cg.use(AccessInfo(ins, "global", code, counted=False), f"a{id(ins)}d")
    origin = cg.use(AccessInfo(ins, "shared", code, counted=False), f"a{id(ins)}s")
    cg.uniform = True
    names = [address(cg, ins.operands[0]), address(cg, ins.operands[1]), cg.src(ins.operands[2], _U32)]
    cg.uniform = False
    cg.emit(f"M.bulk_reduce({into}, {origin}, g, {', '.join(names)}, {cg.use(combine)}, {cg.mask()})")


def _tensor(cg: Emitter, ins: Instruction) -> None:
    """cp(.reduce).async.bulk(.prefetch).tensor in tile mode."""
    modifiers = ins.modifiers
    if "prefetch" in modifiers:
        return
    by_rows = any(m in ("tile::gather4", "tile::scatter4") for m in modifiers)
    if not by_rows and any(m.startswith(("im2col", "tile::")) for m in modifiers):
        cg.fail("only tile, gather4 and scatter4 modes of tensor copies are simulated")
    spaces = [m for m in modifiers if m in SPACES]
    if len(spaces) < 2:
        cg.fail("cp.async.bulk.tensor needs two state spaces")
    load = spaces[0].startswith("shared")
    operands = list(ins.operands)
    place, tensor = (operands[0], operands[1]) if load else (operands[1], operands[0])
    corner = tensor.extra[0].items
    cg.uniform = True
    names = [address(cg, tensor), "(" + ", ".join(cg.src(x, TYPES["s32"]) for x in corner) + ",)", address(cg, place)]
    names.append(address(cg, operands[2]) if load else "None")
    multicast = "multicast::cluster" in modifiers
    names.append(cg.src(operands[3], TYPES["u16"]) if multicast else "None")
    reduction = cg.use(partial(reduction_for, _reduction_of(cg, ins))) if modifiers[0] == "reduce" else "None"
    cg.uniform = False
    instruction = cg.use(ins, f"i{id(ins)}")
    copy = f"{cg.use(TensorCopy)}({instruction}, {', '.join(names)}, {reduction}, {by_rows})"
    cg.emit(f"M.tensor_copy({copy}, g, {load}, {cg.mask()})")


_REPLACED = ("global_address", "global_dim", "global_stride")


@op("tensormap")
def _tensormap(cg: Emitter, ins: Instruction) -> None:
    """tensormap.replace.tile.field{.ss}.b1024.type [addr], {ord,} value."""
    name = next((m for m in ins.modifiers if m in _REPLACED), None)
    if name is None:
        cg.fail("this field of a tensor map is not replaced here")
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    where, *ordinal, value = ins.operands
    cg.uniform = True
    at, given = address(cg, where), cg.src(value, TYPES[ins.modifiers[-1].replace("b", "u")])
    number = getattr(ordinal[0], "value", None) if ordinal else 0
    if not isinstance(number, int):
        cg.fail("the number of a tensor map's dimension has to be constant")
    cg.uniform = False
    cg.emit(
        f"M.replace_field({cg.use(ins, f'i{id(ins)}')}, {space!r}, {name!r}, {number}, {at}, {given}, g, {cg.mask()})"
    )
