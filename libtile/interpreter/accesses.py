# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all memory ops share: tokens, the race check, uninitialised memory, and undefined values on their way out."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from libtile.interpreter.address_space import Memory, first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element
from libtile.interpreter.races import Token, join
from libtile.interpreter.rules import Mask, Site
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Accesses:
    """How an op accesses memory: made once per op, called for every execution."""

    site: Site
    element: Element
    ordering: str
    scope: str | None
    reads: bool
    writes: bool

    @staticmethod
    def of(site: Site, element: Element, *, reads: bool = False, writes: bool = False) -> Accesses:
        """From the op's ordering attributes."""
        return Accesses(site, element, site.attr("memory_ordering_semantics"), site.attr("memory_scope"), reads, writes)

    @property
    def op(self) -> Operation:
        return self.site.op

    def ordered(self, block: Any, addresses: np.ndarray, where: Array | None, token: Token | None) -> Token | None:
        """Check for races and give the result token; None when races are not looked for."""
        if self.writes and not self.reads and self.ordering != "weak":
            block.memory.version += 1  # read-modify-writes count their own changes
        if not self.site.tokens:
            return None
        if block.races is None:
            return join((token,))
        flat = np.asarray(addresses)
        size = self.element.storage_bytes
        tokens = []
        for part, allocation in block.memory.parts(flat, where if where is None else np.asarray(where)):
            if allocation.private not in (None, block.linear):
                message = f"{allocation.owner} belongs to tile block {allocation.private}: it is not `global`"
                raise Fault(FaultKind.OUT_OF_BOUNDS, message, first_index(part))
            offsets = flat[part] - allocation.base
            tokens.append(block.races.access(self, block, allocation, offsets, size, token))
        return join((token, *tokens))


def undefined_bytes(memory: Memory, addresses: np.ndarray, size: int, where: Array | None) -> Mask:
    """Which elements at these addresses hold a byte that nothing has been stored to; None: none of them."""
    result = None
    for part, allocation in memory.parts(addresses, where):
        if allocation.defined is None:
            continue
        spans = (addresses[part] - allocation.base)[..., None] + np.arange(size)
        missing = ~allocation.defined[spans].all(axis=-1)
        if missing.any():
            result = np.zeros(addresses.shape, bool) if result is None else result
            result[part] = missing
    return result


def define_bytes(memory: Memory, addresses: np.ndarray, size: int, where: Array | None, undefined: Mask) -> None:
    """Note what a store makes of memory: an uninitialised value may lie in an alloca, but not be given to the host."""
    for part, allocation in memory.parts(addresses, where):
        bad = None if undefined is None else undefined & part
        if allocation.defined is None:
            if bad is not None and bad.any():
                raise Fault(FaultKind.UNINITIALISED, "the stored value is uninitialised", first_index(bad))
            continue
        spans = (addresses[part] - allocation.base)[..., None] + np.arange(size)
        allocation.defined[spans] = True
        if bad is not None and bad.any():
            allocation.defined[(addresses[bad] - allocation.base)[..., None] + np.arange(size)] = False


def require_active(undefined: Mask, where: Array | None, what: str) -> None:
    """Fault if an operand's element that takes part in the access is uninitialised."""
    if undefined is None:
        return
    bad = undefined if where is None else undefined & where
    if np.any(bad):
        raise Fault(FaultKind.UNINITIALISED, f"{what} is uninitialised", first_index(bad))


def is_strong(op: Any) -> bool:
    """Whether other tile blocks may communicate through the op: it is not weak, nor within the tile block."""
    ordering = op.attribute_value("memory_ordering_semantics")
    return ordering != "weak" and op.attribute_value("memory_scope") != "tl_blk"
