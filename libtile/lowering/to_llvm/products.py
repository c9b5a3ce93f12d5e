# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products, by the instructions that their atoms name."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr

from libtile.codegen import mma, mma_block_scale, mma_scaled
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.lowering.tileas.exchanges.ways import STEPS_AT_ONCE, shared_ways_of
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import UnsupportedError
from libtile.targets import MMA_BLOCK_SCALE


@rule(DotOp)
def _dot(e: Emitter, op: DotOp) -> None:
    a, b, c = (e.tile(v) for v in (op.a, op.b, op.c))
    if op.atom.kind != FMA:
        e.bind(op.result, mma.dot(e.b, a, b, c, op.atom.instruction))
        return
    steps = op.attributes.get(STEPS_AT_ONCE)
    if not isinstance(steps, IntegerAttr):
        raise UnsupportedError(f"has no '{STEPS_AT_ONCE}', which tileas-materialize-convert-layout gives it")
    e.bind(op.result, mma.multiply_add(e.b, a, b, c, shared_ways_of(op, 2), steps.value.data))


@rule(ScaledDotOp)
def _scaled_dot(e: Emitter, op: ScaledDotOp) -> None:
    a, b, c, sfa, sfb = (e.tile(v) for v in (op.a, op.b, op.c, op.sfa, op.sfb))
    by = mma_block_scale if op.atom.kind == MMA_BLOCK_SCALE else mma_scaled
    e.bind(op.result, by.dot_scaled(e.b, a, b, c, sfa, sfb, op.atom.instruction))
