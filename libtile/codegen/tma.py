# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies by TMA: one thread moves a box between global and shared memory (PTX ISA, "cp.async.bulk.tensor").

A load tells a barrier object how many bytes have arrived. Stores and reductions complete in groups of the thread that
issues them. What threads have written to shared memory is seen by copies, and by products, behind `fence_async_shared`.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen import clusters
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I16, I32, VOID
from libtile.targets.tensor_map import MAX_RANK, SIZE

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _address(first: int, coordinates: Sequence[Value]) -> str:
    """The operand of a descriptor and coordinates, from operand number `first` on."""
    if not 1 <= len(coordinates) <= MAX_RANK:
        raise ValueError(f"tensor copies have 1 to {MAX_RANK} coordinates, not {len(coordinates)}")
    numbers = ", ".join(f"${first + 1 + i}" for i in range(len(coordinates)))
    return f"[${first}, {{{numbers}}}]"


def load_box(
    b: KernelBuilder, to: Value, descriptor: Value, coordinates: Sequence[Value], barrier: Value, ctas: int = 1,
    *, pair: bool = False,
) -> None:  # fmt: skip
    """Start copying a box into shared memory; `coordinates` (i32, innermost first) are its corner in the tensor. The
    barrier object counts its bytes. One thread executes this. With several `ctas` of a cluster the box goes to the same
    place in each of them, and is counted by the barrier object at the same place there; in a `pair` it goes to this
    one, and is counted by the leader's."""
    rank = len(coordinates)
    to_all = ctas > 1
    space, multicast = ("shared::cluster", ".multicast::cluster") if to_all else ("shared::cta", "")
    if pair:
        space, multicast = "shared::cluster", ".cta_group::2"
    template = (
        f"cp.async.bulk.tensor.{rank}d.{space}.global.mbarrier::complete_tx::bytes{multicast} "
        f"[$0], {_address(1, coordinates)}, [${rank + 2}]{f', ${rank + 3}' if to_all else ''};"
    )
    counting = clusters.leader_address(b, barrier) if pair else _shared_address(b, barrier)
    places = [_shared_address(b, to), descriptor, *coordinates, counting]
    if to_all:
        places.append(integer(I16, (1 << ctas) - 1))
    b.asm(template, ",".join(["r", "l", *"r" * rank, "r", *"h" * to_all]), VOID, places, memory=True)


def gather_rows(
    b: KernelBuilder, to: Value, descriptor: Value, column: Value, rows: Sequence[Value], barrier: Value
) -> None:
    """`load_box` of four rows (i32) of a tensor of rank 2, from a column on, which come to lie one behind the other."""
    template = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        f"[$0], {_address(1, [column, *rows])}, [$7];"
    )
    places = [_shared_address(b, to), descriptor, column, *rows, _shared_address(b, barrier)]
    b.asm(template, "r,l,r,r,r,r,r,r", VOID, places, memory=True)


def scatter_rows(b: KernelBuilder, descriptor: Value, column: Value, rows: Sequence[Value], source: Value) -> None:
    """`store_box` of four rows that lie one behind the other, to rows (i32) of a tensor of rank 2, from a column on."""
    template = (
        f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group {_address(0, [column, *rows])}, [$6];"
    )
    _from_shared(b, template, descriptor, [column, *rows], source)


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


FIELDS = {"global_address": ("global_address", "b64"), "dim_size": ("global_dim", "b32"),
          "stride_size": ("global_stride", "b64")}  # fmt: skip
"""Fields of a tensor map that are replaced in memory: PTX's name, and the type of the value (PTX ISA,
"tensormap.replace")."""


def replace_field(b: KernelBuilder, descriptor: Value, field: str, ordinal: int | None, value: Value) -> None:
    """Replace one of `FIELDS` of a tensor map in global memory. Copies see it behind both of the fences below. One
    thread executes this."""
    name, type_ = FIELDS[field]
    number = "" if ordinal is None else f"{ordinal}, "
    template = f"tensormap.replace.tile.{name}.global.b1024.{type_} [$0], {number}$1;"
    b.asm(template, "l,l" if type_ == "b64" else "l,r", VOID, [descriptor, value], memory=True)


def release_descriptors(b: KernelBuilder, scope: str) -> None:
    """What this thread has changed of tensor maps can be acquired by threads of a scope (of PTX)."""
    b.asm(f"fence.proxy.tensormap::generic.release.{scope};", "", VOID, [], memory=True)


def acquire_descriptor(b: KernelBuilder, descriptor: Value, scope: str) -> None:
    """This thread's later copies see a tensor map (a generic address) as a thread of a scope has released it."""
    template = f"fence.proxy.tensormap::generic.acquire.{scope} [$0], {SIZE};"
    b.asm(template, "l", VOID, [descriptor], memory=True)


def prefetch_descriptor(b: KernelBuilder, descriptor: Value) -> None:
    """Fetch a tensor map ahead of its use."""
    b.call("llvm.nvvm.prefetch.tensormap.p0", VOID, [descriptor])
