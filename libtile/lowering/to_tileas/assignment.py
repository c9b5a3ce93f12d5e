# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives every tile of a function its layout, and converts where two layouts meet.

The function is rebuilt from the top. A tile keeps the layout in which it is made (a load's, a product's, a reduction's)
for as long as the ops behind it allow; where it has to be in another one, it is converted, unless it is cheap to make
again: constants, ranges, and short chains of ops over these and over scalars are made anew in the layout asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa import collectives, memory
from libtile.dialects.nv_tileaa.memory import MemoryOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
    ViewOp,
)
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.dialects.nv_tileas import memory as tileas_memory
from libtile.dialects.nv_tileas import products, tiles
from libtile.dialects.nv_tileas.pipeline import (
    PipelineYieldOp,
)
from libtile.ir.op_making import append
from libtile.ir.places import op_of, ops_in, ops_of
from libtile.ir.tile_types import tensor_shape
from libtile.layouts import LinearLayout
from libtile.layouts.parts import whole_layout
from libtile.lowering.constants import takes_known_part
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.accesses import ACCESSES, AccessLayouts
from libtile.lowering.to_tileas.assignment_rules import LEAVES, MOST_REMADE, RULES
from libtile.lowering.to_tileas.demands import Demands, source_layout
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.ordering import fence_of, lowered_properties, make_fence
from libtile.lowering.to_tileas.origins import Origins
from libtile.lowering.to_tileas.products import Products
from libtile.lowering.to_tileas.stages import staged_type
from libtile.lowering.to_tileas.types import is_tile, layout_of, tile_shape, with_layout

REMAKE_DEPTH = 8
LOWERED: dict[type[Operation], type[Operation]] = {
    memory.LoadOp: tileas_memory.LoadOp,
    memory.StoreOp: tileas_memory.StoreOp,
    memory.TiledLoadOp: tileas_memory.TiledLoadOp,
    memory.TiledStoreOp: tileas_memory.TiledStoreOp,
    memory.AtomicRmwOp: tileas_memory.AtomicRmwOp,
    memory.AtomicCasOp: tileas_memory.AtomicCasOp,
    memory.TiledAtomicRmwOp: tileas_memory.TiledAtomicRmwOp,
    memory.MultimemLoadReduceOp: tileas_memory.MultimemLoadReduceOp,
    memory.MultimemReduceOp: tileas_memory.MultimemReduceOp,
    memory.MultimemStoreOp: tileas_memory.MultimemStoreOp,
    collectives.DotOp: products.DotOp,
    collectives.ScaledDotOp: products.ScaledDotOp,
    collectives.ReduceOp: tiles.ReduceOp,
    collectives.ScanOp: tiles.ScanOp,
}
"""Ops that nv_tileas has a form of its own of."""
RENAMING = (BroadcastOp, ViewOp, ExpandDimsOp, PermuteOp)
"""Ops whose result has elements of their source at other places, or more often."""
PARTS = (ExtractOp, ExtractSliceOp)
"""Ops whose result is a part of their first operand."""


WIDE_BROADCAST = 4
"""A broadcast to this many times the elements is made again, its source converted, rather than converted itself."""


def _is_wide_broadcast(op: Operation) -> bool:
    if not isinstance(op, BroadcastOp):
        return False
    return prod(tile_shape(op.result) or ()) >= WIDE_BROADCAST * prod(tile_shape(op.source) or ())


class _Imported(dict[SSAValue, SSAValue]):
    """The values of an agent, to which those from around it come when they are asked for."""

    def __init__(self, agent: Assigner, around: Assigner):
        super().__init__()
        self.agent, self.around = agent, around

    def __missing__(self, value: SSAValue) -> SSAValue:
        if tile_shape(value):
            # The warps of another agent, or of the whole kernel, hold it: it is made again by these.
            layout = self.agent.demands.of(value) or self.agent.default(tile_shape(value) or ())
            made = self.agent.remade(value, layout)
        else:
            made = self.around.values[value]
        self[value] = made
        return made


