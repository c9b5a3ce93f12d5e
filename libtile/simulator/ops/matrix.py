# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ldmatrix, stmatrix and movmatrix (PTX ISA, "Warp-level matrix load", "store", "transpose").

In an 8x8 matrix of 16-bit elements, lane l holds row l/4, columns 2(l%4) and 2(l%4)+1; transposed, the roles of rows
and columns swap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Instruction, Vec
from ..types import TYPES
from .memory import SPACES, address

if TYPE_CHECKING:
    from ..group import ThreadGroup

_LANE = np.arange(32)
_ROW, _PAIR = _LANE // 4, _LANE % 4


def _row_addresses(g: ThreadGroup, addr: np.ndarray, first: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Addresses that lanes first..first+rows-1 of each warp supply, and the thread of each."""
    lanes = g.to_warps(addr)[:, first : first + rows]
    threads = (g.warps[:, None] * 32 + np.arange(first, first + rows)[None, :]).reshape(-1)
    return np.ascontiguousarray(lanes).reshape(-1), threads


def load_matrices(
    M: Any, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, count: int, trans: bool
) -> list[np.ndarray]:
    """ldmatrix .m8n8 .b16: one register per matrix."""
    rows, threads = _row_addresses(g, addr, 0, 8 * count)
    words = M.load_at(info, rows, threads).T.reshape(len(g.warps), count, 8, 4)
    if not trans:
        out = words[:, :, _ROW, _PAIR]
    else:
        halves = np.ascontiguousarray(words).view(np.uint16).reshape(len(g.warps), count, 8, 8).astype(np.uint32)
        out = halves[:, :, 2 * _PAIR, _ROW] | (halves[:, :, 2 * _PAIR + 1, _ROW] << np.uint32(16))
    return [g.from_warps(np.ascontiguousarray(out[:, i])) for i in range(count)]


def store_matrices(
    M: Any, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, values: tuple[np.ndarray, ...], trans: bool
) -> None:
    """stmatrix .m8n8 .b16."""
    count = len(values)
    regs = np.stack([g.to_warps(v) for v in values], axis=1)
    warps = len(g.warps)
    matrix = np.zeros((warps, count, 8, 8), dtype=np.uint16)
    low, high = (regs & np.uint32(0xFFFF)).astype(np.uint16), (regs >> np.uint32(16)).astype(np.uint16)
    if trans:
        matrix[:, :, 2 * _PAIR, _ROW], matrix[:, :, 2 * _PAIR + 1, _ROW] = low, high
    else:
        matrix[:, :, _ROW, 2 * _PAIR], matrix[:, :, _ROW, 2 * _PAIR + 1] = low, high
    rows, threads = _row_addresses(g, addr, 0, 8 * count)
    words = matrix.reshape(-1, 8).view(np.uint32).T
    M.store_at(info, rows, np.ascontiguousarray(words), threads)


def store_bytes_transposed(
    M: Any, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, values: tuple[np.ndarray, ...]
) -> None:
    """stmatrix .m16n8 .trans .b8: the accumulator of an m16n8 product in bytes, stored by columns of 16.

    Lane l holds the elements of rows l/4 (bytes 0, 1) and l/4 + 8 (bytes 2, 3), columns 2(l%4) and 2(l%4) + 1.
    """
    regs = np.stack([g.to_warps(v) for v in values], axis=1)
    columns = np.zeros((len(g.warps), len(values), 8, 16), dtype=np.uint8)
    for k in range(4):
        columns[:, :, 2 * _PAIR + k % 2, _ROW + 8 * (k // 2)] = (regs >> np.uint32(8 * k)) & np.uint32(0xFF)
    addresses, threads = _row_addresses(g, addr, 0, 8 * len(values))
    words = columns.reshape(-1, 16).view(np.uint32).T
    M.store_at(info, addresses, np.ascontiguousarray(words), threads)


def load_bytes_transposed(
    M: Any, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, count: int, packed: str
) -> list[np.ndarray]:
    """ldmatrix .m16n16 .trans of 8-bit elements (or 4 and 6 bits, unpacked to bytes): two registers per matrix."""
    rows, threads = _row_addresses(g, addr, 0, 16 * count)
    raw = np.ascontiguousarray(M.load_at(info, rows, threads).T).view(np.uint8).reshape(-1, 16)
    data = _unpack(raw, packed).reshape(len(g.warps), count, 16, 16).astype(np.uint32)
    out = []
    for i in range(count):
        for half in range(2):
            column = _ROW + 8 * half
            word = np.zeros((len(g.warps), 32), dtype=np.uint32)
            for k in range(4):
                word |= data[:, i, 4 * _PAIR + k, column] << np.uint32(8 * k)
            out.append(g.from_warps(word))
    return out


def load_narrow(
    M: Any, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, count: int, packed: str
) -> list[np.ndarray]:
    """ldmatrix .m8n16 of packed 4- or 6-bit elements, unpacked to bytes: one register per matrix."""
    rows, threads = _row_addresses(g, addr, 0, 8 * count)
    raw = np.ascontiguousarray(M.load_at(info, rows, threads).T).view(np.uint8).reshape(-1, 16)
    data = _unpack(raw, packed).reshape(len(g.warps), count, 8, 16)
    words = np.ascontiguousarray(data).view(np.uint32)
    return [g.from_warps(np.ascontiguousarray(words[:, i][:, _ROW, _PAIR])) for i in range(count)]


def _unpack(raw: np.ndarray, packed: str) -> np.ndarray:
    """[rows, 16] bytes to [rows, 16] elements of one byte each."""
    if packed == "":
        return raw
    bits = 6 if "b6" in packed else 4
    flat = np.unpackbits(raw, axis=1, bitorder="little")[:, : 16 * bits].reshape(-1, 16, bits)
    return (flat << np.arange(bits, dtype=np.uint8)).sum(axis=2).astype(np.uint8)


def _count(ins: Instruction) -> int:
    return next((int(m[1]) for m in ins.modifiers if m in ("x1", "x2", "x4")), 1)


def _info(ins: Instruction) -> AccessInfo:
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    return AccessInfo(ins, space, "u4", 4)


@op("ldmatrix")
def _ldmatrix(cg: Emitter, ins: Instruction) -> None:
    count = _count(ins)
    target = ins.operands[0]
    items = target.items if isinstance(target, Vec) else (target,)
    where = address(cg, ins.operands[1])
    info = cg.use(_info(ins), f"a{id(ins)}")
    packed = next((m for m in ins.modifiers if m.startswith(("b6x16", "b4x16"))), "")
    if "m16n16" in ins.modifiers:
        call = f"{cg.use(load_bytes_transposed)}(M, {info}, g, {where}, {count}, {packed!r})"
    elif "m8n16" in ins.modifiers:
        call = f"{cg.use(load_narrow)}(M, {info}, g, {where}, {count}, {packed!r})"
    elif "m8n8" in ins.modifiers and "b16" in ins.modifiers:
        call = f"{cg.use(load_matrices)}(M, {info}, g, {where}, {count}, {'trans' in ins.modifiers})"
    else:
        cg.fail("unknown shape of ldmatrix")
    result = cg.let(call)
    expected = 2 * count if "m16n16" in ins.modifiers else count
    if len(items) != expected:
        cg.fail(f"ldmatrix needs {expected} destination registers here")
    for k, item in enumerate(items):
        cg.dst(item, TYPES["b32"], f"{result}[{k}]")


@op("stmatrix")
def _stmatrix(cg: Emitter, ins: Instruction) -> None:
    narrow = "m16n8" in ins.modifiers
    if narrow and not ("b8" in ins.modifiers and "trans" in ins.modifiers):
        cg.fail("stmatrix .m16n8 needs .trans and .b8")
    if not narrow and not ("m8n8" in ins.modifiers and "b16" in ins.modifiers):
        cg.fail("unknown shape of stmatrix")
    source = ins.operands[1]
    items = source.items if isinstance(source, Vec) else (source,)
    if len(items) != _count(ins):
        cg.fail(f"stmatrix needs {_count(ins)} source registers here")
    where = address(cg, ins.operands[0])
    cg.uniform = True
    values = "(" + ", ".join(cg.src(x, TYPES["b32"]) for x in items) + ",)"
    info = cg.use(_info(ins), f"a{id(ins)}")
    if narrow:
        cg.emit(f"{cg.use(store_bytes_transposed)}(M, {info}, g, {where}, {values})")
    else:
        cg.emit(f"{cg.use(store_matrices)}(M, {info}, g, {where}, {values}, {'trans' in ins.modifiers})")


def transpose(g: ThreadGroup, a: np.ndarray) -> np.ndarray:
    """movmatrix: an 8x8 matrix of 16-bit elements held across the warp, transposed."""
    words = g.to_warps(a)
    matrix = np.zeros((len(words), 8, 8), dtype=np.uint32)
    matrix[:, _ROW, 2 * _PAIR] = words & np.uint32(0xFFFF)
    matrix[:, _ROW, 2 * _PAIR + 1] = words >> np.uint32(16)
    return g.from_warps(matrix[:, 2 * _PAIR, _ROW] | (matrix[:, 2 * _PAIR + 1, _ROW] << np.uint32(16)))


@op("movmatrix")
def _movmatrix(cg: Emitter, ins: Instruction) -> None:
    cg.uniform = True
    value = cg.src(ins.operands[1], TYPES["b32"])
    cg.uniform = False
    cg.dst(ins.operands[0], TYPES["b32"], f"{cg.use(transpose)}(g, {value})")
