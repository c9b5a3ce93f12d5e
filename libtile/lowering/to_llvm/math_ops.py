# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of the math dialect; loaded by `emitter.rule_of` when there is one."""

from __future__ import annotations

from xdsl.dialects import math

from libtile.codegen import integers
from libtile.lowering.to_llvm.elementwise import apply
from libtile.lowering.to_llvm.emitter import Emitter, rule


@rule(math.AbsIOp)
def _absolute(e: Emitter, op: math.AbsIOp) -> None:
    apply(e, op, integers.abs_)
