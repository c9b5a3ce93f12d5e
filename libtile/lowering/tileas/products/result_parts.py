# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is behind a loop with a product, part by part of the product's result.

A result in tensor memory need not be in registers as a whole, and one in registers leaves little room for other tiles
of its size: where what is computed of it goes element by element into stores, each part is loaded, converted and stored
before the next one. The rewriting is one of nv_tileaa, before layouts are chosen, so that those of stores are those of
parts:

    r = for ...                              r = for ...
    x = fp_to_fp r                 ->        r0 = extract_slice r {offsets = [0, 0]}; x0 = fp_to_fp r0
    tiled_store view[i, j], x                tiled_store narrow[i, 2 j], x0
                                             r1 = extract_slice r {offsets = [0, n]}; ...

Other operands are made again for each part: constants, ranges, what is repeated along a dimension, and loads through
views where no token says that a store has to come behind all of them. Of what else is there, a slice is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import gcd

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.attributes import TilingAttr
from libtile.dialects.nv_tileaa.memory import AtomicRmwOp, LoadOp, MemoryOp, StoreOp, TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    ConstantOp,
    ExpandDimsOp,
    ExtractSliceOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    ViewOp,
    integers_of,
)
from libtile.dialects.nv_tileaa.tokens import JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase, is_tile, shape_of
from libtile.lowering.discardable import OUTSIDE
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.to_tileas.accesses import numbers
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.support.records import dataclass

Dims = tuple[int | None, ...]
"""For each dimension of a tile the one of the result that it runs along; None for one of size 1."""
Store = TiledStoreOp | StoreOp | AtomicRmwOp
"""What ends in memory; of atomics only those whose result nobody wants."""
Load = TiledLoadOp | LoadOp


PART_ELEMENTS = 32
"""How many elements of a part of a result in registers a thread has."""
FEWEST_COLUMNS = 8


class _Uncut(Exception):
    """Something is done to the result that does not go part by part."""


