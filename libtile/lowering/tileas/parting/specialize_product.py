# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loop with one product, parted into a producer that copies its operands and consumers that multiply them.

What fits is decided by looking at the loop (`ProductLoop`); then the agents are made: the consumers' steps, and the
loop once more for the producer, with copies in place of products. See `specialize`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Block, SSAValue

from libtile.atoms import tcgen05, wgmma
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.functions import FuncOp, GetCtaRankOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import (
    PipelineYieldOp,
)
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import ClusterBarrierOp
from libtile.dialects.nv_tileas.types import (
    BufferType,
)
from libtile.ir.tile_form import shape_of
from libtile.lowering.clusters import CTAS, is_same_in_cluster
from libtile.lowering.hints import CLUSTER
from libtile.lowering.tileas.agents import promoted
from libtile.lowering.tileas.agents.cluster_pipelines import end_agents, make_pipelines
from libtile.lowering.tileas.agents.consumers import (
    MAX_ACCUMULATORS,
    OTHER_REGISTERS,
    check_accumulator,
    check_warps,
    compiled,
    consumer_registers,
    instruction,
    is_promoted,
)
from libtile.lowering.tileas.agents.fed_steps import FedSteps, sums_of
from libtile.lowering.tileas.agents.feeds import TRANSPOSERS
from libtile.lowering.tileas.agents.made_operands import MadeOperand
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, tma_operand
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.operand_paths import operand_path
from libtile.lowering.tileas.tensor_memory import scaled_products, tensor_products
from libtile.lowering.tileas.tensor_memory.scaled_products import ScaledOperands
from libtile.lowering.tileas.tensor_memory.tensor_sums import Sums
from libtile.lowering.tileas.wgmma.register_slices import RegisterSlices, SlicedSteps
from libtile.lowering.tileas.wgmma.warp_steps import (
    BUDGETS,
    Ends,
    WarpSteps,
    agents_of_warps,
    beside_makers,
    check_makers,
    parted,
)
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target


