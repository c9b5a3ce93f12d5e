# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tiles that are too wide for shared memory, as products of narrower ones.

    s = dot k, q, c                  k : 128x512         s0 = dot k0, q0, c     k0 : 128x128, loaded by itself
                                                         s1 = dot k1, q1, s0    ...
    x = for ... acc : 512x16                             x0, x1, ... = for ... acc0 : 128x16, acc1 : 128x16, ...
      acc' = dot v, p, scale(acc)    v : 512x128           acc0' = dot v0, p, scale(acc0)
                                                           acc1' = dot v1, p, scale(acc1)

A product whose operands are both loaded is cut along k, one whose right operand is computed along its rows: a sum that
the loop carries is several then, which what is behind the loop takes part by part. The stages of a ring hold narrow
tiles, and there is room for several of them. The rewriting is one of nv_tileaa, before layouts are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp, ExpandDimsOp, ExtractSliceOp, PermuteOp, ViewOp, integers_of
from libtile.dialects.nv_tileaa.tokens import JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.product_forms import products_in_loops
from libtile.lowering.tileas.products.result_parts import Part, Piece, cut_result, is_plain_access
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.numerics.elements import STORAGE_BYTES

TILE_BYTES = 32 << 10
"""Of an operand, beyond which its product is cut: several such tiles fit shared memory beside others."""
FEWEST = 64
"""Elements of a part along the dimension that is cut: the rows of an instruction, and a line of 128 bytes."""


def with_narrow_tiles(function: FuncOp) -> FuncOp | None:
    """A copy of the function whose products of wide tiles in loops are products of narrower ones; None where there are
    none that can be cut."""
    if not any(map(_is_wide, products_in_loops(function))):
        return None
    copy = function.clone()
    cut = [_cut_depth(op) or _cut_rows(op) for op in products_in_loops(copy) if _is_wide(op)]
    return copy if any(cut) else None


def _is_wide(product: DotOp) -> bool:
    return len(shape_of(product.result.type)) == 2 and _parts(product, shape_of(product.a.type)[1]) > 1


