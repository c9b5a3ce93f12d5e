# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tensormap.replace and tensormap.cp_fenceproxy, and the fences behind which tensor copies see what they have changed
(PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy", "membar/fence": fence.proxy.tensormap)."""

from __future__ import annotations

import numpy as np

from libtile.support.records import dataclass, field
from libtile.targets.tensor_map import ELEMENTS, FIELDS, STRIDE_LOW

from .access import AccessInfo
from .group import ThreadGroup
from .ir import Instruction
from .remote_stores import RemoteStores
from .tensor_map import SIZE

FIELDS_BY_DIMENSION = ("box_dim", "global_dim", "global_stride", "element_stride")
"""Names of fields that each dimension has."""
CONSTANT_FIELDS = {
    "elemtype": len(ELEMENTS), "interleave_layout": 3, "swizzle_mode": 5, "swizzle_atomicity": 4, "fill_mode": 2,
}  # fmt: skip
"""Fields whose new values are constants, and how many of these there are."""
REPLACED = ("global_address", "rank", *FIELDS_BY_DIMENSION, *CONSTANT_FIELDS)
_PLAIN = {"interleave_layout": "interleave", "swizzle_atomicity": "atomicity", "fill_mode": "fill_nan"}
"""Fields whose new value is what the map holds, by the map's names of them."""
_96_BYTES = 4


def _changes(name: str, ordinal: int, value: int) -> dict[str, int]:
    """What tensormap.replace puts into which fields of a map. Values are those of `FIELDS`."""
    if name == "global_address":
        # The instruction takes the mark of large tensors away.
        return {"address": value & ~15, "large": 0}
    if name == "rank":
        return {"rank": (value & 7) + FIELDS["rank"].bias}
    if name == "box_dim":
        return {f"box{ordinal}": _from(f"box{ordinal}", value)}
    if name == "global_dim":
        return {f"size{ordinal}": _from(f"size{ordinal}", value)}
    if name == "element_stride":
        return {f"element_stride{ordinal}": _from(f"element_stride{ordinal}", value)}
    if name == "global_stride":
        low, high = value & STRIDE_LOW, value & ~STRIDE_LOW & (1 << 40) - 1
        return {f"stride{ordinal}": low & ~15, f"stride_high{ordinal}": high}
    if name == "elemtype":
        element = list(ELEMENTS.values())[value]
        return {"element": element.number, "tf32": int(element.rounded)}
    if name == "swizzle_mode":
        return {"swizzle": value % _96_BYTES, "swizzle_96B": int(value == _96_BYTES)}
    return {_PLAIN[name]: value}


def _from(field: str, value: int) -> int:
    """A count as its field holds it, of which higher bits are lost."""
    place = FIELDS[field]
    return (value - place.bias & (1 << place.width) - 1) + place.bias


@dataclass
class Edit:
    """A map that was changed: who did it last, whether it was released since, and the threads that acquired it."""

    writer: int
    released: bool = False
    acquired: set[int] = field(default_factory=set)


class MapEdits(RemoteStores):
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
            for changed, new in _changes(name, ordinal, given).items():
                place = FIELDS[changed]
                number = number & ~((1 << place.width) - 1 << place.at) | place.put(new)
            data = np.frombuffer(number.to_bytes(SIZE, "little"), np.uint8)
            self.store_at(store, at, data, threads)
            self.edits[address] = Edit(int(thread[0]))

    def copy_map(self, ins: Instruction, into: np.ndarray, source: np.ndarray, g: ThreadGroup) -> None:
        """tensormap.cp_fenceproxy: each warp copies a map from shared to global memory, and releases it."""
        self.edits = {} if self.edits is None else self.edits
        load, store = AccessInfo(ins, "shared", "u1", counted=False), AccessInfo(ins, "global", "u1", counted=False)
        for warp in g.warps.tolist():
            row = int(np.flatnonzero(g.threads >> 5 == warp)[0])
            thread = g.threads[row : row + 1].copy()
            to, at = (int(np.broadcast_to(where, (g.n,))[row]) for where in (into, source))
            if to % SIZE or at % SIZE:
                self.fault("misaligned", f"the tensor maps at 0x{to:x} and 0x{at:x}", ins, thread)
            step, threads = np.arange(SIZE, dtype=np.uint64), np.repeat(thread, SIZE)
            self.store_at(store, np.uint64(to) + step, self.load_at(load, np.uint64(at) + step, threads), threads)
            self.edits[to] = Edit(int(thread[0]), released=True)

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
