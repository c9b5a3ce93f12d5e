# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma: matrix multiply of a warpgroup from shared memory (PTX ISA, "Asynchronous warpgroup level matrix
instructions").

Warp w of a warpgroup owns rows 16 w to 16 w + 15 of A and D, and all of B, so each warp computes its part alone. Here
are the instructions and their arithmetic; when a product is computed, and what may not be touched before, is in
`products`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.ptx.reader import product_shape
from libtile.support.records import dataclass

from ..access import AccessInfo
from ..codegen import Emitter, op, terminator
from ..fragments import gather_index
from ..ir import Instruction, Reg, Vec
from ..products import Operand
from ..shared_operand import Swizzle, operand_offsets
from ..types import TYPES
from .memory import groups_pending
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


# Swizzle field of a descriptor (bits 62-63) to the bytes of a row that it permutes.
_SPAN = {0: 0, 1: 128, 2: 64, 3: 32}
# Bits of a descriptor that are no field: behind the strides (46-48), and between the base offset and the swizzle.
_RESERVED = 7 << 46 | 0x3FF << 52


def descriptor_offsets(descriptor: int, outer: int, k: int, bits: int, transposed: bool) -> np.ndarray:
    """Shared memory byte addresses [outer, k elements' bytes / element bytes] of an operand (outer is M or N)."""
    start, leading, stride = ((descriptor >> first & 0x3FFF) << 4 for first in (0, 16, 32))
    swizzle = Swizzle(_SPAN[descriptor >> 62 & 3])
    return operand_offsets(start, leading, stride, swizzle, outer, k, bits, transposed)


