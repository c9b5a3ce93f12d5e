# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of a step that products read from a stage, and the kernel's warps as well: to registers, as they were loaded.

c = load ...                          stage: c
s = dot a, c^T                        issued; it reads the stage
n = sum c * c                         the warps read c from the stage meanwhile, and release it with the product
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import SSAValue

from libtile.atoms.shared_accesses import accesses, matrix_loads, reduced
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.shapes import PermuteOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import element_of
from libtile.layouts import WARP, LinearLayout
from libtile.layouts.renaming import permuted
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import Target


def check_read(gpu: Target, what: str, type_: BufferType, layout: LinearLayout) -> None:
    """Unfit where warps have bank conflicts at reading a tile, which `what` calls it in reasons, in a layout from where
    TMA puts it."""
    assert type_.layout is not None
    size = STORAGE_BYTES[NUMBER_NAMES[type_.element_type]]
    held = reduced(layout, len(layout.basis(WARP)))
    if accesses(held, type_.layout.layout, size, matrix_loads(gpu), storing=False).conflicts:
        raise Unfit(what + "would be read with bank conflicts from shared memory as TMA writes it")


@dataclass(frozen=True)
class StepRead:
    """A loaded tile that the kernel's warps read from a stage, whose dimension n is the tile's dimension order[n]."""

    load: TiledLoadOp
    type: BufferType
    order: tuple[int, ...]

    @staticmethod
    def of(gpu: Target, what: str, operand: TmaOperand, order: Sequence[int]) -> StepRead:
        """How warps read the tile of an operand; Unfit where its elements are others, or they have bank conflicts."""
        made = StepRead(operand.load, operand.type, tuple(order))
        if operand.type.element_type != element_of(operand.load.value.type) or operand.shadow is not None:
            raise Unfit(what + "is used by more than the product")
        check_read(gpu, what, operand.type, made._layout)
        return made

    @property
    def _layout(self) -> LinearLayout:
        """Of the tile in registers, in the order of the stage's dimensions."""
        return permuted(layout_of(self.load.value), self.order)

    def read(self, at: Inserter, buffer: SSAValue) -> SSAValue:
        """The tile, from its stage."""
        type_ = self.load.value.type
        if self.order == tuple(range(len(self.order))):
            return at.value(CopyOp.make(buffer, results=[type_]), self.load.location)
        held = TensorType(element_of(type_), self.type.shape, LayoutAttr(self._layout))
        back = DenseArrayBase.from_list(i32, [self.order.index(d) for d in range(len(self.order))])
        tile = at.value(CopyOp.make(buffer, results=[held]), self.load.location)
        return at.value(PermuteOp.make(tile, results=[type_], permutation=back), self.load.location)