@dataclass(frozen=True)
class Part:
    """A box of a tile: where it begins and its sizes, in elements along each dimension."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def by(self, dims: Dims) -> Part:
        """The box of a tile whose dimensions run along these of this one."""
        return Part(
            tuple(0 if d is None else self.offsets[d] for d in dims),
            tuple(1 if d is None else self.shape[d] for d in dims),
        )


def result_part_shape(shape: tuple[int, int], threads: int) -> tuple[int, int]:
    """The part of a result (rows, columns) of which each of so many threads has PART_ELEMENTS, or all of them."""
    rows, columns = shape
    return rows, min(columns, max(PART_ELEMENTS * threads // rows, FEWEST_COLUMNS))


def cut_result(product: Operation, shape: Sequence[int], *, only_crowded: bool = False) -> bool:
    """Compute what is behind the loop of a product part by part of this shape, which divides the product's. False where
    that is not possible, or the product has no loop that hands its result on; with `only_crowded` also where it is not
    crowded there."""
    cutter = _cutter_of(product)
    if cutter is None or (only_crowded and not cutter.is_crowded):
        return False
    cutter.cut(shape)
    return True


def is_crowded(product: Operation) -> bool:
    """Whether other tiles of the size of a product's result are loaded behind its loop, or places of elements computed,
    and all of that can be done part by part."""
    cutter = _cutter_of(product)
    return cutter is not None and cutter.is_crowded


def _cutter_of(product: Operation) -> _Cutter | None:
    """What is behind the loop of a product, where it can be done part by part."""
    loop, last = product.parent_op(), product.next_op
    while last is not None and not isinstance(last, scf.YieldOp):
        last = last.next_op
    if not isinstance(loop, scf.ForOp) or last is None:
        return None
    places = [n for n, v in enumerate(last.operands) if v is product.results[0]]
    if len(places) != 1:
        return None
    try:
        return _Cutter(loop.results[places[0]])
    except _Uncut:
        return None


class _Cutter:
    """The stores of what is computed of a result, element by element."""

    def __init__(self, result: SSAValue):
        loop = result.owner
        assert isinstance(loop, Operation) and loop.parent is not None and isinstance(result.type, TensorType)
        self.result, self.block = result, loop.parent
        self.shape: tuple[int, ...] = result.type.get_shape()
        self.dims: dict[SSAValue, Dims] = {result: tuple(range(len(self.shape)))}
        self.stores: list[Store] = []
        op = loop.next_op
        while op is not None:
            self._look_at(op)
            op = op.next_op
        if not self.stores:
            raise _Uncut
        self.cone = {v.owner for v in self.dims if v is not result} | set(self.stores)
        self._check_order()
        self.loads = self._loads_to_cut()

    # -- what can be cut ----------------------------------------------------------------------------------------------

    def _look_at(self, op: Operation) -> None:
        """What an op makes of the result, or of what is made of it."""
        uses = {v for inner in ops_of(op) for v in inner.operands if v in self.dims}
        if not uses:
            return
        (first, *_) = uses
        found = self.dims[first]
        if op.regions or any(self.dims[v] != found for v in uses):
            raise _Uncut
        if isinstance(op, Store):
            value = op.value
            if uses != {value} or not self._is_whole(value) or not is_plain_access(op) or not _goes_in_parts(op):
                raise _Uncut
            self.stores.append(op)
        elif is_elementwise(op) and len(op.results) == 1:
            self.dims[op.results[0]] = found
        elif isinstance(op, ViewOp | ExpandDimsOp):
            self.dims[op.result] = _viewed(found, op)
        elif isinstance(op, PermuteOp):
            self.dims[op.result] = tuple(found[d] for d in integers_of(op.permutation))
        else:
            raise _Uncut

    def _is_whole(self, value: SSAValue) -> bool:
        """Whether a tile has each element of the result once."""
        assert isinstance(value.type, TensorType)
        dims = self.dims[value]
        return value.type.get_shape() == tuple(1 if d is None else self.shape[d] for d in dims)

    def _check_order(self) -> None:
        """Stores go part by part only where none is ordered behind another one of the parts, and nothing that they take
        comes behind one of them."""
        first, last = self.stores[0], self.stores[-1]
        for store in self.stores:
            if any(not self._is_behind_all(use.operation, last) for r in store.results for use in r.uses):
                raise _Uncut
            token = store.token
            if token is not None and any(op in self.cone for op in _before(token)):
                raise _Uncut
            if store is not first and any(_is_between(op, first, store) for v in store.operands for op in _before(v)):
                raise _Uncut

    def _loads_to_cut(self) -> set[Operation]:
        """The loads behind the loop that are done part by part: those for these stores alone, which no store is ordered
        behind, or only ones of the very same elements."""
        found: set[Operation] = set()
        for op in self.block.ops:
            if not isinstance(op, Load) or not self._is_behind(op):
                continue
            if (
                op.semantic != "weak"
                or not is_plain_access(op)
                or op.token is not None
                or not self._feeds_stores(op.results[0])
            ):
                continue
            ordered = [] if op.result_token is None else _ordered_behind(op.result_token)
            if all(
                _same_elements(op, u) if u in self.stores else self._is_behind_all(u, self.stores[-1]) for u in ordered
            ):
                found.add(op)
        return found

    def _feeds_stores(self, value: SSAValue) -> bool:
        """Whether a value is for nothing but the stores, and what is computed for them."""
        for use in value.uses:
            op = use.operation
            if op not in self.stores and not (is_pure(op) and all(self._feeds_stores(r) for r in op.results)):
                return False
        return True

    @staticmethod
    def _is_behind_all(op: Operation, last: Operation) -> bool:
        return op.parent is last.parent and last.is_before_in_block(op)

    def _is_behind(self, op: Operation) -> bool:
        loop = self.result.owner
        assert isinstance(loop, Operation)
        return loop.is_before_in_block(op)

    @property
    def is_crowded(self) -> bool:
        """Whether there are other tiles of the result's size than what is computed of it."""
        return bool(self.loads) or any(not isinstance(op, TiledStoreOp) for op in self.stores)

    # -- parts --------------------------------------------------------------------------------------------------------

    def cut(self, shape: Sequence[int]) -> None:
        """Make the parts in front of the last store, and drop what they replace."""
        end = self.stores[-1]
        at = Inserter(self.block, end, end.location)
        tokens: dict[SSAValue, list[SSAValue]] = {}
        for offsets in boxes(self.shape, shape):
            part = Part(offsets, tuple(shape))
            piece = Piece(self.result, self.loads, at, tokens, self.cone)
            for store in self.stores:
                piece.store(store, part.by(self.dims[store.value]))
        for old, parts in tokens.items():
            if old.first_use is not None:
                old.replace_all_uses_with(at.value(JoinMemTokenOp.make(*[parts], results=[MemTokenType()])))
        for store in reversed(self.stores):
            erase(store)
        drop_unused(self.block)
        for load in self.loads:
            if load.results[0].first_use is None:  # or else each part takes the whole of it
                erase(load)
        drop_unused(self.block)


