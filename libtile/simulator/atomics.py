# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic read-modify-write on global and shared memory (PTX ISA, "atom", "red").

Lanes that hit one address take effect in thread order. Additions of integers get their old values from a prefix sum;
everything else goes in rounds, where each round has every address at most once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.support.records import dataclass

from .access import _ALLOCATED, _EXPECT, Access, AccessInfo
from .types import DTYPES

if TYPE_CHECKING:
    from .group import ThreadGroup

Combine = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


@dataclass(slots=True)
class AtomicInfo(AccessInfo):
    """`combine(old, value, third)` gives the new contents; `kind` names the operation ("add", "cas", ...)."""

    kind: str = ""
    combine: Combine | None = None
    returns: bool = True


class Atomics(Access):
    """Atomic operations."""

    def atomic(
        self, info: AtomicInfo, g: ThreadGroup, addr: np.ndarray, b: Any, c: Any, mask: np.ndarray | None
    ) -> Any:
        """Do the operation; returns old values as [n] (or [vector, n])."""
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        if info.vector > 1:
            b = np.stack([np.broadcast_to(x, (g.n,)) for x in b])
        else:
            b = np.broadcast_to(b, (g.n,))
        shape = b.shape
        out = np.zeros(shape, dtype=DTYPES[info.code])
        if len(chosen):
            third = None if c is None else np.broadcast_to(c, (g.n,))[chosen]
            out[..., chosen] = self._atomic_at(info, addr[chosen], b[..., chosen], third, g.threads[chosen])
        return out

    def _atomic_at(
        self, info: AtomicInfo, addr: np.ndarray, b: np.ndarray, c: np.ndarray | None, threads: np.ndarray
    ) -> np.ndarray:
        if addr.dtype != np.uint64:
            addr = addr.view(np.uint32).astype(np.uint64)
        space = info.space
        if space == "generic":
            found, local = self.generic_space(info, addr, threads)
            if found is None:
                out = np.zeros(b.shape, dtype=DTYPES[info.code])
                for value in np.unique(local):
                    part = np.flatnonzero(local == value)
                    third = None if c is None else c[part]
                    out[..., part] = self._atomic_at(info, addr[part], b[..., part], third, threads[part])
                return out
            space, addr = found, local
        arena, off = self.locate(info, space, addr, threads, info.size)
        index = self._index(info, arena, off, info.size, threads, addr)
        if self.check:
            self._check_atomic(info, space, arena, off, index, threads)
        if space == "global":
            self._note_global_write(info, off, threads)
        lock = self.launch.lock if space == "global" else None
        with lock if lock is not None else contextlib.nullcontext():
            view = arena.views[info.code] if info.code != "q" else arena.data.view(DTYPES["q"])
            if info.vector > 1:
                return np.stack([_apply(info, view, index[k], b[k], None) for k in range(info.vector)])
            return _apply(info, view, index, b, c)

    def _check_atomic(
        self, info: AtomicInfo, space: str, arena: Any, off: np.ndarray, index: np.ndarray, threads: np.ndarray
    ) -> None:
        if info.element in _EXPECT:
            expect = _EXPECT[info.element]
            flags = arena.flag_views[info.element][index]
            wanted = expect if self.initialised else _ALLOCATED[info.element]
            if not ((flags & wanted) == wanted).all() or not (flags <= expect).all():
                self._diagnose(info, arena, off, threads, writing=False)
                self._diagnose(info, arena, off, threads, writing=True)
        else:
            self._check_bytes(info, arena, off, threads)
        if self.races is not None and space == "shared":
            # Atomics never race with each other; they order what their warps did before.
            words = np.unique(np.stack([off >> 2, threads >> 5]), axis=1)
            self.races.acquire(words[0], words[1] << 5)
            self.races.release(words[0], words[1] << 5)
        self._count(info, space, off, threads, reading=True, writing=True)

    def _check_bytes(self, info: AtomicInfo, arena: Any, off: np.ndarray, threads: np.ndarray) -> None:
        flags = arena.flags[off[:, None] + np.arange(info.size)]
        if not (flags == 3).all():
            self._diagnose(info, arena, off, threads, writing=True)


def _apply(info: AtomicInfo, view: np.ndarray, index: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """Old values, after the memory `view` has been updated."""
    order = np.argsort(index, kind="stable")
    places = index[order]
    new_place = np.empty(len(places), dtype=bool)
    new_place[0] = True
    np.not_equal(places[1:], places[:-1], out=new_place[1:])
    if new_place.all():
        old = view[index]
        view[index] = _combined(info, old, b, c)
        return old
    if info.kind == "add" and info.code[0] in "ui" and info.combine is None:
        return _integer_add(view, order, places, new_place, b)
    starts = np.flatnonzero(new_place)
    rank = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
    old = np.zeros(b.shape, dtype=view.dtype)
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max()) + 2))
    # A compare-and-swap that fails with the same operands everywhere (lanes that spin for a lock) fails for the rest
    # too.
    alike = info.kind == "cas" and c is not None and bool((b == b[0]).all() and (c == c[0]).all())
    for k in range(len(bounds) - 1):
        lanes = order[by_rank[bounds[k] : bounds[k + 1]]]
        now = view[index[lanes]]
        old[lanes] = now
        new = _combined(info, now, b[lanes], None if c is None else c[lanes])
        if alike and bool((new == now).all()):
            rest = order[by_rank[bounds[k] :]]
            old[rest] = view[index[rest]]
            break
        view[index[lanes]] = new
    return old


def _combined(info: AtomicInfo, old: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    if info.combine is None:
        return old + b
    return info.combine(old, b, c)


def _integer_add(
    view: np.ndarray, order: np.ndarray, places: np.ndarray, new_place: np.ndarray, b: np.ndarray
) -> np.ndarray:
    values = b[order]
    running = np.cumsum(values, dtype=values.dtype)
    before = running - values
    starts = np.flatnonzero(new_place)
    lengths = np.diff(np.append(starts, len(places)))
    base = np.repeat(before[starts], lengths)
    first = view[places]
    old = np.empty(b.shape, dtype=view.dtype)
    old[order] = first + (before - base)
    ends = np.append(starts[1:], len(places)) - 1
    view[places[ends]] = first[ends] + (running[ends] - before[starts])
    return old
