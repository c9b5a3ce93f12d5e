# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conversion of nv_tileaa to nv_tileas, which `libtile.lowering.tileas.parting.convert_pass` makes a pass of."""

from __future__ import annotations

from collections.abc import Callable, Collection

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region

from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_in, ops_of
from libtile.lowering.legality import check
from libtile.lowering.to_tileas.assignment import Assigner
from libtile.lowering.to_tileas.chains import chained_products, products_fed_right
from libtile.lowering.to_tileas.legality import STAGE, check_convertible
from libtile.lowering.to_tileas.products import Products
from libtile.targets import target


def convert_function(
    function: FuncOp,
    whole_rows: bool = False,
    in_tensor_memory: Collection[Operation] = (),
    by_rows: bool = False,
    in_pairs: Collection[Operation] = (),
    share_columns: bool = False,
) -> FuncOp:
    """The function with a layout on every tile; LoweringError for what has none to get.

    With `whole_rows` every product's result lies in whole rows of warps, as those have it that a warpgroup computes;
    of the products `in_pairs` a thread's rows lie in pairs, as those of left operands that it reads from shared memory;
    with `share_columns` warpgroups share the columns of results that have no rows for all of them.
    The results of the products `in_tensor_memory` lie as warps load them from there: as fragments, or with `by_rows` a
    row in each thread, as left operands that are stored there do."""
    spec = check_convertible(function)
    assert spec.target is not None  # which is checked there
    found = ops_of(function, DotOp)
    chained = chained_products(function)
    if whole_rows:
        chained = frozenset(found)
    shared = [op for op in found if whole_rows or op in in_tensor_memory]
    bridged = products_fed_right(shared)
    products = Products(
        target(spec.target), spec.num_warps, chained, in_tensor_memory, by_rows, bridged, in_pairs, share_columns
    )  # fmt: skip
    assigner = Assigner(function, function.body, products)
    old = function.body.block
    types = [assigner.default_type(a.type) for a in old.args]
    block = Block(arg_types=types)
    for before, after in zip(old.args, block.args):
        assigner.bind(before, after)
    with assigner.inside(block):
        assigner.convert_block(old)
    properties = {**function.properties, "function_type": FunctionType.from_lists(types, [])}
    new = FuncOp.create(properties=properties, attributes=dict(function.attributes), regions=[Region(block)])
    new.location = function.location
    return new


def convert_module(module: ModuleOp, convert: Callable[[FuncOp], FuncOp] = convert_function) -> None:
    """Convert every kernel of a module in place, by `convert_function` or what has it done in another way."""
    for op in ops_in(module.body.block):
        if isinstance(op, FuncOp):
            made = convert(op)
            if (spec := op.kernel_spec) is not None and spec.target is not None:
                check(STAGE, made, spec.target)
            module.body.block.insert_op_before(made, op)
            op.detach()  # and is gone: nothing outside of a function is used in it
