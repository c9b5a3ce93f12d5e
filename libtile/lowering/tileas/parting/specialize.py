# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-specialize`: a loop with a product becomes a producer agent that copies, and consumers that multiply.

For a loop whose only product reads, as they are, two tiles that TMA can copy,

    descriptors, a pipeline with barrier objects
    agent_switch
      consumers, the kernel's warps    if there is a step: the first one's products are issued; each further step issues
                                       its own, waits for those before, and releases their stage; then what is behind
                                       the loop
      producer, a warpgroup more       one thread goes through the loop again, and copies the tiles of each step

Both go through loops and branches around that loop as well (`nests`). A loop with several products, or one that
adds something computed of each product, is parted by `specialize_chains`, and where results lie in tensor memory a
third agent issues the products (`tensor_products`). Elsewhere the accumulator has to lie as wgmma wants it, in whole
rows for each warp. Where a loop stays as it is, `not_specialized` says why on its product.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.lowering.agents import feeds_by_threads, has_agents
from libtile.support.records import dataclass
from libtile.targets import Target, target

MAX_STAGES = 8
"""Stages beyond that hide no more latency."""


@dataclass(frozen=True)
class SpecializePass(ModulePass):
    """Part kernels with a product in a loop into a producer that copies and consumers that multiply."""

    name = "tileas-specialize"
    num_stages: int = MAX_STAGES
    take_turns: bool = True
    """Two warpgroups issue the products of a chain one after the other."""
    run_ahead: bool = True
    """The first products of a chain's next turn are issued before what this one computes, where registers suffice."""
    in_parts: bool = True
    """The tiles of a step come in parts along k, each with a stage of its own, where few stages hold a step each."""
    by_threads: bool = False
    """Where a target has no TMA, a producer's threads copy with cp.async; kernels stay as they are there otherwise."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                gpu = target(inner.kernel_spec.target)
                if has_agents(gpu) or (self.by_threads and feeds_by_threads(gpu)):
                    specialize(inner, gpu, self.num_stages, self.take_turns, self.run_ahead, self.in_parts)


def specialize(
    function: FuncOp, gpu: Target, most: int = MAX_STAGES, take_turns: bool = True, run_ahead: bool = True,
    in_parts: bool = True,
) -> bool:  # fmt: skip
    """Part one kernel's agents, if it can be; returns whether it was. Otherwise its products say why not."""
    if not _has_products(function):
        return False
    from libtile.lowering.tileas.parting import parted_loops  # much code, for kernels with products alone

    return parted_loops.specialize(function, gpu, most, take_turns, run_ahead, in_parts)


def is_fit(function: FuncOp, gpu: Target) -> bool:
    """Whether `specialize` would part the agents of a kernel, which stays as it is."""
    if not _has_products(function):
        return False
    from libtile.lowering.tileas.parting import parted_loops

    return parted_loops.is_fit(function, gpu, MAX_STAGES)


def _has_products(function: FuncOp) -> bool:
    return bool(ops_of(function, DotOp, ScaledDotOp))
