# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tensormap.replace, and the fences behind which tensor copies see what it has changed (PTX ISA, "tensormap.replace",
"membar/fence": fence.proxy.tensormap)."""

from __future__ import annotations

import numpy as np

from libtile.support.records import dataclass, field
from libtile.targets.tensor_map import FIELDS, STRIDE_LOW

from .access import AccessInfo
from .async_engine import AsyncEngine
from .group import ThreadGroup
from .ir import Instruction
from .tensor_map import SIZE

_FIELDS = {"global_address": ("address",), "global_dim": ("size",), "global_stride": ("stride", "stride_high")}
"""The fields of a map that each instruction changes; more than one where the value is parted."""


@dataclass
class Edit:
    """A map that was changed: who did it last, whether it was released since, and the threads that acquired it."""

    writer: int
    released: bool = False
    acquired: set[int] = field(default_factory=set)


class MapEdits(AsyncEngine):
    """Changes of tensor maps in memory."""

    edits: dict[int, Edit] | None = None
    """By address, once a map has been changed."""

    def replace_field(
        self, ins: Instruction, space: str, name: str, ordinal: int, where: np.ndarray, value: np.ndarray,
        g: ThreadGroup, mask: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Threads put values into a field of the maps at their addresses."""
        self.edits = {} if self.edits is None else self.edits
        load, store = (AccessInfo(ins, space, "u1", counted=False) for _ in range(2))
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            address, given = int(np.broadcast_to(where, (g.n,))[k]), int(np.broadcast_to(value, (g.n,))[k])
            if address % SIZE:
                self.fault("misaligned", f"the tensor map at 0x{address:x}", ins, thread)
            at, threads = np.uint64(address) + np.arange(SIZE, dtype=np.uint64), np.repeat(thread, SIZE)
            number = int.from_bytes(self.load_at(load, at, threads).tobytes(), "little")
            for changed in _FIELDS[name]:
                place = FIELDS[changed if name == "global_address" else f"{changed}{ordinal}"]
                part = given & (STRIDE_LOW if changed == "stride" else ~STRIDE_LOW if changed == "stride_high" else -1)
                bits = (part // place.unit - place.bias) & (1 << place.width) - 1
                number = number & ~((1 << place.width) - 1 << place.at) | bits << place.at
            if name == "global_address":
                number &= ~(1 << FIELDS["large"].at)
            data = np.frombuffer(number.to_bytes(SIZE, "little"), np.uint8)
            self.store_at(store, at, data, threads)
            self.edits[address] = Edit(int(thread[0]))

    def release_maps(self, g: ThreadGroup, mask: np.ndarray | None) -> None:
        """fence.proxy.tensormap::generic.release: what these threads have changed can be acquired."""
        threads = set((g.threads if mask is None else g.threads[mask]).tolist())
        for edit in (self.edits or {}).values():
            edit.released |= edit.writer in threads

    def acquire_map(self, where: np.ndarray, g: ThreadGroup, mask: np.ndarray | None) -> None:
        """fence.proxy.tensormap::generic.acquire: these threads' copies see maps as they were released."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            edit = (self.edits or {}).get(int(np.broadcast_to(where, (g.n,))[k]))
            if edit is not None and edit.released:
                edit.acquired.add(int(g.threads[k]))

    def check_edits(self, ins: Instruction, address: int, thread: np.ndarray) -> None:
        """A map that was changed is used behind its fences."""
        edit = (self.edits or {}).get(address)
        if edit is None or "proxy-fence" not in self.checks or int(thread[0]) in edit.acquired:
            return
        lacks = "fence.proxy.tensormap::generic.acquire" if edit.released else "fence.proxy.tensormap::generic.release"
        text = f"the tensor map at 0x{address:x} was changed, and no {lacks} makes that visible to the copy"
        self.fault("proxy-fence", text, ins, thread)