def _parts(product: DotOp, size: int) -> int:
    """Into how many parts a dimension of the left operand of this size is cut."""
    rows, depth = shape_of(product.a.type)
    bytes_ = rows * depth * STORAGE_BYTES[NUMBER_NAMES[element_of(product.a.type)]]
    return max(min(bytes_ // TILE_BYTES, size // FEWEST), 1)


def _load_of(value: SSAValue) -> TiledLoadOp | None:
    """The load through a plain view that an operand is, but for its shape, for this product alone."""
    while value.has_one_use() and isinstance(value.owner, ViewOp | ExpandDimsOp | PermuteOp):
        value = value.owner.source
    op = value.owner
    fit = isinstance(op, TiledLoadOp) and value.has_one_use() and is_plain_access(op) and op.semantic == "weak"
    return op if fit and isinstance(op, TiledLoadOp) else None


def _cut_depth(product: DotOp) -> bool:
    """Multiply part by part along k, if both operands are loaded for the product."""
    (rows, depth), columns = shape_of(product.a.type), shape_of(product.b.type)[1]
    loads = [_load_of(v) for v in (product.a, product.b)]
    count = _parts(product, depth)
    if loads[0] is None or loads[1] is None or loads[0].parent is not product.parent or count == 1:
        return False
    found = [load for load in loads if load is not None]
    size, total = depth // count, product.c
    tokens: dict[SSAValue, list[SSAValue]] = {}
    for first in range(0, depth, size):
        parts = (Part((0, first), (rows, size)), Part((first, 0), (size, columns)))
        a, b = (
            Piece(v, {load}, Inserter(_block(load), _behind(v), load.location), tokens).of(v, part)
            for load, v, part in zip(found, (product.a, product.b), parts)
        )
        at = Inserter(_block(product), product, product.location)
        total = at.value(_product_of(product, a, b, total))
    product.result.replace_all_uses_with(total)
    _erase(product, found, tokens)
    return True


def _behind(value: SSAValue) -> Operation | None:
    """The op behind the one that gives a value."""
    assert isinstance(value.owner, Operation)
    return value.owner.next_op


def _block(op: Operation) -> Block:
    assert op.parent is not None
    return op.parent


def _product_of(product: DotOp, a: SSAValue, b: SSAValue, c: SSAValue) -> DotOp:
    made = DotOp.make(
        a, b, c, [], [], results=[c.type], signedness_a=product.signedness_a, signedness_b=product.signedness_b,
        propagate_nan=product.propagate_nan, fast_acc=product.fast_acc,
    )  # fmt: skip
    made.attributes.update(product.attributes)
    return made


def _erase(product: DotOp, loads: Sequence[TiledLoadOp], tokens: dict[SSAValue, list[SSAValue]]) -> None:
    """Drop a product and the loads that were for it alone, whose tokens are those of all parts."""
    block = _block(product)
    erase(product)
    drop_unused(block)
    for load in loads:
        token = load.result_token
        if token is not None and token.first_use is not None:
            made = {v.owner for v in tokens[token]}
            last = next(op for op in reversed(list(_block(load).ops)) if op in made)
            at = Inserter(_block(load), last.next_op, load.location)
            token.replace_all_uses_with(at.value(JoinMemTokenOp.make(tokens[token], results=[MemTokenType()])))
        drop_unused(_block(load))
        if load.value.first_use is None:
            erase(load)


def _cut_rows(product: DotOp) -> bool:
    """Multiply part by part along rows, if the left operand is loaded for the product, and the sum is one that the loop
    carries for itself alone, from equal numbers on."""
    loop, load, body = product.parent_op(), _load_of(product.a), product.parent
    (rows, depth), columns = shape_of(product.a.type), shape_of(product.b.type)[1]
    count = _parts(product, rows)
    if not isinstance(loop, scf.ForOp) or load is None or load.parent is not body or body is None or count == 1:
        return False
    argument, cone = _carried(product)
    last, number = body.last_op, -1 if argument is None else argument.index - 1
    if argument is None or last is None or number < 0 or last.operands[number] is not product.result:
        return False
    initial = loop.iter_args[number].owner
    if not product.result.has_one_use() or not isinstance(initial, ConstantOp) or not initial.value.is_splat:
        return False
    size = rows // count
    if not cut_result(product, (size, columns)):
        return False
    slices = [use.operation for use in loop.results[number].uses]
    if not all(isinstance(op, ExtractSliceOp) and shape_of(op.results[0].type) == (size, columns) for op in slices):
        return False
    assert isinstance(product.c.type, TensorType) and loop.parent is not None
    type_ = TensorType(product.c.type.element_type, (size, columns))
    before = Inserter(loop.parent, loop, loop.location)
    held = DenseElementsAttr(TileType((size, columns), initial.value.type.element_type), initial.value.raw)
    start = before.value(ConstantOp.make(results=[type_], value=held))
    at, tokens, made = Inserter(body, product, product.location), dict[SSAValue, list[SSAValue]](), list[SSAValue]()
    for first in range(0, rows, size):
        part = Part((first, 0), (size, columns))
        piece = Piece(argument, {load}, at, tokens)
        piece.made[argument, part] = body.insert_arg(type_, len(body.args))
        a = piece.of(product.a, Part((first, 0), (size, depth)))
        made.append(at.value(_product_of(product, a, product.b, piece.of(product.c, part))))
    given = [v for n, v in enumerate(last.operands) if n != number]
    last.detach()
    last.erase()
    body.add_op(scf.YieldOp(*given, *made))
    _erase(product, [load], tokens)
    for op in reversed(cone):
        if op.parent is not None:
            erase(op)
    body.erase_arg(argument)
    kept = [v for n, v in enumerate(loop.iter_args) if n != number]
    again = scf.ForOp(loop.lb, loop.ub, loop.step, [*kept, *[start] * count], loop.detach_region(loop.body))
    again.attributes.update(loop.attributes)
    before.add(again, loop.location)
    for old, new in zip([r for n, r in enumerate(loop.results) if n != number], again.results):
        old.replace_all_uses_with(new)
    for op in slices:
        assert isinstance(op, ExtractSliceOp)
        op.results[0].replace_all_uses_with(again.results[len(kept) + integers_of(op.offsets)[0] // size])
        erase(op)
    loop.detach()
    loop.erase()
    return True


def _carried(product: DotOp) -> tuple[BlockArgument | None, list[Operation]]:
    """What the loop carries that a product adds to, and the ops that compute the sum of it, element by element, for the
    product alone; None where it adds to something else."""
    value, cone = product.c, list[Operation]()
    while value.has_one_use():
        op = value.owner
        if isinstance(value, BlockArgument):
            return value, list(reversed(cone))
        assert isinstance(op, Operation)
        sources = [v for v in op.operands if _comes_from_an_argument(v, product)]
        if op.parent is not product.parent or not is_elementwise(op) or len(op.results) != 1 or len(sources) != 1:
            break
        cone.append(op)
        value = sources[0]
    return None, []


def _comes_from_an_argument(value: SSAValue, product: DotOp) -> bool:
    """Whether a tile of the sum's shape is, or is computed element by element of, what the loop carries."""
    if shape_of(value.type) != shape_of(product.c.type):
        return False
    if isinstance(value, BlockArgument):
        return value.block is product.parent
    op = value.owner
    return (
        isinstance(op, Operation)
        and is_elementwise(op)
        and any(_comes_from_an_argument(v, product) for v in op.operands)
    )
