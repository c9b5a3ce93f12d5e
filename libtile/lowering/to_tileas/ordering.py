# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiled accesses of nv_tileas in the forms that the dialect has.

An acquiring load is a relaxed one with an acquiring fence behind it, a releasing store a relaxed one with a releasing
fence in front (PTX ISA, "Acquire pattern", "Release pattern"); the addition of an atomic has one name for integers and
floats; a store that may reach out of bounds has a padding value.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.nv_tileaa.attributes import MemSemanticAttr, PaddingValueAttr, RmwModeAttr
from libtile.dialects.nv_tileaa.memory import MemoryOp, TiledAtomicRmwOp, TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.memory import FenceOp

_FENCED = {(TiledLoadOp, "acquire"), (TiledStoreOp, "release")}


def fence_of(op: Operation) -> MemSemanticAttr | None:
    """The ordering that an access leaves to a fence; None when it has none, or keeps it."""
    if not isinstance(op, MemoryOp) or (type(op), op.semantic) not in _FENCED:
        return None
    return op.mem_semantic


def lowered_properties(op: Operation) -> dict[str, Attribute]:
    """The properties that an access has in nv_tileas."""
    properties = dict(op.properties)
    if fence_of(op) is not None:
        properties["mem_semantic"] = MemSemanticAttr("relaxed")
    if isinstance(op, TiledAtomicRmwOp) and op.rmw_mode == RmwModeAttr("addf"):
        properties["rmw_mode"] = RmwModeAttr("add")
    if isinstance(op, TiledStoreOp) and not all(op.inside):
        # What says that a store is not known to lie inside; nothing is written there.
        properties["padding_value"] = PaddingValueAttr("zero")
    return properties


def make_fence(op: MemoryOp, semantic: MemSemanticAttr, token: SSAValue | None) -> FenceOp:
    """The fence beside an access, in the order of its tokens where it has one."""
    results = [] if token is None else [MemTokenType()]
    return FenceOp.make(token, results=results, mem_semantic=semantic, mem_scope=op.mem_scope, location=op.location)
