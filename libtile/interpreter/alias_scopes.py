# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds accesses to what alias scopes of memrefs say: a byte that is written is accessed through one scope only.

With the check `alias-scope`, each byte has the scopes by which it was last written and last read. Accesses that have
no scope, by their memref or by what stands on one through pointers, may be to any memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from libtile.analysis.alias_scopes import scope_of
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.inner_rules import Site

NOBODY, SEVERAL = -1, -2
Claim = Callable[[Any, Callable[[], np.ndarray]], None]
"""Checks an access of a tile block, of elements at addresses that are computed if they have to be."""


def has_scopes(function: Operation) -> bool:
    """Whether a function accesses memory through alias scopes."""
    return any(scope_of(op) is not None for op in function.walk())


def claim_of(site: Site, size: int, *, writes: bool) -> Claim:
    """The check of an access to elements of so many bytes; Fault for one of a byte that another scope has."""
    scope = scope_of(site.op)
    if scope is None or not site.on("alias-scope"):
        return lambda block, addresses: None

    def check(block: Any, addresses: Callable[[], np.ndarray]) -> None:
        flat = np.asarray(addresses()).reshape(-1)
        allocation = block.memory.find(int(flat.min())) if flat.size else None
        if allocation is None or int(flat.max()) + size > allocation.end:
            return  # which the access itself says
        bytes_ = (flat[:, None] - allocation.base + np.arange(size)).reshape(-1)
        if allocation.scopes is None:
            allocation.scopes = tuple(np.full(allocation.data.size, NOBODY, np.int64) for _ in range(2))
        writer, reader = allocation.scopes
        for held in (writer, reader) if writes else (writer,):
            found = held[bytes_]
            wrong = np.flatnonzero((found != NOBODY) & (found != scope))
            if wrong.size:
                other = int(found[wrong[0]])
                who = "others" if other == SEVERAL else f"one through alias scope {other}"
                raise Fault(
                    FaultKind.ASSUMPTION,
                    f"byte {int(bytes_[wrong[0]])} of {allocation.owner} is accessed through alias scope {scope}, and "
                    f"was by {who}",
                )
        if writes:
            writer[bytes_] = scope
        else:
            before = reader[bytes_]
            reader[bytes_] = np.where((before == NOBODY) | (before == scope), scope, SEVERAL)

    return check
