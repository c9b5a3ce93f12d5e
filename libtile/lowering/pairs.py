# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`in_pairs`: on an op of 32-bit floats that works on two registers at a time, where a target can do that; `in_threes`:
on a reduction that takes the larger or smaller of three at a time.

What is by rows of tensor memory lies in registers side by side, as such instructions want it. Elsewhere values have to
be moved next to each other first, which costs more than it spares: so a pass says where pairs are worth it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.arithmetic import OPS, ElementwiseOp
from libtile.dialects.nv_tileas.tiles import ReduceOp
from libtile.targets import Target

IN_PAIRS, IN_THREES = "in_pairs", "in_threes"
_ARITHMETIC = tuple(OPS[name] for name in ("addf", "subf", "mulf", "fma"))
_EXTREMES = OPS["maxf"], OPS["minf"]


def takes_pairs(op: Operation, gpu: Target) -> bool:
    """Whether an op, or the sum that a reduction is, can be done on two registers at a time."""
    if not gpu.has("f32x2"):
        return False
    if isinstance(op, ReduceOp):
        return _combines(op, (OPS["addf"],))
    return isinstance(op, _ARITHMETIC) and _is_plain(op)


def takes_threes(op: Operation, gpu: Target) -> bool:
    """Whether an op is a reduction to the largest or smallest value, of which three at a time are compared."""
    return gpu.has("max3_f32") and isinstance(op, ReduceOp) and _combines(op, _EXTREMES)


def only_combination(op: ReduceOp) -> Operation | None:
    """The op that a reduction's body is, of its two arguments; None where the body is something else."""
    block = op.body.block
    inner, last = block.first_op, block.last_op
    if inner is None or last is None or inner.next_op is not last:
        return None
    fits = set(inner.operands) == set(block.args) and tuple(inner.results) == tuple(last.operands)
    return inner if fits else None


def _combines(op: ReduceOp, by: tuple[type[ElementwiseOp], ...]) -> bool:
    """Whether the body of a reduction is a plain op of one of these classes."""
    inner = only_combination(op)
    return isinstance(inner, by) and _is_plain(inner)


def _is_plain(op: ElementwiseOp) -> bool:
    """Whether an op is of f32, rounds to nearest even and does not flush."""
    type_ = op.results[0].type
    plain = (op.rounding or "nearest_even") == "nearest_even" and not op.flushes
    return plain and isinstance(type_, TensorType) and type_.element_type == f32
