# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma products in flight: when they are computed, and what a program may not touch until it has waited for them.

A product reads shared memory, the registers of A and the accumulators when it completes: at the `wgmma.wait_group`
that covers it, or, with a random schedule, at any time between issue and wait. Until the wait (PTX ISA,
"wgmma.wait_group") its registers may only be used by products, and its bytes of shared memory are not to be written.
`wgmma.fence` has to stand between any other access of a register and a product that uses it ("wgmma.fence").
Groups and waits are those of each warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from libtile.support.records import dataclass, field

from .access import AccessInfo
from .group import ThreadGroup
from .ir import Instruction
from .state import Frame
from .tensor_copy import TensorCopies

_EARLY = 8  # a random schedule completes products early in one of so many turns


class ProductRegisters:
    """What products do with the registers of one frame; each array is [register, warp]."""

    def __init__(self, frame: Frame, warps: int) -> None:
        registers = sorted(frame.code.product_registers)
        self.row = {register: row for row, register in enumerate(registers)}
        self.names = [frame.code.function.registers[register].name for register in registers]
        shape = (len(registers), warps)
        # Products in flight that accumulate in the register, or read A from it.
        self.accumulating = np.zeros(shape, dtype=np.int32)
        self.reading = np.zeros(shape, dtype=np.int32)
        # PTX line of the last ordinary access since the last wgmma.fence, or 0.
        self.accessed = np.zeros(shape, dtype=np.int64)
        # n and types of the last product that accumulated in it since the last wgmma.fence, hashed, or 0.
        self.shape = np.zeros(shape, dtype=np.int64)

    def rows(self, registers: Sequence[int]) -> np.ndarray:
        return np.array([self.row[register] for register in registers], dtype=np.int64)


class Multiply(Protocol):
    """The arithmetic of one wgmma.mma_async, see `ops.wgmma.Wgmma`."""

    info: AccessInfo
    accumulators: tuple[int, ...]
    a_registers: tuple[int, ...]
    shape: int

    def operands(self, M: Any, g: ThreadGroup, a: np.ndarray | None, b: np.ndarray) -> list[Operand]: ...

    def compute(
        self, M: Any, g: ThreadGroup, operands: list[Operand], rows: np.ndarray, scale: np.ndarray
    ) -> list[np.ndarray]: ...


@dataclass
class Operand:
    """A matrix in shared memory: for each different descriptor, offsets of its elements in the arena.

    `which` [warps] names the one of each warp; `left` is how many warps still use each.
    """

    code: str
    offsets: list[np.ndarray]
    which: np.ndarray
    left: np.ndarray

    def bytes_of(self, number: int) -> np.ndarray:
        size = int(self.code[1])
        spots = self.offsets[number].reshape(-1, 1) + np.arange(size)
        return spots.reshape(-1)


@dataclass
class InFlight:
    """What some warps issued together and has not completed; arrays have an element per warp."""

    frame: Frame
    depth: int
    warps: np.ndarray
    threads: np.ndarray
    group: np.ndarray
    computed: np.ndarray = field(init=False)
    waited: np.ndarray = field(init=False)
    left: int = field(init=False)
    """How many warps it is not computed for."""

    def __post_init__(self) -> None:
        self.computed = np.zeros(len(self.warps), dtype=bool)
        self.left = len(self.warps)
        self.waited = np.zeros(len(self.warps), dtype=bool)


@dataclass
class Product(InFlight):
    """A wgmma.mma_async."""

    call: Multiply
    operands: list[Operand]
    scale: np.ndarray

    @property
    def targets(self) -> tuple[int, ...]:
        return self.call.accumulators

    @property
    def sources(self) -> tuple[int, ...]:
        return self.call.a_registers

    @property
    def line(self) -> int:
        return self.call.info.instruction.line


