# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product of several matrices at once that a loop adds up, as a product for each of them.

    r = for ... acc = zeros : 2x64x32             r0, r1 = for ... x = zeros : 64x32, y = zeros : 64x32
      a = tiled_load va[b, i, k] : 2x64x16    ->    a0 = tiled_load narrow_a[2 b, i, k] : 1x64x16
      acc = dot a, ...                              x = dot (view a0), ...
                                                    a1 = tiled_load narrow_a[2 b + 1, i, k] : 1x64x16
                                                    y = dot (view a1), ...

Instructions of warpgroups, and those into tensor memory, multiply matrices. Each product has tiles of its own, which
TMA copies, and what is behind the loop goes matrix by matrix. The rewriting is one of nv_tileaa, before layouts are
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, SSAValue

from libtile.dialects import scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp, ExtractSliceOp, ViewOp, integers_of
from libtile.dialects.nv_tileaa.tokens import JoinMemTokenOp
from libtile.ir.tile_form import erase, shape_of
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.result_parts import Part, cut_result, is_plain_access, through_narrow_view


def in_single_batches(product: DotOp) -> bool:
    """Multiply each matrix by itself, in place of a product. False where its sum is not carried by a loop for itself
    alone and stored element by element, or begins with other than equal numbers, or its operands are not loaded by
    plain views for it; what is behind the loop may be cut then."""
    loop, argument = product.parent_op(), product.c
    if not isinstance(loop, scf.ForOp) or not isinstance(argument, BlockArgument):
        return False
    loads = [value.owner for value in (product.a, product.b)]
    number, last = argument.index - 1, loop.body.block.last_op
    assert last is not None
    if argument.block is not loop.body.block or number < 0 or last.operands[number] is not product.result:
        return False
    initial = loop.iter_args[number].owner
    if not isinstance(initial, ConstantOp) or not initial.value.is_splat:
        return False
    if not argument.has_one_use() or not product.result.has_one_use():
        return False
    shape = shape_of(product.result.type)
    if not all(isinstance(op, TiledLoadOp) and _is_fit(op, product) for op in loads):
        return False
    if not cut_result(product, (1, *shape[1:])):
        return False
    slices = [use.operation for use in loop.results[number].uses]
    if not all(isinstance(op, ExtractSliceOp) and shape_of(op.results[0].type) == (1, *shape[1:]) for op in slices):
        return False
    sums = _multiply(loop, product, [op for op in loads if isinstance(op, TiledLoadOp)], initial)
    for op in slices:
        assert isinstance(op, ExtractSliceOp) and op.parent is not None
        at = Inserter(op.parent, op, op.location)
        op.results[0].replace_all_uses_with(
            at.value(ViewOp.make(sums[integers_of(op.offsets)[0]], results=[op.results[0].type]))
        )
        erase(op)
    loop.detach()
    loop.erase()
    return True


def _is_fit(load: TiledLoadOp, product: DotOp) -> bool:
    """Whether a load is through a plain view, in the product's block, and for the product alone."""
    return load.parent is product.parent and load.value.has_one_use() and is_plain_access(load)


def _multiply(loop: scf.ForOp, product: DotOp, loads: Sequence[TiledLoadOp], initial: ConstantOp) -> list[SSAValue]:
    """The loop again, with a sum for each matrix, whose values behind it these are."""
    count, rows, columns = shape_of(product.result.type)
    body, number = loop.body.block, product.c
    last = body.last_op
    assert last is not None and loop.parent is not None and isinstance(number, BlockArgument)
    carried = number.index - 1
    element = initial.value.type.element_type
    before = Inserter(loop.parent, loop, loop.location)
    type_ = TensorType(element, (rows, columns))
    held = DenseElementsAttr(TileType((rows, columns), element), initial.value.raw)
    zeros = before.value(ConstantOp.make(results=[type_], value=held))
    at = Inserter(body, product, product.location)
    arguments = [body.insert_arg(type_, len(body.args)) for _ in range(count)]
    left, right = map(_matrices, loads)
    made = [
        at.value(
            DotOp.make(
                a, b, argument, [], [], results=[type_], signedness_a=product.signedness_a,
                signedness_b=product.signedness_b, propagate_nan=product.propagate_nan, fast_acc=product.fast_acc,
            )
        )
        for a, b, argument in zip(left, right, arguments)
    ]  # fmt: skip
    given = [v for n, v in enumerate(last.operands) if n != carried]
    last.detach()
    last.erase()
    erase(product)
    for load in loads:
        erase(load)
    body.erase_arg(number)
    body.add_op(scf.YieldOp(*given, *made))
    kept = [v for n, v in enumerate(loop.iter_args) if n != carried]
    again = scf.ForOp(loop.lb, loop.ub, loop.step, [*kept, *[zeros] * count], loop.detach_region(loop.body))
    again.attributes.update(loop.attributes)
    before.add(again, loop.location)
    results = [r for n, r in enumerate(loop.results) if n != carried]
    for old, new in zip(results, again.results):
        old.replace_all_uses_with(new)
    return list(again.results[len(results) :])


def _matrices(load: TiledLoadOp) -> list[SSAValue]:
    """The matrices that a load gives, each of which is loaded by itself in place of it."""
    assert load.parent is not None and isinstance(load.value.type, TensorType)
    at = Inserter(load.parent, load, load.location)
    count, rows, columns = shape_of(load.value.type)
    loaded = [
        through_narrow_view(at, load, Part((n, 0, 0), (1, rows, columns)), (), load.group("token"))
        for n in range(count)
    ]
    type_ = TensorType(load.value.type.element_type, (rows, columns))
    if (token := load.result_token) is not None:
        joined = JoinMemTokenOp.make([op.results[1] for op in loaded], results=[token.type])
        token.replace_all_uses_with(at.value(joined))
    return [at.value(ViewOp.make(op.results[0], results=[type_])) for op in loaded]
