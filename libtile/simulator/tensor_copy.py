# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetches: by tiles, by rows of tiles (gather4 and
scatter4) and by pixels (im2col) (PTX ISA, "Tensor copy")."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np

from libtile.numerics import tf32
from libtile.support.records import dataclass
from libtile.targets.tensor_map import PACKED_ROW

from . import fp
from .access import AccessInfo
from .async_engine import Job, LateRead
from .atomics import Combine
from .group import ThreadGroup
from .ir import Instruction
from .map_edits import MapEdits
from .memory import ALLOCATED, CLUSTER_SHIFT, PENDING, READY
from .remote_stores import ones
from .tensor_map import SIZE, DecodedMap, TensorMapError
from .types import DTYPES

TILES, ROWS, PIXELS = "tile", "rows", "im2col"
"""What a copy moves: a box, four rows of it (gather4 and scatter4), or pixels."""


@dataclass(slots=True)
class TensorCopy:
    """Operands of a tensor copy: addresses, box corner, mbarrier of a load, CTA mask of a multicast, reduction."""

    instruction: Instruction
    mode: str
    tensor_map: np.ndarray
    # Of rows: a column and four rows.
    corner: tuple[np.ndarray, ...]
    shared: np.ndarray
    barrier: np.ndarray | None
    cta_mask: np.ndarray | None
    # Of pixels that are loaded: where in the filter they are, along W, H and D.
    offsets: tuple[np.ndarray, ...] = ()
    # Of a reduction: what combines elements of a type, by PTX's name of it; None for a type that it does not have.
    reduction: Callable[[str], Combine | None] | None = None


