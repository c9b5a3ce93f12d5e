# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTAs of a cluster: where they meet, and barrier objects of each other at which they arrive.

Nobody arrives at a barrier object, or copies to the shared memory, of a CTA that has not initialised it or has ended:
the CTAs meet behind the initialisation, and at the end.

The CTA of rank 0 leads a pair. The address of the same place in its shared memory is one's own with a bit less
(`leader_address`), as copies of pairs name it (PTX ISA, "cp.async.bulk.tensor", .cta_group::2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


_ODD_OF_PAIR = 1 << 24
"""In a shared::cluster address: that of the odd CTA of a pair."""


@contextmanager
def leader(b: KernelBuilder) -> Iterator[None]:
    """Emit what threads of the cluster's first CTA do."""
    with b.when(b.compare("eq", b.cta_rank(), integer(I32, 0))):
        yield


def leader_address(b: KernelBuilder, pointer: Value) -> Value:
    """The address (an i32) of the same place in the shared memory of the leader of a pair, for its copies."""
    return b.and_(b.cast("ptrtoint", pointer, I32), integer(I32, ~_ODD_OF_PAIR))