class Assigner:
    """Rebuilds one function, or what one of its agents runs."""

    def __init__(self, op: Operation, body: Region, chosen: Products, around: Assigner | None = None):
        """For a function and its body, or the op at which agents part and what one of them runs in a function whose
        rebuilding is under way."""
        self.workers: int = chosen.warps if around is None else around.workers
        self.accesses = AccessLayouts(body, chosen.warps, self.workers)
        self.products = chosen
        self.origins = Origins(self.accesses, chosen)
        self.demands = Demands(body.block, self.accesses, chosen, self.origins)
        self.values: dict[SSAValue, SSAValue] = {} if around is None else _Imported(self, around)
        self.block = Block()
        self._converted: list[dict[tuple[SSAValue, LinearLayout], SSAValue]] = [{}]
        self._depths: dict[SSAValue, int] = {}
        self.location = op.location
        """Where the op that is being rebuilt, and conversions for it, stand in the source."""

    # -- values -----------------------------------------------------------------------------------------------------

    def default(self, shape_: Sequence[int]) -> LinearLayout:
        return self.accesses.layout(shape_)

    def default_type(self, type_: Attribute) -> Attribute:
        """The type with the default layout of its shape, where it is that of a tile."""
        return with_layout(type_, self.default(type_.get_shape())) if isinstance(type_, TensorType) else type_

    def emit(self, op: Operation) -> Operation:
        append(self.block, op)
        return op

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Emit into another block; what is converted there is not known outside."""
        before, self.block = self.block, block
        self._converted.append({})
        yield
        self._converted.pop()
        self.block = before

    def bind(self, old: SSAValue, new: SSAValue) -> None:
        new.name_hint = old.name_hint
        self.values[old] = new

    def get(self, value: SSAValue, layout: LinearLayout | None = None) -> SSAValue:
        """The new value of an old one, in a layout (None: the one that it has)."""
        new = self.values[value]
        if layout is None or not is_tile(new._type) or layout_of(new) == layout:
            return new
        for scope in reversed(self._converted):
            if (value, layout) in scope:
                return scope[value, layout]
        made = self._remake(value, layout) if self.remakeable(value) else None
        if made is None:
            convert = tiles.ConvertLayoutOp.create(operands=[new], result_types=[with_layout(new.type, layout)])
            convert.location = self.location
            made = self.emit(convert).results[0]
        self._converted[-1][value, layout] = made
        return made

    def remakeable(self, value: SSAValue) -> bool:
        """Whether a tile is cheap to make again in another layout."""
        return self._depth(value) <= REMAKE_DEPTH

    def _depth(self, value: SSAValue) -> int:
        """How many ops it takes to make a tile from scalars, ranges and constants; large when it takes more."""
        if not tile_shape(value):
            return 0
        if value in self._depths:
            return self._depths[value]
        op, depth = op_of(value), 1000
        if op is not None:
            if isinstance(op, LEAVES) or _is_wide_broadcast(op):
                depth = 1
            elif isinstance(op, RENAMING) or (is_elementwise(op) and len(op.results) == 1):
                depth = min(1 + sum(self._depth(v) for v in op.operands), 1000)
            elif isinstance(op, PARTS) and takes_known_part(op):
                whole, part = tile_shape(op.source) or (), tile_shape(value) or ()
                if prod(whole) <= MOST_REMADE * prod(part):
                    depth = 1 + self._depth(op.source)
        self._depths[value] = depth
        return depth

    def remade(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """A tile from around an agent, made again in it. LoweringError where that takes more than a few ops."""
        if not self.remakeable(value):
            user = next(use.operation for use in value.uses)
            owner = value.owner if isinstance(value.owner, Operation) else user
            problem = "gives a tile that an agent takes from around it, where other warps hold it"
            raise unsupported(owner, problem, self.products.gpu.name)
        return self._remake(value, layout)

    def agent(self, op: Operation, body: Region, chosen: Products) -> Assigner:
        """What gives the tiles of an agent their layouts, in a region of an op, for the products chosen there."""
        return Assigner(op, body, chosen, self)

    def import_tiles(self, body: Region) -> None:
        """Make the tiles that an agent takes from around it, where it begins."""
        inside = {block for op in ops_of(body) for region in op.regions for block in region.blocks} | {body.block}
        for op in ops_of(body):
            for value in op.operands:
                block = value.owner.parent if isinstance(value.owner, Operation) else value.owner
                if tile_shape(value) and block not in inside:
                    self.values[value]

    def _remake(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, RENAMING):
            operands = [self.get(op.source, source_layout(op, layout))]
        elif isinstance(op, PARTS):
            whole = whole_layout(layout, tile_shape(op.source) or ())
            operands = [self.get(v, whole if v is op.source else None) for v in op.operands]
        else:
            operands = [self.get(v, layout) if tile_shape(v) else self.get(v) for v in op.operands]
        return self.clone(op, operands, [layout]).results[0]

    # -- ops --------------------------------------------------------------------------------------------------------

    def clone(
        self,
        op: Operation,
        operands: Sequence[SSAValue],
        result_layouts: Sequence[LinearLayout | None],
        regions: Sequence[Region] = (),
    ) -> Operation:
        """The op with new operands, its tiles in these layouts (None: not a tile, or a scalar one)."""
        types: list[Attribute] = []
        for result, layout in zip(op.results, result_layouts, strict=True):
            type_ = result._type
            if layout is None and is_tile(type_):
                layout = self.default(tensor_shape(type_))
            types.append(staged_type(with_layout(type_, layout)))
        new = LOWERED.get(type(op), type(op)).create(
            operands=operands,
            result_types=types,
            properties=lowered_properties(op),
            attributes=dict(op.attributes),
            regions=regions,
        )
        new.location = op.location
        return self.emit(new)

    def bind_results(self, op: Operation, new: Operation) -> None:
        for old, result in zip(op.results, new.results, strict=True):
            self.bind(old, result)

    def keep(self, op: Operation, layouts_: Sequence[LinearLayout | None] | None = None) -> None:
        """The op with its operands as they are."""
        operands = [self.get(v) for v in op._operands]
        self.bind_results(op, self.clone(op, operands, layouts_ or [None] * len(op.results)))

    def convert_block(self, old: Block) -> None:
        """Rebuild the ops of a block into the current one."""
        for op in ops_in(old):
            self.convert(op)

    def convert_body(self, old: Block, given: Sequence[LinearLayout | None]) -> None:
        """Rebuild a block of scf whose terminator gives values in these layouts."""
        last = old.last_op
        for op in ops_in(old):
            if op is not last:
                self.convert(op)
        assert isinstance(last, scf.YieldOp | scf.ConditionOp | PipelineYieldOp)
        operands = [
            self.get(v, layout if tile_shape(v) else None) for v, layout in zip(last.operands, given, strict=True)
        ]
        self.clone(last, operands, [])

    def convert(self, op: Operation) -> None:
        self.location = op.location
        rule = RULES.of(op)
        if rule is not None:
            rule(self, op)
        elif isinstance(op, ACCESSES):
            self._access(op)
        elif is_elementwise(op):
            self._elementwise(op)
        else:
            self.keep(op)

    def choose(self, op: Operation, result: SSAValue) -> LinearLayout | None:
        """The layout of an elementwise op: one that an operand has, if possible the one that users want."""
        size = tile_shape(result)
        if not size:
            return None
        wanted = self.demands.of(result)
        held = [v for v in op.operands if tile_shape(v) == size and not self.remakeable(v)]
        if not held:
            return wanted or self.default(size)
        found = [layout_of(self.values[v]) for v in held]
        if wanted is not None and wanted in found:
            return wanted
        return max(found, key=lambda layout: (found.count(layout), layout.in_size("register")))

    def _elementwise(self, op: Operation) -> None:
        layout = self.choose(op, op.results[0])
        operands = [self.get(v, layout if tile_shape(v) else None) for v in op._operands]
        self.bind_results(op, self.clone(op, operands, [layout] * len(op.results)))

    def _access(self, op: MemoryOp) -> None:
        layout = self.accesses.of(op)
        view = op.accessed.type
        sparse = view.layout.sparse_dim if isinstance(view, TiledViewType) else None
        operands = []
        for value in op.operands:
            size = tile_shape(value)
            if size is not None and len(size) == 1 and sparse is not None and size != layout.shape:
                rest = [d for d in range(len(layout.shape)) if d != sparse]
                index_layout = layout
                for d in reversed(rest):
                    index_layout = layouts.sliced(index_layout, d)
                operands.append(self.get(value, index_layout))
            else:
                operands.append(self.get(value, layout if size else None))
        fence = fence_of(op)
        if fence is not None and fence.keyword == "release":
            has_token = isinstance(operands[-1].type, MemTokenType)
            made = self.emit(make_fence(op, fence, operands.pop() if has_token else None))
            operands += made.results
        new = self.clone(op, operands, [layout if tile_shape(r) else None for r in op.results])
        self.bind_results(op, new)
        if fence is not None and fence.keyword == "acquire":
            has_token = isinstance(op.results[-1].type, MemTokenType)
            made = self.emit(make_fence(op, fence, new.results[-1] if has_token else None))
            if has_token:
                self.bind(op.results[-1], made.results[0])
