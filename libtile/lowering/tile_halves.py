# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `split-over-ctas` does: the CTAs of a cluster compute halves of a tile block's tiles.

A kernel whose `kernel_spec` has two CTAs is one program run by both. In nv_tileaa, before layouts are chosen, each tile
gets a *form*: it is halved along a dimension, a half to each CTA, or both have the whole of it. Forms go from stores,
each of which is halved along a dimension, to what is stored, and on to loads:

    a = tiled_load va[i, k] : 256x64               r = get_cta_rank
    b = tiled_load vb[k, j] : 64x128               a = tiled_load narrow_a[2 i + r, k] : 128x64
    d = dot a, b, c : 256x128               ->     b = tiled_load vb[k, j] {same_in_cluster} : 64x128
    tiled_store vd[i, j], d                        d = dot a, b, c : 128x128
                                                   tiled_store narrow_d[2 i + r, j], d

What is whole is loaded or computed by both, and `same_in_cluster` says it of loads: a copy by TMA to both does then.
Nothing that control depends on may differ, and each product and each store is halved. Where a kernel cannot be split
so it is compiled for one CTA, and `not_clustered` says why, if it asked for a cluster; so it does where more CTAs are
asked for than the two. A kernel that asks for its rank says itself what each CTA does: it stays as it is, or is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from itertools import product as combinations
from math import prod

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from libtile.analysis.alias_scopes import viewed
from libtile.analysis.tokens import is_fresh
from libtile.atoms import tcgen05
from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import DYNAMIC, TileType
from libtile.dialects.effect_traits import Observable, ReadsMemory
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr, TilingAttr
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp, ScanOp
from libtile.dialects.nv_tileaa.functions import CancelNextProgramIdOp, FuncOp, GetCtaRankOp
from libtile.dialects.nv_tileaa.memory import LoadOp, MemoryOp, StoreOp, TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    ConstantOp,
    ExpandDimsOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    ViewOp,
    integers_of,
)
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_of
from libtile.ir.tile_form import is_tile, shape_of
from libtile.lowering.clusters import CTAS, SAME_IN_CLUSTER, UNASKED, WARPS_OF_ONE
from libtile.lowering.discardable import NOT_CLUSTERED
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.result_parts import is_plain_access, mark_outside, unit_dims_sources
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.targets import Target, target

GROUP_ROWS = 64
"""Rows of the products that a warpgroup computes at once."""
MOST_GROUPS, GROUP_REGISTERS = 2, 128 * 128
"""Warpgroups of a CTA, and the registers of one that are for results: half of its threads' own."""
MOST_CHOICES = 64
"""Combinations of dimensions of stores that are tried."""

Form = int | None
"""The dimension along which a tile is halved; None for a whole tile, and for what is no tile."""


class Unsplit(Exception):
    """Why a kernel is not split."""


class _Conflict(Exception):
    """A use wants another form of a value than the rest."""

    def __init__(self, op: Operation, number: int):
        super().__init__()
        self.op, self.number = op, number


def split(function: FuncOp) -> None:
    """Split one kernel in place, or give it back to one CTA with the reason."""
    spec = function.kernel_spec
    assert spec is not None
    gpu = target(spec.target) if spec.target is not None else None
    if ops_of(function, GetCtaRankOp):
        _check_ranked(function, spec, gpu)
        return
    warps = function.attributes.pop(WARPS_OF_ONE, None)
    asked = function.attributes.pop(UNASKED, None) is None
    if spec.num_ctas > CTAS:
        function.properties["kernel_spec"] = KernelSpecAttr(
            spec.entry, spec.num_warps, CTAS, spec.occupancy, spec.target
        )
    try:
        _check(function, gpu)
        made, forms = best_halves(function, Forms)[0]
        Halves(made, forms).make()
    except Unsplit as reason:
        count = warps.value.data if isinstance(warps, IntegerAttr) else spec.num_warps
        function.properties["kernel_spec"] = KernelSpecAttr(spec.entry, count, 1, spec.occupancy, spec.target)
        if asked:
            function.attributes[NOT_CLUSTERED] = StringAttr(str(reason))
        return
    if spec.num_ctas > CTAS:
        fewer = (
            f"code is made for clusters of {CTAS} CTAs, and the kernel is for one of these in place of {spec.num_ctas}"
        )
        function.attributes[NOT_CLUSTERED] = StringAttr(fewer)
    function.body.detach_block(function.body.block)
    function.body.add_block(made.body.detach_block(made.body.block))


