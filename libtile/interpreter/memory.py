# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores by pointer, tokens, allocations and fences."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.interpreter.accesses import Accesses, define_bytes, is_strong, require_active, undefined_bytes
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.formats import element as element_of
from libtile.interpreter.races import Token, join
from libtile.interpreter.rules import Mask, Run, Site, effect

MAX_ALLOCA = 1 << 30
"""Bytes that the allocas that are alive may have together: more is refused, as the specification has it trap."""


@effect("make_token")
def make_token(site: Site) -> Run:
    return lambda block: Token() if site.tokens else None


@effect("join_tokens")
def join_tokens(site: Site) -> Run:
    return lambda block, tokens: join(tokens) if site.tokens else None


@effect("gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko")
def pass_token(site: Site) -> Run:
    """One kernel runs at a time and memory has no caches or aliases: nothing is left to wait for."""
    return lambda block, token: join((token,)) if site.tokens else None


@effect("load_ptr_tko", accepts_undefined=("source", "paddingValue"), yields_mask=True, synchronises=is_strong)
def load_ptr_tko(site: Site) -> Run:
    elem = site.element("result")
    shape = site.shape("result")
    accesses = Accesses.of(site, elem, reads=True)

    def run(block: Any, source: Array, mask: Array | None, padding: Array | None, token: Any,
            undefined: tuple = (None, None)) -> tuple[Array, Any, Mask]:  # fmt: skip
        addresses = np.asarray(source)
        where = None if mask is None else np.asarray(mask)
        require_active(undefined[0], where, "a pointer")
        loaded = block.memory.gather(addresses, elem, where)
        missing: Mask = None
        if site.masks:
            missing = undefined_bytes(block.memory, addresses, elem.storage_bytes, where)
        if site.tokens:
            token = accesses.ordered(block, addresses, where, token)
        if where is None:
            return loaded[()], token, missing
        if padding is not None:
            loaded = np.where(where, loaded, padding)
        if site.masks:
            missing = _masked_out(shape, where, padding, missing, undefined[1])
        return loaded[()], token, missing

    return run


def _masked_out(
    shape: tuple[int, ...], where: np.ndarray, padding: Array | None, missing: Mask, undefined: Mask
) -> Mask:
    """Elements that were not loaded are uninitialised, unless a padding value stands for them."""
    result = np.zeros(shape, bool) if missing is None else missing
    if padding is None:
        result = result | ~where
    elif undefined is not None:
        result = result | (~where & undefined)
    return result if result.any() else None


@effect("store_ptr_tko", accepts_undefined=("destination", "value"), synchronises=is_strong)
def store_ptr_tko(site: Site) -> Run:
    elem = site.element("value")
    accesses = Accesses.of(site, elem, writes=True)

    def run(block: Any, destination: Array, value: Array, mask: Array | None, token: Any,
            undefined: tuple = (None, None)) -> Any:  # fmt: skip
        addresses = np.asarray(destination)
        where = None if mask is None else np.asarray(mask)
        require_active(undefined[0], where, "a pointer")
        block.memory.scatter(addresses, value, elem, where)
        if site.masks:
            define_bytes(block.memory, addresses, elem.storage_bytes, where, undefined[1])
        return accesses.ordered(block, addresses, where, token)

    return run


@effect("alloca")
def alloca(site: Site) -> Run:
    pointee = element_of(site.type_of("result")).pointee
    if pointee is None:
        raise TypeError("alloca gives a pointer")
    size = site.attr("num_elem") * pointee.storage_bytes
    alignment, shared = max(site.attr("alignment"), 1), site.attr("global")

    def run(block: Any) -> Array:
        if size + block.memory.temporary > MAX_ALLOCA:
            others = f" beside {block.memory.temporary} bytes of others" if block.memory.temporary else ""
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"an allocation of {size} bytes cannot be satisfied{others}")
        # Its content is arbitrary: a pattern that shows where it is used.
        data = np.full(size, 0xCD, np.uint8)
        allocation = block.memory.allocate(data, f"an alloca of {size} bytes", alignment=alignment, defined=False)
        block.memory.temporary += size
        if not shared:
            allocation.private = block.linear
        block.allocas.append(allocation)
        return np.int64(allocation.base)

    return run
