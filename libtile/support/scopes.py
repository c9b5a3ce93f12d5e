# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A table that forgets what was set in a scope when the scope ends."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ScopedTable(Generic[K, V]):
    """One dictionary, so that a look-up takes no longer in a scope that is deep (a ChainMap asks each of its maps)."""

    def __init__(self) -> None:
        self._table: dict[K, V] = {}
        self._added: list[K] = []

    def first(self, key: K, value: V) -> V:
        """The value that a key has in this scope or one around it; where it has none, it gets this one until the
        innermost scope ends. The key is hashed once."""
        size = len(self._table)
        found = self._table.setdefault(key, value)
        if len(self._table) > size:
            self._added.append(key)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is added inside is gone behind it."""
        before = len(self._added)
        yield
        if before:
            for key in self._added[before:]:
                del self._table[key]
            del self._added[before:]
        else:
            self._table.clear()
            self._added.clear()
