# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma: matrix multiply of a warpgroup from shared memory (PTX ISA, "Asynchronous warpgroup level matrix
instructions").

Warp w of a warpgroup owns rows 16 w to 16 w + 15 of A and D, and all of B, so each warp computes its part alone. The
result is there at once; what is asynchronous is checked at the operands: bytes of unfinished copies and writes without
a proxy fence are faults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..fragments import gather_index
from ..ir import Instruction, Vec
from ..tensor_map import swizzled
from ..types import TYPES
from .mma import _BITS, MmaSpec, convert_result, fragment, product, unpack_elements

if TYPE_CHECKING:
    from ..group import ThreadGroup

_K = {16: 16, 32: 8, 8: 32, 1: 256}


@dataclass(frozen=True)
class WgmmaSpec:
    """Static form: the product, whether A is in registers, transposed operands (16-bit types), signs of A and B."""

    mma: MmaSpec
    a_registers: bool
    a_transposed: bool = False
    b_transposed: bool = False
    a_sign: int = 1
    b_sign: int = 1


# Swizzle field of a descriptor (bits 62-63) to the mode of `swizzled`: 0 none, 1 is 128, 2 is 64, 3 is 32 bytes.
_MODE = {0: 0, 1: 3, 2: 2, 3: 1}


def descriptor_offsets(descriptor: int, outer: int, k: int, bits: int, transposed: bool) -> np.ndarray:
    """Shared memory byte addresses [outer, k elements' bytes / element bytes] of an operand (outer is M or N).

    Units are core matrices of 8 rows of 16 bytes (PTX ISA, "Shared Memory Matrix Layout", canonical layouts):
      K-major,  swizzle S: row r of 8, byte b along k    -> (r % 8) S + b + (r / 8) stride
      K-major,  none:      (r % 8) 16 + b % 16 + (b / 16) leading + (r / 8) stride
      MN-major, swizzle S: chunk c of 16 bytes along MN  -> (c % (S/16)) 16 + c / (S/16) leading + (k % 8) S + (k / 8)
      stride MN-major, none:      c stride + (k % 8) 16 + (k / 8) leading
    """
    start = (descriptor & 0x3FFF) << 4
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    mode = _MODE[descriptor >> 62 & 3]
    span = 16 << mode
    element = max(1, bits // 8)
    row = np.arange(outer, dtype=np.int64)[:, None]
    if transposed:
        step = np.arange(k, dtype=np.int64)[None, :]
        chunk, inner = row * element // 16, row * element % 16
        if mode:
            per = span // 16
            at = (chunk % per) * 16 + (chunk // per) * leading + (step % 8) * span + (step // 8) * stride
        else:
            at = chunk * stride + (step % 8) * 16 + (step // 8) * leading
        at = at + inner
    else:
        byte = np.arange(k * bits // 8 // element, dtype=np.int64)[None, :] * element
        if mode:
            at = (row % 8) * span + byte + (row // 8) * stride
        else:
            at = (row % 8) * 16 + byte % 16 + (byte // 16) * leading + (row // 8) * stride
    return swizzled(start + at, mode)


def _operand(
    M: Any, info: AccessInfo, g: ThreadGroup, descriptors: np.ndarray, outer: int, spec: WgmmaSpec, which: str
) -> np.ndarray:
    """[warps, outer, k] float64 of an operand in shared memory. `descriptors` has one value per warp."""
    kind = spec.mma.a if which == "a" else spec.mma.b
    transposed = spec.a_transposed if which == "a" else spec.b_transposed
    slots = g.warps // M.cta_warps
    keys = np.stack([slots, descriptors.view(np.int64)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    mats = []
    for number, (_, descriptor) in enumerate(unique.tolist()):
        at = descriptor_offsets(descriptor & (2**64 - 1), outer, spec.mma.k, _BITS[kind], transposed)
        owner = g.warps[np.flatnonzero(inverse == number)[0]] * 32
        thread = np.full(at.size, owner, dtype=np.int64)
        flat = at.reshape(-1).view(np.uint64)
        M._check_proxy(M.locate(info, "shared", flat, thread, info.size)[1], info.instruction, thread[:1])
        raw = np.ascontiguousarray(M.load_at(info, flat, thread).reshape(at.shape))
        mats.append(unpack_elements(raw, kind))
    return np.stack(mats)[inverse]


def warpgroup_multiply(
    M: Any, info: AccessInfo, g: ThreadGroup, spec: WgmmaSpec, a: Any, b: np.ndarray, d: tuple, scale: np.ndarray
) -> list[np.ndarray]:
    """wgmma.mma_async for the warps of a group; registers of D."""
    mma = spec.mma
    right = _operand(M, info, g, _uniform(g, b), mma.n, spec, "b").transpose(0, 2, 1)
    if spec.a_registers:
        per = 32 // _BITS[mma.a]
        values = unpack_elements(fragment(g, a), mma.a)
        left = values.reshape(len(values), -1)[:, gather_index("A", 16, mma.k, per)]
    else:
        whole = _operand(M, info, g, _uniform(g, a), 64, spec, "a")
        rank = (g.warps % M.cta_warps) % 4
        left = np.stack([m[16 * r : 16 * r + 16] for m, r in zip(whole, rank.tolist(), strict=True)])
    total = product(left * spec.a_sign, right * spec.b_sign, mma)
    keep = _uniform(g, scale).astype(bool)
    old = _accumulator(fragment(g, d), mma)
    total = total + np.where(keep[:, None, None], old, 0)
    rows, columns = _result_positions(mma.n)
    out: Any = convert_result(total, mma)[:, rows, columns]
    if mma.d == "f16":
        out = np.ascontiguousarray(out).view(np.uint32)
    return [g.from_warps(np.ascontiguousarray(out[:, :, i])) for i in range(out.shape[2])]


def _uniform(g: ThreadGroup, x: np.ndarray) -> np.ndarray:
    """[n] of a value that is the same in all lanes of a warp to [warps]."""
    return np.ascontiguousarray(g.to_warps(np.broadcast_to(x, (g.n,)))[:, 0])


def _result_positions(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows within the warp's 16, columns) of D's elements: [32, n / 2]."""
    lane, i = np.arange(32)[:, None], np.arange(n // 2)[None, :]
    return lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2


def _accumulator(frag: np.ndarray, mma: MmaSpec) -> np.ndarray:
    if mma.d == "f16":
        values: Any = np.ascontiguousarray(frag).view(np.float16).astype(np.float64)
    elif mma.d == "s32":
        values = frag.view(np.int32).astype(np.int64)
    else:
        values = frag.view(np.float32).astype(np.float64)
    rows, columns = _result_positions(mma.n)
    out = np.zeros((len(frag), 16, mma.n), dtype=values.dtype)
    out[:, rows, columns] = values
    return out


@op("wgmma")
def _wgmma(cg: Emitter, ins: Instruction) -> None:
    action = ins.modifiers[0]
    if action in ("fence", "commit_group", "wait_group"):
        return
    if action != "mma_async":
        cg.fail(f"wgmma.{action} is not simulated")
    if "sp" in ins.modifiers:
        cg.fail("sparse wgmma is not simulated")
    spec = _parse(cg, ins)
    d, a, b, scale = ins.operands[:4]
    items = d.items
    wanted = spec.mma.n // (4 if spec.mma.d == "f16" else 2)
    if len(items) != wanted:
        cg.fail(f"the accumulator needs {wanted} registers, not {len(items)}")
    code = {64: "u8", 32: "u4", 16: "u2", 8: "u1", 1: "u1"}[_BITS[spec.mma.b]]
    info = cg.use(AccessInfo(ins, "shared", code, counted=False), f"a{id(ins)}")
    cg.uniform = True
    if spec.a_registers:
        left = "(" + ", ".join(cg.src(x, TYPES["b32"]) for x in a.items) + ",)"
    else:
        left = cg.src(a, TYPES["b64"])
    right, keep = cg.src(b, TYPES["b64"]), cg.pred(scale)
    old = "(" + ", ".join(cg.src(x, TYPES["b32"]) for x in items) + ",)"
    cg.uniform = False
    name = cg.use(spec, f"w{abs(hash(spec))}")
    result = cg.let(f"{cg.use(warpgroup_multiply)}(M, {info}, g, {name}, {left}, {right}, {old}, {keep})")
    kind = TYPES[{"f16": "b32", "f32": "f32", "s32": "s32"}[spec.mma.d]]
    for i, item in enumerate(items):
        cg.dst(item, kind, f"{result}[{i}]")


def _parse(cg: Emitter, ins: Instruction) -> WgmmaSpec:
    shape = next((re.fullmatch(r"m64n(\d+)k(\d+)", m) for m in ins.modifiers if m.startswith("m64n")), None)
    kinds = [m for m in ins.modifiers if m in _BITS or m in ("f32", "s32")]
    if shape is None or len(kinds) != 3:
        cg.fail("wgmma.mma_async needs a shape m64nNkK and the types of d, a and b")
    n, k = int(shape[1]), int(shape[2])
    d, a, b = kinds
    if n % 8 or not 8 <= n <= 256 or k != _K[_BITS[a]]:
        cg.fail(f"wgmma.m64n{n}k{k} does not exist for .{a}")
    numbers = [getattr(x, "value", None) for x in ins.operands[4:]]
    if any(not isinstance(x, int) for x in numbers):
        cg.fail("the scales and transpositions of wgmma must be constants")
    in_registers = isinstance(ins.operands[1], Vec)
    signs = [int(x or 0) for x in numbers[:2]] if len(numbers) >= 2 else [1, 1]
    rest = [bool(x) for x in numbers[2:]]
    if in_registers:
        rest = [False, *rest]
    rest += [False] * (2 - len(rest))
    bit_op = "and" if a == "b1" else ""
    mma = MmaSpec(64, n, k, d, a, b, d, satfinite="satfinite" in ins.modifiers, bit_op=bit_op)
    return WgmmaSpec(mma, in_registers, rest[0], rest[1], signs[0], signs[1])
