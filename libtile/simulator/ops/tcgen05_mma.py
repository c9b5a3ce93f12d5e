# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05.mma: products whose accumulator is in tensor memory (PTX ISA, "tcgen05.mma").

D (m x n) = A (m x k) B (k x n) + D. With 128 rows a CTA, row r is lane r; with 64 rows, 16 are in each quarter of the
lanes, and in a pair of CTAs with 64 rows each, lanes 64 and up have the second half of the columns. D has a column for
each n, whatever its type. A pair multiplies its rows, half of them in each CTA, with the columns that both have in
their shared memories. Sums are made in float64 and rounded once, as for mma.sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.support.records import dataclass

from .. import fp
from ..access import AccessInfo
from ..ir import Instruction
from ..limits import TENSOR_LANES
from ..memory import cluster_prefix
from ..tensor_descriptors import (
    KINDS,
    DescriptorError,
    InstructionDescriptor,
    SharedDescriptor,
    decode_instruction,
    decode_shared,
)
from ..tensor_products import TensorOperation
from .mma import unpack_elements

if TYPE_CHECKING:
    from ..tensor_products import TensorProducts

_PADDED = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Bits of elements of which 16 lie, packed, in the first bytes of 16, where each could have a byte."""
_CODES = {32: "u4", 16: "u2", 8: "u1", 4: "u1"}


def padded_codes(chunks: np.ndarray, bits: int) -> np.ndarray:
    """[..., bytes] of 16 packed elements of `bits` to [..., 16] of their codes."""
    flat = np.unpackbits(np.ascontiguousarray(chunks), axis=-1, bitorder="little")
    parts = flat.reshape(*chunks.shape[:-1], 16, bits)
    return (parts * (1 << np.arange(bits))).sum(axis=-1)


@dataclass
class SharedMatrix:
    """A matrix in shared memory, as offsets in the arena of what its elements are read from."""

    offsets: np.ndarray
    kind: str
    place_bits: int
    transposed: bool

    @property
    def padded(self) -> bool:
        return self.place_bits == 8 and self.kind in _PADDED

    def spots(self) -> np.ndarray:
        """Every byte."""
        size = max(1, self.place_bits // 8)
        return (self.offsets.reshape(-1, 1) + np.arange(size)).reshape(-1)

    def values(self, M: Any) -> np.ndarray:
        """[outer, k] as its bytes are now."""
        code = _CODES[self.place_bits]
        raw = M.shared_arena.views[code][self.offsets >> (int(code[1]).bit_length() - 1)]
        if not self.padded:
            return unpack_elements(raw, self.kind, self.place_bits == 4)
        values = fp.decode_table(self.kind)[padded_codes(raw, _PADDED[self.kind])]
        flat = values.reshape(values.shape[0], -1)
        return np.ascontiguousarray(flat.T) if self.transposed else flat


def shared_matrix(
    M: Any,
    ins: Instruction,
    thread: np.ndarray,
    slot: int,
    descriptor: SharedDescriptor,
    shape: tuple[int, int],
    kind: str,
    place_bits: int,
    transposed: bool,
    which: str,
) -> SharedMatrix:
    """The matrix [outer, k] of a descriptor in the shared memory of a CTA, whose bytes are checked as they are now."""
    swizzle, start = descriptor.swizzle, descriptor.start
    if M.check_tensor and swizzle.span and start % swizzle.repeats >= swizzle.span:
        text = (
            f"the descriptor of {which} starts at shared byte {start}: with a swizzle of {swizzle.span} bytes the "
            f"matrix has to be aligned to {swizzle.repeats} bytes"
        )
        M.fault("misaligned", text, ins, thread)
    at = descriptor.offsets(*shape, place_bits, transposed)
    if place_bits == 8 and kind in _PADDED:
        along = np.ascontiguousarray(at.T) if transposed else at
        at = along.reshape(along.shape[0], -1, 16)[..., : 2 * _PADDED[kind]]
    own = int(M.cta_of[thread[0]])
    if slot != own:
        at = at + cluster_prefix(int(M.cluster_rank[slot * M.cta_stride]))
    info = AccessInfo(ins, "shared", _CODES[place_bits], counted=False)
    flat = at.reshape(-1).view(np.uint64)
    run = np.full(flat.size, thread[0], dtype=np.int64)
    off = M.locate(info, "shared", flat, run, info.size)[1]
    M._check_proxy(off, ins, thread)
    M.load_at(info, flat, run)
    return SharedMatrix(off.reshape(at.shape), kind, place_bits, transposed)


@dataclass
class _Factors:
    """Scale factors of the rows of A or the columns of B: cells [quarter, outer], and where in their words they are."""

    cells: np.ndarray
    first: int
    count: int

    def values(self, M: Any, ins: Instruction, thread: np.ndarray, kind: str, k: int) -> np.ndarray:
        """[outer, k]."""
        words = M.tensor.words[self.cells]
        if not (words == words[0]).all():
            text = "scale factors are not the same in all four quarters of the lanes"
            M.fault("tensor-memory", text, ins, thread)
        parts = words[0][:, None] >> (8 * (self.first + np.arange(self.count))).astype(np.uint32) & np.uint32(0xFF)
        table = fp.decode_table("ue8m0") if kind == "ue8m0" else np.abs(fp.decode_table("e4m3"))
        return np.repeat(table[parts], k // self.count, axis=1)


COLLECTS = ("fill", "use", "lastuse", "discard")
"""What a product may do with the buffer that collects A: keep it there, use what is there, use it for the last time,
or leave nothing there, as without a word."""


@dataclass(frozen=True)
class Multiplication:
    """The static form of a `tcgen05.mma`; `factors` are those of a row of A or a column of B, 0 without scales.

    Its operands, as numbers: D, A, B, the instruction descriptor, whether D is added, the addresses of the factors of
    A and B if there are any, then the words of the lanes that stay as they are.
    """

    instruction: Instruction
    kind: str
    ctas: int
    a_in_memory: bool
    factors: int
    shift: int = 0
    collect: str = "discard"
    """What the collector does with A, one of `COLLECTS`."""

    def operation(self, M: TensorProducts, thread: np.ndarray, values: Sequence[int]) -> TensorOperation:
        """One thread's product."""
        ins = self.instruction
        d, a, b, word, adds, *rest = values
        try:
            spec = decode_instruction(word, self.kind, self.ctas, self.factors, self.a_in_memory)
            words = self.kind == "tf32"
            right = decode_shared(b, "B", spec.b_transposed, words)
            left = None if self.a_in_memory else decode_shared(a, "A", spec.a_transposed, words)
        except DescriptorError as error:
            M.fault("illegal-instruction", str(error), ins, thread)
        slots = M.tensor_slots(ins, thread, self.ctas)
        self._collect(M, thread, slots, (a, self.a_in_memory, self.kind, spec.a, spec.m, spec.k, spec.a_transposed))
        M.counters.multiplications_by_line[ins.line] += spec.m * spec.n * spec.k
        bits, rows = KINDS[self.kind].bits, spec.m // self.ctas
        lanes = self._lanes(M, thread, rows, d >> 16, "D")
        targets = [self._accumulator(M, thread, slot, rows, spec.n, d & 0xFFFF, lanes) for slot in slots]
        b_parts = [
            shared_matrix(
                M, ins, thread, slot, right, (spec.n // self.ctas, spec.k), spec.b, bits, spec.b_transposed, "B"
            )
            for slot in slots
        ]
        a_parts: list[SharedMatrix] = []
        a_cells: list[np.ndarray] = []
        for slot in slots:
            if left is not None:
                shape = (rows, spec.k)
                a_parts.append(shared_matrix(M, ins, thread, slot, left, shape, spec.a, bits, spec.a_transposed, "A"))
            else:
                a_cells.append(self._left_cells(M, thread, slot, rows, spec.k * bits // 32, a, d >> 16))
        factors = [self._scales(M, thread, slot, rows, spec, rest) for slot in slots] if self.factors else []
        disabled = self._disabled(rest[2:] if self.factors else rest)

        def finish() -> None:
            columns = np.concatenate([part.values(M) for part in b_parts]) * spec.b_sign
            for number, cells in enumerate(targets):
                if left is not None:
                    part = a_parts[number].values(M)
                else:
                    # 6- and 4-bit elements have a byte each here.
                    M._check_written(ins, thread, a_cells[number].reshape(-1))
                    part = unpack_elements(M.tensor.words[a_cells[number]], spec.a, bits == 4)
                part, mine = part * spec.a_sign, columns
                if factors:
                    for_rows, for_columns = factors[number]
                    for factor in (for_rows, for_columns):
                        M._check_written(ins, thread, factor.cells.reshape(-1))
                    part = part * for_rows.values(M, ins, thread, spec.scale, spec.k)
                    mine = mine * for_columns.values(M, ins, thread, spec.scale, spec.k)
                self._put(M, thread, spec, cells, part @ mine.T, bool(adds), disabled[number])

        reads = [x.reshape(-1) for x in a_cells]
        reads += [factor.cells.reshape(-1) for pair in factors for factor in pair]
        return TensorOperation(
            ins,
            thread,
            np.concatenate([cells.reshape(-1) for cells in targets]),
            np.concatenate(reads) if reads else np.zeros(0, dtype=np.int64),
            [part.spots() for part in (*a_parts, *b_parts)],
            (d, spec.m, spec.n, self.ctas),
            finish,
        )

    def _collect(self, M: TensorProducts, thread: np.ndarray, slots: Sequence[int], left: tuple[object, ...]) -> None:
        """Products that use A from the collector need the one there that an earlier product filled it with."""
        for slot in slots:
            if self.collect in ("use", "lastuse") and M.check_tensor and M.collected.get(slot) != left:
                held = "another one" if slot in M.collected else "none"
                text = (
                    f"A is used from the collector, which holds {held}: a product with .collector::a::fill comes first"
                )
                M.fault("tensor-memory", text, self.instruction, thread)
            if self.collect == "fill":
                M.collected[slot] = left
            elif self.collect != "use":
                M.collected.pop(slot, None)

    # -- places

    def _lanes(self, M: TensorProducts, thread: np.ndarray, rows: int, first: int, which: str) -> np.ndarray:
        """[rows] of lanes; with 64 rows of a pair, those of the first half of the columns."""
        allowed = (0, 16) if rows == 64 and self.ctas == 1 else (0,)
        if first not in allowed:
            known = " or ".join(map(str, allowed))
            text = f"the address of {which} has lane {first}; with {rows} rows it begins at {known}"
            M.fault("tensor-memory", text, self.instruction, thread)
        row = np.arange(rows)
        return 32 * (row // 16) + row % 16 + first if allowed == (0, 16) else row

    def _accumulator(
        self, M: TensorProducts, thread: np.ndarray, slot: int, rows: int, n: int, first: int, lanes: np.ndarray
    ) -> np.ndarray:
        """Cells [rows, n] of D."""
        lane, column = np.broadcast_to(lanes[:, None], (rows, n)), np.arange(n)[None, :]
        if rows == 64 and self.ctas == 2:
            lane, column = lane + 64 * (column // (n // 2)), column % (n // 2)
        return M._tensor_cells(self.instruction, thread, slot, lane, np.broadcast_to(first + column, lane.shape))

    def _left_cells(
        self, M: TensorProducts, thread: np.ndarray, slot: int, rows: int, columns: int, a: int, d_lane: int
    ) -> np.ndarray:
        """Cells [rows, columns] of A in tensor memory, which are in the lanes of D."""
        ins = self.instruction
        if rows == 64 and self.ctas == 2:
            text = "A in tensor memory with 64 rows in each CTA of a pair is not simulated"
            M.fault("illegal-instruction", text, ins, thread)
        if a >> 16 != d_lane:
            text = f"A begins at lane {a >> 16} of tensor memory and D at lane {d_lane}: they have to be the same"
            M.fault("tensor-memory", text, ins, thread)
        lanes = self._lanes(M, thread, rows, a >> 16, "A")
        column = np.broadcast_to((a & 0xFFFF) + np.arange(columns)[None, :], (rows, columns))
        return M._tensor_cells(ins, thread, slot, np.broadcast_to(lanes[:, None], column.shape), column)

    def _scales(
        self,
        M: TensorProducts,
        thread: np.ndarray,
        slot: int,
        rows: int,
        spec: InstructionDescriptor,
        addresses: Sequence[int],
    ) -> tuple[_Factors, _Factors]:
        """Factors of A's rows, and of all of B's columns: 32 lanes by a column for each 32, in every quarter."""
        found = []
        for which, outer, address, first in (
            ("A", rows, addresses[0], spec.a_scale_id),
            ("B", spec.n, addresses[1], spec.b_scale_id),
        ):
            if address >> 30 != first:
                text = (
                    f"bits 30-31 of the address of the scales of {which} are {address >> 30}, and the scale's id in "
                    f"the instruction descriptor is {first}"
                )
                M.fault("illegal-instruction", text, self.instruction, thread)
            if address >> 16 & 0x3FFF:
                text = f"the scales of {which} begin at lane {address >> 16 & 0x3FFF} of tensor memory, and not at 0"
                M.fault("tensor-memory", text, self.instruction, thread)
            number = np.arange(outer)
            lane = number % 32 + 32 * np.arange(4)[:, None]
            column = np.broadcast_to((address & 0xFFFF) + number // 32, lane.shape)
            cells = M._tensor_cells(self.instruction, thread, slot, lane, column)
            found.append(_Factors(cells, first, self.factors))
        return found[0], found[1]

    def _disabled(self, words: Sequence[int]) -> list[np.ndarray | None]:
        """For each CTA, [lane] bool of lanes that are not written; None where all are."""
        if not any(words):
            return [None] * self.ctas
        raw = np.array(words, dtype=np.uint32).view(np.uint8)
        return list(np.unpackbits(raw, bitorder="little").astype(bool).reshape(-1, TENSOR_LANES))

    # -- arithmetic

    def _put(
        self,
        M: TensorProducts,
        thread: np.ndarray,
        spec: InstructionDescriptor,
        cells: np.ndarray,
        total: np.ndarray,
        adds: bool,
        disabled: np.ndarray | None,
    ) -> None:
        """Add D if the product has to, and write the words of D."""
        store = M.tensor
        if disabled is not None:
            keep = ~disabled[cells // M.tensor.row_cells % TENSOR_LANES]
            cells, total = cells[keep], total[keep]
        if adds:
            M._check_written(self.instruction, thread, cells.reshape(-1))
            total = total + _from_words(store.words[cells], spec.d) * 2.0**-self.shift
        store.words[cells] = _to_words(total, spec)


def _from_words(words: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return (words & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "s32":
        return words.view(np.int32).astype(np.float64)
    return words.view(np.float32).astype(np.float64)


def _to_words(total: np.ndarray, spec: InstructionDescriptor) -> np.ndarray:
    if spec.d == "f16":
        return fp.canon(total.astype(np.float16)).view(np.uint16).astype(np.uint32)
    if spec.d == "s32":
        whole = total.astype(np.int64)
        return (
            np.clip(whole, -(1 << 31), (1 << 31) - 1).astype(np.uint32) if spec.saturates else whole.astype(np.uint32)
        )
    return fp.canon(total.astype(np.float32)).view(np.uint32)
