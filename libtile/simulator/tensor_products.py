# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tensor cores do with tensor memory on their own: products, copies from shared memory, and commits.

An operation is a `Job`: it reads its operands when it completes, which is as late as somebody waits for the mbarrier of
a `tcgen05.commit`, or, with a random schedule, at any time before. Until then nobody else may use what it writes, or
write what it reads. Only a few pairs are in order without a wait (PTX ISA, "tcgen05 Memory Consistency Model"):
products of one shape on one accumulator, and copies followed by products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from libtile.support.records import dataclass, field

from .access import AccessInfo
from .async_engine import Job
from .group import ThreadGroup
from .ir import Instruction
from .limits import TENSOR_COLUMNS
from .memory import CLUSTER_SHIFT, cluster_prefix
from .tensor_memory import TensorMemory
from .tensor_order import ENGINE

_EARLY = 4  # a random schedule completes an operation early in one of so many turns


@dataclass
class TensorOperation:
    """A product or a copy in flight, with the cells and the bytes of shared memory that it uses.

    `accumulator` is equal for products that are in order, and None for a copy or shift.
    """

    instruction: Instruction
    thread: np.ndarray
    writes: np.ndarray
    reads: np.ndarray
    shared: list[np.ndarray]
    accumulator: tuple[int, ...] | None
    finish: Callable[[], None]
    columns: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        # A cheap test of what cannot overlap.
        every = np.concatenate([self.writes, self.reads]) % TENSOR_COLUMNS
        self.columns = int(every.min()), int(every.max())

    @property
    def name(self) -> str:
        return f"tcgen05.{self.does}"

    @property
    def does(self) -> str:
        """mma, cp or shift."""
        return self.instruction.modifiers[0]

    def near(self, other: TensorOperation) -> bool:
        """Whether the two may have columns in common."""
        return self.columns[0] <= other.columns[1] and other.columns[0] <= self.columns[1]


class Issues(Protocol):
    """An instruction for tensor cores, see `ops.tcgen05_mma` and `ops.tcgen05`."""

    def operation(self, M: TensorProducts, thread: np.ndarray, values: Sequence[int]) -> TensorOperation: ...


