# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tile mode (PTX ISA, "Tensor copy")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from libtile.numerics import tf32
from libtile.support.records import dataclass

from .access import AccessInfo
from .async_engine import Job
from .atomics import Combine
from .group import ThreadGroup
from .ir import Instruction
from .map_edits import MapEdits
from .memory import CLUSTER_SHIFT, PENDING, READY, cluster_prefix
from .tensor_map import SIZE, DecodedMap, TensorMapError
from .types import DTYPES


@dataclass(slots=True)
class TensorCopy:
    """Operands of a tensor copy: addresses, box corner, mbarrier of a load, CTA mask of a multicast, reduction."""

    instruction: Instruction
    tensor_map: np.ndarray
    corner: tuple[np.ndarray, ...]
    shared: np.ndarray
    barrier: np.ndarray | None
    cta_mask: np.ndarray | None
    # Of a reduction: what combines elements of a type, by PTX's name of it; None for a type that it does not have.
    reduction: Callable[[str], Combine | None] | None = None
    # Of gather4 and scatter4: the corner is a column and four rows.
    by_rows: bool = False


class TensorCopies(MapEdits):
    """Tensor copies; each is a job that completes later."""

    def tensor_copy(self, copy: TensorCopy, g: ThreadGroup, load: bool, mask: np.ndarray | None) -> None:
        """Issue the copies of the threads where `mask`."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            tensor = self._tensor_map(copy.instruction, int(copy.tensor_map[k]), thread)
            corner = [int(np.broadcast_to(c, (g.n,))[k]) for c in copy.corner]
            if copy.by_rows and (len(tensor.box) != 2 or tensor.box[1] != 1):
                text = f"gather4 and scatter4 need a tensor map of rank 2 with boxes of one row, not {tensor.box}"
                self.fault("illegal-instruction", text, copy.instruction, thread)
            if len(corner) != (5 if copy.by_rows else len(tensor.box)):
                text = f"the tensor map has rank {len(tensor.box)}, the instruction {len(corner)}"
                self.fault("illegal-instruction", text, copy.instruction, thread)
            if corner[0] * tensor.element_size % 16:
                # Documentation is silent; an H100 takes such a copy for an illegal instruction.
                text = f"a tensor copy begins {corner[0] * tensor.element_size} bytes into rows, no multiple of 16"
                self.fault("illegal-instruction", text, copy.instruction, thread)
            start = int(np.broadcast_to(copy.shared, (g.n,))[k]) & 0xFFFFFFFF
            if start % (128 if load or tensor.swizzle != "none" else 16):
                self.fault("misaligned", f"shared address 0x{start:x} of a tensor copy", copy.instruction, thread)
            if load:
                self._tensor_load(copy, tensor, corner, start, thread, k)
            else:
                self._tensor_store(copy, tensor, corner, start, thread)

    def _tensor_map(self, ins: Instruction, address: int, thread: np.ndarray) -> DecodedMap:
        self.check_edits(ins, address, thread)
        info = AccessInfo(ins, "generic", "u1", counted=False)
        where = np.uint64(address) + np.arange(SIZE, dtype=np.uint64)
        raw = self.load_at(info, where, np.repeat(thread, SIZE)).tobytes()
        try:
            return DecodedMap.decode(raw)
        except TensorMapError as error:
            self.fault("illegal-instruction", f"there is no tensor map at 0x{address:x}: {error}", ins, thread)

    def _tensor_load(
        self, copy: TensorCopy, tensor: DecodedMap, corner: list[int], start: int, thread: np.ndarray, k: int
    ) -> None:
        ins, size = copy.instruction, tensor.element_size
        code = f"u{size}"
        address, inside = tensor.rows(corner[0], corner[1:]) if copy.by_rows else tensor.elements(corner)
        count = len(address)
        data = np.full(count, _nan_bits(size) if tensor.fill_nan else 0, dtype=DTYPES[code])
        if inside.any():
            origin = AccessInfo(ins, "global", code, counted=False)
            self.check_global_proxy(ins, address[inside], thread)
            data[inside] = self.load_at(origin, address[inside], np.repeat(thread, inside.sum()))
        if tensor.element == "tf32":
            data = tf32.nearest(data)
        into = AccessInfo(ins, "shared", code, counted=False)
        inner = (1 << CLUSTER_SHIFT) - 1
        places = tensor.shared_offsets(start & inner, count)
        barrier = 0 if copy.barrier is None else int(np.broadcast_to(copy.barrier, (len(copy.shared),))[k]) & 0xFFFFFFFF
        targets = []
        for rank in self._destinations(copy, thread, k):
            prefix = start & ~inner if rank is None else cluster_prefix(rank)
            off = self._claim(into, places | prefix, data, thread)
            named = barrier if rank is None else barrier & inner | prefix
            where = np.array([named], dtype=np.uint64)
            owner = self._each(AccessInfo(ins, "shared", "u8", 1, True), where, thread)[0][0]
            targets.append((off, owner.place))
        races = self.races
        clock = races.snapshot(int(thread[0]) >> 5) if races is not None else None

        def finish() -> None:
            for off, place in targets:
                self.shared_arena.views[code][off // size] = data
                self.shared_arena.flag_views[size][off // size] = READY * _ones(size)
                if races is not None and clock is not None:
                    races.publish(place >> 2, clock)
                self.complete_tx(place, count * size)

        self.submit(Job("cp.async.bulk.tensor", ins, finish, signals=int(thread[0])))

    def _destinations(self, copy: TensorCopy, thread: np.ndarray, k: int) -> list[int | None]:
        """Cluster ranks that a load goes to; None stands for the address as given."""
        if copy.cta_mask is None:
            return [None]
        bits = int(np.broadcast_to(copy.cta_mask, (len(copy.shared),))[k])
        if bits >> self.cluster_size:
            self.fault("illegal-instruction", f"CTA mask 0x{bits:x} goes beyond the cluster", copy.instruction, thread)
        return [rank for rank in range(self.cluster_size) if bits >> rank & 1]

    def _claim(self, into: AccessInfo, places: np.ndarray, data: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Check and mark the destination bytes; returns their offsets in the arena."""
        size = into.size
        run = np.repeat(thread, len(places))
        arena, off = self.locate(into, "shared", places.view(np.uint64), run, size)
        if self.check:
            self._check_store(into, "shared", arena, off, off // size, data, run)
        if self.proxy is not None:
            self.proxy.replaced(off, size)
        arena.flag_views[size][off // size] |= PENDING * _ones(size)
        return off

    def _tensor_store(
        self, copy: TensorCopy, tensor: DecodedMap, corner: list[int], start: int, thread: np.ndarray
    ) -> None:
        ins, size = copy.instruction, tensor.element_size
        code = f"u{size}"
        address, inside = tensor.rows(corner[0], corner[1:]) if copy.by_rows else tensor.elements(corner)
        origin = AccessInfo(ins, "shared", code, counted=False)
        into = AccessInfo(ins, "global", code, counted=False)
        combine = None
        if copy.reduction is not None:
            combine = copy.reduction(tensor.element)
            if combine is None:
                self.fault("illegal-instruction", f"no such reduction of elements {tensor.element}", ins, thread)
        places = tensor.shared_offsets(start, len(address))[inside].view(np.uint64)
        run = np.repeat(thread, len(places))
        target = address[inside]
        held = None
        if len(places):
            off = self.locate(origin, "shared", places, run, size)[1]
            self._check_proxy(off, ins, thread)
            self.load_at(origin, places, run)
            if self.races is not None:
                held = (off[:, None] + np.arange(size)).reshape(-1)

        def finish() -> None:
            # The source is read as late as the copy may read it: reusing it early shows.
            if len(places):
                values = self.load_at(origin, places, run)
                if combine is not None:
                    values = combine(self.load_at(into, target, run), values, None)
                self.store_at(into, target, values, run)

        job = Job("cp.async.bulk.tensor", ins, finish, reads=held)
        job.owner = (int(thread[0]), int(self.bulk_group[thread[0]]))
        self.submit(job)


def _ones(size: int) -> int:
    """0x01 in each of `size` bytes."""
    return int.from_bytes(b"\1" * size, "little")


def _nan_bits(size: int) -> int:
    return {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FF8000000000000}[size]
