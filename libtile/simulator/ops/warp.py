# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warp-level exchange and votes (PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync").

Helpers take the group and its [n] vectors, work in the shape [warps, 32], and return [n].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..codegen import Emitter, op
from ..ir import Instruction, Pair, Sink
from ..types import TYPES

if TYPE_CHECKING:
    from ..group import ThreadGroup

_LANES = np.arange(32, dtype=np.int64)
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


def lane_bits(flags: np.ndarray) -> np.ndarray:
    """[w, 32] bool -> [w] uint32."""
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint32)[:, 0]


def shuffle(
    g: ThreadGroup, mode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """shfl: (values, whether the source lane was in range, the source lane)."""
    values = g.to_warps(np.broadcast_to(a, (g.n,)))
    amount = g.to_warps(np.broadcast_to(b, (g.n,))).astype(np.int64) & 31
    control = g.to_warps(np.broadcast_to(c, (g.n,))).astype(np.int64)
    clamp = control & 31
    segment = (control >> 8) & 31
    low = _LANES & segment
    high = low | (clamp & ~segment)
    if mode == "up":
        source = _LANES - amount
        valid = source >= high
    elif mode == "down":
        source = _LANES + amount
        valid = source <= high
    elif mode == "bfly":
        source = _LANES ^ amount
        valid = source <= high
    else:
        source = low | (amount & ~segment)
        valid = source <= high
    source = np.where(valid, source, _LANES)
    out = np.take_along_axis(values, source, axis=1)
    return g.from_warps(out), g.from_warps(np.broadcast_to(valid, out.shape)), g.from_warps(source)


@op("shfl")
def _shfl(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES["b32"]
    mode = next(m for m in ins.modifiers if m in ("up", "down", "bfly", "idx"))
    target = ins.operands[0]
    a, b, c = (cg.src(x, kind) for x in ins.operands[1:4])
    pair = cg.let(f"{cg.use(shuffle)}(g, {mode!r}, {a}, {b}, {c})")
    if "sync" in ins.modifiers:
        mask, instruction = cg.src(ins.operands[4], kind), cg.use(ins, f"i{id(ins)}")
        cg.emit(f"M.check_member(g, {mask}, {instruction}, {pair}[2])")
    if isinstance(target, Pair):
        cg.dst(target.first, kind, f"{pair}[0]")
        cg.dst(target.second, TYPES["pred"], f"{pair}[1]")
    else:
        cg.dst(target, kind, f"{pair}[0]")


def members(g: ThreadGroup, mask: np.ndarray | None) -> np.ndarray:
    """[warps, 32] uint32: for each lane, the lanes of its member mask that are here."""
    active = lane_bits(g.active())[:, None]
    if mask is None:
        return np.broadcast_to(active, (len(active), 32))
    return g.to_warps(np.broadcast_to(mask, (g.n,))).view(np.uint32) & active


def vote(g: ThreadGroup, mode: str, p: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """vote.all, any, uni (bool) and ballot (uint32)."""
    who = members(g, mask)
    yes = lane_bits(g.to_warps(np.broadcast_to(p, (g.n,))))[:, None] & who
    result = {
        "all": lambda: yes == who,
        "any": lambda: yes != 0,
        "uni": lambda: (yes == who) | (yes == 0),
        "ballot": lambda: yes,
    }[mode]()
    return g.from_warps(result)


@op("vote")
def _vote(cg: Emitter, ins: Instruction) -> None:
    mode = next(m for m in ins.modifiers if m in ("all", "any", "uni", "ballot"))
    cg.uniform = True
    p = cg.pred(ins.operands[1])
    mask = "None"
    if "sync" in ins.modifiers:
        mask = cg.src(ins.operands[2], TYPES["b32"])
        cg.emit(f"M.check_member(g, {mask}, {cg.use(ins, f'i{id(ins)}')})")
    cg.uniform = False
    cg.dst(ins.operands[0], TYPES["b32" if mode == "ballot" else "pred"], f"{cg.use(vote)}(g, {mode!r}, {p}, {mask})")


def match_lanes(g: ThreadGroup, every: bool, a: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """match.any: lanes with the same value. match.all: the mask if all are equal, else 0; and a flag."""
    values = g.to_warps(np.broadcast_to(a, (g.n,)))
    who = members(g, mask)
    equal = values[:, :, None] == values[:, None, :]
    bits = np.packbits(equal, axis=2, bitorder="little").view(np.uint32)[:, :, 0] & who
    if not every:
        return g.from_warps(bits), g.from_warps(bits != 0)
    same = bits == who
    return g.from_warps(np.where(same, who, np.uint32(0))), g.from_warps(same)


@op("match")
def _match(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    every = "all" in ins.modifiers
    cg.uniform = True
    a, mask = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], TYPES["b32"])
    cg.uniform = False
    cg.emit(f"M.check_member(g, {mask}, {cg.use(ins, f'i{id(ins)}')})")
    pair = cg.let(f"{cg.use(match_lanes)}(g, {every}, {a}, {mask})")
    target = ins.operands[0]
    if isinstance(target, Pair):
        cg.dst(target.first, TYPES["b32"], f"{pair}[0]")
        cg.dst(target.second, TYPES["pred"], f"{pair}[1]")
    else:
        cg.dst(target, TYPES["b32"], f"{pair}[0]")


def reduce_lanes(g: ThreadGroup, name: str, a: np.ndarray, mask: np.ndarray, flags: tuple[str, ...]) -> np.ndarray:
    """redux: combine the values of the lanes of each thread's member mask."""
    values = g.to_warps(np.broadcast_to(a, (g.n,)))
    who = members(g, mask)
    out = np.zeros_like(values)
    for row in range(len(values)):
        for bits in np.unique(who[row]).tolist():
            lanes = [lane for lane in range(32) if bits >> lane & 1]
            if not lanes:
                continue
            chosen = values[row, lanes]
            total = _reduce(name, chosen, flags)
            for lane in lanes:
                if who[row, lane] == bits:
                    out[row, lane] = total
    return g.from_warps(out)


def _reduce(name: str, values: np.ndarray, flags: tuple[str, ...]) -> np.generic:
    if values.dtype.kind == "f":
        x = np.abs(values) if "abs" in flags else values
        bad = np.isnan(x)
        if bad.all() or ("NaN" in flags and bad.any()):
            return np.array([0x7FFFFFFF], dtype=np.uint32).view(np.float32)[0]
        numbers = x[~bad]
        found = (np.min if name == "min" else np.max)(numbers)
        if found == 0:  # -0 is the smaller one
            negative = np.signbit(numbers[numbers == 0])
            return np.copysign(found, np.float32(-1 if (negative.any() if name == "min" else negative.all()) else 1))
        return found
    function = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[name]  # fmt: skip
    return function.reduce(values, dtype=values.dtype)


@op("redux")
def _redux(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    name = next(m for m in ins.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    cg.uniform = True
    a, mask = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], TYPES["b32"])
    cg.uniform = False
    cg.emit(f"M.check_member(g, {mask}, {cg.use(ins, f'i{id(ins)}')})")
    flags = tuple(m for m in ins.modifiers if m in ("abs", "NaN"))
    cg.dst(ins.operands[0], kind, f"{cg.use(reduce_lanes)}(g, {name!r}, {a}, {mask}, {flags!r})")


def elect(g: ThreadGroup, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """elect: (leader lane, am I it). The lowest member lane leads."""
    who = members(g, mask).astype(np.int64)
    leader = np.zeros(who.shape, dtype=np.uint32)
    lowest = who & -who
    nonzero = lowest > 0
    leader[nonzero] = np.log2(lowest[nonzero].astype(np.float64)).astype(np.uint32)
    return g.from_warps(leader), g.from_warps(leader == _LANES)


@op("elect")
def _elect(cg: Emitter, ins: Instruction) -> None:
    cg.uniform = True
    mask = cg.src(ins.operands[1], TYPES["b32"])
    cg.uniform = False
    cg.emit(f"M.check_member(g, {mask}, {cg.use(ins, f'i{id(ins)}')})")
    pair = cg.let(f"{cg.use(elect)}(g, {mask})")
    target = ins.operands[0]
    if not isinstance(target, Pair):
        cg.fail("elect.sync needs a destination d|p")
    if not isinstance(target.first, Sink):
        cg.dst(target.first, TYPES["b32"], f"{pair}[0]")
    cg.dst(target.second, TYPES["pred"], f"{pair}[1]")
