# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in no loop, on targets where one thread issues them: they get a loop of one turn, like others that agents
share.

    a = tiled_load va[i, j]                  d = for 0 to 1 iter_args(acc = zero) {
    b = tiled_load vb[j, k]                    a = tiled_load va[i, j]; b = tiled_load vb[j, k]
    d = dot a, b, zero                ->       yield (dot a, b, acc)
    tiled_store vd[i, k], d                  }
                                             tiled_store vd[i, k], d

A kernel's only product, of two tiles that are loaded for it and nothing else. What is ordered behind the loads has to
come behind the product. The rewriting is one of nv_tileaa, before layouts are chosen.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.operands import set_operand
from libtile.ir.places import walk
from libtile.lowering.tileas.materialize import Inserter


def lone_product(function: FuncOp) -> DotOp | None:
    """The kernel's only product, if it is in no loop and its operands are loaded for it alone; None otherwise."""
    products = [op for op in walk(function) if isinstance(op, DotOp)]
    if len(products) != 1 or products[0].parent is not function.body.block:
        return None
    (product,) = products
    for value in (product.a, product.b):
        load = value.owner
        if not isinstance(load, TiledLoadOp) or load.parent is not product.parent or not value.has_one_use():
            return None
        if not _are_behind(load.result_token, product):
            return None
    return product


def _are_behind(token: SSAValue | None, product: DotOp) -> bool:
    """Whether all that a load's token orders behind it comes behind the product, in the function's block."""
    users = [] if token is None else [use.operation for use in token.uses]
    return all(op.parent is product.parent and product.is_before_in_block(op) for op in users)


def loop_around(product: DotOp) -> DotOp:
    """Put a product, and the loads of its operands, in a loop of one turn; the product there."""
    block = product.parent
    assert block is not None
    at = Inserter(block, product, product.location)
    loads = [v.owner for v in (product.a, product.b)]
    zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, IndexType()))) for n in (0, 1))
    tokens: list[SSAValue] = []
    for load in loads:
        assert isinstance(load, TiledLoadOp)
        if load.result_token is not None and load.result_token.first_use is not None:
            tokens.append(load.result_token)
    starts = [at.value(CreateMemTokenOp.make(results=[MemTokenType()])) for _ in tokens]
    body = Block(arg_types=[IndexType(), product.c.type, *(v.type for v in tokens)])
    made = scf.ForOp(zero, one, one, [product.c, *starts], body)
    at.add(made)
    for old, new in zip((product.result, *tokens), made.results):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in (*loads, product):
        assert isinstance(op, Operation)
        op.detach()
        body.add_op(op)
    set_operand(product, "c", body.args[1])
    body.add_op(scf.YieldOp(product.result, *tokens))
    return product
