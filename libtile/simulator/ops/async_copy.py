# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cp.async and its groups, and bulk copies (PTX ISA, "Asynchronous copy")."""

from __future__ import annotations

from functools import partial
from typing import Any

from libtile.targets.tensor_map import MAX_RANK

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Addr, Instruction, Reg, Vec
from ..map_edits import CONSTANT_FIELDS, FIELDS_BY_DIMENSION, REPLACED
from ..tensor_copy import PIXELS, ROWS, TILES, TensorCopy
from ..tensor_map import SIZE
from ..types import TYPES
from .atomic import PLAIN_REDUCTIONS, REDUCTIONS, reduction_for
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
        barrier = address(cg, rest.pop(0))
    ctas = "None"
    if "multicast::cluster" in modifiers:
        if not rest or barrier == "None" or spaces[0] != "shared::cluster":
            cg.fail("a multicast needs a mask of CTAs, an mbarrier and a destination in shared::cluster")
        ctas = cg.src(rest.pop(0), TYPES["u16"])
    chosen = "None"
    if "cp_mask" in modifiers:
        if spaces != ["global", "shared::cta"] or not rest:
            cg.fail("a mask of bytes is one of a copy from shared::cta to global memory")
        cg.require("tma_cp_mask", "a mask of bytes")
        chosen = cg.src(rest.pop(), TYPES["u16"])
    a, b, count = address(cg, dst), address(cg, src), cg.src(size, _U32)
    cg.uniform = False
    cg.emit(f"M.bulk_copy({into}, {origin}, g, {a}, {b}, {count}, {barrier}, {ctas}, {cg.mask()}, {chosen})")


def _reduction_of(cg: Emitter, ins: Instruction) -> str:
    """The operation of a cp.reduce.async.bulk."""
    name = next((m for m in ins.modifiers if m in REDUCTIONS), None)
    if name is None:
        cg.fail("this reduction is not simulated")
    return name


def _bulk_reduce(cg: Emitter, ins: Instruction) -> None:
    """cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type [dst], [src], size, and
    cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.op.type [dst], [src], size, [mbar]."""
    spaces = [SPACES[m] for m in ins.modifiers if m in SPACES]
    if len(spaces) != 2 or spaces[1] != "shared" or spaces[0] not in PLAIN_REDUCTIONS:
        cg.fail("cp.reduce.async.bulk is from shared memory to global or shared memory")
    name, kind = _reduction_of(cg, ins), ins.modifiers[-1]
    combine = reduction_for(name, kind) if kind in PLAIN_REDUCTIONS[spaces[0]].get(name, ()) else None
    if combine is None:
        cg.fail(f"cp.reduce.async.bulk to {spaces[0]} memory has no .{name}.{kind}")
    code = f"u{TYPES[kind].bits // 8}"
    into = cg.use(AccessInfo(ins, spaces[0], code, counted=False), f"a{id(ins)}d")
    origin = cg.use(AccessInfo(ins, "shared", code, counted=False), f"a{id(ins)}s")
    if len(ins.operands) < (4 if spaces[0] == "shared" else 3):
        cg.fail("cp.reduce.async.bulk lacks an operand")
    cg.uniform = True
    names = [address(cg, ins.operands[0]), address(cg, ins.operands[1]), cg.src(ins.operands[2], _U32)]
    names.append(address(cg, ins.operands[3]) if spaces[0] == "shared" else "None")
    cg.uniform = False
    cg.emit(f"M.bulk_reduce({into}, {origin}, g, {', '.join(names)}, {cg.use(combine)}, {cg.mask()})")


_LOADED = {"tile": TILES, "tile::gather4": ROWS, "im2col": PIXELS}
_STORED = {"tile": TILES, "tile::scatter4": ROWS, "im2col_no_offs": PIXELS}
_WIDE = ("im2col::w", "im2col::w::128", "im2col_no_offs::w")


def _mode(cg: Emitter, ins: Instruction, load: bool) -> str:
    """What a tensor copy moves."""
    named = [m for m in ins.modifiers if m.startswith(("tile", "im2col"))]
    if len(named) > 1:
        cg.fail(f"a tensor copy has one mode, not {' and '.join(named)}")
    mode = named[0] if named else "tile"
    if mode in _WIDE:
        cg.fail(f"the mode {mode} of tensor copies is not simulated: how its tensor maps are encoded is not known")
    modes = _LOADED if load else _STORED
    if mode not in modes:
        cg.fail(f"a tensor copy {'from' if load else 'to'} global memory has no mode {mode}")
    feature = "tma"
    if mode == "tile::scatter4":
        feature = "tma_scatter4"
    elif mode == "tile::gather4":
        feature = "tma_gather4" if "shared::cta" in ins.modifiers else "tma_cluster_forms"
    cg.require(feature, f"the mode {mode} of tensor copies")
    if any(m.startswith("cta_group") for m in ins.modifiers):
        cg.require("tcgen05", "a tensor copy of a pair of CTAs")
    return modes[mode]


