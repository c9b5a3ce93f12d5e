# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05.cp: a matrix from shared to tensor memory (PTX ISA, "tcgen05.cp").

The source has rows of 16 or 32 bytes, contiguous along them, as a descriptor says; a row is a lane, 4 bytes a column.
With 32 or 64 rows they go to several quarters of the lanes. Elements of 6 and 4 bits, of which 16 lie packed in the
first bytes of 16, can be given a byte each: in its lower 6 bits, or in bits 2 to 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from libtile.support.records import dataclass

from ..ir import Instruction
from ..tensor_descriptors import DescriptorError, decode_shared
from ..tensor_products import TensorOperation
from .tcgen05_mma import padded_codes, shared_matrix

if TYPE_CHECKING:
    from ..tensor_products import TensorProducts

SHAPES = {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16), "64x128b": (64, 16), "32x128b": (32, 16)}
"""Rows, and bytes of a row."""
MULTICASTS: dict[str, dict[str, tuple[int, ...]]] = {
    "64x128b": {"warpx2::02_13": (0, 64), "warpx2::01_23": (0, 32)},
    "32x128b": {"warpx4": (0, 32, 64, 96)},
}
"""How far the lanes of a row lie from its first one."""
PACKED = {"b6x16_p32": ("e2m3", 6, 0), "b4x16_p64": ("e2m1", 4, 2)}
"""A type of elements that lie so, their bits, and the first bit of one in its byte."""


@dataclass(frozen=True)
class TensorFill:
    """The static form of a `tcgen05.cp`. Its operands, as numbers: the address, and the descriptor of the source."""

    instruction: Instruction
    ctas: int
    shape: str
    multicast: str
    packed: str

    def operation(self, M: TensorProducts, thread: np.ndarray, values: Sequence[int]) -> TensorOperation:
        """One thread's copy."""
        ins = self.instruction
        address, word = values
        try:
            source = decode_shared(word, "the source", False)
        except DescriptorError as error:
            M.fault("illegal-instruction", str(error), ins, thread)
        rows, width = SHAPES[self.shape]
        kind, bits, first = PACKED[self.packed] if self.packed else ("u8", 8, 0)
        lane = (address >> 16) + self._lanes(rows)
        column = np.broadcast_to((address & 0xFFFF) + np.arange(width // 4), (*lane.shape, width // 4))
        slots = M.tensor_slots(ins, thread, self.ctas)
        parts = [shared_matrix(M, ins, thread, s, source, (rows, width), kind, 8, False, "the source") for s in slots]
        lanes = np.broadcast_to(lane[..., None], column.shape)
        targets = [M._tensor_cells(ins, thread, slot, lanes, column) for slot in slots]

        def finish() -> None:
            for part, cells in zip(parts, targets, strict=True):
                raw = M.shared_arena.data[part.offsets]
                if self.packed:
                    raw = (padded_codes(raw, bits) << first).astype(np.uint8).reshape(rows, width)
                M.tensor.words[cells] = np.ascontiguousarray(raw).view("<u4")

        written = np.concatenate([cells.reshape(-1) for cells in targets])
        none = np.zeros(0, dtype=np.int64)
        return TensorOperation(ins, thread, written, none, [part.spots() for part in parts], None, finish)

    def _lanes(self, rows: int) -> np.ndarray:
        """[copies, rows]."""
        row = np.arange(rows)
        if not self.multicast:
            return row[None, :]
        # Rows 32 and up are in the next quarters that rows 0 and up leave free.
        upper = 64 if self.multicast == "warpx2::01_23" else 32
        first = np.where(row < 32, row, row - 32 + upper)
        return first[None, :] + np.array(MULTICASTS[self.shape][self.multicast])[:, None]
