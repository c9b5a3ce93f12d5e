# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in no loop over steps: where agents multiply, they get loops of one turn, like others that agents share.

    a = tiled_load va[i, j]                  d = for 0 to 1 iter_args(acc = zero) {
    b = tiled_load vb[j, k]                    a = tiled_load va[i, j]; b = tiled_load vb[j, k]
    d = dot a, b, zero                ->       yield (dot a, b, acc)
    tiled_store vd[i, k], d                  }
                                             tiled_store vd[i, k], d

The tiles that are loaded for a product and nothing else go with it; another one of its operands may be a tile that is
computed. What is ordered behind the loads has to come behind the product. Products that add to one another's result, or
that share a tile, get one loop. The rewriting is one of nv_tileaa, before layouts are chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith, scf
from libtile.dialects.arith import SelectOp
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.nv_tileaa.arithmetic import OPS
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp, ExpandDimsOp, PermuteOp, ViewOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_of
from libtile.ir.tile_form import is_tile
from libtile.lowering.tileas.counted_loops import any_trip, known_trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.lowering.tileas.pipelines.operand_paths import rounds_to_tf32
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.products.product_forms import are_fed
from libtile.numerics.elements import STORAGE_BYTES

Named = PermuteOp | ViewOp | ExpandDimsOp | FpToFpOp
"""Ops between a load and a product, which go with them; those that convert do if TMA can."""


def lone_products(function: FuncOp, *, of_tiles: bool) -> list[list[DotOp]]:
    """The products of a kernel in no loop over steps, in its block or that of a loop over tiles, by the loops that they
    get; those with one over tiles to themselves only if loops `of_tiles` are asked for. Nothing where one of them
    cannot have one."""
    groups: list[list[DotOp]] = []
    for product in ops_of(function, DotOp):
        if not _is_lone(product, function, of_tiles):
            continue
        near = [group for group in groups if any(_belong_together(product, other) for other in group)]
        groups = [group for group in groups if group not in near] + [[op for group in near for op in group] + [product]]
    return groups if all(map(_fits, groups)) else []


def _is_lone(product: DotOp, function: FuncOp, of_tiles: bool) -> bool:
    """Whether a product is in the block of its kernel, or in that of a loop over tiles: one that carries none, or that
    has a loop with products inside, as a layer of a network has whose hidden tiles are made one after the other."""
    parent = product.parent_op()
    if parent is function or is_nest(parent):
        return True
    if not of_tiles or not isinstance(parent, scf.ForOp) or parent.parent_op() is not function:
        return False
    return not any(is_tile(v) for v in parent.iter_args)


def is_nest(op: Operation | None) -> bool:
    """Whether an op is a loop with a loop with products inside."""
    if not isinstance(op, scf.ForOp):
        return False
    around = (inner.parent_op() for inner in ops_of(op, DotOp))
    return any(isinstance(loop, scf.ForOp) and loop is not op for loop in around)


def _belong_together(product: DotOp, other: DotOp) -> bool:
    """Whether a product adds to the result of another one before it, or reads a tile that this one reads."""
    if product.parent is not other.parent:
        return False
    loads = {load for side in (other.a, other.b) if (load := _load_of(side)) is not None}
    return product.c is other.result or any(_load_of(side) in loads for side in (product.a, product.b))


def _fits(group: Sequence[DotOp]) -> bool:
    """Whether products can be computed where the last one is, each from one loaded tile at least."""
    last = group[-1]
    if not are_fed(group):
        return False
    for product in group:
        if any(op not in group and not _is_behind(op, last) for op in _users(product.result)):
            return False
        if not any(loads_of(side, group) for side in (product.a, product.b)):
            return False
    tokens = [op.result_token for op in _brought_along(group) if isinstance(op, TiledLoadOp)]
    return all(_is_behind(user, last) for token in tokens if token is not None for user in _users(token))


def _users(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses]


def _is_behind(op: Operation, last: Operation) -> bool:
    """Whether an op, or the one that it is in, comes behind another one in its block."""
    while op.parent is not last.parent:
        parent = op.parent_op()
        if parent is None:
            return False
        op = parent
    return last.is_before_in_block(op)


def _load_of(value: SSAValue) -> TiledLoadOp | None:
    """The load that a tile comes from, as it is but for its dimensions and the rounding of its elements."""
    while isinstance(value.owner, Named) and _is_on_the_way(value.owner):
        value = value.owner.source
    return value.owner if isinstance(value.owner, TiledLoadOp) else None


def loaded_bytes(products: Iterable[DotOp]) -> int:
    """Bytes of the tiles that are loaded for products of a loop in each of its turns."""
    found = {
        load.value: load.value.type
        for product in products
        for side in (product.a, product.b)
        if (load := _load_of(side)) is not None and load.parent is product.parent
    }
    return sum(tile_bytes(type_) for type_ in found.values() if isinstance(type_, TensorType))


