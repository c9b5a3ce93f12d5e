# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the places in shared memory that a function names can be: what holds behind `tileas-allocate-shared-memory`.

1. What is made in shared memory has an offset, of its alignment.
2. What lives at the same time lies apart, exchanges included, as `storage_lives` has it.
3. All of it lies within the function's `shared_bytes`, and these within what the target has.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.codegen.exchange import Exchange
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.storage_lives import (
    BYTES,
    OFFSET,
    Agents,
    Life,
    Lives,
    Storage,
    agents_around,
    at_once,
    integer_attribute,
    places_of,
)
from libtile.targets import Target


def check_shared_memory(function: FuncOp, gpu: Target) -> None:
    """LoweringError, with the op and its place, for the first rule that a function breaks."""
    total = integer_attribute(function, BYTES)
    if total > gpu.shared_per_block:
        raise unsupported(
            function, f"takes {total} bytes of shared memory, of which there are {gpu.shared_per_block}", gpu.name
        )
    lives = Lives(function)
    placed: list[Storage] = []
    for storage in lives.storages():
        op, place = storage.op, storage.op.attributes.get(storage.attribute)
        if not isinstance(place, IntegerAttr):
            raise unsupported(
                op, f"has no '{storage.attribute}', which tileas-allocate-shared-memory gives it", gpu.name
            )
        storage.offset = place.value.data
        if storage.offset % storage.alignment:
            raise unsupported(op, f"lies at {storage.offset}, which is no multiple of {storage.alignment}", gpu.name)
        for piece in storage.pieces:
            start, end = storage.offset + piece.start, storage.offset + piece.end
            _check_place(op, (start, end), piece.life, total, placed, gpu)
        placed.append(storage)
    for storage, pipeline in lives.within():
        storage.offset += integer_attribute(pipeline, OFFSET)
        placed.append(storage)
    _check_exchanges(lives, placed, total, gpu)


def _check_exchanges(lives: Lives, placed: Iterable[Storage], total: int, gpu: Target) -> None:
    exchanged: list[tuple[Agents, Operation, Exchange]] = []
    for op in lives.first:
        for exchange in places_of(op):
            place, agents = (exchange.offset, exchange.end), agents_around(op)
            _check_place(op, place, lives.of_exchange(op), total, placed, gpu)
            for by, other, beside in exchanged if agents else ():
                if at_once(by, agents) and _overlap(place, (beside.offset, beside.end)):
                    where = f"takes bytes {place[0]} to {place[1]} of shared memory, where another agent's"
                    raise unsupported(op, f"{where} '{other.name}' op exchanges elements", gpu.name)
            exchanged.append((agents, op, exchange))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _check_place(
    op: Operation, place: tuple[int, int], life: Life, total: int, placed: Iterable[Storage], gpu: Target
) -> None:
    where = f"takes bytes {place[0]} to {place[1]} of shared memory"
    if place[1] > total:
        raise unsupported(op, f"{where}, and the function's '{BYTES}' are {total}", gpu.name)
    for other in placed:
        for taken in other.taken(life):
            if _overlap(place, taken):
                raise unsupported(
                    op, f"{where}, while '{other.op.name}' op lives at {taken[0]} to {taken[1]}", gpu.name
                )
