# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by wgmma whose left operand threads read from a stage to registers, one slice along k after the other: those
of types of which operands in shared memory are contiguous along k alone, where it is contiguous along its rows.

    first step            wait for tiles; read a slice, issue its products, ...
    each further step     wait for tiles; read a slice, issue its products, wait for all but the last ones; ...
                          release the tiles of the step before when all of its products have ended
    behind the last       wait for its products; release its tiles

Registers of slices stay as they are while products read them: there are three slices, of which two are multiplied while
one is read, or two in a short step. A step has more slices than are multiplied at once, so that each one has the same
registers in every step: nothing is copied that products still read. A right operand that lies so is the left one of the
product's transpose (`read_to_registers`, `product_forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Block, SSAValue

from libtile.atoms import wgmma
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileas.async_products import WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import ConsumerReleaseOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.ir.tile_form import element_of, shape_of
from libtile.layouts import REGISTER
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import number_type
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.warp_steps import Ends, WarpSteps, counted
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass

UNDER_WAY = 2
"""Slices that are multiplied while another one is read, at most."""
INSTRUCTIONS = 2
"""Of an accumulator, that multiply a slice, at most."""

IssueSlice = Callable[[Inserter, SSAValue, SSAValue, SSAValue, int], SSAValue]
"""Issues the products of a slice of A, and of B's rows from one on, added to a sum; the sum that is under way."""


@dataclass(frozen=True)
class RegisterSlices:
    """The slices of a step's left operand."""

    type: TensorType
    """Of a slice."""
    count: int
    """In a step."""
    under_way: int
    """How many are multiplied while another one is read."""

    @staticmethod
    def of(product: DotOp, atom: MmaAtomAttr, warps: int, free: int) -> RegisterSlices | None:
        """Those of a product whose rows lie in pairs, for threads that read its left operand so, with as many registers
        as are free if that can be; None for another product. Unfit where its steps have too few of them."""
        depth = shape_of(product.a.type)[1]
        try:
            sums = wgmma.accumulator_layout(shape_of(product.c.type), warps)
        except ValueError:
            return None
        if not wgmma.lies_in_pairs(layout_of(product.c), sums):
            return None
        least = atom.instruction.k
        if depth < 2 * least:
            raise Unfit(f"a step of {depth} is no two slices, of which one is read while the other is multiplied")
        each = min(least * INSTRUCTIONS, max(depth // (2 * UNDER_WAY), least))
        found = _slices_of(product, each, atom, warps)
        while found.registers > free and each > least:
            each //= 2
            found = _slices_of(product, each, atom, warps)
        return found

    @property
    def depth(self) -> int:
        return shape_of(self.type)[1]

    @property
    def registers(self) -> int:
        """Of a thread, for the slices that live at once."""
        layout = self.type.encoding
        assert isinstance(layout, LayoutAttr)
        return (self.under_way + 1) * layout.layout.in_size(REGISTER)


def _slices_of(product: DotOp, each: int, atom: MmaAtomAttr, warps: int) -> RegisterSlices:
    """Slices of such a depth each."""
    rows, depth = shape_of(product.a.type)
    layout = wgmma.in_pairs(wgmma.a_layout((rows, each), warps, 256 // atom.instruction.k))
    type_ = TensorType(element_of(product.a.type), (rows, each), LayoutAttr(layout))
    return RegisterSlices(type_, depth // each, min(UNDER_WAY, depth // each - 1))


@dataclass(frozen=True)
class SlicedSteps:
    """The steps of a loop with one product, slice by slice."""

    steps: WarpSteps
    slices: RegisterSlices
    issue: IssueSlice

    def run(self, at: Inserter, count: SSAValue, start: SSAValue | None = None) -> Ends:
        """The sum behind so many steps, and the place behind them; they begin at the first stage, or at `start`."""
        steps, feed = self.steps, self.steps.feeds.read
        (number,) = steps.sums
        initial = steps.loop.iter_args[number]
        block = Block()
        inner = Inserter(block, None, steps.loop.location)
        first = feed.start(inner) if start is None else start
        token, made = feed.read(inner, first, lambda at, tiles: self._step(at, tiles, initial, [], None))

        def parts(each: Inserter, given: Sequence[SSAValue], first: int) -> Sequence[SSAValue]:
            for part in range(first, feed.parts):
                place, held, *before = given
                own, issued = feed.read(each, place, partial(self._behind, before, held))
                given = [feed.next(each, place, part), own, *issued]
            return given

        begun = parts(inner, [feed.next(inner, first, 0), token, *made], 1)
        rest = counted(inner, steps.loop, 1, count, begun, lambda each, given: parts(each, given, 0))
        end = self._wait(inner, rest[2], rest[3:], 0)
        inner.add(ConsumerReleaseOp.make(rest[1]))
        following = [] if start is None else [rest[0]]
        inner.add(scf.YieldOp(end, *following))
        nothing = Block()
        nothing.add_op(scf.YieldOp(initial, *([] if start is None else [start])))
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(steps.loop))))
        some = at.value(arith.CmpiOp(count, zero, "ne"))
        results = at.add(scf.IfOp(some, [v.type for v in (initial, *following)], [block], [nothing])).results
        return [results[0]], results[-1] if following else None

    def _behind(
        self, before: Sequence[SSAValue], held: SSAValue, at: Inserter, tiles: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """`_step` behind the sum and the slices of another one."""
        return self._step(at, tiles, before[0], before[1:], held)

    def _step(
        self, at: Inserter, tiles: Sequence[SSAValue], sum_: SSAValue, before: Sequence[SSAValue],
        held: SSAValue | None,
    ) -> list[SSAValue]:  # fmt: skip
        """The products of the tiles of a step, or of a part of one, behind those of the slices `before` that are under
        way, with which the tiles are released that are `held` from then: the sum, and the slices that are under way
        behind it."""
        a, b = tiles
        slices = list(before)
        for n in range(self.slices.count // self.steps.feeds.read.parts):
            first = n * self.slices.depth
            corner = DenseArrayBase.from_list(i64, [0, first])
            slices.append(at.value(CopyOp.make(a, results=[self.slices.type], offsets=corner)))
            sum_ = self.issue(at, slices[-1], b, sum_, first)
            if len(slices) > self.slices.under_way:
                sum_ = self._wait(at, sum_, slices, self.slices.under_way)
                slices.pop(0)
            if held is not None and n == self.slices.under_way - 1:
                at.add(ConsumerReleaseOp.make(held))
        return [sum_, *slices]

    @staticmethod
    def _wait(at: Inserter, sum_: SSAValue, slices: Sequence[SSAValue], pending: int) -> SSAValue:
        waited = WaitDotOp.make([sum_], list(slices), results=[[sum_.type]], pending=pending)
        return at.add(waited).results[0]
