# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds data races: conflicting accesses that nothing orders.

Within a tile block only tokens order memory operations, not the order in the text; between tile blocks only a release
that an acquire reads does (Tile IR specification, section on the memory model). Both are one relation here, "happens
before", on the accesses made so far. Each access has a number within its block; a `Token` holds, for every block, the
set of accesses that happen before whatever takes the token, as the bits of an integer.

* An access with token T happens after all that T holds; its result token holds these and the access itself.
* A release leaves with each byte that it writes the set of what happens before it; an acquire that reads the byte
  adds that set to its result token.

Two accesses to one byte, at least one of them a write, race unless one happens before the other, or both are atomic
in a scope that includes both blocks. Shadow memory keeps, for each byte, the last write and the last two reads: with
more unordered readers than that a race may go unseen; none is reported that is not there.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from xdsl.ir import Operation

from libtile.interpreter.address_space import Allocation
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.location import source_location
from libtile.support.records import dataclass


class Accessing(Protocol):
    """How an op accesses memory, as far as it is asked here: `accesses.Accesses`."""

    @property
    def op(self) -> Operation: ...
    @property
    def ordering(self) -> str: ...
    @property
    def scope(self) -> str | None: ...
    @property
    def reads(self) -> bool: ...
    @property
    def writes(self) -> bool: ...


class Ordered(Protocol):
    """A tile block whose accesses are numbered: `machine.TileBlock`."""

    linear: int
    sequence: int


class Token:
    """What happens before an op that takes this token: by block, the accesses, as bits."""

    __slots__ = ("before",)

    def __init__(self, before: dict[int, int] | None = None):
        self.before = before or {}

    def __repr__(self) -> str:
        return "token"


def join(tokens: tuple[Token | None, ...]) -> Token:
    """A token that holds all that the given ones hold."""
    merged: dict[int, int] = {}
    for token in tokens:
        if token is not None:
            for block, bits in token.before.items():
                merged[block] = merged.get(block, 0) | bits
    return Token(merged)


@dataclass(frozen=True, slots=True)
class Access:
    """One memory operation of one tile block. `reach` is 0 for weak, 1 within the block, 2 the device or more."""

    block: int
    number: int
    writes: bool
    reach: int
    op: Operation

    def describe(self) -> str:
        where = source_location(self.op)
        what = "write" if self.writes else "read"
        return f"{what} by '{self.op.name}'" + (f" at {where}" if where else "")


@dataclass
class _Shadow:
    """Numbers of accesses (into the detector's list; -1 for none), one of each for every byte."""

    writer: np.ndarray
    reader: np.ndarray
    earlier_reader: np.ndarray

    @staticmethod
    def of(size: int) -> _Shadow:
        return _Shadow(*(np.full(size, -1, np.int32) for _ in range(3)))


REACH = {"tl_blk": 1, "device": 2, "sys": 2}


class RaceDetector:
    """The accesses of a launch so far."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self.released: dict[int, Token] = {}
        """By address: what happens before the last release there."""

    def access(self, how: Accessing, block: Ordered, allocation: Allocation, offsets: np.ndarray, size: int,
               token: Token | None) -> Token:  # fmt: skip
        """Record accesses of `size` bytes at byte offsets of an allocation; the op's result token.

        A fault if any of them races with an earlier one, or (for a weak write) with another element of the op.
        """
        before = token.before if token is not None else {}
        writes, ordering = how.writes, how.ordering
        reach = 0 if ordering == "weak" else REACH[how.scope or "device"]
        access = Access(block.linear, block.sequence, writes, reach, how.op)
        number = len(self.accesses)
        self.accesses.append(access)
        block.sequence += 1
        flat = np.asarray(offsets).reshape(-1)
        if writes and reach == 0:
            self._check_own_elements(allocation, offsets, size)
        spans = (flat[:, None] + np.arange(size)).reshape(-1) if size > 1 else flat
        if allocation.shadow is None:
            allocation.shadow = _Shadow.of(allocation.data.size)
        shadow: _Shadow = allocation.shadow
        self._check(access, before, allocation, spans, shadow.writer)
        if writes:
            self._check(access, before, allocation, spans, shadow.reader)
            self._check(access, before, allocation, spans, shadow.earlier_reader)
        result = dict(before)
        result[block.linear] = result.get(block.linear, 0) | (1 << access.number)
        if ordering in ("acquire", "acq_rel"):
            result = join((Token(result), *self._released_at(allocation, flat))).before
        if writes:
            self._release(allocation, flat, result, ordering, how.reads)
            shadow.writer[spans] = number
            shadow.reader[spans] = -1
            shadow.earlier_reader[spans] = -1
        else:
            shadow.earlier_reader[spans] = shadow.reader[spans]
            shadow.reader[spans] = number
        return Token(result)

    def _released_at(self, allocation: Allocation, offsets: np.ndarray) -> list[Token]:
        found = (self.released.get(allocation.base + o) for o in np.unique(offsets).tolist())
        return list({id(t): t for t in found if t is not None}.values())

    def _release(self, allocation: Allocation, offsets: np.ndarray, before: dict[int, int], ordering: str,
                 reads: bool) -> None:  # fmt: skip
        """A release leaves its token; a relaxed read-modify-write goes on with the release sequence it is in; any
        other write ends it."""
        releases = ordering in ("release", "acq_rel")
        if not releases and (reads or not self.released):
            return
        token = Token(before)
        for offset in np.unique(offsets).tolist():
            address = allocation.base + offset
            if not releases:
                self.released.pop(address, None)
            elif reads and address in self.released:
                self.released[address] = join((self.released[address], token))
            else:
                self.released[address] = token

    def _check(self, access: Access, before: dict[int, int], allocation: Allocation, spans: np.ndarray,
               shadow: np.ndarray) -> None:  # fmt: skip
        previous = shadow[spans]
        for number in np.unique(previous).tolist():
            if number < 0:
                continue
            other = self.accesses[number]
            if before.get(other.block, 0) >> other.number & 1:
                continue
            needed = 1 if other.block == access.block else 2
            if other.reach >= needed and access.reach >= needed:
                continue
            byte = int(spans[np.argmax(previous == number)])
            who = "the same tile block" if other.block == access.block else f"tile block {other.block}"
            raise Fault(
                FaultKind.RACE,
                f"byte {byte} of {allocation.owner} has an unordered {other.describe()} of {who}",
            )

    def _check_own_elements(self, allocation: Allocation, offsets: np.ndarray, size: int) -> None:
        flat = offsets.reshape(-1)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        close = np.flatnonzero(np.diff(ordered) < size)
        if close.size:
            byte = int(ordered[close[0]])
            index = tuple(int(i) for i in np.unravel_index(int(order[close[0] + 1]), offsets.shape))
            raise Fault(FaultKind.RACE, f"two elements of one store write byte {byte} of {allocation.owner}", index)
