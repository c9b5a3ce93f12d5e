# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run did: instructions by kind, memory traffic, bank conflicts, barriers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from libtile.support.records import dataclass, field

from .ir import Instruction

SECTOR = 32
"""Bytes of a sector, of which caches fetch and store whole ones."""


class Footprint:
    """The sectors of global memory that are `read` and `written`, as arrays of bool."""

    def __init__(self, size: int) -> None:
        self.read = np.zeros(size // SECTOR + 1, bool)
        self.written = np.zeros_like(self.read)

    def update(self, other: Footprint) -> None:
        """Add the sectors of another part of the same launch."""
        self.read |= other.read
        self.written |= other.written


@dataclass
class Counters:
    """Totals of a launch. Memory numbers are only gathered with the check "counters", one of "full".

    `instructions` counts executed warp instructions by full name. A global request is one instruction of one warp; its
    sectors are the distinct 32-byte pieces that it touches; its bytes are those that its threads ask for, also where
    several ask for the same. Bulk copies are counted as bytes only. A shared wavefront is one pass over the 32 banks of
    4 bytes; `bank_conflicts` counts the passes beyond those that the access width makes necessary.

    Traffic is what goes between the SMs and the L2 cache, in bytes: whole sectors of threads' accesses, and bulk copies
    as they are; `footprint` has the sectors, each once. `warps_by_line` counts how often warps executed a line,
    `multiplications_by_line` the scalar products of tcgen05's instructions, whose shapes are not in their names. `ctas`
    are those that ran. Lines are those of the PTX.
    """

    instructions: Counter[str] = field(default_factory=Counter)
    warp_instructions: int = 0
    thread_instructions: int = 0
    global_requests: int = 0
    global_sectors: int = 0
    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_requests: int = 0
    shared_wavefronts: int = 0
    bank_conflicts: int = 0
    conflicts_by_line: Counter[int] = field(default_factory=Counter)
    sectors_by_line: Counter[int] = field(default_factory=Counter)
    requests_by_line: Counter[int] = field(default_factory=Counter)
    traffic: int = 0
    traffic_by_line: Counter[int] = field(default_factory=Counter)
    wavefronts_by_line: Counter[int] = field(default_factory=Counter)
    warps_by_line: Counter[int] = field(default_factory=Counter)
    multiplications_by_line: Counter[int] = field(default_factory=Counter)
    footprint: Footprint | None = None
    barriers: int = 0
    ctas: int = 0

    def add(self, other: Counters) -> None:
        """Add the counts of another part of the same launch."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Counter | Footprint):
                mine.update(value)
            elif value is None or mine is None:
                setattr(self, name, value if mine is None else mine)
            else:
                setattr(self, name, mine + value)

    def global_access(self, offsets: np.ndarray, size: int, threads: np.ndarray, ins: Instruction) -> int:
        """Count requests and 32-byte sectors of one global access of a group; gives the sectors."""
        warp = threads >> 5
        first = (offsets >> 5) + (warp << 40)
        if size > 1 and int(((offsets & 31) + size).max()) > 32:
            pieces = [first + k for k in range((size + 31) // 32)]
            first = np.concatenate(pieces)
        ordered = np.sort(first)
        sectors = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
        requests = 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))
        self.global_sectors += sectors
        self.global_requests += requests
        self.sectors_by_line[ins.line] += sectors
        self.requests_by_line[ins.line] += requests
        return sectors

    def moved(self, line: int, offsets: np.ndarray, size: int, reading: bool, writing: bool) -> None:
        """Count bytes between SMs and L2 that an instruction of the PTX moves from or to some offsets."""
        self.traffic += size * (reading + writing)
        self.traffic_by_line[line] += size * (reading + writing)
        if self.footprint is not None:
            if reading:
                self.footprint.read[offsets // SECTOR] = True
            if writing:
                self.footprint.written[offsets // SECTOR] = True

    def global_bytes(self, size: int, reading: bool, writing: bool) -> None:
        """Count bytes of global memory that threads or a copy engine read, write, or both."""
        self.global_bytes_read += size * reading
        self.global_bytes_written += size * writing

    def shared(self, offsets: np.ndarray, size: int, threads: np.ndarray, ins: Instruction) -> None:
        """Count bank conflicts of one shared access.

        Words of the same address broadcast. 8-byte accesses go in half warps and 16-byte ones in quarter warps, as a
        warp's access that covers every bank once more per phase needs a pass per phase anyway.
        """
        warp = threads >> 5
        lanes = threads & 31
        phases = max(1, size // 4)
        phase = lanes // (32 // phases) if phases > 1 else 0
        part = warp * 8 + phase
        words = offsets >> 2
        if phases > 1:
            words = (words[:, None] + np.arange(phases)).ravel()
            part = np.repeat(part, phases)
        ordered = np.sort(words + (part << 32))
        keep = np.empty(len(ordered), dtype=bool)
        keep[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
        unique = ordered[keep]
        slots = (unique >> 32) * 32 + (unique & 31)
        first, last = int(unique[0]) >> 32, int(unique[-1]) >> 32
        depth = np.bincount(slots - first * 32, minlength=(last - first + 1) * 32)
        worst = depth.reshape(-1, 32).max(axis=1)
        wavefronts = int(worst.sum())
        conflicts = wavefronts - int(np.count_nonzero(worst))
        self.shared_requests += 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))
        self.shared_wavefronts += wavefronts
        self.wavefronts_by_line[ins.line] += wavefronts
        if conflicts:
            self.bank_conflicts += conflicts
            self.conflicts_by_line[ins.line] += conflicts

    def summary(self, top: int = 12) -> str:
        """A table for people."""
        lines = [
            f"CTAs                     {self.ctas:>14,}",
            f"warp instructions        {self.warp_instructions:>14,}",
            f"thread instructions      {self.thread_instructions:>14,}",
        ]
        if self.warp_instructions:
            share = self.thread_instructions / (32 * self.warp_instructions)
            lines.append(f"active lanes per warp    {32 * share:>14.1f}")
        lines.append(f"barriers                 {self.barriers:>14,}")
        if self.global_requests:
            lines += [
                f"global requests          {self.global_requests:>14,}",
                f"global sectors           {self.global_sectors:>14,}",
                f"  sectors per request    {self.global_sectors / self.global_requests:>14.2f}",
            ]
        if self.shared_requests:
            lines += [
                f"shared requests          {self.shared_requests:>14,}",
                f"shared wavefronts        {self.shared_wavefronts:>14,}",
                f"  bank conflicts         {self.bank_conflicts:>14,}",
            ]
        for line, count in self.conflicts_by_line.most_common(5):
            lines.append(f"    PTX line {line:<6}      {count:>14,} conflicts")
        lines.append("instructions")
        for name, count in self.instructions.most_common(top):
            lines.append(f"  {name:<32} {count:>14,}")
        rest = len(self.instructions) - top
        if rest > 0:
            lines.append(f"  ... and {rest} more kinds")
        return "\n".join(lines)
