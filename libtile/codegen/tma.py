# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies by TMA: one thread moves a box between global and shared memory (PTX ISA, "cp.async.bulk.tensor").

A load tells a barrier object how many bytes have arrived. Stores and reductions complete in groups of the thread that
issues them. What threads have written to shared memory is seen by copies, and by products, behind `fence_async_shared`.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, VOID
from libtile.targets.tensor_map import MAX_RANK

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _address(first: int, coordinates: Sequence[Value]) -> str:
    """The operand of a descriptor and coordinates, from operand number `first` on."""
    if not 1 <= len(coordinates) <= MAX_RANK:
        raise ValueError(f"tensor copies have 1 to {MAX_RANK} coordinates, not {len(coordinates)}")
    numbers = ", ".join(f"${first + 1 + i}" for i in range(len(coordinates)))
    return f"[${first}, {{{numbers}}}]"


def load_box(b: KernelBuilder, to: Value, descriptor: Value, coordinates: Sequence[Value], barrier: Value) -> None:
    """Start copying a box into shared memory; `coordinates` (i32, innermost first) are its corner in the tensor. The
    barrier object counts its bytes. One thread executes this."""
    rank = len(coordinates)
    template = (
        f"cp.async.bulk.tensor.{rank}d.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[$0], {_address(1, coordinates)}, [${rank + 2}];"
    )
    places = [_shared_address(b, to), descriptor, *coordinates, _shared_address(b, barrier)]
    b.asm(template, ",".join(["r", "l", *"r" * rank, "r"]), VOID, places, memory=True)


def _shared_address(b: KernelBuilder, pointer: Value) -> Value:
    return b.cast("ptrtoint", pointer, I32)


def store_box(b: KernelBuilder, descriptor: Value, coordinates: Sequence[Value], source: Value) -> None:
    """Start copying a box from shared memory to the tensor. One thread executes this, and closes its group later."""
    template = (
        f"cp.async.bulk.tensor.{len(coordinates)}d.global.shared::cta.bulk_group "
        f"{_address(0, coordinates)}, [${len(coordinates) + 1}];"
    )
    _from_shared(b, template, descriptor, coordinates, source)


def reduce_box(
    b: KernelBuilder, operation: str, descriptor: Value, coordinates: Sequence[Value], source: Value
) -> None:
    """`store_box` that combines each element with what is there, by one of `REDUCTIONS`."""
    if operation not in REDUCTIONS:
        raise ValueError(f"tensor copies do not reduce by {operation!r}")
    template = (
        f"cp.reduce.async.bulk.tensor.{len(coordinates)}d.global.shared::cta.{operation}.tile.bulk_group "
        f"{_address(0, coordinates)}, [${len(coordinates) + 1}];"
    )
    _from_shared(b, template, descriptor, coordinates, source)


def _from_shared(
    b: KernelBuilder, template: str, descriptor: Value, coordinates: Sequence[Value], source: Value
) -> None:
    constraints = ",".join(["l", *"r" * len(coordinates), "r"])
    b.asm(template, constraints, VOID, [descriptor, *coordinates, _shared_address(b, source)], memory=True)


def commit_stores(b: KernelBuilder) -> None:
    """Close a group of this thread's stores and reductions."""
    b.call("llvm.nvvm.cp.async.bulk.commit.group", VOID, [])


def wait_stores(b: KernelBuilder, pending: int, *, read: bool = False) -> None:
    """Wait until at most `pending` of this thread's groups are under way; with `read`, only until the others have read
    their shared memory, which may then be written again."""
    kind = "group.read" if read else "group"
    b.call(f"llvm.nvvm.cp.async.bulk.wait.{kind}", VOID, [integer(I32, pending)])


def fence_async_shared(b: KernelBuilder) -> None:
    """This thread's earlier accesses of shared memory come before later ones of the asynchronous proxy, its own and
    those of threads that it synchronizes with."""
    b.call("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])


def fence_async(b: KernelBuilder) -> None:
    """`fence_async_shared` for all of memory."""
    b.call("llvm.nvvm.fence.proxy.async", VOID, [])


def prefetch_descriptor(b: KernelBuilder, descriptor: Value) -> None:
    """Fetch a tensor map ahead of its use."""
    b.call("llvm.nvvm.prefetch.tensormap.p0", VOID, [descriptor])
