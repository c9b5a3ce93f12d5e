# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTAs of a cluster: where they meet, and barrier objects of each other at which they arrive.

Nobody arrives at a barrier object, or copies to the shared memory, of a CTA that has not initialised it or has ended:
the CTAs meet behind the initialisation, and at the end.
"""

from __future__ import annotations

from libtile.codegen import agents
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, VOID


def meet(b: KernelBuilder) -> None:
    """All threads of all CTAs of the cluster wait for each other. Barrier objects are seen behind it by virtue of their
    own fence; other memory of before is not ordered with that of behind."""
    agents.meet_warp(b)
    b.call("llvm.nvvm.barrier.cluster.arrive.relaxed.aligned", VOID, [])
    b.call("llvm.nvvm.barrier.cluster.wait.aligned", VOID, [])


def arrive(b: KernelBuilder, pointer: Value, rank: int) -> None:
    """This thread arrives at the barrier object that the CTA of this rank has at the place of one of its own CTA.

    What it orders are accesses of the asynchronous proxy that have ended, so that the CTA's scope is enough: one of the
    cluster costs a fence of all memory."""
    own = b.cast("ptrtoint", pointer, I32)
    there = b.asm("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", I32, [own, integer(I32, rank)])
    b.asm("mbarrier.arrive.shared::cluster.b64 _, [$0];", "r", VOID, [there], memory=True)
