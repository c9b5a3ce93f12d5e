# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-insert-fences`: what acquires or releases becomes barriers, fences, and qualifiers of instructions.

A releasing access orders what all threads of the tile block did before, an acquiring one what all do behind: the block
meets in front of the one and behind the other, and PTX's causality order carries writes from thread to thread. An
access of one instruction per thread carries the semantics itself; several are relaxed, with one fence in front or
behind, which costs no more than one of them would (PTX ISA, "Release pattern", "Acquire pattern").

    instruction_semantic    on an access that acquires or releases, or has a fence's work to do: what each of its
                            instructions says; on a fence: what the thread's own fence says, and that the block meets
                            where a barrier stands

Of accesses in a row, with nothing between that acts on memory and in no order to each other, only the first one has a
fence in front and only the last one behind: these order what is before and behind them all.

An `nv_tileas.fence` beside an access of one instruction through a view goes, and the access carries its semantics.
Where the block meets anyhow, as for a token, it does not meet twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import MemScopeAttr, MemSemanticAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import MemoryOp, pointee_of
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.memory import (
    AtomicCasOp,
    AtomicRmwOp,
    FenceOp,
    LoadOp,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from libtile.dialects.nv_tileas.tiles import BarrierOp, ConvertLayoutOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.layouts.registers import register_groups, unique_registers
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.select_copies import moved_layout, vector_of
from libtile.lowering.tileas.memory.descriptor_fences import insert_descriptor_fences
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import PACKED, STORAGE_BYTES
from libtile.support.records import dataclass

INSTRUCTION_SEMANTIC = "instruction_semantic"
ACQUIRES, RELEASES = ("acquire", "acq_rel"), ("release", "acq_rel")
DEFAULT_SCOPE = "gpu"

_FENCED = {(TiledLoadOp, "acquire"), (TiledStoreOp, "release")}
"""What a fence beside an access through a view can be merged with."""


@dataclass(frozen=True)
class InsertFencesPass(ModulePass):
    """Write down the barriers and fences of accesses that acquire or release, and what their instructions say."""

    name = "tileas-insert-fences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                insert_fences(inner)
                insert_descriptor_fences(inner)


def insert_fences(function: Operation) -> None:
    """Expand the memory semantics of one function. LoweringError for an access without a layout or an atom."""
    if not any(isinstance(op, FenceOp) or _is_ordering(op) for op in ops_of(function, FenceOp, MemoryOp)):
        return
    ops = [op for op in ops_of(function) if INSTRUCTION_SEMANTIC not in op.attributes]
    following = dict(_in_a_row(ops))
    behind_others = set(following.values())
    for op in ops:
        if isinstance(op, FenceOp):
            _expand_fence(op)
        elif _is_ordering(op):
            _expand_access(op, first=op not in behind_others, last=op not in following)


def _is_ordering(op: Operation) -> TypeGuard[MemoryOp]:
    return isinstance(op, MemoryOp) and op.semantic in (*ACQUIRES, *RELEASES)


def _in_a_row(ops: Sequence[Operation]) -> Iterator[tuple[MemoryOp, MemoryOp]]:
    """The atomics that acquire and release of which one comes right behind the other, and is ordered behind the same
    token. Both have the same scope, and more than one instruction: others carry their semantics themselves."""
    before: MemoryOp | None = None
    for op in ops:
        if isinstance(op, AtomicRmwOp) and op.semantic == "acq_rel" and instructions(op) > 1:
            if before is not None and _place_and_order(op) == _place_and_order(before):
                yield before, op
            before = op
        elif before is not None and not (is_pure(op) or isinstance(op, ConvertLayoutOp | BarrierOp)):
            before = None


def instruction_semantic(op: MemoryOp | FenceOp) -> str:
    """What each instruction of an access or a fence says; `weak` when nothing is said."""
    given = op.attributes.get(INSTRUCTION_SEMANTIC, op.mem_semantic)
    return given.keyword if isinstance(given, MemSemanticAttr) else "weak"


def instructions(op: MemoryOp) -> int:
    """How many instructions a thread takes for an access at most."""
    if isinstance(op, AtomicRmwOp | AtomicCasOp):
        return len(unique_registers(layout_of(op.accessed)))
    pointee = pointee_of(op.accessed.type)
    assert pointee is not None  # as the verifier has it
    element = "ptr" if isinstance(pointee, PtrType) else NUMBER_NAMES[pointee]
    vector = vector_of(op, element)
    if isinstance(op, LoadOp | StoreOp):
        most = MAX_ACCESS_BYTES // STORAGE_BYTES[element]
        return len(register_groups(layout_of(op.accessed), vector.dim, min(vector.count, most)))
    # Half a byte is stored in two steps: what it shares the byte with is changed by somebody else.
    steps = 2 if isinstance(op, TiledLoadOp | TiledStoreOp) and element in PACKED else 1
    return steps * len(register_groups(moved_layout(op), vector.dim, vector.count))


def _place_and_order(op: MemoryOp) -> tuple[object, ...]:
    return op.parent, op.token, op.mem_scope


def _expand_access(op: MemoryOp, *, first: bool, last: bool) -> None:
    """The barriers and fences of an access, which may be neither the first nor the last one of some in a row."""
    semantic, several = op.semantic, instructions(op) > 1
    op.attributes[INSTRUCTION_SEMANTIC] = MemSemanticAttr("relaxed" if several else semantic)
    if semantic in RELEASES and first:
        _meet_before(op)
        if several:
            _before(op, _fence(op, "release"))
    if semantic in ACQUIRES and last:
        _meet_behind(op)
        if several:
            _behind(op, _fence(op, "acquire"))


def _expand_fence(op: FenceOp) -> None:
    semantic = op.mem_semantic.keyword
    access = _merged_with(op)
    if access is not None:
        access.attributes[INSTRUCTION_SEMANTIC] = op.mem_semantic
    else:
        op.attributes[INSTRUCTION_SEMANTIC] = MemSemanticAttr("acq_rel")
    stays = op if access is None else access
    if semantic in RELEASES:
        _meet_before(stays)
    if semantic in ACQUIRES:
        _meet_behind(stays)
    if access is not None:
        if op.result_token is not None and op.token is not None:
            op.result_token.replace_all_uses_with(op.token)
        erase(op)


def _merged_with(op: FenceOp) -> TiledLoadOp | TiledStoreOp | None:
    """The access beside a fence whose one instruction can say what the fence says."""
    semantic = op.mem_semantic.keyword
    access = op.prev_op if semantic in ACQUIRES else op.next_op
    if not isinstance(access, TiledLoadOp | TiledStoreOp) or (type(access), semantic) not in _FENCED:
        return None
    if access.semantic != "relaxed" or access.mem_scope != op.mem_scope or (op.token is None and op.result_token):
        return None
    return access if instructions(access) == 1 else None


def _meet_before(op: Operation) -> None:
    """The block meets in front of an op, where it has not just met."""
    if not _is_meeting(op.prev_op):
        _before(op, BarrierOp.make(location=op.location))


def _meet_behind(op: Operation) -> None:
    """The block meets behind an op, where it does not meet next anyhow."""
    if not _is_meeting(op.next_op):
        _behind(op, BarrierOp.make(location=op.location))


def _is_meeting(op: Operation | None) -> bool:
    return isinstance(op, BarrierOp) and op.num_warps is None


def _fence(op: MemoryOp, semantic: str) -> FenceOp:
    made = FenceOp.make(
        mem_semantic=MemSemanticAttr(semantic),
        mem_scope=op.mem_scope or MemScopeAttr(DEFAULT_SCOPE),
        location=op.location,
    )
    made.attributes[INSTRUCTION_SEMANTIC] = MemSemanticAttr("acq_rel")
    return made


def _before(op: Operation, made: Operation) -> None:
    assert op.parent is not None
    op.parent.insert_op_before(made, op)


def _behind(op: Operation, made: Operation) -> None:
    assert op.parent is not None
    op.parent.insert_op_after(made, op)