class TensorProducts(TensorMemory):
    """Operations in flight."""

    def init_tensor_products(self) -> None:
        self.tensor_operations: list[TensorOperation] = []
        self.collected: dict[int, tuple[object, ...]] = {}
        """By CTA, the left operand that its collector holds for further products."""

    def tensor_issue(
        self, call: Issues, g: ThreadGroup, operands: Sequence[np.ndarray], mask: np.ndarray | None
    ) -> None:
        """tcgen05.mma, .cp and .shift: an operation of each thread where `mask`; `operands` are [n] of each."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            operation = call.operation(self, thread, [int(x[k]) for x in operands])
            self._check_operation(operation)
            if self.tensor_order is not None:
                order, ins = self.tensor_order, operation.instruction
                order.access(ins, thread, operation.reads, ENGINE, writes=False)
                order.access(ins, thread, operation.writes, ENGINE, writes=True)
            self.tensor.writing[operation.writes] += 1
            self.tensor.reading[operation.reads] += 1
            self._hold(operation.shared)
            self.tensor_operations.append(operation)
            self.submit(Job(operation.name, operation.instruction, partial(self._complete, operation)))

    def _complete(self, operation: TensorOperation) -> None:
        operation.finish()
        self.tensor.writing[operation.writes] -= 1
        self.tensor.reading[operation.reads] -= 1
        self.tensor.written[operation.writes] = True
        self._let_go(operation.shared)
        self.tensor_operations = [other for other in self.tensor_operations if other is not operation]

    def complete_some_operations(self, rng: np.random.Generator) -> None:
        """A random schedule: now and then, the oldest work is complete before somebody needs it."""
        if self.jobs and self.jobs[0].name.startswith("tcgen05") and not int(rng.integers(_EARLY)):
            self.advance_async()

    # -- checks

    def _check_operation(self, operation: TensorOperation) -> None:
        """What is in flight already must be in order with the operation."""
        if not self.check_tensor:
            return
        ins, thread, store = operation.instruction, operation.thread, self.tensor
        clashes = (
            (operation.writes, store.writing, "writes", "writes"),
            (operation.writes, store.reading, "writes", "reads"),
            (operation.reads, store.writing, "reads", "writes"),
        )
        for cells, busy, what, verb in clashes:
            hit = cells[busy[cells] > 0]
            if not len(hit):
                continue
            for access in self.warp_accesses:
                if (access.values is None) == (verb == "reads"):
                    found = np.intersect1d(hit, access.cells)
                    if len(found):
                        self._fault_in_flight_cell(ins, thread, int(found[0]), f"{operation.name} {what}", verb)
            for other in self.tensor_operations:
                if not other.near(operation) or self._in_order(other, operation, what, verb):
                    continue
                found = np.intersect1d(hit, other.writes if verb == "writes" else other.reads)
                if len(found):
                    self._fault_in_flight_cell(ins, thread, int(found[0]), f"{operation.name} {what}", verb)

    @staticmethod
    def _in_order(first: TensorOperation, second: TensorOperation, what: str, verb: str) -> bool:
        """Whether the hardware executes two operations of this kind one after the other (PTX ISA, "Pipelined tcgen05
        Instructions")."""
        if second.does == "cp":
            if first.does == "shift":
                return "4x256b" in second.instruction.modifiers
            # A copy replaces factors that earlier products use.
            return verb == "reads" or first.does == "cp"
        if second.does == "shift" or first.does == "shift":
            return "mma" in (first.does, second.does)
        if first.does == "cp":
            return what == "reads"
        return what == verb == "writes" and first.accumulator == second.accumulator

    def _in_flight_cells(self, verb: str) -> Iterator[tuple[str, int, str, np.ndarray]]:
        yield from super()._in_flight_cells(verb)
        for operation in self.tensor_operations:
            cells = operation.writes if verb == "writes" else operation.reads
            yield operation.name, operation.instruction.line, "the mbarrier of a tcgen05.commit was waited for", cells

    def _hold(self, shared: list[np.ndarray]) -> None:
        """Bytes of shared memory are not to be written."""
        if not self.check or not self.check_tensor:
            return
        self.reads_in_flight = "tcgen05 instruction"
        for spots in shared:
            self.hold_shared(spots)

    def _let_go(self, shared: list[np.ndarray]) -> None:
        if not self.check or not self.check_tensor:
            return
        for spots in shared:
            self.let_go_shared(spots)

    # -- commit

    def tensor_commit(
        self, info: AccessInfo, g: ThreadGroup, address: np.ndarray, ctas: np.ndarray | None, mask: np.ndarray | None
    ) -> None:
        """tcgen05.commit: one arrival at an mbarrier when the thread's operations have completed.

        `ctas` are masks of the CTAs of the cluster whose mbarriers at the address get one.
        """
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            where = int(address[k]) & 0xFFFFFFFF
            places = [where]
            if ctas is not None:
                bits, inner = int(ctas[k]), where & (1 << CLUSTER_SHIFT) - 1
                if bits >> self.cluster_size:
                    text = f"CTA mask 0x{bits:x} goes beyond the cluster"
                    self.fault("illegal-instruction", text, info.instruction, thread)
                places = [inner | cluster_prefix(rank) for rank in range(self.cluster_size) if bits >> rank & 1]
            barriers = [self._each(info, np.array([place], dtype=np.uint64), thread)[0][0] for place in places]
            warp = int(thread[0]) >> 5
            clock = None
            if self.races is not None:
                clock = self.races.snapshot(warp) if self.tensor_order is None else self.tensor_order.commit(warp)

            def finish(
                barriers: list = barriers, clock: np.ndarray | None = clock, thread: np.ndarray = thread
            ) -> None:
                for barrier in barriers:
                    if self.races is not None and clock is not None:
                        self.races.publish(barrier.place >> 2, clock)
                    self.arrive_late(barrier, info.instruction, thread)

            self.submit(Job("tcgen05.commit", info.instruction, finish, signals=int(thread[0])))