class Piece:
    """One part of a result (`whole`), and of what is computed of it: with `loads` done part by part, whose tokens go to
    `tokens`. `cone` are ops whose results are made again even where a part is all of them."""

    def __init__(
        self, whole: SSAValue | Operation, loads: Collection[Operation], at: Inserter,
        tokens: dict[SSAValue, list[SSAValue]], cone: Collection[object] = (),
    ):  # fmt: skip
        self.whole, self.loads, self.cone = whole, loads, cone
        self.at, self.tokens = at, tokens
        self.made: dict[tuple[SSAValue, Part], SSAValue] = {}
        self.loaded: dict[SSAValue, SSAValue] = {}
        """The tokens of loads of this part, by those of the whole."""

    def store(self, op: Store, part: Part) -> None:
        """A store of the part of its tile."""
        made = self._access(op, part)
        for old, new in zip(op.results, made.results):
            self.tokens.setdefault(old, []).append(new)

    def _access(self, op: Load | Store, part: Part) -> Operation:
        """The access to a part."""
        self.at.location = op.location
        if isinstance(op, TiledLoadOp | TiledStoreOp):
            values = [self.of(op.value, part)] if isinstance(op, TiledStoreOp) else []
            return self._through_view(op, part, values)
        operands = [self.of(v, part) if is_tile(v) else v for v in op.operands[: _tokens_from(op)]]
        results: list[Attribute] = [r.type for r in op.results]
        if not isinstance(op, StoreOp):
            whole = op.results[0].type
            assert isinstance(whole, TensorType)
            results[0] = TensorType(whole.element_type, part.shape)
        made = type(op).create(
            operands=[*operands, *self._ordered(op)],
            result_types=results,
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        return self.at.add(made, op.location)

    def _ordered(self, op: MemoryOp) -> list[SSAValue]:
        """What a part of an access is ordered behind: the parts of loads in place of the whole ones."""
        return [] if op.token is None else [self._token(op.token)]

    def _token(self, token: SSAValue) -> SSAValue:
        if token in self.loaded:
            return self.loaded[token]
        maker = token.owner
        if isinstance(maker, Operation) and maker.has_trait(JoinsTokens):
            given = [self._token(v) for v in maker.operands]
            if list(maker.operands) != given:
                return self.at.value(JoinMemTokenOp.make(given, results=[MemTokenType()]))
        return token

    def of(self, value: SSAValue, part: Part) -> SSAValue:
        """The part of a tile."""
        if (value, part) not in self.made:
            self.made[value, part] = self._make(value, part)
        return self.made[value, part]

    def _make(self, value: SSAValue, part: Part) -> SSAValue:
        assert isinstance(value.type, TensorType)
        op, type_ = value.owner, TensorType(value.type.element_type, part.shape)
        if part.shape == value.type.get_shape() and value is not self.whole and op not in self.cone:
            return value
        if isinstance(op, Operation):
            self.at.location = op.location
            if isinstance(op, Load) and op in self.loads:
                made = self._access(op, part)
                if op.result_token is not None:
                    self.loaded[op.result_token] = made.results[-1]
                    self.tokens.setdefault(op.result_token, []).append(made.results[-1])
                return made.results[0]
            parts = source_parts(op, part)
            if parts is not None:
                operands = [v if p is None else self.of(v, p) for v, p in zip(op.operands, parts)]
                again = type(op).create(
                    operands=operands, result_types=[type_], properties=properties_of_part(op, part),
                    attributes=dict(op.attributes),
                )  # fmt: skip
                return self.at.value(again, op.location)
        offsets = DenseArrayBase.from_list(i64, list(part.offsets))
        return self.at.value(ExtractSliceOp.make(value, results=[type_], offsets=offsets))

    def _through_view(self, op: TiledLoadOp | TiledStoreOp, part: Part, values: Sequence[SSAValue]) -> Operation:
        """The access to a part: through a view of smaller tiles."""
        return through_narrow_view(self.at, op, part, values, self._ordered(op))


def source_parts(op: Operation, part: Part) -> list[Part | None] | None:
    """For each operand the part of it of which an op makes a part of its result; None for one that is taken as it is.
    None where a part is taken of the whole result instead."""
    if isinstance(op, SplatOp | MakeRangeOp) or (isinstance(op, ConstantOp) and op.value.is_splat):
        return [None] * len(op.operands)
    if is_elementwise(op) and len(op.results) == 1:
        return [part if is_tile(v) else None for v in op.operands]
    if isinstance(op, PermuteOp):
        order = integers_of(op.permutation)
        return [part.by(tuple(order.index(d) for d in range(len(order))))]
    if isinstance(op, BroadcastOp):
        sizes = zip(shape_of(op.source.type), shape_of(op.result.type))
        return [part.by(tuple(None if a != b else d for d, (a, b) in enumerate(sizes)))]
    if isinstance(op, ViewOp | ExpandDimsOp) and (sources := unit_dims_sources(op)) is not None:
        return [part.by(sources)]
    return None


def properties_of_part(op: Operation, part: Part) -> dict[str, Attribute]:
    """The properties of an op that makes a part of its result (`source_parts`)."""
    properties = dict(op.properties)
    if isinstance(op, ConstantOp):
        properties["value"] = DenseElementsAttr(TileType(part.shape, op.value.type.element_type), op.value.raw)
    if isinstance(op, MakeRangeOp):
        start = 0 if op.start is None else op.start.value.data
        properties["start"] = IntegerAttr(start + part.offsets[0], i64)
    return properties


def through_narrow_view(
    at: Inserter, op: TiledLoadOp | TiledStoreOp, part: Part, values: Sequence[SSAValue], tokens: Sequence[SSAValue]
) -> Operation:
    """The access to a part of a tile, of values behind tokens, through a view of smaller tiles."""
    type_ = op.accessed.type
    assert isinstance(type_, TiledViewType)
    made, indices = narrow_view(at, op.accessed, op.group("indices"), part)
    results: list[Attribute] = [r.type for r in op.results]
    if isinstance(op, TiledLoadOp):
        results[0] = TensorType(type_.element_type, part.shape)
    again = type(op).create(
        operands=[made, *values, *indices, *tokens],
        result_types=results,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    again.attributes.pop("index_divisibility", None)
    again.properties.pop("index_divisibility", None)
    mark_outside(again, [d for d, n in enumerate(part.shape) if n != type_.shape[d]])
    return at.add(again, op.location)


def narrow_view(
    at: Inserter, view: SSAValue, indices: Sequence[SSAValue], part: Part
) -> tuple[SSAValue, list[SSAValue]]:
    """A view of smaller tiles of what a view shows, and the indices of that which is a part of the tile at `indices`.
    Numbers that choose along a dimension stay as they are."""
    block, type_ = view.owner, view.type
    assert isinstance(block, BlockTileOp) and isinstance(type_, TiledViewType)
    tiling = type_.layout
    if tiling.sparse_dim is None:
        wholes: Sequence[int] = type_.traversal_strides
        steps = [gcd(t, n) for t, n in zip(wholes, part.shape)]
        given: Sequence[int] | None = None if steps == list(part.shape) else steps
    else:  # whose indices count elements
        wholes, steps = [1] * len(part.shape), [1] * len(part.shape)
        given = tiling.traversal_strides
    narrow = TiledViewType(
        type_.source,
        part.shape,
        TilingAttr(tiling.dim_map, given, tiling.sparse_dim, tiling.padding, tiling.leading),
    )
    tiles = DenseArrayBase.from_list(i64, list(part.shape))
    made = at.value(BlockTileOp.make(block.source, results=[narrow], tileSizes=tiles, dimGroups=block.dim_groups))
    moved = list(indices)
    for d, (whole, step, offset) in enumerate(zip(wholes, steps, part.offsets)):
        if d != tiling.sparse_dim:
            moved[d] = _moved(at, moved[d], whole // step, offset // step)
    return made, moved


def _moved(at: Inserter, index: SSAValue, factor: int, more: int) -> SSAValue:
    """factor * index + more."""
    type_ = index.type
    assert isinstance(type_, IndexType | IntegerType)
    if factor != 1:
        index = at.value(arith.MuliOp(index, at.value(arith.ConstantOp(IntegerAttr(factor, type_)))))
    if more:
        index = at.value(arith.AddiOp(index, at.value(arith.ConstantOp(IntegerAttr(more, type_)))))
    return index


def mark_outside(op: MemoryOp, dims: Sequence[int]) -> None:
    """Along these dimensions of its view an access is to a part of a tile."""
    inside = op.inside
    found = {*numbers(op, OUTSIDE), *(d for d in dims if d >= len(inside) or not inside[d])}
    if found:
        op.attributes[OUTSIDE] = DenseArrayBase.from_list(i64, sorted(found))


def _goes_in_parts(op: Store) -> bool:
    """Whether the parts of an access do what the whole does: elements of weak ones have no order, and each atomic is
    ordered with what others do by itself; its result nobody wants."""
    return op.result.first_use is None if isinstance(op, AtomicRmwOp) else op.semantic == "weak"


def _tokens_from(op: MemoryOp) -> int:
    """The number of the first operand that is a token."""
    return len(op.operands) - (op.token is not None)


def is_plain_access(op: MemoryOp) -> bool:
    """Whether an access is one by pointers, or through a view of a memref with an index for each dimension."""
    if not isinstance(op, TiledLoadOp | TiledStoreOp):
        return not op.coordinates
    view = op.accessed.type
    if not isinstance(view, TiledViewType) or not isinstance(op.accessed.owner, BlockTileOp):
        return False
    tiling = view.layout
    scalars = all(isinstance(v.type, IndexType | IntegerType) for v in op.coordinates)
    plain = not op.group("mask") and (isinstance(op, TiledStoreOp) or not op.group("other"))
    return plain and tiling.sparse_dim is None and not tiling.leading and view.rank == len(view.shape) and scalars


def _viewed(dims: Dims, op: ViewOp | ExpandDimsOp) -> Dims:
    """The dimensions behind an op that adds or drops some of size 1; _Uncut for another one."""
    sources = unit_dims_sources(op)
    if sources is None:
        raise _Uncut
    after: list[int | None] = [None] * len(shape_of(op.result.type))
    for source, target in enumerate(sources):
        if target is not None:
            after[target] = dims[source]
    return tuple(after)


def unit_dims_sources(op: ViewOp | ExpandDimsOp) -> Dims | None:
    """For each dimension of an op's source the one of its result, where it only adds or drops ones of size 1."""
    before, after = shape_of(op.source.type), shape_of(op.result.type)
    wide = [d for d, n in enumerate(after) if n != 1]
    if [n for n in before if n != 1] != [after[d] for d in wide]:
        return None
    left = iter(wide)
    return tuple(None if n == 1 else next(left) for n in before)


def _before(value: SSAValue) -> Iterator[Operation]:
    """The ops that a value comes from, within its block."""
    work, seen = [value], set[Operation]()
    while work:
        op = work.pop().owner
        if isinstance(op, Operation) and op not in seen:
            seen.add(op)
            yield op
            work += op.operands


def _is_between(op: Operation, first: Operation, last: Operation) -> bool:
    """Whether an op that acts on memory stands between two others."""
    acts = isinstance(op, MemoryOp) and op.parent is first.parent
    return acts and op is not first and first.is_before_in_block(op) and op.is_before_in_block(last)


def _ordered_behind(token: SSAValue) -> Iterator[Operation]:
    """The ops that a token orders behind what gives it."""
    for use in token.uses:
        op = use.operation
        if op.has_trait(JoinsTokens):
            yield from _ordered_behind(op.results[0])
        else:
            yield op


def _same_elements(load: Load, store: Operation) -> bool:
    """Whether each element that is stored is loaded in the same part."""
    assert isinstance(store, Store)
    given = [store.accessed, *store.group("indices")]
    return all(_is_same(a, b) for a, b in zip([load.accessed, *load.group("indices")], given, strict=True))


def _is_same(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are equal: they are one, or ops without effects make them alike of equal ones."""
    if a is b:
        return True
    x, y = a.owner, b.owner
    if not isinstance(a, OpResult) or not isinstance(b, OpResult) or a.type != b.type or a.index != b.index:
        return False
    assert isinstance(x, Operation) and isinstance(y, Operation)
    if type(x) is not type(y) or not is_pure(x) or x.properties != y.properties or len(x.operands) != len(y.operands):
        return False
    return all(_is_same(v, w) for v, w in zip(x.operands, y.operands))


def boxes(whole: Sequence[int], part: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Where the parts of a shape begin, the last dimension fastest."""
    if not whole:
        yield ()
        return
    for first in range(0, whole[0], part[0]):
        for rest in boxes(whole[1:], part[1:]):
            yield first, *rest
