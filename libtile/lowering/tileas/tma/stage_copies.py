# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of stages that TMA copies there: all that is ever put at their place is loaded for that, by views of tensors
that tensor maps describe. One thread of the producer then starts the copy, and the stage's barrier object counts its
bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerWaitOp,
    ProducerAcquireOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.tma import MakeTiledTmaDescOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import erase
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, tma_tile
from libtile.lowering.tileas.inserter import Inserter
from libtile.support.records import dataclass
from libtile.targets import Target

ALIGNMENT = 1024
"""Of stages that TMA writes to: where the pattern of a swizzle begins again."""


@dataclass(frozen=True)
class StageCopy:
    """A copy to a stage's buffer in the region of a write, and how TMA makes it."""

    write: ProducerWriteOp
    copy: CopyOp
    tile: TmaOperand

    @property
    def type(self) -> BufferType:
        return self.tile.type

    def make(self, function: FuncOp) -> None:
        """Put the tensor copy in place of the load and the copy."""
        number, descriptor = _descriptor(function, self.tile)
        buffer = self.copy.destination  # which may be another value by now, of a type with a layout
        assert buffer is not None
        at = Inserter(self.write.body.block, self.copy, self.copy.location)
        self.tile.copy(at, number, descriptor, buffer, {})
        erase(self.copy)
        erase(self.tile.load)


def stage_copies(
    function: FuncOp, gpu: Target, buffers: Iterable[tuple[ProducerWriteOp, BlockArgument]]
) -> list[StageCopy]:
    """How TMA fills one place of the stages of a pipeline, which the buffers stand for in the regions that write it;
    nothing where it does not fill it each time, in the same layout."""
    if not gpu.has("tma"):
        return []
    found: list[StageCopy] = []
    for write, buffer in buffers:
        copy = _copied(buffer)
        load = copy.source.owner if copy is not None else None
        if copy is None or not isinstance(load, TiledLoadOp) or not _is_for(load, write.body.block):
            return []
        try:
            found.append(StageCopy(write, copy, tma_tile(function, "", load)))
        except Unfit:
            return []
    return found if len({made.type for made in found}) == 1 else []


SIDES = (ProducerAcquireOp, ConsumerWaitOp)
"""Ops with which turns begin."""


def buffers_of(
    turns: Iterable[Operation], number: int
) -> Iterator[tuple[ProducerWriteOp | ConsumerReadOp, BlockArgument]]:
    """The buffers that stand for value number `number` of the stages in the regions of turns."""
    for turn in turns:
        work: list[SSAValue] = [turn.token] if isinstance(turn, SIDES) else []
        while work:
            for use in work.pop().uses:
                op = use.operation
                if isinstance(op, ProducerWriteOp | ConsumerReadOp) and use.index == 0:
                    yield op, op.body.block.args[number]
                    work.append(op.handed_on)


def written_buffers(turns: Iterable[Operation], number: int) -> Iterator[tuple[ProducerWriteOp, BlockArgument]]:
    """Those of them that producers fill."""
    return ((op, buffer) for op, buffer in buffers_of(turns, number) if isinstance(op, ProducerWriteOp))


def _copied(buffer: BlockArgument) -> CopyOp | None:
    """The one op that uses a buffer, if it is a copy to it."""
    users = [use.operation for use in buffer.uses]
    if len(users) != 1 or not isinstance(users[0], CopyOp) or users[0].destination is not buffer:
        return None
    return users[0]


def _is_for(load: TiledLoadOp, region: Block) -> bool:
    """Whether a load is in a region, for the one copy that uses its value, and orders nothing."""
    token = load.result_token
    return load.parent is region and load.value.has_one_use() and (token is None or token.first_use is None)


def _descriptors(function: FuncOp) -> Iterator[MakeTiledTmaDescOp]:
    for op in function.body.block.ops:
        if isinstance(op, MakeTiledTmaDescOp):
            yield op


def _descriptor(function: FuncOp, tile: TmaOperand) -> tuple[int, SSAValue]:
    """The number and the descriptor of a tile's tensor; one for all tiles of one shape that lie alike."""
    there = list(_descriptors(function))
    memref: MakeMemRefOp = tile.memref
    made = tile.descriptor(Inserter(function.body.block, memref.next_op, memref.location), len(there))
    new = made.owner
    assert isinstance(new, MakeTiledTmaDescOp)
    for number, old in enumerate(there):
        same = [op.properties | {"tmaIdx": None} for op in (old, new)]
        if same[0] == same[1] and old.operands == new.operands and old.results[0].type == made.type:
            erase(new)
            return number, old.results[0]
    return len(there), made
