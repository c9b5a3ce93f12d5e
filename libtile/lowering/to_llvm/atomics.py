# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic accesses, and those of replicated memory."""

from __future__ import annotations

from libtile.codegen import atomics, multimem
from libtile.dialects.nv_tileas.memory import (
    AtomicCasOp,
    AtomicRmwOp,
    MultimemLoadReduceOp,
    MultimemReduceOp,
    MultimemStoreOp,
    TiledAtomicRmwOp,
)
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.memory import handed_by, optional_tile, ordering, tiled_operands
from libtile.numerics.elements import ELEMENTS

_SCOPES = {"tl_blk": "tl_blk", "cluster": "device", "gpu": "device", "sys": "sys"}
"""Scopes by the names that accesses know them by. A cluster is part of a device, whose scope holds for it as well."""


def _atomic(op: AtomicRmwOp | AtomicCasOp | TiledAtomicRmwOp) -> str:
    """The kind of instruction of an atomic op."""
    assert op.atom is not None  # the legality table has seen to it
    return op.atom.kind


@rule(AtomicRmwOp)
def _atomic_rmw(e: Emitter, op: AtomicRmwOp) -> None:
    result = atomics.atomic_rmw(
        e.b,
        op.rmw_mode.keyword,
        _atomic(op),
        e.tile(op.base),
        e.tile(op.value),
        mask=optional_tile(e, op.mask),
        ordering=ordering(op),
        result_used=op.result.first_use is not None,
        handed=handed_by(op),
    )
    e.bind(op.result, result)


@rule(AtomicCasOp)
def _atomic_cas(e: Emitter, op: AtomicCasOp) -> None:
    pointers, compare, replacement = (e.tile(v) for v in (op.base, op.compare, op.replacement))
    result = atomics.atomic_cas(
        e.b,
        pointers,
        compare,
        replacement,
        mask=optional_tile(e, op.mask),
        ordering=ordering(op),
        result_used=op.result.first_use is not None,
        handed=handed_by(op),
    )
    e.bind(op.result, result)


@rule(TiledAtomicRmwOp)
def _tiled_atomic(e: Emitter, op: TiledAtomicRmwOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    tile, mode = e.tile(op.value), op.rmw_mode.keyword
    if mode == "add" and not ELEMENTS[tile.element].is_integer:
        mode = "addf"  # nv_tileas has one name for both additions
    result = atomics.reduce_tile(
        e.b,
        mode,
        _atomic(op),
        tiled,
        index,
        tile,
        accesses,
        ordering=ordering(op),
        result_used=op.result.first_use is not None,
        handed=handed_by(op),
    )
    e.bind(op.result, result)


# -- replicated memory ------------------------------------------------------------------------------------------------


@rule(MultimemLoadReduceOp)
def _multimem_load_reduce(e: Emitter, op: MultimemLoadReduceOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    reduction, layout = op.reduction.keyword, e.layout(op.value)
    tile = multimem.multimem_load_reduce(
        e.b, reduction, tiled, index, layout, accesses, ordering=ordering(op), handed=handed_by(op)
    )
    e.bind(op.value, tile)


@rule(MultimemReduceOp)
def _multimem_reduce(e: Emitter, op: MultimemReduceOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    reduction, tile = op.reduction.keyword, e.tile(op.value)
    multimem.multimem_reduce(e.b, reduction, tiled, index, tile, accesses, ordering=ordering(op))


@rule(MultimemStoreOp)
def _multimem_store(e: Emitter, op: MultimemStoreOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    multimem.multimem_store(e.b, tiled, index, e.tile(op.value), accesses, ordering=ordering(op))
