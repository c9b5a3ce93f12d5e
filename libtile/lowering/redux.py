# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions of which one instruction does all lanes of a warp (PTX ISA, "redux.sync"): sums and the like of 32-bit
integers, and the largest or smallest of 32-bit floats where a target has that.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import Operation

from libtile.dialects import arith
from libtile.dialects.nv_tileaa.arithmetic import OPS, ElementwiseOp
from libtile.dialects.nv_tileas.tiles import ReduceOp
from libtile.ir.tile_form import element_of
from libtile.lowering.pairs import only_combination
from libtile.targets import Target

_INTEGERS: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.MaxSIOp: "max",
    arith.MaxUIOp: "umax",
    arith.MinSIOp: "min",
    arith.MinUIOp: "umin",
}
_FLOATS: dict[type[Operation], str] = {OPS["maxf"]: "fmax", OPS["minf"]: "fmin"}
_WORD = IntegerType(32)


def redux_of(op: ReduceOp, gpu: Target) -> str | None:
    """LLVM's name of the instruction that combines a register of all lanes as a reduction's body does; None where
    there is none."""
    inner = only_combination(op)
    if inner is None:
        return None
    element = element_of(inner.results[0].type)
    if element == _WORD and gpu.has("redux_integer"):
        return _INTEGERS.get(type(inner))
    if not isinstance(inner, ElementwiseOp) or inner.flushes or element != f32 or not gpu.has("redux_f32"):
        return None
    name = _FLOATS.get(type(inner))
    return f"{name}.NaN" if name is not None and inner.propagates_nan else name
