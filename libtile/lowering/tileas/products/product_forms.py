# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A product that a loop adds up, in another form: without a batch of 1, or transposed.

    r = for ... acc = zeros : 32x128            r' = for ... acc = zeros : 128x32
      acc = dot a, b, acc                ->       acc = dot (permute b), (permute a), acc
                                                r = permute r'

wgmma multiplies 64 rows at least, and any number of columns from 8 on: the transpose of a product with few rows has few
columns. The rewriting is one of nv_tileaa, before layouts are chosen; tiles that TMA copies are renamed at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from libtile.dialects import scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp, PermuteOp, ViewOp
from libtile.dialects.nv_tileas import products
from libtile.ir.operands import set_operand
from libtile.ir.places import op_of, ops_of
from libtile.ir.tile_form import erase, shape_of
from libtile.lowering.tileas.inserter import Inserter
from libtile.support.records import dataclass

AnyDot = DotOp | products.DotOp
"""Of nv_tileaa, or of nv_tileas, where layouts are chosen."""
Dot = TypeVar("Dot", bound=AnyDot)


@dataclass(frozen=True)
class _Form:
    """How a tile, and the accumulator back, is renamed; `swaps` the operands."""

    there: Callable[[Inserter, SSAValue], SSAValue]
    back: Callable[[Inserter, SSAValue], SSAValue]
    swaps: bool


def turned(at: Inserter, value: SSAValue) -> SSAValue:
    """The transpose of a matrix: of a constant whose elements are equal another one."""
    type_ = value.type
    assert isinstance(type_, TensorType)
    rows, columns = type_.get_shape()
    result = TensorType(type_.element_type, (columns, rows))
    if (constant := _equal(at, value, result)) is not None:
        return constant
    order = DenseArrayBase.from_list(i32, [1, 0])
    return at.value(PermuteOp.make(value, results=[result], permutation=order))


def _equal(at: Inserter, value: SSAValue, type_: TensorType[Attribute]) -> SSAValue | None:
    """A constant whose elements are equal, in another shape; None for something else."""
    owner = value.owner
    if not isinstance(owner, ConstantOp) or not owner.value.is_splat:
        return None
    held = DenseElementsAttr(TileType(type_.get_shape(), owner.value.type.element_type), owner.value.raw)
    return at.value(ConstantOp.make(results=[type_], value=held))


def _matrix(at: Inserter, value: SSAValue) -> SSAValue:
    type_ = value.type
    assert isinstance(type_, TensorType)
    result = TensorType(type_.element_type, type_.get_shape()[1:])
    return _equal(at, value, result) or at.value(ViewOp.make(value, results=[result]))


def _batch(at: Inserter, value: SSAValue) -> SSAValue:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return at.value(ViewOp.make(value, results=[TensorType(type_.element_type, (1, *type_.get_shape()))]))


_TRANSPOSED = _Form(turned, turned, True)
_UNBATCHED = _Form(_matrix, _batch, False)


def without_batch(product: DotOp) -> DotOp:
    """The product as one of matrices, where it has a batch of 1 and a loop adds it up; else as it is."""
    shape = shape_of(product.result.type)
    if len(shape) != 3 or shape[0] != 1:
        return product
    return _renamed(product, _UNBATCHED) or product


def transposed(product: DotOp) -> DotOp | None:
    """The product's transpose, where a loop adds it up; None elsewhere."""
    return _renamed(product, _TRANSPOSED) if len(shape_of(product.result.type)) == 2 else None


def _renamed(product: DotOp, form: _Form) -> DotOp | None:
    """The product in another form, in place of the old one. None where its accumulator is not carried by a loop for
    itself alone."""
    loop, argument = product.parent_op(), product.c
    if (
        not isinstance(loop, scf.ForOp)
        or not isinstance(argument, BlockArgument)
        or argument.block is not loop.body.block
    ):
        return None
    number, last = argument.index - 1, loop.body.block.last_op
    assert last is not None and product.parent is not None and loop.parent is not None
    alone = argument.has_one_use() and product.result.has_one_use() and last.operands[number] is product.result
    if number < 0 or not alone:
        return None
    before = Inserter(loop.parent, loop, loop.location)
    set_operand(loop, "iter_args", form.there(before, loop.iter_args[number]), number)
    type_: Attribute = loop.iter_args[number].type
    carried = Rewriter.replace_value_with_new_type(argument, type_)
    made = _again(Inserter(product.parent, product, product.location), product, form, carried)
    product.result.replace_all_uses_with(made.result)
    erase(product)
    result = loop.results[number]
    hint = result.name_hint
    new = Rewriter.replace_value_with_new_type(result, type_)
    uses = list(new.uses)
    behind = Inserter(loop.parent, loop.next_op, loop.location)
    if uses:
        whole = form.back(behind, new)
        whole.name_hint = hint
        for use in uses:
            use.operation.operands[use.index] = whole
    return made


def _again(at: Inserter, product: DotOp, form: _Form, c: SSAValue) -> DotOp:
    """A product in another form, which adds to a sum that has it already."""
    a, b = form.there(at, product.a), form.there(at, product.b)
    signs = product.signedness_a, product.signedness_b
    if form.swaps:
        a, b, signs = b, a, signs[::-1]
    made = DotOp.make(
        a, b, c, [], [], results=[c.type], signedness_a=signs[0], signedness_b=signs[1],
        propagate_nan=product.propagate_nan, fast_acc=product.fast_acc,
    )  # fmt: skip
    made.attributes.update(product.attributes)
    at.add(made)
    return made


def transpose_of_zeros(product: DotOp) -> None:
    """Have a product that adds to a constant be computed as its transpose, which is turned behind it."""
    assert product.parent is not None
    at = Inserter(product.parent, product, product.location)
    made = _again(at, product, _TRANSPOSED, turned(at, product.c))
    product.result.replace_all_uses_with(turned(at, made.result))
    erase(product)


def products_in_loops(function: Operation) -> list[DotOp]:
    """The products of a function that stand right in a loop."""
    return [op for op in ops_of(function, DotOp) if isinstance(op.parent_op(), scf.ForOp)]


def are_fed(dots: Sequence[AnyDot]) -> bool:
    """Whether no product of a body reads, as an operand and not as its sum, what another one of them gives."""
    for product in dots:
        work, seen = [product.a, product.b], set[SSAValue]()
        while work:
            value = work.pop()
            owner = op_of(value)
            if value in seen or owner is None or owner.parent is not product.parent:
                continue
            if owner in dots:
                return False
            seen.add(value)
            work += [v for op in ops_of(owner) for v in op.operands]
    return True


def by_loop(dots: Iterable[Dot]) -> list[list[Dot]]:
    """Products by the op that they are in, in order."""
    found: dict[Operation | None, list[Dot]] = {}
    for product in dots:
        found.setdefault(product.parent_op(), []).append(product)
    return list(found.values())