class ProductLoop(FedSteps):
    """One kernel, and the loop with its product."""

    def __init__(
        self, function: FuncOp, gpu: Target, product: DotOp | ScaledDotOp, most: int, in_parts: bool = True
    ):  # fmt: skip
        spec = function.kernel_spec
        assert spec is not None
        self.product, self.warps, self.in_parts = product, spec.num_warps, in_parts
        loop = product.parent_op()
        assert isinstance(loop, scf.ForOp)
        super().__init__(function, gpu, loop)
        check_warps(spec)
        self.scaled: ScaledOperands | None = None
        self.slices: RegisterSlices | None = None
        self.pair = self.budgets = False
        self.parts: promoted.Parts | None = None
        if isinstance(product, ScaledDotOp):
            self.atom = scaled_products.instruction(product, gpu)
            self.scaled = ScaledOperands.of(function, gpu, product, self.atom, loop)
            self._hold(self.scaled.tiles)
        else:
            self.atom = self._atom(product)
            self.pair = self.atom.kind == TCGEN05 and tcgen05.ctas_of(self.atom.instruction) > 1
            self._hold([self._operand(side, value) for side, value in (("a", product.a), ("b", product.b))])
        self._look_ahead()
        ((self.carried, _),) = sums_of(self.body, [product])
        scaled = () if self.scaled is None else (*self.scaled.between, *self.scaled.by_warps)
        self._check_rest([product], [self.carried], scaled)
        kept = self.kept(self.atom.instruction.m)
        if self.atom.kind == TCGEN05:
            initial, result = loop.iter_args[self.carried], loop.results[self.carried]
            loaded = tensor_products.check_sums([product], [initial], [result], gpu, spec, self.around)
            self.budgets = tensor_products.needs_budgets(spec, gpu, loaded, self.around)
            self.results = tensor_products.results_at_a_time(
                [shape_of(product.result.type)], spec, self._factor_columns
            )
        else:
            assert isinstance(product, DotOp)
            if self.slices is None:
                check_accumulator(product, self.warps)
            elif self.made or any(operand.shadow is not None for operand in self.operands):
                raise Unfit("#A is read to registers, and #B is brought along k by threads")
            check_makers(self, self.registers)
            self.atom = beside_makers(self, self.warps, self.atom)
        self.feeds = self.feeds_of(self.types, most, kept)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _atom(self, product: DotOp) -> MmaAtomAttr:
        assert self.function.kernel_spec is not None
        if self.gpu.has("tcgen05"):
            return self._tensor_atom(product)
        launched = consumer_registers(self.function.kernel_spec, self.gpu, None)
        atom = instruction(product, self.gpu, launched, promotes=True)
        m, n = shape_of(product.result.type)
        accumulators = m * n // (self.warps * self.gpu.warp_size) * STORAGE_BYTES[element_of(product.c)] // 4
        if accumulators > MAX_ACCUMULATORS:
            spec = self.function.kernel_spec
            halves = spec is not None and spec.num_ctas == 1 and accumulators <= MAX_ACCUMULATORS * CTAS
            advice = f": {CLUSTER} = {CTAS} halves them" if halves else ""
            raise Unfit(f"accumulators of {m}x{n} do not fit the registers of {self.warps} warps{advice}")
        most = consumer_registers(self.function.kernel_spec, self.gpu, BUDGETS.get(self.warps))
        self.registers = OTHER_REGISTERS + accumulators + self.around
        self.slices = RegisterSlices.of(product, atom, self.warps, most - self.registers)
        if self.slices is not None:
            self.registers += self.slices.registers
        if self.registers > most:
            more = f" and tiles around its loop {self.around}" if self.around else ""
            raise Unfit(f"a thread has {most} registers, of which accumulators of {m}x{n} take {accumulators}{more}")
        self.parts = self._parts(accumulators, most) if is_promoted(product) else None
        if self.parts is not None and self.slices is not None:
            raise Unfit("#A is read to registers, and its products are promoted")
        if self.parts is not None:
            self.registers = promoted.OTHER_REGISTERS + accumulators + accumulators // self.parts.count + self.around
            a, b, d = atom.types
            found = wgmma.find(self.gpu, a, b, d, *self.parts.shape((m, n)), atom.instruction.k)
            assert found is not None  # as fewer columns fit, too
            found = compiled(found, self.gpu, launched)
            return MmaAtomAttr("wgmma", (found.m, found.n, found.k), a, b, d)
        return atom

    def _tensor_atom(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a pair of CTAs, where both have the same right operand, or that of one."""
        operands = (("#A ", product.a), ("#B ", product.b))
        a, b = (operand_path(v, (self.body,), what, ", in the loop").load for what, v in operands)
        shared = is_same_in_cluster(b) and not is_same_in_cluster(a)
        found = tensor_products.pair_instruction(product, self.gpu) if shared else None
        return found if found is not None else tensor_products.instruction(product, self.gpu)

    def _parts(self, accumulators: int, registers: int) -> promoted.Parts:
        """The parts of its result that a step multiplies one after the other, to add each to the accumulators."""
        shape, depth = shape_of(self.product.result.type), shape_of(self.product.a.type)[1]
        what = "wgmma sums products of 8-bit floats with fewer bits, which 'fast_acc' does not allow, "
        if element_of(self.product.c) != "f32":
            raise Unfit(what + "and its accumulator is no f32")
        if depth > promoted.MOST_DEPTH:
            raise Unfit(what + f"for more than {promoted.MOST_DEPTH} of them")
        free = registers - promoted.OTHER_REGISTERS - accumulators - self.around
        parts = promoted.parts_that_fit(accumulators, free, shape, self.warps)
        # Of a lone warpgroup ptxas issues the next part before it adds the one before, and spills.
        if parts is None or (parts.count > 1 and self.warps not in BUDGETS):
            raise Unfit(what + f"and {free} registers beside the accumulators do not hold sums of their own")
        return parts

    def _operand(self, side: str, value: SSAValue) -> TmaOperand | MadeOperand:
        try:
            return self._copied(side, value)
        except Unfit as reason:
            if self.atom.kind == TCGEN05:  # phases have makers there
                raise
            return self._made_instead(self.atom, side, value, reason)

    def _copied(self, side: str, value: SSAValue, parts: int = 1) -> TmaOperand:
        path = self._path(side, value)
        halved = None
        if self.pair and side == "b":  # along its columns
            shape = shape_of(path.load.value.type)
            halved = max(n for n, d in enumerate(path.order or range(len(shape))) if shape[d] != 1)
        return tma_operand(self.function, self.gpu, self.atom.instruction, side, path.load, path.order, halved=halved,
                           element=path.element, warps=TRANSPOSERS if parts == 1 else 0, parts=parts,
                           by_threads=self.slices is not None and side == "a")  # fmt: skip

    def _cut(self, parts: int) -> Sequence[TmaOperand]:
        if not self.in_parts or self.made or self.scaled is not None or self.parts is not None:
            raise Unfit("threads make tiles of its steps, or its sums are promoted step by step")
        if self.slices is not None and self.slices.count < self.slices.under_way * parts:
            raise Unfit("a part has fewer slices than are multiplied while another one is read")
        return [self._copied(side, value, parts) for side, value in (("a", self.product.a), ("b", self.product.b))]

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        at = Inserter(block, loop if self.outer is None else self.outer, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        self.kinds = [(feed.type, feed.ctas) for feed in self.feeds.all]
        for feed, pipe in zip(self.feeds.all, make_pipelines(at, self.kinds, pair=self.pair)):
            feed.pipe = pipe
        if self.atom.kind == TCGEN05:
            producer = Block()
            self.produce(Inserter(producer, None, loop.location), self.feeds.filled, descriptors)
            self._multiply_in_tensor_memory(at, Block(), producer, pipe)
        else:
            self._multiply_by_warps(at, descriptors)
        self.say_parts(self.feeds)
        for done in (loop,) if self.outer is None else (self.outer,):
            done.detach()
            done.erase()
        drop_unused(block)

    def _multiply_by_warps(self, at: Inserter, descriptors: Sequence[SSAValue]) -> None:
        """The kernel's warps, the thread that copies, and the warps that transpose tiles, if there are any."""
        loop, outer = self.loop, self.outer
        count = trips(at, loop) if outer is None else None
        steps = WarpSteps(loop, [self.carried], self.feeds, 1)

        def run(at: Inserter, count: SSAValue, start: SSAValue | None) -> Ends:
            if self.slices is not None:
                return SlicedSteps(steps, self.slices, self._slice).run(at, count, start)
            if self.parts is not None:
                return steps.promoted(at, count, self._product, self.parts, self.warps, start)
            return steps.overlapped(at, count, self._issue, start)

        agents = parted(self, steps, run, count, descriptors)
        end_agents(at, agents_of_warps(agents, self.feeds, self.warps, self.registers), self.kinds)

    @property
    def types(self) -> list[BufferType]:
        """Of what a stage holds."""
        return super().types if self.scaled is None else self.scaled.types

    @property
    def _factor_columns(self) -> int:
        """Columns of tensor memory for factors."""
        return 0 if self.scaled is None else self.scaled.columns

    def _multiply_in_tensor_memory(self, at: Inserter, consumer: Block, producer: Block, pipe: SSAValue) -> None:
        """Three agents: the kernel's warps, the one that copies, and the one that issues products."""
        tile, loop = self.product.c.type, self.loop
        assert isinstance(tile, TensorType)
        scaled, product, before = self.scaled, self.product, None
        results = tensor_products.Results.make(at, tile, 1 if self.outer is None else self.results, pair=self.pair)
        if scaled is None:
            assert isinstance(product, DotOp)
            issue = tensor_products.issue_of(product, self.atom)
        else:
            issue = scaled.issue_into(scaled.allocate(at))
        steps = tensor_products.Steps(pipe, self.types, issue, parts=self.feeds.read.parts)
        sums = Sums(self, [self.carried], [results], steps)
        inner, issuer = (Inserter(block, None, loop.location) for block in (consumer, Block()))
        count = trips(at, loop) if self.outer is None else None
        if scaled is not None and (threads := scaled.by_threads) is not None:

            def before(at: Inserter, count: SSAValue, start: SSAValue) -> SSAValue:
                return threads.bring(at, pipe, self.types, count, start)

        sums.multiply(issuer, count)
        sums.consume(inner, count, before)
        if self.pair:
            at.add(ClusterBarrierOp.make())
        made = tensor_products.agents(self.warps, consumer, producer, self._issuer(issuer), budgets=self.budgets)
        at.add(made)
        if self.pair:
            at.add(ClusterBarrierOp.make())
        at.add(DeallocTensorOp.make(results.storage))

    def _issuer(self, at: Inserter) -> Block:
        """The region of the agent that issues products: in a pair of CTAs the leader's does."""
        if not self.pair:
            at.add(PipelineYieldOp.make())
            return at.block
        at.add(scf.YieldOp())
        outer = Inserter(Block(), None, at.location)
        rank = outer.value(GetCtaRankOp.make(results=[i32]))
        zero = outer.value(arith.ConstantOp(IntegerAttr(0, i32)))
        outer.add(scf.IfOp(outer.value(arith.CmpiOp(rank, zero, "eq")), [], [at.block]))
        outer.add(PipelineYieldOp.make())
        return outer.block

    def _slice(self, at: Inserter, a: SSAValue, b: SSAValue, accumulator: SSAValue, depth: int) -> SSAValue:
        """Issue the products of a slice of A, and of B's rows from one on."""
        return self._product(at, (a, b), accumulator, depth=depth)

    def _product(
        self, at: Inserter, tiles: Sequence[SSAValue], accumulator: SSAValue, first: tuple[int, int] = (0, 0),
        depth: int | None = None,
    ) -> SSAValue:  # fmt: skip
        """Issue the products of a step's tiles, or of a part of them that begins at a row and a column, or of a part of
        the right one that begins at a row."""
        product = self.product
        assert isinstance(product, DotOp)  # those with factors are no wgmma's
        whole, part = shape_of(product.result.type), shape_of(accumulator.type)
        row, column = (None if part[d] == whole[d] else first[d] for d in (0, 1))
        return at.value(
            AsyncDotOp.make(
                *tiles, accumulator, results=[accumulator.type], atom=self.atom,
                signedness_a=product.signedness_a, signedness_b=product.signedness_b,
                fast_acc=product.fast_acc is not None, first_row=row, first_column=column,
                first_depth=depth,
            ),
            product.location,
        )  # fmt: skip

    def _issue(self, at: Inserter, tiles: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
        return [self._product(at, tiles, sums[0])]
