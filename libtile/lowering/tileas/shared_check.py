# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the places in shared memory that a function names can be: what holds behind `tileas-allocate-shared-memory`.

1. What is made in shared memory has an offset, of its alignment.
2. What lives at the same time lies apart, exchanges included, but for those in the stages of drained pipelines.
3. All of it lies within the function's `shared_bytes`, and these within what the target has.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.allocate import (
    BYTES,
    OFFSET,
    Numbering,
    Storage,
    integer_attribute,
    may_take_stages,
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
    numbering = Numbering(function)
    storages = numbering.storages()
    alive: list[Storage] = []
    made = 0
    for op, number in numbering.first.items():
        alive = [s for s in alive if s.end >= number]
        if made < len(storages) and storages[made].op is op:
            storage = storages[made]
            made += 1
            place = op.attributes.get(OFFSET)
            if not isinstance(place, IntegerAttr):
                raise unsupported(op, f"has no '{OFFSET}', which tileas-allocate-shared-memory gives it", gpu.name)
            storage.offset = place.value.data
            if storage.offset % storage.alignment:
                raise unsupported(
                    op, f"lies at {storage.offset}, which is no multiple of {storage.alignment}", gpu.name
                )
            _check_place(op, storage.offset, storage.limit, total, alive, gpu)
            alive.append(storage)
        for exchange in places_of(op):
            lives = [s for s in alive if not may_take_stages(s, op, number, exchange)]
            _check_place(op, exchange.offset, exchange.end, total, lives, gpu)


def _check_place(op: Operation, start: int, end: int, total: int, alive: list[Storage], gpu: Target) -> None:
    where = f"takes bytes {start} to {end} of shared memory"
    if end > total:
        raise unsupported(op, f"{where}, and the function's '{BYTES}' are {total}", gpu.name)
    for other in alive:
        if start < other.limit and other.offset < end:
            raise unsupported(
                op, f"{where}, while '{other.op.name}' op lives at {other.offset} to {other.limit}", gpu.name
            )