class TensorCopies(MapEdits):
    """Tensor copies; each is a job that completes later."""

    def tensor_copy(self, copy: TensorCopy, g: ThreadGroup, load: bool, mask: np.ndarray | None) -> None:
        """Issue the copies of the threads where `mask`."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            tensor, address, inside = self._copied(copy, g.n, k, thread, load)
            start = int(np.broadcast_to(copy.shared, (g.n,))[k]) & 0xFFFFFFFF
            if start % (128 if load or tensor.swizzle != "none" else 16):
                self.fault("misaligned", f"shared address 0x{start:x} of a tensor copy", copy.instruction, thread)
            if load:
                self._tensor_load(copy, tensor, address, inside, start, thread, k)
            else:
                self._tensor_store(copy, tensor, address, inside, start, thread)

    def tensor_prefetch(self, copy: TensorCopy, g: ThreadGroup, mask: np.ndarray | None) -> None:
        """A prefetch changes nothing, but is one of a tensor map and of a place in it."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            self._copied(copy, g.n, k, g.threads[k : k + 1].copy(), True)

    def _copied(
        self, copy: TensorCopy, n: int, k: int, thread: np.ndarray, load: bool
    ) -> tuple[DecodedMap, np.ndarray, np.ndarray]:
        """The tensor, and (global addresses, is inside) of what a thread's copy moves. A fault where the instruction
        and the map do not go together."""
        ins = copy.instruction
        tensor = self._tensor_map(ins, int(np.broadcast_to(copy.tensor_map, (n,))[k]), thread)
        corner = [int(np.broadcast_to(c, (n,))[k]) for c in copy.corner]

        def refuse(text: str) -> NoReturn:
            self.fault("illegal-instruction", text, ins, thread)

        if (tensor.pixels is not None) != (copy.mode == PIXELS):
            asks, has = ("im2col", "tile") if tensor.pixels is None else ("tile", "im2col")
            refuse(f"the instruction is of {asks} mode, the tensor map of {has} mode")
        if copy.mode == ROWS and (tensor.rank != 2 or tensor.box[1] != 1):
            refuse(f"gather4 and scatter4 need a tensor map of rank 2 with boxes of one row, not {tensor.box}")
        if len(corner) != (5 if copy.mode == ROWS else tensor.rank):
            refuse(f"the tensor map has rank {tensor.rank}, the instruction {len(corner)}")
        if tensor.along_row(corner[0]) % 16 or (tensor.padded and corner[0] % PACKED_ROW):
            # Documentation is silent of others than padded ones; an H100 takes such a copy for an illegal instruction.
            wanted = f"{PACKED_ROW} elements" if tensor.padded else "16"
            refuse(f"a tensor copy begins {tensor.along_row(corner[0])} bytes into rows, no multiple of {wanted}")
        if not load and min(corner) < 0:
            refuse(f"a tensor copy to global memory begins at {tuple(corner)}: coordinates of these are not negative")
        if copy.mode == ROWS:
            return tensor, *tensor.rows(corner[0], corner[1:])
        if tensor.pixels is None:
            return tensor, *tensor.elements(corner)
        offsets = [int(np.broadcast_to(c, (n,))[k]) for c in copy.offsets] if load else [0] * (tensor.rank - 2)
        box = tensor.pixels
        if max(offsets) > box.most:
            refuse(
                f"the im2col offsets {tuple(offsets)} of a tensor of rank {tensor.rank} are not all in 0..{box.most}"
            )
        if not box.has(corner[1:-1]):
            refuse(f"the base {tuple(corner[1:-1])} is not in the box from {box.first} to {box.last} of the tensor map")
        inner = all(low >= 0 for low in box.first) and all(map(operator.lt, box.last, tensor.shape[1:-1]))
        if not load and not inner:
            refuse(f"the box from {box.first} to {box.last} of a copy to global memory leaves images")
        return tensor, *tensor.columns(box, corner, offsets)

    def _tensor_map(self, ins: Instruction, address: int, thread: np.ndarray) -> DecodedMap:
        self.check_edits(ins, address, thread)
        info = AccessInfo(ins, "generic", "u1", counted=False)
        where = np.uint64(address) + np.arange(SIZE, dtype=np.uint64)
        raw = self.load_at(info, where, np.repeat(thread, SIZE)).tobytes()
        try:
            return DecodedMap.decode(raw, self.program.target, to_cluster="shared::cluster" in ins.modifiers)
        except TensorMapError as error:
            self.fault("illegal-instruction", f"there is no tensor map at 0x{address:x}: {error}", ins, thread)

    def _tensor_load(
        self, copy: TensorCopy, tensor: DecodedMap, address: np.ndarray, inside: np.ndarray, start: int,
        thread: np.ndarray, k: int,
    ) -> None:  # fmt: skip
        ins, size = copy.instruction, tensor.unit
        code = f"u{size}"
        count = len(address)
        data = np.full(count, _nan_bits(size) if tensor.fill_nan else 0, dtype=DTYPES[code])
        if inside.any():
            origin = AccessInfo(ins, "global", code, counted=False)
            self.check_global_proxy(ins, address[inside], thread)
            data[inside] = self.load_at(origin, address[inside], np.repeat(thread, inside.sum()))
        if tensor.element.endswith(".ftz"):
            data = fp.flush(data.view(np.float32)).view(np.uint32)
        if tensor.element.startswith("tf32"):
            data = tf32.nearest(data)
        into = AccessInfo(ins, "shared", code, counted=False)
        inner = (1 << CLUSTER_SHIFT) - 1
        places = tensor.shared_offsets(start & inner, count)
        gaps = tensor.padding(start & inner, count) if tensor.padded else None
        barrier = 0 if copy.barrier is None else int(np.broadcast_to(copy.barrier, (len(copy.shared),))[k]) & 0xFFFFFFFF
        chosen = None if copy.cta_mask is None else int(np.broadcast_to(copy.cta_mask, (len(copy.shared),))[k])
        targets, empty = [], []
        for to, named in self.destinations(ins, thread, start, barrier, chosen):
            prefix = to & ~inner
            off = self.claim(into, places | prefix, data, thread)
            if gaps is not None:
                run = np.repeat(thread, len(gaps))
                empty.append(self.locate(into, "shared", (gaps | prefix).view(np.uint64), run, 1)[1])
            targets.append((off, self._signalled(ins, np.array([named], dtype=np.uint64), thread)))
        races = self.races
        clock = races.snapshot(int(thread[0]) >> 5) if races is not None else None

        def finish() -> None:
            for off in empty:
                self.shared_arena.flags[off] &= ~np.uint8(READY & ~ALLOCATED)
            for off, place in targets:
                self.shared_arena.views[code][off // size] = data
                self.shared_arena.flag_views[size][off // size] = READY * ones(size)
                if races is not None and clock is not None:
                    races.publish(place >> 2, clock)
                self.complete_tx(place, count * size)

        self.submit(Job("cp.async.bulk.tensor", ins, finish, signals=int(thread[0])))

    def _tensor_store(
        self, copy: TensorCopy, tensor: DecodedMap, address: np.ndarray, inside: np.ndarray, start: int,
        thread: np.ndarray,
    ) -> None:  # fmt: skip
        ins, size = copy.instruction, tensor.unit
        code = f"u{size}"
        if tensor.element == "b4x16_p64" or tensor.swizzle == "128B atom 32B flip 8B":
            what = f"the swizzle {tensor.swizzle}" if "flip" in tensor.swizzle else f"elements {tensor.element}"
            self.fault("illegal-instruction", f"{what} of a tensor map are not copied to global memory", ins, thread)
        origin = AccessInfo(ins, "shared", code, counted=False)
        into = AccessInfo(ins, "global", code, counted=False)
        combine = None
        if copy.reduction is not None:
            combine = copy.reduction(tensor.element)
            if combine is None:
                self.fault("illegal-instruction", f"no such reduction of elements {tensor.element}", ins, thread)
        places = tensor.sources(start, inside).view(np.uint64)
        run, target = np.repeat(thread, len(places)), address[inside]
        writers = np.repeat(thread, len(target))
        late = LateRead(partial(self.load_at, origin, places, run))
        held = None
        if len(places):
            off = self.locate(origin, "shared", places, run, size)[1]
            self._check_proxy(off, ins, thread)
            self.load_at(origin, places, run)
            if self.races is not None:
                held = (off[:, None] + np.arange(size)).reshape(-1)
        under_way = None
        if len(places) and combine is None and self.check:
            arena, at = self.locate(into, "global", target, writers, size)
            under_way = arena.flag_views[size], at // size
            under_way[0][under_way[1]] |= PENDING * ones(size)

        def finish() -> None:
            if not len(places):
                return
            values = late()
            if under_way is not None:
                under_way[0][under_way[1]] &= ~under_way[0].dtype.type(PENDING * ones(size))
            if tensor.padded:
                values = _packed(values)
            if combine is not None:
                values = combine(self.load_at(into, target, writers), values, None)
            self.store_at(into, target, values, writers)

        job = Job("cp.async.bulk.tensor", ins, finish, reads=held)
        job.owner, job.late = (int(thread[0]), int(self.bulk_group[thread[0]])), late if len(places) else None
        self.submit(job)


def _packed(codes: np.ndarray) -> np.ndarray:
    """Bytes of whose bits 6 count each, without the others."""
    return np.packbits(np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :6], bitorder="little")


def _nan_bits(size: int) -> int:
    return {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FF8000000000000}[size]
