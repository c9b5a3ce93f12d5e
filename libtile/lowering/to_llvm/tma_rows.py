# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies by TMA of rows that a tile of numbers selects, four at a time: each thread asks for those whose numbers it
holds, so that none of these are handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from libtile.atoms.tma import GATHERED, Boxes
from libtile.codegen import mbarrier, tma
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import I32
from libtile.codegen.tile import Tile, index, owner_predicate
from libtile.dialects.nv_tileas.tma import GatherTmaLoadOp, ScatterTmaStoreOp
from libtile.ir.tile_form import shape_of
from libtile.layouts import REGISTER
from libtile.layouts.registers import unique_registers
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.storage import Buffer, BulkToken
from libtile.lowering.to_llvm.tma import behind, coordinate, copied_boxes, counting_barrier, tensor_dims
from libtile.numerics.elements import STORAGE_BYTES

Copy = Callable[[Value, list[Value], Value], None]
"""Emits one copy: of a column, rows, and a place in shared memory."""


@rule(GatherTmaLoadOp)
def _gather(e: Emitter, op: GatherTmaLoadOp) -> None:
    descriptor, boxes, buffer = copied_boxes(e, op, by_rows=True)
    if not e.b.target.has("tma_gather4"):
        raise unsupported(op, "copies rows by TMA's mode gather4, which is not there", e.b.target.name)
    barrier, nbytes = counting_barrier(e, op, buffer)
    if op.mbarrier is None:
        with acting_thread(e):
            mbarrier.expect_bytes(e.b, barrier, nbytes)
    _copy_rows(e, op, boxes, buffer, lambda column, rows, place: tma.gather_rows(
        e.b, place, descriptor.pointer, column, rows, barrier))  # fmt: skip
    e.bind(op.result, None)


@rule(ScatterTmaStoreOp)
def _scatter(e: Emitter, op: ScatterTmaStoreOp) -> None:
    descriptor, boxes, buffer = copied_boxes(e, op, by_rows=True)
    if not e.b.target.has("tma_scatter4"):
        raise unsupported(op, "copies rows by TMA's mode scatter4, which is not there", e.b.target.name)
    _copy_rows(e, op, boxes, buffer, lambda column, rows, place: tma.scatter_rows(
        e.b, descriptor.pointer, column, rows, place))  # fmt: skip
    e.bind(op.result, BulkToken(by_all=True))


def _copy_rows(e: Emitter, op: GatherTmaLoadOp | ScatterTmaStoreOp, boxes: Boxes, buffer: Buffer, copy: Copy) -> None:
    b, indices = e.b, op.group("indices")
    dense, down = boxes.order
    dims = tensor_dims(op, len(boxes.order))
    column, rows = indices[dims[dense]], indices[dims[down]]
    if shape_of(column.type) or shape_of(rows.type) != (buffer.layout.shape[down],):
        raise unsupported(op, "does not name one column, and as many rows as its buffer has", b.target.name)
    if e.one_thread:
        raise unsupported(op, "is run by one thread of an agent, and many hold the numbers of its rows", b.target.name)
    first, numbers = coordinate(e, e.scalar(column)), e.tile(rows)
    groups = list(_groups(numbers))
    if not groups:
        problem = f"has the numbers of its rows in a layout in which threads do not hold {GATHERED} of neighbours"
        raise unsupported(op, problem, b.target.name)
    row_bytes = boxes.box[0] * STORAGE_BYTES[buffer.element]
    owner = owner_predicate(b, numbers.layout)
    with b.when(owner):
        for registers in groups:
            chosen = [coordinate(e, numbers.registers[r]) for r in registers]
            place = b.mul(index(b, numbers.layout, registers[0], 0), integer(I32, row_bytes))
            start = b.offset(buffer.pointer, place)
            for part in boxes.copies:
                copy(b.add(first, integer(I32, part.corner[dense])), chosen, behind(e, start, part.offset))


def _groups(numbers: Tile) -> Iterator[list[int]]:
    """The registers of neighbouring elements, four at a time, in their order; none where threads hold no four."""
    bits = [i for n in (1, 2) for i, v in enumerate(numbers.layout.basis(REGISTER)) if v == (n,)]
    if len(bits) != GATHERED.bit_length() - 1:
        return
    one, two = (1 << i for i in bits)
    for r in unique_registers(numbers.layout):
        if not r & (one | two):
            yield [r, r | one, r | two, r | one | two]
