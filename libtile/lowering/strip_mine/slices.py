# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What has to be computed for a piece of a large tile, back to loads, ranges and tiles that are there whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, TokenType, tile_shape
from libtile.ir.places import ops_of
from libtile.lowering.strip_mine.cuts import (
    ACCESSES,
    LOADS,
    UNORDERED,
    Dim,
    Uncut,
    check_body,
    domain_dim,
    mnemonic,
    operand_dims,
    result_dims,
)
from libtile.lowering.tile_registers import words_of
from libtile.support.records import dataclass, field

Cut = tuple[CudaTileOp, int]
"""An op, and the dimension of its domain along which it is cut."""

LIVES_ON = "a large tile lives through a loop or a branch"
WHOLE = "a large tile is needed whole"


@dataclass
class Slice:
    """What is computed for a piece of a sink."""

    cuts: dict[Cut, None] = field(default_factory=dict)
    extracted: dict[tuple[SSAValue, int], None] = field(default_factory=dict)
    """Pieces that are cut out of a tile that is there whole."""
    wholes: dict[SSAValue, None] = field(default_factory=dict)
    pieces: dict[tuple[SSAValue, int], None] = field(default_factory=dict)
    """All tiles that are cut, with the dimension."""

    @property
    def shortest(self) -> int:
        """The shortest dimension that is cut: the most pieces that there can be."""
        return min(tile_shape(v)[d] for v, d in self.pieces)

    @property
    def words(self) -> int:
        """32-bit words of the largest tile that is cut."""
        return max(words_of(v.type) for v, _ in self.pieces)


class Slicer:
    """Makes the slices of a block. `huge_ops` are the ops with large tiles, `order` numbers all ops."""

    def __init__(
        self,
        block: Block,
        is_huge: Callable[[SSAValue], bool],
        huge_ops: set[Operation],
        order: Mapping[Operation, int],
    ):
        self.block = block
        self.is_huge = is_huge
        self.huge_ops = huge_ops
        self.order = order

    def slice_of(self, op: CudaTileOp, dim: int, from_large: bool) -> Slice:
        """The slice of an op that is cut along a dimension of its domain; Uncut where something in it cannot be.

        A piece of a small tile that is made of large ones is made of pieces of these, with `from_large`, or else
        extracted from the small one, which then has to be there whole. Other small ones are made anew where possible.
        """
        found = Slice()
        dims = self._dims(op, dim, is_sink=True)
        work = [(-self.order[op], dim, op, dims)]
        while work:
            _, dim, op, dims = heappop(work)
            if (op, dim) in found.cuts:
                continue
            found.cuts[op, dim] = None
            for result, at in zip(op.results, result_dims(op, dim)):
                if at is not None and isinstance(result.type, TileType):
                    found.pieces[result, at] = None
            for value, at in zip(op.operands, dims, strict=True):
                if at is not None:
                    self._demand(found, work, value, at, from_large)
                elif not isinstance(value.type, TokenType):
                    found.wholes[value] = None
            found.wholes.update((v, None) for v in captured(op))
        return found

    def _demand(
        self,
        found: Slice,
        work: list[tuple[int, int, CudaTileOp, list[Dim]]],
        value: SSAValue,
        at: int,
        from_large: bool,
    ) -> None:
        """A slice needs a piece of a value."""
        if (value, at) in found.pieces:
            return
        found.pieces[value, at] = None
        op = value.owner
        try:
            if not isinstance(op, CudaTileOp) or op.parent is not self.block or is_control_flow(op):
                raise Uncut(op if isinstance(op, Operation) else next(iter(value.uses)).operation, LIVES_ON)
            if op in self.huge_ops and not self.is_huge(value) and not from_large:
                raise Uncut(op, WHOLE)
            dim = domain_dim(op, at)
            heappush(work, (-self.order[op], dim, op, self._dims(op, dim, is_sink=False)))
        except Uncut:
            if self.is_huge(value):
                raise
            found.extracted[value, at] = None
            found.wholes[value] = None

    def _dims(self, op: CudaTileOp, dim: int, is_sink: bool) -> list[Dim]:
        """Along which dimensions the operands of an op are cut; Uncut if it cannot be."""
        name = mnemonic(op)
        if name in ACCESSES and op.attribute_value("memory_ordering_semantics") not in UNORDERED:
            raise Uncut(op, "it acquires or releases other memory")
        if name in ACCESSES and name not in LOADS and not is_sink:
            raise Uncut(op, "what an atomic op gives cannot be had twice")
        if name == "reduce" and not is_sink and dim == op.attribute_value("dim"):
            raise Uncut(op, "a reduction gives nothing before its last piece")
        if name == "scan" and dim == op.attribute_value("dim"):
            check_body(op, tile_shape(op.operand_group("operands")[0]))
        dims = operand_dims(op, dim)
        for value, at in zip(op.operands, dims, strict=True):
            if at is None and self.is_huge(value):
                raise Uncut(op, WHOLE)
        return dims


def is_control_flow(op: Operation) -> bool:
    """Whether the op has regions that are run for themselves: a loop or a branch."""
    return bool(op.regions) and mnemonic(op) not in ("reduce", "scan")


def captured(op: Operation) -> list[SSAValue]:
    """The values from outside of an op that its regions use."""
    if not op.regions:
        return []
    inside = {id(v) for inner in ops_of(op) for v in inner.results}
    inside |= {id(a) for inner in ops_of(op) for region in inner.regions for b in region.blocks for a in b.args}
    found = (v for inner in ops_of(op) if inner is not op for v in inner.operands)
    return list(dict.fromkeys(v for v in found if id(v) not in inside))