def _check_ranked(function: FuncOp, spec: KernelSpecAttr, gpu: Target | None) -> None:
    """LoweringError for a kernel that says itself what each of its CTAs does, and is for no cluster that there is: it
    is no program of one CTA."""
    said = f"says what each of its {spec.num_ctas} CTAs does (nv_tileaa.get_cta_rank)"
    if gpu is not None and not gpu.has("cluster"):
        raise unsupported(function, f"{said}, and the target has no clusters", gpu.name)
    if spec.num_ctas > CTAS:
        raise unsupported(function, f"{said}, and code is made for clusters of {CTAS}", spec.target or "")
    for op in ops_of(function):
        if isinstance(op, CancelNextProgramIdOp):
            raise unsupported(
                op, "takes programs of the grid over, which one CTA of a cluster cannot", spec.target or ""
            )


def _check(function: FuncOp, gpu: Target | None) -> None:
    """Unsplit for a cluster that code is not made for, and for effects that both CTAs would have."""
    if gpu is None or not gpu.has("cluster"):
        raise Unsplit("the target has no clusters")
    stored = {_memory(op) for op in ops_of(function, TiledStoreOp)}
    for op in ops_of(function):
        if isinstance(op, CancelNextProgramIdOp):
            raise Unsplit("it takes programs of the grid over, which one CTA of a cluster cannot")
        if isinstance(op, TiledLoadOp | TiledStoreOp):
            if op.semantic != "weak":
                raise Unsplit("it has accesses that are ordered with those of other threads")
            if not is_plain_access(op):
                raise Unsplit(f"'{op.name}' is not of a view of a memref, or has more than indices")
            if _is_ordered(op):
                raise Unsplit("tokens order accesses, and they do not order those of another CTA")
            if isinstance(op, TiledLoadOp) and _memory(op) in stored:
                raise Unsplit("it loads and stores one tensor, of which one CTA may be ahead of the other")
        elif op.has_trait(Observable) or op.has_trait(ReadsMemory) or isinstance(op, MemoryOp):
            raise Unsplit(f"'{op.name}' would be done by each CTA")


def _memory(op: TiledLoadOp | TiledStoreOp) -> SSAValue:
    """The memref of an access, or its view where that is of something else."""
    return viewed(op.accessed)


def _is_ordered(op: MemoryOp) -> bool:
    """Whether tokens order an access behind another one, of which one is a store. A store of tiles that do not overlap
    may be behind itself, in a loop: an element is in the same half of its tile each time, so that one CTA writes it."""
    work = [] if op.token is None else [op.token]
    seen: set[SSAValue] = set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if is_fresh(value) or (owner is op and is_of_distinct_tiles(op)):
            continue
        if isinstance(owner, Operation) and owner.has_trait(JoinsTokens):
            work += owner.operands
        elif isinstance(owner, TiledLoadOp) and isinstance(op, TiledLoadOp):
            work += owner.group("token")
        elif isinstance(value, BlockArgument) and isinstance(loop := value.block.parent_op(), scf.ForOp):
            work += carried_at(loop, value.index - 1)[:2]
        elif isinstance(owner, scf.ForOp):
            work += carried_at(owner, owner.results.index(value))[:2]
        else:
            return True
    return False


def is_of_distinct_tiles(op: MemoryOp) -> bool:
    """Whether it stores tiles of a view whose tiles do not overlap, on a tensor that is not known to lie on itself."""
    view = op.accessed.type
    if not isinstance(op, TiledStoreOp) or not isinstance(view, TiledViewType):
        return False
    if not isinstance(view.source, MemRefType) or _lies_on_itself(view.source):
        return False
    return all(step >= size for step, size in zip(view.traversal_strides, view.shape, strict=True))


def _lies_on_itself(source: MemRefType) -> bool:
    """Whether two places of a tensor are the same memory, by what its type says."""
    dims = zip(source.strides, source.shape, strict=True)
    known = sorted((step, n) for step, n in dims if step != DYNAMIC and n != 1)
    return any(outer <= inner * max(n - 1, 1) for (inner, n), (outer, _) in pairwise(known))


def carried_at(loop: scf.ForOp, number: int) -> list[SSAValue]:
    """What a loop carries at a number: as it begins, as a turn hands it on, in its body, and behind the loop."""
    last = loop.body.block.last_op
    assert last is not None
    return [loop.iter_args[number], last.operands[number], loop.body.block.args[1 + number], loop.results[number]]


# -- forms ------------------------------------------------------------------------------------------------------------