def _coordinates(cg: Emitter, ins: Instruction, mode: str, tensor: Any) -> str:
    """The coordinates of a tensor copy, as many as its rank says."""
    rank = next((int(m[0]) for m in ins.modifiers if m in ("1d", "2d", "3d", "4d", "5d")), 0)
    if rank not in {ROWS: (2,), PIXELS: (3, 4, 5)}.get(mode, (1, 2, 3, 4, 5)):
        cg.fail(f"a tensor copy of this mode has no rank {rank}" if rank else "a tensor copy needs a rank")
    if not isinstance(tensor, Addr) or len(tensor.extra) != 1 or not isinstance(tensor.extra[0], Vec):
        cg.fail("a tensor copy needs a tensor map with coordinates")
    return _vector(cg, tensor.extra[0], 5 if mode == ROWS else rank, "coordinates", "s32")


def _vector(cg: Emitter, operand: Any, count: int, what: str, kind: str) -> str:
    if not isinstance(operand, Vec) or len(operand.items) != count:
        cg.fail(f"this tensor copy needs {count} {what}")
    return "(" + ", ".join(cg.src(x, TYPES[kind]) for x in operand.items) + ",)"


def _tensor(cg: Emitter, ins: Instruction) -> None:
    """cp(.reduce).async.bulk(.prefetch).tensor."""
    modifiers = ins.modifiers
    prefetch = "prefetch" in modifiers
    spaces = [m for m in modifiers if m in SPACES]
    if len(spaces) < (1 if prefetch else 2):
        cg.fail("cp.async.bulk.tensor needs two state spaces")
    load = prefetch or spaces[0].startswith("shared")
    mode = _mode(cg, ins, load)
    operands = list(ins.operands)
    tensor = operands.pop(1 if load and not prefetch else 0)
    if len(operands) < (0 if prefetch else 2 if load else 1):
        cg.fail("a tensor copy lacks an operand")
    cg.uniform = True
    names = [address(cg, tensor), _coordinates(cg, ins, mode, tensor)]
    names.append("None" if prefetch else address(cg, operands.pop(0)))
    names.append(address(cg, operands.pop(0)) if load and not prefetch else "None")
    offsets = "()"
    if mode == PIXELS and load:
        rank = len(tensor.extra[0].items)
        offsets = _vector(cg, operands.pop(0) if operands else None, rank - 2, "im2col offsets", "u16")
    if "multicast::cluster" in modifiers and not operands:
        cg.fail("a multicast needs a mask of CTAs")
    names.append(cg.src(operands[0], TYPES["u16"]) if "multicast::cluster" in modifiers else "None")
    reduction = cg.use(partial(reduction_for, _reduction_of(cg, ins))) if modifiers[0] == "reduce" else "None"
    cg.uniform = False
    instruction = cg.use(ins, f"i{id(ins)}")
    copy = f"{cg.use(TensorCopy)}({instruction}, {mode!r}, {', '.join(names)}, {offsets}, {reduction})"
    if prefetch:
        cg.emit(f"M.tensor_prefetch({copy}, g, {cg.mask()})")
    else:
        cg.emit(f"M.tensor_copy({copy}, g, {load}, {cg.mask()})")


@op("tensormap")
def _tensormap(cg: Emitter, ins: Instruction) -> None:
    """tensormap.replace.tile.field{.ss}.b1024.type [addr], {ord,} value, and
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], 128."""
    if "cp_fenceproxy" in ins.modifiers:
        into, source, size = ins.operands
        if getattr(size, "value", None) != SIZE:
            cg.fail(f"tensormap.cp_fenceproxy copies {SIZE} bytes")
        cg.uniform = True
        addresses = f"{address(cg, into)}, {address(cg, source)}"
        cg.uniform = False
        cg.emit(f"M.copy_map({cg.use(ins, f'i{id(ins)}')}, {addresses}, g)")
        return
    name = next((m for m in ins.modifiers if m in REPLACED), None)
    if name is None or "replace" not in ins.modifiers or "tile" not in ins.modifiers:
        cg.fail(f"there is no {ins.name}")
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    where, *ordinal, value = ins.operands
    constant = getattr(value, "value", None)
    if name in CONSTANT_FIELDS and (not isinstance(constant, int) or not 0 <= constant < CONSTANT_FIELDS[name]):
        cg.fail(f"the new value of .{name} is a constant from 0 to {CONSTANT_FIELDS[name] - 1}")
    number = getattr(ordinal[0], "value", None) if ordinal else 0
    if bool(ordinal) != (name in FIELDS_BY_DIMENSION) or not isinstance(number, int) or not 0 <= number < MAX_RANK:
        cg.fail(f"the dimension of .{name} is a constant from 0 to {MAX_RANK - 1}, where the field has dimensions")
    cg.uniform = True
    at, given = address(cg, where), cg.src(value, TYPES[ins.modifiers[-1].replace("b", "u")])
    cg.uniform = False
    cg.emit(
        f"M.replace_field({cg.use(ins, f'i{id(ins)}')}, {space!r}, {name!r}, {number}, {at}, {given}, g, {cg.mask()})"
    )
