# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiled accesses of nv_tileas in the forms that the dialect has.

An acquiring load is a relaxed one with an acquiring fence behind it, a releasing store a relaxed one with a releasing
fence in front (PTX ISA, "Acquire pattern", "Release pattern"); the addition of an atomic has one name for integers and
floats; a store that may reach out of bounds has a padding value.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.nv_tileaa.attributes import MemSemanticAttr, PaddingValueAttr, RmwModeAttr
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.tile_form import build

_FENCED = {("nv_tileaa.tiled_load", "acquire"), ("nv_tileaa.tiled_store", "release")}


def fence_of(op: Operation) -> MemSemanticAttr | None:
    """The ordering that an access leaves to a fence; None when it has none, or keeps it."""
    semantic = op.properties.get("mem_semantic")
    fenced = isinstance(semantic, MemSemanticAttr) and (op.name, semantic.keyword) in _FENCED
    return semantic if fenced and isinstance(semantic, MemSemanticAttr) else None


def lowered_properties(op: Operation) -> dict[str, Attribute]:
    """The properties that an access has in nv_tileas."""
    properties = dict(op.properties)
    if fence_of(op) is not None:
        properties["mem_semantic"] = MemSemanticAttr("relaxed")
    if op.name == "nv_tileaa.tiled_atomic_rmw" and properties["rmw_mode"] == RmwModeAttr("addf"):
        properties["rmw_mode"] = RmwModeAttr("add")
    inside = properties.get("in_bounds")
    if op.name == "nv_tileaa.tiled_store" and isinstance(inside, DenseArrayBase) and not all(inside.get_values()):
        # What says that a store is not known to lie inside; nothing is written there.
        properties["padding_value"] = PaddingValueAttr("zero")
    return properties


def make_fence(op: Operation, semantic: MemSemanticAttr, token: SSAValue | None) -> Operation:
    """The fence beside an access, in the order of its tokens where it has one."""
    scope = op.properties["mem_scope"]
    results = [] if token is None else [MemTokenType()]
    fence = build("nv_tileas.fence", [token], results, {"mem_semantic": semantic, "mem_scope": scope})
    fence.location = op.location
    return fence
