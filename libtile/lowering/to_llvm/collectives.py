# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen import reduce, scan
from libtile.codegen.builder import Value
from libtile.dialects.nv_tileaa.collectives import Collective
from libtile.dialects.nv_tileas.steps import StepsAttr
from libtile.dialects.nv_tileas.tiles import ReduceOp, ScanOp
from libtile.ir.tile_form import integer_of
from libtile.layouts.collectives import REDUX
from libtile.lowering.errors import unsupported
from libtile.lowering.redux import redux_of
from libtile.lowering.to_llvm.elementwise import in_pairs, in_threes
from libtile.lowering.to_llvm.emitter import Emitter, rule


def _body(e: Emitter, op: Collective) -> Callable[[list[Value], list[Value]], list[Value]]:
    """The function in an op's region, on single values."""
    block = op.body.block

    def run(accumulated: list[Value], following: list[Value]) -> list[Value]:
        for argument, value in zip(block.args, [*accumulated, *following], strict=True):
            e.bind_one(argument, value)
        return [e.scalar(v) for v in e.emit_block(block)]

    return run


def _steps(op: ReduceOp | ScanOp) -> StepsAttr:
    assert op.steps is not None  # the legality table has seen to it
    return op.steps


def _by_warps(e: Emitter, op: ReduceOp, steps: StepsAttr) -> str | None:
    """The instruction that combines all lanes, where a step says so. LoweringError where there is none."""
    if all(step.kind != REDUX for step in steps.steps):
        return None
    name = redux_of(op, e.b.target)
    if name is None:
        raise unsupported(op, f"is not computed by one instruction for all lanes, as '{REDUX}' says", e.b.target.name)
    return name


@rule(ReduceOp)
def _reduce(e: Emitter, op: ReduceOp) -> None:
    tiles, steps = [e.tile(v) for v in op.inputs], _steps(op)
    made = reduce.reduce(
        e.b, tiles, integer_of(op.dim), steps.steps, _body(e, op), commutative=steps.commutative,
        in_pairs=in_pairs(e, op), in_threes=in_threes(e, op), by_warps=_by_warps(e, op, steps),
    )  # fmt: skip
    for result, tile in zip(op.outputs, made, strict=True):
        e.bind(result, tile)


@rule(ScanOp)
def _scan(e: Emitter, op: ScanOp) -> None:
    tiles, reverse = [e.tile(v) for v in op.inputs], op.reverse is not None
    made = scan.scan(e.b, tiles, integer_of(op.dim), _steps(op).steps, _body(e, op), reverse=reverse)
    for result, tile in zip(op.outputs, made, strict=True):
        e.bind(result, tile)
