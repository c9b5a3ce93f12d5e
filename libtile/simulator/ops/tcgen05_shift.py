# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05.shift: rows of a warp's lanes move down by one (PTX ISA, "tcgen05.shift"; its shape is .31x256b).

32 bytes of each of 31 lanes, from one of 0, 32, 64 and 96 on, go to the lane behind; the first of the 32 keeps what it
has, and what the last one had is gone. `tcgen05.cp.4x256b` may put new rows behind it without a wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from libtile.support.records import dataclass

from ..ir import Instruction
from ..tensor_memory import WARP_LANES
from ..tensor_products import TensorOperation

if TYPE_CHECKING:
    from ..tensor_products import TensorProducts

COLUMNS = 8


@dataclass(frozen=True)
class TensorShift:
    """The static form of a `tcgen05.shift`. Its operand, as a number, is the address."""

    instruction: Instruction
    ctas: int

    def operation(self, M: TensorProducts, thread: np.ndarray, values: Sequence[int]) -> TensorOperation:
        """One thread's shift."""
        ins, (address,) = self.instruction, values
        first, column = address >> 16, address & 0xFFFF
        if first % WARP_LANES:
            text = f"the address of what is shifted has lane {first}, which is no multiple of {WARP_LANES}"
            M.fault("tensor-memory", text, ins, thread)
        lanes, columns = np.broadcast_arrays(first + np.arange(WARP_LANES)[:, None], column + np.arange(COLUMNS))
        found = [M._tensor_cells(ins, thread, slot, lanes, columns) for slot in M.tensor_slots(ins, thread, self.ctas)]
        sources = np.concatenate([cells[:-1].reshape(-1) for cells in found])
        targets = np.concatenate([cells[1:].reshape(-1) for cells in found])

        def finish() -> None:
            M._check_written(ins, thread, sources)
            M.tensor.words[targets] = M.tensor.words[sources]

        return TensorOperation(ins, thread, targets, sources, [], None, finish)