def loads_of(value: SSAValue, group: Collection[Operation]) -> list[Operation]:
    """The load of an operand, which nothing orders behind another access, and the ops behind it, in order; none where
    something else than these products uses them. They may have left the loop over tiles."""
    blocks, found = _blocks(group), list[Operation]()
    while True:
        op = value.owner
        if not isinstance(op, TiledLoadOp | Named) or op.parent not in blocks:
            return []
        found.insert(0, op)
        if not all(user in group or _leads_to(user, group) for user in _users(value)):
            return []
        if isinstance(op, TiledLoadOp):
            return found if all(is_fresh(v) for v in op.group("token")) else []
        if not _is_on_the_way(op):
            return []
        value = op.source


def _is_on_the_way(op: Named) -> bool:
    """Whether an op moves no element, and at most rounds f32 to tf32."""
    return not isinstance(op, FpToFpOp) or rounds_to_tf32(op)


def _leads_to(op: Operation, group: Collection[Operation]) -> bool:
    return isinstance(op, Named) and all(u in group or _leads_to(u, group) for u in _users(op.results[0]))


def _brought_along(group: Sequence[DotOp]) -> list[Operation]:
    """The ops that go into the loop with products, in order."""
    found = {op for product in group for side in (product.a, product.b) for op in loads_of(side, group)}
    return [op for block in _blocks(group) for op in block.ops if op in found]


def _blocks(group: Collection[Operation]) -> list[Block]:
    """The blocks that end with that of products, from the kernel's on."""
    block, found = next(iter(group)).parent, list[Block]()
    while block is not None and not isinstance(block.parent_op(), ModuleOp):
        found.insert(0, block)
        block = block.parent_block()
    return found


def loop_around(group: Sequence[DotOp]) -> None:
    """Put products, and the loads of their operands, in a loop of one turn."""
    last, along = group[-1], _brought_along(group)
    block = last.parent
    assert block is not None
    at = Inserter(block, last, last.location)
    zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, IndexType()))) for n in (0, 1))
    loads = [op for op in along if isinstance(op, TiledLoadOp)]
    tokens: list[SSAValue] = [
        op.result_token for op in loads if op.result_token is not None and op.result_token.first_use is not None
    ]
    given = [at.value(CreateMemTokenOp.make(results=[MemTokenType()])) for _ in tokens]
    begun = [op for op in group if op.c.owner not in group]
    ended = [op.result for op in group if not any(user in group for user in _users(op.result))]
    body = Block(arg_types=[IndexType(), *(op.c.type for op in begun), *(v.type for v in tokens)])
    made = scf.ForOp(zero, one, one, [*(op.c for op in begun), *given], body)
    at.add(made)
    # Sums are yielded where those that they were begun with are carried.
    first = {result: begun.index(_begin(result, group)) for result in ended}
    ended = sorted(ended, key=lambda result: first[result])
    for old, new in zip((*ended, *tokens), made.results):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in [*along, *group]:
        op.detach()
        body.add_op(op)
    for op, argument in zip(begun, body.args[1:]):
        set_operand(op, "c", argument)
    body.add_op(scf.YieldOp(*ended, *tokens))


def _begin(result: SSAValue, group: Collection[Operation]) -> DotOp:
    """The first of the products that add to a sum."""
    op = result.owner
    assert isinstance(op, DotOp)
    return _begin(op.c, group) if op.c.owner in group else op


def start_with_zeros(products: Iterable[DotOp]) -> None:
    """Have products that loops add up to something else than zeros added to zeros, and that to their sum behind the
    loop, where that rounds no more than the products do."""
    for product in products:
        loop, carried = product.parent_op(), product.c
        if not isinstance(loop, scf.ForOp) or not isinstance(carried, BlockArgument) or carried.index == 0:
            continue
        number = carried.index - 1
        initial, result = loop.iter_args[number], loop.results[number]
        type_, block = initial.type, loop.parent
        if carried.block is not loop.body.block or not isinstance(type_, TensorType) or is_zero(initial):
            continue
        element = NUMBER_NAMES[type_.element_type]
        if element not in ("f32", "i32") or block is None or result.first_use is None:
            continue
        value = DenseElementsAttr(TileType(type_.get_shape(), type_.element_type), bytes(STORAGE_BYTES[element]))
        before, behind = (Inserter(block, op, loop.location) for op in (loop, loop.next_op))
        set_operand(loop, "iter_args", before.value(ConstantOp.make(results=[type_], value=value)), number)
        uses = list(result.uses)
        if element == "i32":
            whole = behind.value(arith.AddiOp(result, initial))
        else:
            whole = behind.value(OPS["addf"].make(result, initial, results=[type_]))
            if not known_trips(loop):  # of no iteration the result is what the loop begins with, be it -0.0
                whole = behind.value(SelectOp(any_trip(behind, loop), whole, initial))
        for use in uses:
            use.operation.operands[use.index] = whole
