# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with several products of tiles that TMA copies, by wgmma: the kernel's warps issue all products of a step, and
those of the next one before these have ended. A tile that products share is copied once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from libtile.atoms import wgmma
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import MAX_GROUPS, AsyncDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.lowering.tileas.agents.cluster_pipelines import end_agents, make_pipelines
from libtile.lowering.tileas.agents.consumers import (
    OTHER_REGISTERS,
    check_accumulator,
    check_warps,
    consumer_registers,
    instruction,
)
from libtile.lowering.tileas.agents.fed_steps import FedProducts
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.warp_steps import (
    BUDGETS,
    WarpSteps,
    agents_of_warps,
    beside_makers,
    check_makers,
    parted,
)
from libtile.support.records import replace
from libtile.targets import Target


class WarpSums(FedProducts):
    """One kernel, and the loop with several products, whose sums lie in registers."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.warps = spec.num_warps
        check_warps(spec)
        super().__init__(function, gpu, products)
        check_sums(self, self.warps)
        self.registers = OTHER_REGISTERS + sum(sum_registers(self, n, self.warps) for n in self.sums)
        self.registers += self.around
        limit = consumer_registers(spec, gpu, BUDGETS.get(self.warps))
        if self.registers > limit:
            raise Unfit(f"a thread has {limit} registers, and the loop's sums take {self.registers}")
        check_makers(self, self.registers)
        self.products = [replace(p, atom=beside_makers(self, self.warps, p.atom)) for p in self.products]
        self.feeds = self.feeds_of(self.types, most, self.kept(self.products[0].atom.instruction.m))

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        spec = self.function.kernel_spec
        assert spec is not None
        return instruction(product, self.gpu, consumer_registers(spec, self.gpu, None))

    def make(self) -> None:
        loop, outer, block = self.loop, self.outer, self.function.body.block
        at = Inserter(block, loop if outer is None else outer, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        kinds = [(feed.type, feed.ctas) for feed in self.feeds.all]
        for feed, pipe in zip(self.feeds.all, make_pipelines(at, kinds)):
            feed.pipe = pipe
        count = trips(at, loop) if outer is None else None
        steps = WarpSteps(loop, self.sums, self.feeds, len(self.products))
        issued = partial(issue, self)
        agents = parted(
            self, steps, lambda at, count, start: steps.overlapped(at, count, issued, start), count, descriptors
        )
        end_agents(at, agents_of_warps(agents, self.feeds, self.warps, self.registers), kinds)
        done = loop if outer is None else outer
        done.detach()
        done.erase()
        drop_unused(block)


def check_sums(fed: FedProducts, warps: int) -> None:
    """Unfit where so many warps do not issue the products of a loop: for their number, or for where sums lie."""
    if len(fed.products) >= MAX_GROUPS:
        raise Unfit(f"a step has {len(fed.products)} products, and fewer than {MAX_GROUPS} are told apart")
    for product in fed.products:
        check_accumulator(product.op, warps)


def sum_registers(fed: FedProducts, number: int, warps: int) -> int:
    """Registers of a thread of so many warps for a sum."""
    rows, columns = fed.shape(number)
    atom = fed.product_of(number).atom.instruction
    each = wgmma.accumulator_registers(atom) * columns // atom.n
    return each * rows // (warps * wgmma.WARP_ROWS)


def issue(fed: FedProducts, at: Inserter, tiles: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
    """The products of a step, in order."""
    found = dict(zip(fed.sums, sums))
    for product in fed.products:
        op, before = product.op, found[product.sum]
        made = AsyncDotOp.make(
            tiles[product.a], tiles[product.b], before, results=[before.type], atom=product.atom,
            signedness_a=op.signedness_a, signedness_b=op.signedness_b, fast_acc=op.fast_acc is not None,
        )  # fmt: skip
        found[product.sum] = at.value(made, op.location)
    return [found[number] for number in fed.sums]
