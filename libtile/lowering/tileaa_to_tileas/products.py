# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of the operands of matrix products, as the code generator of products wants them."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.layouts import LinearLayout
from libtile.targets import Target


class Products:
    """Answers for one function: its target and number of warps."""

    def __init__(self, gpu: Target, warps: int):
        self.gpu = gpu
        self.warps = warps
        self._known: dict[Operation, tuple[LinearLayout, ...]] = {}

    def operand_layouts(self, op: Operation) -> tuple[LinearLayout, ...]:
        """Layouts of a, b, c (and the scale factors) of a dot; the result has that of c."""
        if op not in self._known:
            self._known[op] = self._compute(op)
        return self._known[op]

    def _compute(self, op: Operation) -> tuple[LinearLayout, ...]:
        from libtile.lowering.llvm.mma import dot_layouts

        types = [v.type for v in op.operands]
        shapes = [tuple(t.get_shape()) for t in types if isinstance(t, TensorType)]
        elements = [NUMBER_NAMES[t.element_type] for t in types if isinstance(t, TensorType)]
        found = dot_layouts(shapes[0], shapes[1], elements[0], elements[1], elements[2], self.gpu, self.warps)
        return (found.a, found.b, found.c)
