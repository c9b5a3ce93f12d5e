# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of the operands of matrix products, as the code generator of products wants them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import SignednessAttr
from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import Target

if TYPE_CHECKING:
    from libtile.codegen.mma import DotLayouts
    from libtile.codegen.mma_scaled import ScaledLayouts

SCALED_DOT = "nv_tileaa.scaled_dot"


def _shapes(op: Operation) -> list[tuple[int, ...]]:
    return [tuple(v.type.get_shape()) for v in op.operands if isinstance(v.type, TensorType)]


class Products:
    """Answers for one function: its target, its number of warps, and which of its products are chained."""

    def __init__(self, gpu: Target, warps: int, chained: Collection[Operation] = ()):
        self.gpu = gpu
        self.warps = warps
        self.chained = chained
        self._known: dict[Operation, DotLayouts] = {}

    def operand_layouts(self, op: Operation) -> tuple[LinearLayout, ...]:
        """Layouts of the operands of a dot or scaled_dot; the result has that of the third, the accumulator."""
        if op.name == SCALED_DOT:
            scaled = self._scaled(op)
            return scaled.dot.a, scaled.dot.b, scaled.dot.c, scaled.lhs_scale, scaled.rhs_scale
        found = self.of(op)
        return found.a, found.b, found.c

    def of(self, op: Operation) -> DotLayouts:
        """How a dot or scaled_dot is computed: by which instruction, and in which layouts."""
        if op.name == SCALED_DOT:
            return self._scaled(op).dot
        if op not in self._known:
            self._known[op] = self._compute(op)
        return self._known[op]

    def _scaled(self, op: Operation) -> ScaledLayouts:
        from libtile.codegen.mma_scaled import scaled_layouts

        a, b, _, sfa, sfb = _shapes(op)
        return scaled_layouts(a, b, sfa, sfb, self.gpu, self.warps)

    def emitted(self, op: Operation) -> DotLayouts:
        """How a dot or scaled_dot of nv_tileas, whose operands have their layouts, is emitted."""
        if op.name == SCALED_DOT:
            return self._scaled(op).dot
        from libtile.codegen.mma import emitted_layouts

        a, b, c = (element_of(v) for v in op.operands)
        shapes = _shapes(op)
        return emitted_layouts(
            shapes[0], shapes[1], a, b, c, layout_of(op.operands[2]), self.gpu, self.warps, **_signs(op)
        )

    def _compute(self, op: Operation) -> DotLayouts:
        from libtile.codegen.mma import dot_layouts

        a, b, c = (element_of(v) for v in op.operands)
        shapes = _shapes(op)
        whole_rows = op in self.chained
        return dot_layouts(shapes[0], shapes[1], a, b, c, self.gpu, self.warps, whole_rows=whole_rows, **_signs(op))


def element_of(value: SSAValue) -> str:
    """The element type of a tile of numbers."""
    assert isinstance(value.type, TensorType)
    return NUMBER_NAMES[value.type.element_type]


def _signs(op: Operation) -> dict[str, bool]:
    given = {f"signed_{x}": op.properties.get(f"signedness_{x}") for x in "ab"}
    return {name: not isinstance(sign, SignednessAttr) or sign.keyword == "signed" for name, sign in given.items()}
