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

    def get(self, key: K) -> V | None:
        """The value of a key in this scope or one around it; None where there is none."""
        return self._table.get(key)

    def add(self, key: K, value: V) -> None:
        """Set a key until the innermost scope ends; it has no value yet."""
        assert key not in self._table
        self._table[key] = value
        self._added.append(key)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is added inside is gone behind it."""
        before = len(self._added)
        yield
        for key in self._added[before:]:
            del self._table[key]
        del self._added[before:]
