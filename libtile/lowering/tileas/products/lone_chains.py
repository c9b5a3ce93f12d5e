# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in no loop of which one feeds another one: where agents multiply, they get a loop of one turn together.

    k = tiled_load vk[i, j]                  o, l = for 0 to 1 {
    s = dot k, q, zero                         k = tiled_load vk[i, j]
    p = exp2 s                                 s = dot k, q, zero
    l = reduce p                      ->       p = exp2 s; l = reduce p
    v = tiled_load vv[i, j]                    v = tiled_load vv[i, j]
    o = dot v, p, zero                         yield (dot v, p, zero), l
    f(o, l)                                  }
                                             f(o, l)

So is attention over keys that one tile holds, whose loop the frontend has unrolled. What lies between the first load
for a product and the last product goes with them as far as it comes from these, or has an effect; what it gives to
others behind is carried by the loop. Loads of operands that are left in front of a branch around the products are
brought to them. The rewriting is one of nv_tileaa, before layouts are chosen, as `lone_products` is.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.places import ops_of, uses_of
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.lone_products import loads_of
from libtile.lowering.tileas.products.product_forms import are_fed
from libtile.numerics.elements import STORAGE_BYTES


def lone_chain(function: FuncOp) -> list[DotOp]:
    """All products of a kernel, if they are in one block of it or of branches of it, one of them feeds another one, and
    each reads a loaded tile; none otherwise."""
    products = ops_of(function, DotOp)
    if len(products) < 2 or are_fed(products) or any(op.parent is not products[0].parent for op in products):
        return []
    around = products[0].parent_op()
    while isinstance(around, scf.IfOp):
        around = around.parent_op()
    if around is not function or not all(_loads(op, products) for op in products):
        return []
    return products if all(map(_is_carried, _given(_taken(products)))) else []


def loop_around_chain(products: Sequence[DotOp]) -> None:
    """Put the products of a chain, what brings their operands, and what lies between them, in a loop of one turn."""
    taken, block, last = _taken(products), products[0].parent, products[-1]
    assert block is not None
    given = _given(taken)
    at = Inserter(block, last.next_op, last.location)
    zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, IndexType()))) for n in (0, 1))
    initial = [_nothing(at, value.type) for value in given]
    body = Block(arg_types=[IndexType(), *(value.type for value in given)])
    made = scf.ForOp(zero, one, one, initial, body)
    at.add(made)
    for old, new in zip(given, made.results):
        new.name_hint = old.name_hint
        for use in [use for use in old.uses if not _is_among(use.operation, taken)]:
            use.operation.operands[use.index] = new
    for op in taken:
        op.detach()
        body.add_op(op)
    body.add_op(scf.YieldOp(*given))


def _loads(product: DotOp, products: Sequence[DotOp]) -> list[Operation]:
    """What brings the operands of a product, in order: a load, and what gives its tile other names."""
    return [op for side in (product.a, product.b) for op in loads_of(side, products)]


def _taken(products: Sequence[DotOp]) -> list[Operation]:
    """The ops that go into the loop, in order."""
    block, last = products[0].parent, products[-1]
    assert block is not None
    brought = list(dict.fromkeys(op for product in products for op in _loads(product, products)))
    found = {*brought, *products}
    begun = False
    between: list[Operation] = []
    for op in block.ops:
        begun = begun or op in found
        if begun and op not in found and (not is_pure(op) or any(_comes_of(v, found) for v in uses_of(op))):
            found.add(op)
        if begun and op in found:
            between.append(op)
        if op is last:
            break
    return [*(op for op in brought if op.parent is not block), *between]


def _comes_of(value: SSAValue, ops: set[Operation]) -> bool:
    return isinstance(value.owner, Operation) and value.owner in ops


def _given(ops: Sequence[Operation]) -> list[SSAValue]:
    """What ops give to others."""
    return [v for op in ops for v in op.results if any(not _is_among(use.operation, ops) for use in v.uses)]


def _is_among(op: Operation | None, ops: Sequence[Operation]) -> bool:
    """Whether an op is one of several, or in one."""
    while op is not None and op not in ops:
        op = op.parent_op()
    return op is not None


def _is_carried(value: SSAValue) -> bool:
    """Whether a loop can carry a value from where there is none: a token, or numbers."""
    type_ = value.type
    return isinstance(type_, MemTokenType) or (isinstance(type_, TensorType) and type_.element_type in NUMBER_NAMES)


def _nothing(at: Inserter, type_: Attribute) -> SSAValue:
    """What a loop carries to its first turn, which does not look at it."""
    if isinstance(type_, MemTokenType):
        return at.value(CreateMemTokenOp.make(results=[type_]))
    assert isinstance(type_, TensorType)
    zeros = DenseElementsAttr(
        TileType(type_.get_shape(), type_.element_type), bytes(STORAGE_BYTES[NUMBER_NAMES[type_.element_type]])
    )
    return at.value(ConstantOp.make(results=[type_], value=zeros))
