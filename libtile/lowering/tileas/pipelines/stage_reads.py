# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a turn of a pipelined loop reads the tiles of its stage: a product that is cut along k (`depth_slices`) reads
its operands slice by slice where it is, anything else the whole tile where that was loaded.

A slice has the depth of an instruction, and an access of shared memory brings what a few instructions of that depth
multiply. Of a whole tile it would bring parts of two depths, of which one waits in registers while the other is
multiplied, and ptxas starts most of the tile's accesses at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from libtile.codegen.shapes import embedded
from libtile.layouts import LinearLayout
from libtile.lowering.tileas.pipelines.depth_slices import Slices, loaded_operands, slices_of
from libtile.lowering.tileas.pipelines.schedule import Load, conversions
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass


@dataclass(frozen=True)
class SlicedRead:
    """A product that reads tiles of a stage slice by slice, and the loads that these were."""

    loads: tuple[Load, ...]
    slices: Slices


def sliced_reads(loads: Sequence[Load], body: Block) -> list[SlicedRead]:
    """The products of a loop's body that are cut, in their order."""
    by_value: dict[SSAValue, Load] = {load.value: load for load in loads}
    found = []
    for op in body.ops:
        values = loaded_operands(op, list(by_value))
        slices = slices_of(op, values, rounded=False, alone=False) if values else None
        if slices is not None:
            found.append(SlicedRead(tuple(by_value[v] for v in values), slices))
    return found


def read_layouts(load: Load, reads: Sequence[SlicedRead]) -> tuple[LinearLayout, ...]:
    """The layouts in which the tile of a load, or a slice of it, is read from a stage."""
    found: dict[LinearLayout, None] = {}
    cut: set[Operation] = set()
    for read in reads:
        if load in read.loads:
            whole = layout_of(load.value)
            found[embedded(read.slices.slice_layout(load.value), whole)] = None
            cut.add(read.slices.first_user(load.value))
    converts = conversions(load)
    for convert in converts:
        if convert not in cut:
            found[layout_of(convert.result)] = None
    if any(use.operation not in cut and use.operation not in converts for use in load.value.uses):
        found[layout_of(load.value)] = None
    return tuple(found)
