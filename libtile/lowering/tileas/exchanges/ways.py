# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ways`: how elements go from thread to thread in an op, as `tileas-materialize-convert-layout` writes it there.

    ways = [#nv_tileas.conversion<shared, #nv_tileas.layout<...>, store = ATOM, load = ATOM>]

One for each tile that goes: that of an extraction, both operands of a product, or the result that the owners of its
elements hand out.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.memory import AllocaOp, MemoryOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.attributes import ConversionAttr
from libtile.dialects.nv_tileas.memory import (
    AtomicCasOp,
    AtomicRmwOp,
    LoadOp,
    MultimemLoadReduceOp,
    TiledAtomicRmwOp,
    TiledLoadOp,
)
from libtile.ir.operands import source_of
from libtile.ir.tile_form import shape_of
from libtile.layouts.convert import Conversion
from libtile.layouts.shared_access import SharedWay
from libtile.support.diagnostics import LoweringError

WAYS = "ways"
STEPS_AT_ONCE = "steps_at_once"
"""On a product by fused multiply-adds: how many steps along K stand in one turn of its loop."""


HANDING_OUT = (LoadOp, TiledLoadOp, MultimemLoadReduceOp, AtomicRmwOp, AtomicCasOp, TiledAtomicRmwOp, AllocaOp)
"""Ops that may be done by the owner of each element alone."""


def hands_out(op: Operation) -> bool:
    """Whether owners of elements hand out what an op gave them: what others might have seen otherwise."""
    if isinstance(op, AtomicRmwOp | AtomicCasOp | TiledAtomicRmwOp):
        return op.results[0].first_use is not None
    return isinstance(op, AllocaOp) or (isinstance(op, MemoryOp) and op.semantic != "weak")


def is_part(op: Operation) -> bool:
    """Whether a slice is one of the parts of its shape that the tile can be cut into, at a place that is known."""
    whole, shape = shape_of(source_of(op).type), shape_of(op.results[0].type)
    offsets, strides = (integers_of(op.properties.get(name)) for name in ("offsets", "strides"))
    return (
        len(op.operands) == 1
        and len(shape) == len(whole)
        and set(strides) <= {1}
        and all(size & (size - 1) == 0 and not offset % size for offset, size in zip(offsets, shape))
    )


def set_ways(op: Operation, ways: Sequence[ConversionAttr]) -> None:
    op.attributes[WAYS] = ArrayAttr(ways)


def ways_of(op: Operation, count: int) -> tuple[ConversionAttr, ...]:
    """The ways of an op. LoweringError where there are not so many."""
    given = op.attributes.get(WAYS)
    ways = tuple(w for w in given.data if isinstance(w, ConversionAttr)) if isinstance(given, ArrayAttr) else ()
    if len(ways) != count:
        raise LoweringError(f"has {len(ways)} of {count} '{WAYS}', which tileas-materialize-convert-layout gives it")
    return ways


def shared_ways_of(op: Operation, count: int) -> tuple[SharedWay, ...]:
    """The ways of an op whose elements all go through shared memory. LoweringError where one does not."""
    found = []
    for way in ways_of(op, count):
        if way.through is None:
            raise LoweringError(f"has the way <{way.kind}>, and its elements go through shared memory")
        found.append(way.through.way)
    return tuple(found)


def handed_out_by(op: Operation) -> Conversion | SharedWay:
    """How owners of elements hand out what an op gave them: not at all (`Conversion.REGISTERS`), by shuffles or through
    shared memory. LoweringError for an op that does not say it."""
    (way,) = ways_of(op, 1)
    return Conversion(way.kind) if way.through is None else way.through.way