@dataclass
class Copy(InFlight):
    """A mov from a register in flight: it takes the value when that has arrived."""

    target: int
    source: int
    line: int

    @property
    def targets(self) -> tuple[int, ...]:
        return (self.target,)

    @property
    def sources(self) -> tuple[int, ...]:
        return ()


class Products(TensorCopies):
    """Products in flight."""

    def init_products(self) -> None:
        warps = self.thread_count // 32
        self.products: list[Product | Copy] = []
        self.product_group = np.zeros(warps, dtype=np.int64)
        self.product_fenced = np.zeros(warps, dtype=bool)
        self.product_registers: list[ProductRegisters] = []
        self.check_products = "wgmma" in self.checks

    # -- issue

    def multiply_async(
        self, call: Multiply, g: ThreadGroup, a: np.ndarray | None, b: np.ndarray, scale: np.ndarray
    ) -> None:
        """wgmma.mma_async: check its operands as they are now, and compute later."""
        warps = g.warps.copy()
        if self.check_products:
            self._check_issue(call, g, warps)
        operands = call.operands(self, g, a, b)
        group = self.product_group[warps].copy()
        product = Product(g.frame, g.depth, warps, g.threads.copy(), group, call, operands, scale)
        self.products.append(product)
        if not self.check_products:
            return
        state = self._product_registers(g.frame)
        state.accumulating[state.rows(call.accumulators)[:, None], warps] += 1
        state.reading[state.rows(call.a_registers)[:, None], warps] += 1
        state.shape[state.rows(call.accumulators)[:, None], warps] = call.shape
        if self.check:
            for operand in operands:
                for number in range(len(operand.offsets)):
                    self.hold_shared(operand.bytes_of(number))

    def _product_registers(self, frame: Frame) -> ProductRegisters:
        if frame.products is None:
            frame.products = ProductRegisters(frame, self.thread_count // 32)
            self.product_registers.append(frame.products)
        return frame.products

    def _check_issue(self, call: Multiply, g: ThreadGroup, warps: np.ndarray) -> None:
        """Registers of a product: fenced, and in no other product in another role."""
        ins = call.info.instruction
        if not self.product_fenced[warps].all():
            text = "the warp has executed no wgmma.fence before this first wgmma.mma_async"
            self._fault_warps("wgmma-fence", text, ins, g, warps[~self.product_fenced[warps]])
        state = self._product_registers(g.frame)
        accumulators, left = state.rows(call.accumulators), state.rows(call.a_registers)
        for role, rows, busy in (
            ("accumulates in", accumulators, state.reading),
            ("reads A from", left, state.accumulating),
        ):
            clash = busy[rows[:, None], warps] > 0
            if clash.any():
                self._fault_in_flight(ins, state, rows, clash, g, warps, f"the product {role}")
        rows = np.concatenate([accumulators, left])
        lines = state.accessed[rows[:, None], warps]
        if lines.any():
            row, column = (int(x[0]) for x in np.nonzero(lines))
            text = (
                f"no wgmma.fence lies between this product and the access of its register "
                f"{state.names[rows[row]]} at PTX line {int(lines[row, column])}"
            )
            self._fault_warps("wgmma-fence", text, ins, g, warps[lines.any(axis=0)])
        shapes = state.shape[accumulators[:, None], warps]
        other = (shapes != 0) & (shapes != call.shape)
        if other.any():
            row = int(np.nonzero(other)[0][0])
            text = (
                f"no wgmma.fence lies between this product and one of another shape that accumulates in "
                f"{state.names[accumulators[row]]}"
            )
            self._fault_warps("wgmma-fence", text, ins, g, warps[other.any(axis=0)])

    def _fault_warps(self, kind: str, text: str, ins: Instruction, g: ThreadGroup, warps: np.ndarray) -> NoReturn:
        self.fault(kind, text, ins, g.threads[np.isin(g.threads >> 5, warps)])

    def _fault_in_flight(
        self,
        ins: Instruction,
        state: ProductRegisters,
        rows: np.ndarray,
        clash: np.ndarray,
        g: ThreadGroup,
        warps: np.ndarray,
        what: str,
    ) -> NoReturn:
        """`clash` [rows, warps] tells registers that a product in flight uses: say which product."""
        row, column = (int(x[0]) for x in np.nonzero(clash))
        register, warp = int(rows[row]), int(warps[column])
        for product in self.products:
            at = np.flatnonzero((product.warps == warp) & ~product.waited)
            used = {state.row[r] for r in (*product.targets, *product.sources)}
            if product.frame.products is state and len(at) and register in used:
                role = "an accumulator" if register in state.rows(product.targets) else "part of A"
                text = (
                    f"{what} {state.names[register]}, {role} of the wgmma.mma_async at PTX line "
                    f"{product.line} that no wgmma.wait_group has waited for"
                )
                self._fault_warps("async", text, ins, g, warps[clash.any(axis=0)])
        raise AssertionError("a register in flight belongs to a product")

    # -- registers and fences

    def touch_products(
        self, ins: Instruction, registers: Sequence[int], g: ThreadGroup, mask: np.ndarray | None, access: bool = True
    ) -> None:
        """An ordinary instruction reads or writes registers that some wgmma of the function uses.

        Without `access` it only gives them a constant, which ptxas puts in place where the product wants it.
        """
        if not self.check_products:
            return
        state = self._product_registers(g.frame)
        warps = g.warps if mask is None else np.unique(g.threads[mask] >> 5)
        if not len(warps):
            return
        rows = state.rows(registers)
        if self.products:
            at = rows[:, None], warps
            clash = (state.accumulating[at] > 0) | (state.reading[at] > 0)
            if clash.any():
                self._fault_in_flight(ins, state, rows, clash, g, warps, "the instruction uses")
        for row in rows.tolist():
            state.accessed[row, warps] = ins.line if access else 0
            state.shape[row, warps] = 0

    def copy_products(
        self, ins: Instruction, target: int, source: int, g: ThreadGroup, value: np.ndarray, old: np.ndarray
    ) -> np.ndarray:
        """A plain mov between registers of products; returns what the target holds now.

        It is a new name for a value, for ptxas as for NVIDIA's compiler, which copies accumulators in flight: no access
        by itself, and the copy is in flight as long as its source is.
        """
        if not self.check_products and not self.products:
            return value
        state = self._product_registers(g.frame)
        to, of = state.row[target], state.row[source]
        warps = g.warps
        if not self.products:
            state.accessed[to, warps] = state.accessed[of, warps]
            state.shape[to, warps] = state.shape[of, warps]
            return value
        group, line = self._in_flight(g.frame, source, warps)
        late = group >= 0
        rest = warps[~late]
        if self.check_products:
            clash = np.zeros((1, len(warps)), dtype=bool)
            clash[0] = (state.reading[to, warps] > 0) | (~late & (state.accumulating[to, warps] > 0))
            if clash.any():
                self._fault_in_flight(ins, state, np.array([to]), clash, g, warps, "the instruction writes")
            state.accumulating[to, warps[late]] += 1
            state.accessed[to, warps] = state.accessed[of, warps]
            state.shape[to, warps] = state.shape[of, warps]
        if not late.any():
            return value
        mine = np.isin(g.threads >> 5, warps[late])
        self.products.append(Copy(g.frame, g.depth, warps[late], g.threads[mine], group[late], target, source, line))
        return value if not mine.any() else np.where(mine, old, value) if len(rest) else old

    def _in_flight(self, frame: Frame, register: int, warps: np.ndarray) -> tuple[np.ndarray, int]:
        """For each warp, the group whose end gives the register its value, or -1; and the PTX line of a product."""
        group, line = np.full(len(warps), -1, dtype=np.int64), 0
        for product in reversed(self.products):
            if product.frame is frame and register in product.targets:
                for at in np.flatnonzero(~product.waited).tolist():
                    here = (warps == product.warps[at]) & (group < 0)
                    group[here] = product.group[at]
                    line = product.line if here.any() else line
        return group, line

    def fence_products(self, g: ThreadGroup) -> None:
        """wgmma.fence: earlier accesses of registers are ordered with later products."""
        self.product_fenced[g.warps] = True
        for state in self.product_registers:
            state.accessed[:, g.warps] = 0
            state.shape[:, g.warps] = 0

    # -- completion

    def commit_products(self, g: ThreadGroup) -> None:
        """wgmma.commit_group: what was issued and not committed is a group."""
        self.product_group[g.warps] += 1

    def wait_products(self, g: ThreadGroup, keep: int) -> None:
        """wgmma.wait_group: complete the warps' groups but the newest `keep`."""
        if not self.products:
            return
        limit = np.full(self.thread_count // 32, -1, dtype=np.int64)
        limit[g.warps] = self.product_group[g.warps] - keep
        for product in self.products:
            ready = ~product.waited & (product.group < limit[product.warps])
            if ready.any():
                self._compute(product, ready & ~product.computed)
                product.waited |= ready
                self._release(product, ready)
        self.products = [product for product in self.products if not product.waited.all()]

    def complete_some_products(self, rng: np.random.Generator) -> None:
        """A random schedule: now and then, some warp's oldest products are computed before they are waited for."""
        if not self.products or int(rng.integers(_EARLY)):
            return
        unfinished = [product for product in self.products if product.left]
        if not unfinished:
            return
        open_warps = np.unique(np.concatenate([p.warps[~p.computed] for p in unfinished]))
        warp = int(open_warps[rng.integers(len(open_warps))])
        mine = [p for p in unfinished if ((p.warps == warp) & ~p.computed).any()]
        for product in mine[: 1 + int(rng.integers(len(mine)))]:
            self._compute(product, (product.warps == warp) & ~product.computed)

    def _compute(self, product: Product | Copy, chosen: np.ndarray) -> None:
        """Compute a product, or make a copy, for the warps `chosen`, from what its operands hold now."""
        if not chosen.any():
            return
        rows = np.flatnonzero(chosen)
        threads = product.threads[np.isin(product.threads >> 5, product.warps[rows])]
        product.computed[rows] = True
        product.left -= len(rows)
        if isinstance(product, Copy):
            source = product.frame.registers[product.source].view(np.uint32)
            _write(product.frame, product.target, threads, source[threads])
            return
        whole = len(threads) == self.thread_count
        g = ThreadGroup(self, None if whole else threads, product.frame, product.depth)
        results = product.call.compute(self, g, product.operands, rows, product.scale[rows])
        for register, values in zip(product.call.accumulators, results, strict=True):
            _write(product.frame, register, threads, values.view(np.uint32))

    def _release(self, product: Product | Copy, ready: np.ndarray) -> None:
        """The program has waited: registers and bytes may be used again."""
        if not self.check_products:
            return
        state = self._product_registers(product.frame)
        warps = product.warps[ready]
        state.accumulating[state.rows(product.targets)[:, None], warps] -= 1
        state.reading[state.rows(product.sources)[:, None], warps] -= 1
        if not self.check or isinstance(product, Copy):
            return
        for operand in product.operands:
            for number, count in zip(*np.unique(operand.which[ready], return_counts=True), strict=True):
                operand.left[number] -= count
                if operand.left[number] == 0:
                    self.let_go_shared(operand.bytes_of(int(number)))


def _write(frame: Frame, register: int, threads: np.ndarray, bits: np.ndarray) -> None:
    """Write a register of some threads. What other registers got from it by a mov is the same array, and stays."""
    held = frame.registers[register].copy()
    held.view(np.uint32)[threads] = bits
    frame.registers[register] = held