def best_halves(function: FuncOp, kind: type[Forms]) -> list[tuple[FuncOp, Forms]]:
    """Copies of a kernel, each with forms of its tiles: stores are halved along dimensions that cost least, of which
    there may be several. Unsplit where there are none."""
    stores = ops_of(function, *kind.STORES)
    if not stores:
        raise Unsplit("it stores nothing")
    dims = [[d for d, n in enumerate(shape_of(op.value.type)) if n >= CTAS] for op in stores]
    found: list[tuple[FuncOp, Forms]] = []
    reason = Unsplit("it stores tiles of one element")
    for count, chosen in enumerate(combinations(*dims)):
        if count == MOST_CHOICES:
            break
        copy = function.clone()
        try:
            forms = _planned(copy, chosen, kind)
        except Unsplit as problem:
            reason = problem if not found and not count else reason
            continue
        found = [(made, of) for made, of in found if of.cost <= forms.cost]
        if all(of.cost == forms.cost for _, of in found):
            found.append((copy, forms))
    if not found:
        raise reason
    return found


def _planned(function: FuncOp, chosen: Sequence[int], kind: type[Forms]) -> Forms:
    """The forms of all tiles of a kernel whose stores are halved along these dimensions. An op without effects that is
    wanted in two forms stands twice."""
    drop_unused(function.body.block)
    tries = 64 + 4 * sum(len(op.operands) for op in ops_of(function))
    for _ in range(tries):
        try:
            return kind(function, chosen)
        except _Conflict as conflict:
            value = conflict.op.operands[conflict.number]
            owner = value.owner
            if not isinstance(owner, Operation) or not is_pure(owner) or isinstance(owner, DotOp):
                raise Unsplit("a tile is wanted both halved and whole") from None
            again = owner.clone()
            assert owner.parent is not None
            again.location = owner.location
            owner.parent.insert_op_after(again, owner)
            conflict.op.operands[conflict.number] = again.results[0]
            drop_unused(function.body.block)
    raise Unsplit("its tiles are wanted in too many forms")


