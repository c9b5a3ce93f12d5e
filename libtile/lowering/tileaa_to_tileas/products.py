# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of the operands of matrix products, as the code generator of products wants them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import SignednessAttr
from libtile.layouts import LinearLayout
from libtile.targets import Target

if TYPE_CHECKING:
    from libtile.lowering.llvm.mma import DotLayouts


class Products:
    """Answers for one function: its target, its number of warps, and which of its products are chained."""

    def __init__(self, gpu: Target, warps: int, chained: Collection[Operation] = ()):
        self.gpu = gpu
        self.warps = warps
        self.chained = chained
        self._known: dict[Operation, DotLayouts] = {}

    def operand_layouts(self, op: Operation) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
        """Layouts of a, b and c of a dot; the result has that of c."""
        found = self.of(op)
        return found.a, found.b, found.c

    def of(self, op: Operation) -> DotLayouts:
        """How a dot is computed: by which instruction, and in which layouts."""
        if op not in self._known:
            self._known[op] = self._compute(op)
        return self._known[op]

    def _compute(self, op: Operation) -> DotLayouts:
        from libtile.lowering.llvm.mma import dot_layouts

        types = [v.type for v in op.operands]
        shapes = [tuple(t.get_shape()) for t in types if isinstance(t, TensorType)]
        elements = [NUMBER_NAMES[t.element_type] for t in types if isinstance(t, TensorType)]
        signs = [op.properties.get(f"signedness_{x}") for x in "ab"]
        signed_a, signed_b = (not isinstance(s, SignednessAttr) or s.keyword == "signed" for s in signs)
        return dot_layouts(
            shapes[0],
            shapes[1],
            elements[0],
            elements[1],
            elements[2],
            self.gpu,
            self.warps,
            whole_rows=op in self.chained,
            signed_a=signed_a,
            signed_b=signed_b,
        )
