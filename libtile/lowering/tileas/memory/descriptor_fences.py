# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fences around changes of descriptors on the device (PTX ISA, "tensormap.replace"): a release behind the last of
several changes, behind which the block meets, and an acquire before the copies that use the descriptor. Copies in a
loop that changes nothing have theirs in front of it."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.attributes import MemScopeAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tiles import BarrierOp
from libtile.dialects.nv_tileas.tma import (
    TENSORMAP,
    FenceProxyOp,
    MakeTiledTmaDescOp,
    TensormapReplaceOp,
    TmaOp,
)
from libtile.ir.classes import is_subclass
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of
from libtile.lowering.agents import is_elected

_WIDER = ("tl_blk", "cluster", "gpu", "sys")
_DEFAULT = "gpu"


def insert_descriptor_fences(function: Operation) -> None:
    """Insert the fences of one function, where it changes descriptors and has none yet."""
    changes = [op for op in ops_of(function, TensormapReplaceOp, MakeTiledTmaDescOp) if _changes(op)]
    if not changes or any(isinstance(op, FenceProxyOp) and op.proxy.data == TENSORMAP for op in ops_of(function)):
        return
    scope = max((_scope_of(op) for op in changes), key=_WIDER.index)
    for change in changes:
        if not _changes_go_on(change):
            _release(change, scope)
    for op in ops_of(function):
        if is_subclass(type(op), (TmaOp,)) and _is_changed(source_of(op)):
            _acquire(op, source_of(op), scope)


def _changes(op: Operation) -> bool:
    """Whether an op writes a descriptor in memory."""
    return isinstance(op, TensormapReplaceOp) or (isinstance(op, MakeTiledTmaDescOp) and op.on_device is not None)


def _scope_of(op: Operation) -> str:
    scope = op.mem_scope if isinstance(op, TensormapReplaceOp) else None
    if scope is not None:
        return scope.keyword
    # A descriptor that is made is the block's own, unless what is replaced in it says that others use it.
    return "tl_blk" if isinstance(op, MakeTiledTmaDescOp) else _DEFAULT


def _is_changed(descriptor: SSAValue) -> bool:
    """Whether a descriptor lies where the device writes it."""
    return isinstance(descriptor.owner, MakeTiledTmaDescOp)


def _changes_go_on(op: Operation) -> bool:
    """Whether another change follows before anything happens that could see this one."""
    at = op.next_op
    while at is not None and not _changes(at):
        if at.regions or at.next_op is None or is_subclass(type(at), (TmaOp, BarrierOp)):
            return False
        at = at.next_op
    return at is not None


def _release(op: Operation, scope: str) -> None:
    block = op.parent
    assert block is not None  # an op of a function
    fence = FenceProxyOp.make(None, proxy=TENSORMAP, mem_scope=MemScopeAttr(scope), location=op.location)
    made = [fence] if is_elected(op) else [fence, BarrierOp.make(location=op.location)]
    block.insert_ops_after(made, op)


def _acquire(op: Operation, descriptor: SSAValue, scope: str) -> None:
    at = op
    while not isinstance(parent := at.parent_op(), FuncOp | AgentSwitchOp) and parent is not None:
        if any(_changes(inner) for inner in ops_of(parent)):
            break
        at = parent
    before = at.prev_op
    while before is not None and not _changes(before) and not before.regions:
        if isinstance(before, FenceProxyOp) and before.descriptor is descriptor:
            return  # that of a copy before
        before = before.prev_op
    block = at.parent
    assert block is not None
    fence = FenceProxyOp.make(descriptor, proxy=TENSORMAP, mem_scope=MemScopeAttr(scope), location=op.location)
    block.insert_op_before(fence, at)
