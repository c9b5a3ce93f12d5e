# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors of the PTX simulator.

Three things can go wrong and each has a type: the text is not PTX that the simulator takes (`PtxError`), the kernel did
something wrong while it ran (`SimulationFault`), or the launch itself makes no sense (`LaunchError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libtile.support.errors import LibtileError, visible


class SimulatorError(LibtileError):
    """Base of every error that this package raises on purpose."""


class LaunchError(SimulatorError):
    """The launch is wrong: unknown entry, wrong number or kind of arguments, block too large."""


class PtxError(SimulatorError):
    """PTX text that cannot be parsed or compiled.

    Attributes: `message`, `line` and `column` (1-based), `text` (the instruction or source line), `filename`.
    """

    def __init__(self, message: str, line: int, column: int = 1, text: str = "", filename: str = "<ptx>") -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text.strip()
        self.filename = filename
        shown = f" in `{self.text}`" if self.text else ""
        super().__init__(visible(f"{filename}:{line}:{column}: error: {message}{shown}"))


class SimulationFault(SimulatorError):
    """What a running kernel did wrong, and where.

    `kind` is a short fixed word: out-of-bounds, misaligned, null-access, freed-access, uninitialized, read-only, race,
    divergent-barrier, divergent-instruction, membermask, deadlock, assert, trap, illegal-instruction, stack-overflow,
    instruction-limit, output-limit, proxy-fence, wgmma-fence, mbarrier-init, mbarrier-object, async, tcgen05-fence,
    tensor-memory. `ctaid` is (x, y, z); `lanes` are lane numbers within `warp`; `line` is the PTX line; `source` is
    (file, line) from `.loc`, or None; `inlined_at` is the line of the call when that code was inlined. `output` is what
    the kernel had printed by then; its last line, which says what an assertion was about, stands in the message of a
    trap.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        ctaid: tuple[int, int, int] | None = None,
        warp: int | None = None,
        lanes: Sequence[int] = (),
        line: int | None = None,
        source: tuple[str, int] | None = None,
        inlined_at: tuple[str, int] | None = None,
        instruction: str = "",
    ) -> None:
        self.kind = kind
        self.message = message
        self.ctaid = ctaid
        self.warp = warp
        self.lanes = list(lanes)
        self.line = line
        self.source = source
        self.inlined_at = inlined_at
        self.instruction = instruction
        self.output = ""
        super().__init__(self._format())

    def _format(self) -> str:
        where = []
        if self.ctaid is not None:
            where.append("CTA ({},{},{})".format(*self.ctaid))
        if self.warp is not None:
            where.append(f"warp {self.warp}")
        if self.lanes:
            where.append(("lane " if len(self.lanes) == 1 else "lanes ") + format_lanes(self.lanes))
        if self.line is not None:
            where.append(f"PTX line {self.line}")
        if self.source is not None:
            where.append(f"source {self.source[0]}:{self.source[1]}")
        if self.inlined_at is not None:
            where.append(f"inlined at {self.inlined_at[0]}:{self.inlined_at[1]}")
        text = f"{self.kind}: {self.message}"
        if where:
            text += " [" + ", ".join(where) + "]"
        if self.instruction:
            text += f" in `{self.instruction}`"
        last = self.output.rstrip("\n").rpartition("\n")[2]
        if self.kind == "trap" and last:
            text += f"; it printed: {last}"
        return visible(text)

    def printed(self, output: str) -> None:
        """Take what the kernel had printed up to the fault."""
        self.output = output
        self.args = (self._format(),)

    def __reduce__(self) -> tuple:
        # Faults cross process boundaries when CTAs run in parallel processes.
        fields = dict(vars(self))
        return _rebuild_fault, (fields.pop("kind"), fields.pop("message"), fields)


def _rebuild_fault(kind: str, message: str, fields: dict[str, Any]) -> SimulationFault:
    output = fields.pop("output")
    fault = SimulationFault(kind, message, **fields)
    fault.printed(output)
    return fault


def format_lanes(lanes: Sequence[int]) -> str:
    """Lane numbers as compact ranges: [0, 1, 2, 5] -> '0-2,5'."""
    parts: list[str] = []
    ordered = sorted({int(lane) for lane in lanes})
    start = 0
    for i, lane in enumerate(ordered):
        if i + 1 < len(ordered) and ordered[i + 1] == lane + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == lane else f"{first}-{lane}")
        start = i + 1
    return ",".join(parts)