class Forms:
    """The form of each tile, where CTAs have halves; _Conflict or Unsplit where there is none."""

    STORES: tuple[type[TiledStoreOp | StoreOp], ...] = (TiledStoreOp,)
    """What stores halves."""
    SHARES_LOADS = True
    """Whether what both halves load is loaded at once."""

    def __init__(self, function: FuncOp, chosen: Sequence[int]):
        self.function, self.cost = function, 0
        spec = function.kernel_spec
        self.in_pairs = spec is not None and spec.target is not None and target(spec.target).has("tcgen05")
        self.of: dict[SSAValue, Form] = {}
        self.work: list[SSAValue] = []
        stores = ops_of(function, *self.STORES)
        for store, dim in zip(stores, chosen, strict=True):
            for number, value in enumerate(store.operands):
                if is_tile(value):
                    self._use(store, number, dim)
        self._spread()
        # All else is the same in both.
        for op in ops_of(function):
            for result in op.results:
                if is_tile(result) and result not in self.of:
                    self._set(result, None)
                    self._spread()
            if not op.results and not isinstance(op, (*self.STORES, scf.YieldOp)):
                for number, value in enumerate(op.operands):
                    if is_tile(value):
                        self._use(op, number, None)
        self._spread()

    def _use(self, op: Operation, number: int, form: Form) -> None:
        value = op.operands[number]
        if not is_tile(value):
            if form is not None:
                raise Unsplit(f"'{op.name}' takes something whole that is no tile")
            return
        if self.of.setdefault(value, form) != form:
            raise _Conflict(op, number)
        self.work.append(value)

    def _set(self, value: SSAValue, form: Form) -> None:
        if self.of.setdefault(value, form) != form:
            raise Unsplit("a tile that a loop or a branch hands on is wanted both halved and whole")
        self.work.append(value)

    def _spread(self) -> None:
        seen: set[SSAValue] = set()
        while self.work:
            value = self.work.pop()
            if value in seen:
                continue
            seen.add(value)
            self._from(value, self.of[value])

    def _from(self, value: SSAValue, form: Form) -> None:
        """What the form of a value wants of those that it comes from."""
        owner = value.owner
        if isinstance(owner, Block):
            loop = owner.parent_op()
            assert isinstance(value, BlockArgument)
            if isinstance(loop, scf.ForOp) and value.index:
                self._carry(loop, value.index - 1, form)
            elif form is not None:
                raise Unsplit("a tile that a region is given would have to be halved")
            elif isinstance(loop, scf.WhileOp):
                self._whole(loop)
            return
        if isinstance(owner, scf.ForOp):
            self._carry(owner, owner.results.index(value), form)
        elif isinstance(owner, scf.IfOp):
            number = owner.results.index(value)
            for region in owner.regions:
                last = region.block.last_op
                assert last is not None
                self._use(last, number, form)
        elif isinstance(owner, scf.WhileOp):
            if form is not None:
                raise Unsplit("a tile that a loop hands on which does not count would have to be halved")
            self._whole(owner)
        else:
            for other in owner.results:
                if other is not value and is_tile(other):
                    self._set(other, form)
            for number, wanted in self._operands(owner, form):
                self._use(owner, number, wanted)

    def _carry(self, loop: scf.ForOp, number: int, form: Form) -> None:
        last = loop.body.block.last_op
        assert last is not None
        self._use(loop, 3 + number, form)
        self._use(last, number, form)
        for value in (loop.body.block.args[1 + number], loop.results[number]):
            self._set(value, form)

    def _whole(self, loop: scf.WhileOp) -> None:
        """All that a loop hands on is whole."""
        for number, value in enumerate(loop.operands):
            if is_tile(value):
                self._use(loop, number, None)
        for region in loop.regions:
            for value in region.block.args:
                if is_tile(value):
                    self._set(value, None)
            last = region.block.last_op
            assert last is not None
            for number, value in enumerate(last.operands):
                if is_tile(value):
                    self._use(last, number, None)

    def _operands(self, op: Operation, form: Form) -> Iterator[tuple[int, Form]]:
        """The form of each operand that is a tile, for that of the results. Unsplit for an op that has none."""
        tiles = [n for n, v in enumerate(op.operands) if is_tile(v)]
        if isinstance(op, DotOp):
            yield from self.of_product(op, form)
        elif form is None:
            yield from ((n, None) for n in tiles)
        elif isinstance(op, ConstantOp):
            if not op.value.is_splat:
                raise Unsplit("a constant whose elements differ would have to be halved")
        elif isinstance(op, TiledLoadOp | SplatOp | MakeRangeOp):
            return
        elif is_elementwise(op) or isinstance(op, LoadOp):
            yield from ((n, form) for n in tiles)
        elif isinstance(op, BroadcastOp):
            yield 0, form if shape_of(op.source.type)[form] != 1 else None
        elif isinstance(op, PermuteOp):
            yield 0, integers_of(op.permutation)[form]
        elif isinstance(op, ViewOp | ExpandDimsOp) and (sources := unit_dims_sources(op)) is not None:
            yield 0, sources.index(form)
        elif isinstance(op, ReduceOp):
            yield from ((n, form + (form >= op.dim.value.data)) for n in tiles)
        elif isinstance(op, ScanOp) and op.dim.value.data != form:
            yield from ((n, form) for n in tiles)
        else:
            raise Unsplit(f"'{op.name}' does not go half by half")

    def of_product(self, op: DotOp, form: Form) -> Iterator[tuple[int, Form]]:
        """The form of each operand of a product whose result has one, and what it costs."""
        if form is None:
            raise Unsplit("a product would be computed by each CTA")
        *_, rows, columns = shape = shape_of(op.result.type)
        row, column = len(shape) - 2, len(shape) - 1
        if self.in_pairs and (form != row or rows // CTAS < tcgen05.LANES):
            raise Unsplit(
                f"a product of {rows}x{columns} has no halves of {tcgen05.LANES} rows, as pairs of CTAs multiply"
            )
        half = shape[:-2], rows // CTAS if form == row else rows, columns // CTAS if form == column else columns
        if form == row:
            self.cost += 0 if rows // CTAS % GROUP_ROWS == 0 else 10
        elif form == column:
            self.cost += 1 if columns // CTAS >= 8 else 10
        self.cost += 0 if _fits_warpgroups(*half) else 5
        yield from forms_of_operands(op, form)


def forms_of_operands(op: DotOp, form: Form) -> Iterator[tuple[int, Form]]:
    """The form of each operand of a product whose result has one."""
    rank = len(shape_of(op.result.type))
    yield 0, form if form != rank - 1 else None
    yield 1, form if form != rank - 2 else None
    yield 2, form


def _fits_warpgroups(batches: Sequence[int], rows: int, columns: int) -> bool:
    """Whether one or two warpgroups have registers for a result."""
    groups = min(max(rows // GROUP_ROWS, 1), MOST_GROUPS)
    return prod(batches) * rows * columns <= groups * GROUP_REGISTERS


# -- halves -----------------------------------------------------------------------------------------------------------


class Halves:
    """Makes a kernel compute halves, by the rank of a CTA."""

    def __init__(self, function: FuncOp, forms: Forms):
        self.function, self.forms, self.shares = function, forms.of, forms.SHARES_LOADS
        block = function.body.block
        first = block.first_op
        at = Inserter(block, first, None if first is None else first.location)
        self.rank = at.value(GetCtaRankOp.make(results=[IndexType()]))

    def make(self) -> None:
        ops = ops_of(self.function)
        accesses = [(op, self._form_of_access(op)) for op in ops if isinstance(op, TiledLoadOp | TiledStoreOp)]
        halved = [(value, form) for value, form in self.forms.items() if form is not None]
        ranges = [value.owner for value, _ in halved if isinstance(value.owner, MakeRangeOp)]
        constants = [value.owner for value, _ in halved if isinstance(value.owner, ConstantOp)]
        for value, form in halved:
            assert isinstance(value.type, TensorType)
            Rewriter.replace_value_with_new_type(
                value, TensorType(value.type.element_type, _half(shape_of(value.type), form))
            )
        for constant in constants:
            type_ = TileType(shape_of(constant.result.type), constant.value.type.element_type)
            constant.properties["value"] = DenseElementsAttr(type_, constant.value.raw)
        for op in ranges:
            self._move_range(op)
        for access, along in accesses:
            if along is not None:
                self._narrow(access, along)
            elif self.shares:
                access.attributes[SAME_IN_CLUSTER] = UnitAttr()
        drop_unused(self.function.body.block)

    def _form_of_access(self, op: TiledLoadOp | TiledStoreOp) -> Form:
        return self.forms[op.value]

    def _move_range(self, op: MakeRangeOp) -> None:
        """The second CTA's numbers begin behind those of the first one."""
        assert op.parent is not None and isinstance(op.result.type, TensorType)
        type_ = op.result.type
        at = Inserter(op.parent, op.next_op, op.location)
        element = type_.element_type
        assert isinstance(element, IntegerType | IndexType)
        rank = self.rank if isinstance(element, IndexType) else at.value(arith.IndexCastOp(self.rank, element))
        half = at.value(arith.ConstantOp(IntegerAttr(type_.get_shape()[0], element)))
        first = at.value(SplatOp.make(at.value(arith.MuliOp(rank, half)), results=[type_]))
        moved = arith.AddiOp(op.result, first)
        op.result.replace_uses_with_if(at.value(moved), lambda use: use.operation is not moved)

    def _narrow(self, op: TiledLoadOp | TiledStoreOp, form: int) -> None:
        """Access the half of a tile, through a view of halves."""
        block, type_ = op.accessed.owner, op.accessed.type
        if not is_plain_access(op):
            raise Unsplit(f"'{op.name}' is not of a view of a memref, or has more than indices")
        assert isinstance(block, BlockTileOp) and isinstance(type_, TiledViewType) and op.parent is not None
        shape, tiling = _half(type_.shape, form), type_.layout
        step = type_.traversal_strides[form]
        steps = list(type_.traversal_strides)
        steps[form] = shape[form]
        if step % shape[form]:
            raise Unsplit("its views go in steps that are no whole halves of a tile")
        given = None if steps == list(shape) else steps
        narrow = TiledViewType(
            type_.source, shape, TilingAttr(tiling.dim_map, given, tiling.sparse_dim, tiling.padding, tiling.leading)
        )
        at = Inserter(op.parent, op, op.location)
        tiles = DenseArrayBase.from_list(i64, list(shape))
        view = at.value(BlockTileOp.make(block.source, results=[narrow], tileSizes=tiles, dimGroups=block.dim_groups))
        set_operand(op, "base", view)
        index = op.group("indices")[form]
        assert isinstance(index.type, IndexType | IntegerType)
        rank = self.rank if isinstance(index.type, IndexType) else at.value(arith.IndexCastOp(self.rank, index.type))
        factor = at.value(arith.ConstantOp(IntegerAttr(step // shape[form], index.type)))
        moved = at.value(arith.AddiOp(at.value(arith.MuliOp(index, factor)), rank))
        set_operand(op, "indices", moved, form)
        for facts in (op.properties, op.attributes):
            facts.pop("index_divisibility", None)
        mark_outside(op, [form])


def _half(shape: Sequence[int], form: int) -> tuple[int, ...]:
    return tuple(n // CTAS if d == form else n for d, n in enumerate(shape))
