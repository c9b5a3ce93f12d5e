# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-allocate-tensor-memory`: columns of tensor memory for everything that lies there.

    tensor_offset     on what makes storage: the column from which on it lies
    tensor_lane       there, where it is not 0: the lane of each quarter from which on it lies
    tensor_columns    on the first op that makes some: how many columns the kernel allocates there, a power of two

A kernel allocates once, and gives all columns back at its last `dealloc_tensor`, which is the only one that stays.
Storage lives from the op that makes it to the last one that uses it, or something that is made of it, in the function's
block: an op with agents runs them at the same time. What lives at the same time lies apart; what is made later takes
columns that are free again. Two results of 64 rows, which take half of the lanes, may lie in the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from libtile.atoms import tcgen05, tensor_columns
from libtile.atoms.tensor_columns import Place
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp, DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp
from libtile.dialects.nv_tileas.types import (
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.lowering.errors import unsupported
from libtile.support.records import dataclass

OFFSET, LANE, COLUMNS = "tensor_offset", "tensor_lane", "tensor_columns"
_MADE_OF = (BufferType, PipelineType, PipelineIteratorType, ProducerTokenType, ConsumerTokenType)
"""Types of values through which storage is used."""


@dataclass(frozen=True)
class AllocateTensorMemoryPass(ModulePass):
    """Place results, operands and scale factors in tensor memory, where what lives at the same time lies apart."""

    name = "tileas-allocate-tensor-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp):
                allocate(inner)


@dataclass
class _Storage:
    """What lives in tensor memory from op number `start` of the function's block to `end`, both included."""

    place: Place
    start: int
    end: int


def allocates(op: Operation) -> bool:
    """Whether a kernel allocates tensor memory at an op that makes storage there, as far as that is decided."""
    return COLUMNS in op.attributes or OFFSET not in op.attributes


def is_in_tensor_memory(op: Operation) -> bool:
    """Whether an op makes storage in tensor memory."""
    return isinstance(op, AllocTensorOp) and isinstance(op.result.type, BufferType) and op.result.type.space == "tmem"


def allocate(function: FuncOp) -> None:
    """Place what lies in tensor memory in one function. LoweringError where there is too much of it."""
    made = [op for op in ops_of(function, AllocTensorOp) if is_in_tensor_memory(op)]
    if not made:
        return
    numbers = {op: number for number, op in enumerate(function.body.block.ops)}
    placed: list[_Storage] = []
    halves = not _has_left_operands(function)
    for op in made:
        if op not in numbers:
            raise unsupported(op, "is storage in tensor memory that the function itself does not make")
        ends = [numbers[_of_block(use, function)] for use in _users(op.result)]
        place = _place(op, halves, [other.place for other in placed if other.end >= numbers[op]])
        placed.append(_Storage(place, numbers[op], max(ends, default=numbers[op])))
        op.attributes[OFFSET] = IntegerAttr(place.column, i64)
        op.attributes.pop(LANE, None)
        if place.lane:
            op.attributes[LANE] = IntegerAttr(place.lane, i64)
        if op.pair != made[0].pair:
            raise unsupported(op, "is storage of a pair of CTAs, or of one, and the kernel's other storage is not")
    total = tcgen05.allocated_columns((tcgen05.LANES, max(storage.place.limit for storage in placed)))
    made[0].attributes[COLUMNS] = IntegerAttr(total, i64)
    for free in ops_of(function, DeallocTensorOp)[:-1]:
        erase(free)


def _has_left_operands(function: FuncOp) -> bool:
    """Whether products read left operands from tensor memory, which lie in the lanes of their results."""
    lefts = (op.a.type for op in ops_of(function, AsyncDotIntoOp))
    return any(isinstance(type_, BufferType) and type_.space == "tmem" for type_ in lefts)


def _place(op: AllocTensorOp, halves: bool, alive: Sequence[Place]) -> Place:
    """At the lowest column that nothing has that lives at the same time; of each of its stages storage takes a column
    for each element of a row, and half of the lanes where it may and has 64 rows."""
    type_ = op.result.type
    assert isinstance(type_, BufferType)
    if len(type_.shape) != 3:
        raise unsupported(op, "is no storage for stages in tensor memory")
    stages, *shape = type_.shape
    lanes = tensor_columns.lanes_of(shape[0]) if halves and op.pair is None else tcgen05.WARP_LANES
    place = tensor_columns.place(stages * tcgen05.result_columns(shape), lanes, alive)
    if place.limit > tcgen05.COLUMNS:
        problem = f"needs {place.columns} columns of tensor memory from {place.column} on"
        raise unsupported(op, f"{problem}, which has {tcgen05.COLUMNS}")
    return place


def _users(value: SSAValue) -> Iterator[Operation]:
    """The ops that use storage, or what is made of it."""
    seen: set[Operation] = set()
    work = [value]
    while work:
        for use in work.pop().uses:
            if use.operation not in seen:
                seen.add(use.operation)
                yield use.operation
                work += [r for r in use.operation.results if isinstance(r.type, _MADE_OF)]


def _of_block(op: Operation, function: FuncOp) -> Operation:
    """The op of a function's block in which an op is."""
    while op.parent is not function.body.block:
        parent = op.parent_op()
        assert parent is not None  # uses are below the block of what is used
        op = parent
    return op
