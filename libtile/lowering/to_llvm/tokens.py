# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Facts, lifetimes and words to the compiler. Most are nothing at run time: they have done their work, or have a
remark that says what became of them."""

from __future__ import annotations

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import BFLOAT, HALF, I1, I8, I16
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileaa.tokens import AssumeOp, MarkForReuseOp, MessageOp, OptimizationBarrierOp
from libtile.dialects.nv_tileas.tiles import PragmaOp
from libtile.ir.tile_form import TileOp
from libtile.lowering.to_llvm.emitter import Emitter, rule


@rule(AssumeOp)
def _assume(e: Emitter, op: AssumeOp) -> None:
    e.bind(op.result, e.held[op.value])


@rule(MarkForReuseOp, MessageOp, PragmaOp)
def _nothing(e: Emitter, op: TileOp) -> None:
    """Lifetimes have been seen by the allocation of shared memory; messages and directives are remarks."""


@rule(OptimizationBarrierOp)
def _optimization_barrier(e: Emitter, op: OptimizationBarrierOp) -> None:
    """Every register goes through an empty instruction that nothing is known of. What is no register (a memref, a
    token) is made of such, and handed on."""
    for source, result in zip(op.values, op.outputs, strict=True):
        held = e.held[source]
        if isinstance(held, Tile):
            e.bind(result, held.map(lambda value: _opaque(e.b, value)))
        else:
            e.bind(result, _opaque(e.b, held) if isinstance(held, Value) else held)


def _opaque(b: KernelBuilder, value: Value) -> Value:
    """A value that LLVM cannot look through. Registers have 16 bits at least."""
    type_ = value.type
    if type_ in (I1, I8):
        return b.cast("trunc", _opaque(b, b.cast("zext", value, I16)), type_)
    if type_ in (HALF, BFLOAT):
        return b.cast("bitcast", _opaque(b, b.cast("bitcast", value, I16)), type_)
    letter = type_.constraint
    return b.asm("", f"={letter},0", type_, [value], side_effects=True)