@dataclass(frozen=True)
class Wgmma:
    """One wgmma.mma_async: its arithmetic, and the registers of D and of A (by index; none when A is in memory)."""

    info: AccessInfo
    spec: WgmmaSpec
    accumulators: tuple[int, ...]
    a_registers: tuple[int, ...]

    @property
    def shape(self) -> int:
        """What has to be equal for products that accumulate in the same registers with no fence between; not 0."""
        mma = self.spec.mma
        return 1 + mma.n * 4 + ("f16", "f32", "s32").index(mma.d)

    def operands(self, M: Any, g: ThreadGroup, a: np.ndarray | None, b: np.ndarray) -> list[Operand]:
        """The matrices in shared memory, B first, checked as they are when the product is issued."""
        found = [self._operand(M, g, _uniform(g, b), self.spec.mma.n, "b")]
        if a is not None:
            found.append(self._operand(M, g, _uniform(g, a), 64, "a"))
        return found

    def _operand(self, M: Any, g: ThreadGroup, descriptors: np.ndarray, outer: int, which: str) -> Operand:
        """`descriptors` has one value per warp."""
        spec = self.spec
        kind = spec.mma.a if which == "a" else spec.mma.b
        transposed = spec.a_transposed if which == "a" else spec.b_transposed
        slots = (g.warps // M.cta_warps).tolist()
        keys = list(zip(slots, descriptors.view(np.uint64).tolist(), strict=True))  # few: np.unique takes longer
        unique = {key: number for number, key in enumerate(sorted({*keys}))}
        inverse = np.array([unique[key] for key in keys])
        left = np.bincount(inverse)
        found = []
        for (_, descriptor), number in unique.items():
            owner = g.warps[np.flatnonzero(inverse == number)[0]] * 32
            self._check_descriptor(M, descriptor, which, np.array([owner]))
            at = descriptor_offsets(descriptor, outer, spec.mma.k, _BITS[kind], transposed)
            thread = np.full(at.size, owner, dtype=np.int64)
            flat = at.reshape(-1).view(np.uint64)
            off = M.locate(self.info, "shared", flat, thread, self.info.size)[1]
            M._check_proxy(off, self.info.instruction, thread[:1])
            M.load_at(self.info, flat, thread)
            found.append(off.reshape(at.shape))
        return Operand(self.info.code, found, inverse, left)

    def _check_descriptor(self, M: Any, descriptor: int, which: str, thread: np.ndarray) -> None:
        """The pattern of a swizzle repeats every 8 rows, and starts at a multiple of that where base_offset is 0."""
        base = descriptor >> 49 & 7
        if base:
            text = f"the base offset {base} in the descriptor of {which.upper()} is not simulated"
            M.fault("illegal-instruction", text, self.info.instruction, thread)
        if descriptor & _RESERVED:
            text = (
                f"the descriptor 0x{descriptor:016x} of {which.upper()} sets bits that those of wgmma have not: the "
                "version (46-48) and swizzles by 32 bytes (61-63) are tcgen05's"
            )
            M.fault("illegal-instruction", text, self.info.instruction, thread)
        start, span = (descriptor & 0x3FFF) << 4, _SPAN[descriptor >> 62 & 3]
        if M.check_products and span and start % (8 * span) >= span:
            text = (
                f"the descriptor of {which.upper()} starts at shared byte {start}: with the {span}B swizzle and base "
                f"offset 0 the matrix has to be aligned to {8 * span} bytes"
            )
            M.fault("misaligned", text, self.info.instruction, thread)

    def compute(
        self, M: Any, g: ThreadGroup, operands: list[Operand], rows: np.ndarray, scale: np.ndarray
    ) -> list[np.ndarray]:
        """Registers of D for the warps of a group, which are the `rows` of those that issued the product."""
        spec, mma = self.spec, self.spec.mma
        right = self._matrices(M, operands[0], rows, mma.b).transpose(0, 2, 1)
        if self.a_registers:
            per = 32 // _BITS[mma.a]
            values = unpack_elements(fragment(g, _bits(g, self.a_registers)), mma.a)
            left = values.reshape(len(values), -1)[:, gather_index("A", 16, mma.k, per)]
        else:
            whole = self._matrices(M, operands[1], rows, mma.a)
            rank = (g.warps % M.cta_warps) % 4
            left = np.stack([m[16 * r : 16 * r + 16] for m, r in zip(whole, rank.tolist(), strict=True)])
        total = product(left * spec.a_sign, right * spec.b_sign, mma)
        old = _accumulator(fragment(g, _bits(g, self.accumulators)), mma)
        total = total + np.where(scale[:, None, None], old, 0)
        row, column = _result_positions(mma.n)
        out: Any = convert_result(total, mma)[:, row, column]
        if mma.d == "f16":
            out = np.ascontiguousarray(out).view(np.uint32)
        return [g.from_warps(np.ascontiguousarray(out[:, :, i])) for i in range(out.shape[2])]

    def _matrices(self, M: Any, operand: Operand, rows: np.ndarray, kind: str) -> np.ndarray:
        """[warps, outer, k] of an operand in shared memory, as its bytes are now."""
        which = operand.which[rows]
        used, inverse = np.unique(which, return_inverse=True)
        view = M.shared_arena.views[operand.code]
        shift = int(operand.code[1]).bit_length() - 1
        mats = [unpack_elements(view[operand.offsets[number] >> shift], kind) for number in used.tolist()]
        return np.stack(mats)[inverse.reshape(-1)]


def _bits(g: ThreadGroup, registers: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Registers of the group's threads, as 32 bits."""
    return tuple(g.frame.registers[register].view(np.uint32)[g.threads] for register in registers)


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


@terminator("wgmma")
def _wait_group(cg: Emitter, ins: Instruction) -> str:
    """wgmma.wait_group ends a unit: products write registers while the warp waits."""
    pending = groups_pending(cg, ins, "wgmma.wait_group")
    if cg.program.current is not None:
        # Products read their registers as late as here.
        cg.kept |= cg.program.current.product_registers
    return str(pending)


@op("wgmma")
def _wgmma(cg: Emitter, ins: Instruction) -> None:
    action = ins.modifiers[0]
    if action == "fence":
        cg.emit("M.fence_products(g)")
        return
    if action == "commit_group":
        cg.emit("M.commit_products(g)")
        return
    if action != "mma_async":
        cg.fail(f"wgmma.{action} is not simulated")
    if "sp" in ins.modifiers:
        cg.fail("sparse wgmma is not simulated")
    spec = _parse(cg, ins)
    d, a, b, scale = ins.operands[:4]
    wanted = spec.mma.n // (4 if spec.mma.d == "f16" else 2)
    accumulators = _registers(cg, d, wanted, "the accumulator")
    left: tuple[int, ...] = _registers(cg, a, 4, "A") if spec.a_registers else ()
    # The product reads its registers when it completes, where this instruction finds them now.
    cg.kept.update(accumulators, left)
    code = {64: "u8", 32: "u4", 16: "u2", 8: "u1", 1: "u1"}[_BITS[spec.mma.b]]
    call = Wgmma(AccessInfo(ins, "shared", code, counted=False), spec, accumulators, left)
    cg.uniform = True
    first = "None" if spec.a_registers else cg.src(a, TYPES["b64"])
    second, keep = cg.src(b, TYPES["b64"]), cg.pred(scale)
    cg.uniform = False
    keep = cg.let(f"{cg.use(_uniform)}(g, {keep}).astype(bool)")
    cg.emit(f"M.multiply_async({cg.use(call, f'w{id(ins)}')}, g, {first}, {second}, {keep})")


def _registers(cg: Emitter, operand: Any, wanted: int, what: str) -> tuple[int, ...]:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    if len(items) != wanted:
        cg.fail(f"{what} needs {wanted} registers, not {len(items)}")
    if not all(isinstance(item, Reg) and item.type.bits == 32 for item in items):
        cg.fail(f"{what} has to be in registers of 32 bits")
    return tuple(item.index for item in items)


def _parse(cg: Emitter, ins: Instruction) -> WgmmaSpec:
    shape = product_shape(ins.modifiers)
    kinds = [m for m in ins.modifiers if m in _BITS or m in ("f32", "s32")]
    if shape is None or shape[0] != 64 or len(kinds) != 3:
        cg.fail("wgmma.mma_async needs a shape m64nNkK and the types of d, a and b")
    _, n, k = shape
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
