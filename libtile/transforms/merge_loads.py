# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`merge-loads`: loads of the same memory become one, and on request loads of neighbouring tiles.

Two weak loads of one block read the same when they take the same pointers and mask, or tile of a view, and the same
token, and nothing between them writes what they read. The second one may run where the first one does, if what is
between them comes to an end for certain. Tiles 2k and 2k + 1 of a partition view are tile k of the view with tiles of
twice the extent; `extract` gives the halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.analysis.memory import Disjointness
from libtile.analysis.polynomials import ONE, NotAffineError
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, PartitionViewType, TileType, TokenType, bit_width
from libtile.dialects.effect_traits import is_weak
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass, field
from libtile.transforms import reporting
from libtile.transforms.canonical_values import create_before, is_op, replace_op
from libtile.transforms.effects import returns_for_certain
from libtile.transforms.greedy import functions_in

_REMARK = "MergeLoads"
_LOADS = ("load_ptr_tko", "load_view_tko")
_MOST_OPEN = 32
"""Loads that later ones are compared with."""


@dataclass(frozen=True)
class MergeLoadsPass(ModulePass):
    """Load once what several loads read.

    `adjacent`: also two neighbouring tiles of a view as one, of at most `max_elements` elements.
    """

    name = "merge-loads"

    adjacent: bool = False
    max_elements: int = 8192

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merge_loads(op, self.adjacent, self.max_elements)


def merge_loads(root: Operation, adjacent: bool = False, max_elements: int = 8192) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        blocks = {op.parent_block() for op in ops_of(function) if is_op(op, *_LOADS)}
        blocks = {block for block in blocks if block is not None and _count(block) > 1}
        if not blocks:
            continue
        merger = _Merger(Disjointness(function), max_elements)
        for block in [block for op in ops_of(function) for region in op.regions for block in region.blocks]:
            if block in blocks:
                changed |= merger.run(block, neighbours=False)
                changed |= adjacent and merger.run(block, neighbours=True)
    return changed


def _count(block: Block) -> int:
    return sum(1 for op in ops_in(block) if is_op(op, *_LOADS))


@dataclass
class _Merger:
    """The loads of one function. The analyses stay true: a load is replaced by what reads the same."""

    memory: Disjointness
    max_elements: int
    open: list[CudaTileOp] = field(default_factory=list)
    """Loads of the block that nothing has written to since, and after which nothing may have ended."""

    def run(self, block: Block, neighbours: bool) -> bool:
        """Merge loads of the same, or of neighbouring tiles; whether any were."""
        changed = False
        self.open = []
        for op in ops_in(block):
            if isinstance(op, CudaTileOp) and is_op(op, *_LOADS) and is_weak(op):
                merged = self._merge(op, neighbours)
                changed |= merged
                if not merged:
                    self.open = [*self.open[1 - _MOST_OPEN :], op]
            elif not returns_for_certain(op):
                self.open = []
            else:
                self.open = [load for load in self.open if not self.memory.may_write_what_is_read(op, load)]
        return changed

    def _merge(self, op: CudaTileOp, neighbours: bool) -> bool:
        for first in self.open:
            if _without_index(first) != _without_index(op):
                continue
            if list(first.operands) == list(op.operands):
                reporting.done(op, _REMARK, "Load of what is loaded already is gone")
                statistics.count("common loads merged")
                replace_op(op, first.results)
                return True
            if neighbours and is_op(op, "load_view_tko") and (along := self._neighbour(first, op)) is not None:
                return self._merge_neighbours(first, op, along)
        return False

    def _neighbour(self, first: CudaTileOp, op: CudaTileOp) -> int | None:
        """The dimension along which the second tile lies behind the first one."""
        mine, its = first.operand_group("index"), op.operand_group("index")
        along = [dim for dim, (a, b) in enumerate(zip(mine, its, strict=True)) if a is not b]
        if len(along) != 1 or not isinstance(op.operand("view").type, PartitionViewType):
            return None
        forms, dim = self.memory.aliasing.forms, along[0]
        try:
            low, high = forms.of(mine[dim]).start, forms.of(its[dim]).start
            is_next = high - low == ONE and forms.bounds(low)[0] >= 0
        except NotAffineError:
            return None
        if not is_next:
            return None
        if not forms.divisible(low, 2):
            reason = "the index of the first one is not known to be even"
            reporting.missed(op, _REMARK, "Neighbouring tiles are loaded apart", reason)
            return None
        return dim

    def _merge_neighbours(self, first: CudaTileOp, op: CudaTileOp, along: int) -> bool:
        view, tile = first.operand("view"), first.results[0].type
        maker = view.owner
        assert isinstance(view.type, PartitionViewType) and isinstance(tile, TileType)
        if 2 * tile.num_elements > self.max_elements or not isinstance(maker, CudaTileOp):
            reason = f"together they have more than {self.max_elements} elements"
            reporting.missed(op, _REMARK, "Neighbouring tiles are loaded apart", reason)
            return False
        reporting.done(op, _REMARK, "Neighbouring tiles are loaded as one")
        statistics.count("neighbouring loads merged")
        shape = _doubled(tile.shape, along)
        wide = PartitionViewType(
            _doubled(view.type.tile_shape, along), view.type.tensor_view, view.type.dim_map, view.type.padding_value
        )
        made = create_before(first, "make_partition_view", {"tensor_view": maker.operand("tensor_view")}, [wide])
        index = list(first.operand_group("index"))
        two = _constant(first, 2, index[along].type)
        parts = {"lhs": index[along], "rhs": two}
        settings = {"signedness": "unsigned", "rounding": "zero"}
        index[along] = create_before(first, "divi", parts, [index[along].type], settings)
        load = build(
            "load_view_tko",
            {"view": made, "index": index, "token": first.optional_operand("token")},
            [TileType(shape, tile.element_type), TokenType()],
            {"memory_ordering_semantics": "weak"},
        )
        for name in ("optimization_hints", "memory_scope", "inbounds"):
            if name in first.properties:
                load.properties[name] = first.properties[name]
        load.location = first.location
        block = first.parent_block()
        assert block is not None
        block.insert_op_before(load, first)
        self.open = [other for other in self.open if other is not first]
        zero, one = (_constant(first, number, TileType((), NUMBER_TYPES["i32"])) for number in (0, 1))
        halves = []
        for part in (zero, one):
            indices: Sequence[SSAValue] = [part if dim == along else zero for dim in range(tile.rank)]
            halves.append(create_before(first, "extract", {"source": load.results[0], "indices": indices}, [tile]))
        for old, half in zip((first, op), halves, strict=True):
            replace_op(old, [half, load.results[1]])
        return True


def _without_index(op: CudaTileOp) -> tuple[object, ...]:
    """What two loads have to have in common, be it of one tile or of neighbours."""
    token = op.optional_operand("token")
    if is_op(op, "load_view_tko"):
        return (op.name, op.operand("view"), token, *sorted(op.properties.items()), *_types(op))
    return (op.name, *op.operands, *sorted(op.properties.items()), *_types(op))


def _types(op: CudaTileOp) -> list[Attribute]:
    return [result.type for result in op.results]


def _doubled(shape: Sequence[int], along: int) -> tuple[int, ...]:
    return tuple(extent * 2 if dim == along else extent for dim, extent in enumerate(shape))


def _constant(place: Operation, number: int, type_: Attribute) -> SSAValue:
    assert isinstance(type_, TileType)
    raw = number.to_bytes(bit_width(type_.element_type) // 8, "little")
    return create_before(place, "constant", {}, [type_], {"value": DenseElementsAttr(type_, raw)})
