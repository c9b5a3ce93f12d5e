# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`expand-tileaa-ops`: ops that nothing further down knows become ops that it does.

    generate                        its region on whole tiles of indices
    load, store, atomic_rmw,        of elements of a memref: through pointers to them
    atomic_cas
    gather_load, scatter_store      tiled accesses; of a memref through a view with a sparse dimension
    tiled accesses with a mask      accesses through pointers, whose mask also says what lies in the view; so do those
                                    of tiles that run over groups of dimensions
    dot with scale factors          scaled_dot
    loads through conv_tile         loads through pointers, with a mask for the padding (im2col)
    conv_dot                        a dot of a row for each pixel
    pragma with a region            its ops between two pragmas, for begin and end
    assume                          its value
    addptr of one and of a tile     addptr of two tiles
    alloca, extract and reduce      tiles of rank 0, in place of scalars
    insert_slice of a scalar        that of a tile of one element
    volatile accesses               relaxed ones for the system
    tiles of index                  tiles of i64

Programs that come from Tile IR have none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, IndexType, ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from libtile.dialects import tensor
from libtile.dialects.arith import ExtSIOp, IndexCastOp, TruncIOp, like
from libtile.dialects.nv_tileaa import collectives, memory, pointers, shapes, tokens
from libtile.dialects.nv_tileaa.attributes import MemScopeAttr, MemSemanticAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas import tiles
from libtile.dialects.nv_tileas.layout import linear_layout
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.lowering.expand import generate, memrefs
from libtile.lowering.expand.maker import Maker, tile_like, with_tiles_of_one
from libtile.support.records import dataclass


@dataclass(frozen=True)
class ExpandTileaaOpsPass(ModulePass):
    """Expand ops that have no lowering of their own."""

    name = "expand-tileaa-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed = True
        while changed:
            changed = False
            for inner in ops_of(op):
                if inner.parent is not None and (rule := RULES.get(type(inner))) is not None:
                    changed |= rule(inner)
        for inner in ops_of(op):
            if isinstance(inner, memory.MemoryOp) and inner.is_volatile is not None:
                _relax(inner)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                _without_index_tiles(function)


def _dot(op: collectives.DotOp) -> bool:
    if op.sfa is None or op.sfb is None:
        return False
    made = collectives.ScaledDotOp.make(
        op.a, op.b, op.c, op.sfa, op.sfb, results=[op.result.type], location=op.location
    )
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    op.result.replace_all_uses_with(made.result)
    erase(op)
    return True


def _conv_dot(op: collectives.ConvDotOp) -> bool:
    """A product of matrices: a row for each pixel, with its channels."""
    axis, maker = op.channel_axis, Maker(op)
    shape = list(shape_of(op.activation.type))
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    back = [order.index(d) for d in range(len(shape))]

    def as_matrix(value: SSAValue) -> SSAValue:
        element, sizes = element_of(value.type), [shape_of(value.type)[d] for d in order]
        if order != sorted(order):
            value = maker.put(shapes.PermuteOp.make(value, results=[tile_like(sizes, element)], permutation=order))
        if len(sizes) > 2:
            value = maker.put(shapes.ViewOp.make(value, results=[tile_like([prod(sizes[:-1]), sizes[-1]], element)]))
        return value

    activation, accumulator = as_matrix(op.activation), as_matrix(op.accumulator)
    made = maker.put(collectives.DotOp.make(activation, op.filter, accumulator, results=[accumulator.type]))
    element, whole = element_of(op.result.type), shape_of(op.result.type)
    if len(shape) > 2:
        made = maker.put(shapes.ViewOp.make(made, results=[tile_like([whole[d] for d in order], element)]))
    if order != sorted(order):
        made = maker.put(shapes.PermuteOp.make(made, results=[op.result.type], permutation=back))
    op.result.replace_all_uses_with(made)
    erase(op)
    return True


def _gone_with_its_accesses(op: pointers.ConvTileOp | pointers.BlockTileOp) -> bool:
    """A view whose accesses go through pointers."""
    if op.result.first_use is not None:
        return False
    erase(op)
    return True


def _assume(op: tokens.AssumeOp) -> bool:
    """Facts have no user here: what accesses are made of stands on them."""
    op.result.replace_all_uses_with(op.value)
    erase(op)
    return True


def _addptr(op: pointers.AddPtrOp) -> bool:
    """A pointer, or an offset, that all elements of a tile have."""
    shape = shape_of(op.result.type)
    alone = [number for number, value in enumerate(op.operands) if shape and not shape_of(value.type)]
    make = Maker(op, linear_layout(op.result.type))
    given = [make.splat(v, shape) if number in alone else v for number, v in enumerate(op.operands)]
    if alone:
        op.operands = given
    return bool(alone)


def _insert_one(op: shapes.InsertSliceOp) -> bool:
    """A scalar, or a tile of rank 0, is put into a tile as a part of one element."""
    rank, given = len(shape_of(op.destination.type)), op.source
    if not rank or shape_of(given.type):
        return False
    make = Maker(op, linear_layout(op.result.type))
    set_operand(op, "source", make.splat(given, (1,) * rank))
    return True


def _pragma(op: tiles.PragmaOp) -> bool:
    if op.body is None or op.body.first_block is None:
        return False
    block = op.parent
    assert block is not None
    ends = [
        tiles.PragmaOp.make(ocgEnterDirectives=op.enter_directives, location=op.location),
        tiles.PragmaOp.make(ocgLeaveDirectives=op.leave_directives, location=op.location),
    ]
    block.insert_op_before(ends[0], op)
    last = op.body.block.last_op
    for inner in ops_in(op.body.block):
        if inner is not last:
            inner.detach()
            block.insert_op_before(inner, op)
    block.insert_op_before(ends[1], op)
    erase(op)
    return True


def _relax(op: memory.MemoryOp) -> None:
    """A volatile access is a relaxed one for the system, as `ld.volatile` is (PTX ISA, "ld"); one that has an order is
    done as often as it stands in any case."""
    del op.properties["is_volatile"]
    if op.semantic == "weak":
        op.properties["mem_semantic"] = MemSemanticAttr("relaxed")
    op.properties["mem_scope"] = MemScopeAttr("sys")


RULES: dict[type[Operation], Callable[[Any], bool]] = {
    shapes.GenerateOp: generate.expand,
    tiles.GenerateOp: generate.expand,
    memory.LoadOp: memrefs.expand_elements,
    memory.StoreOp: memrefs.expand_elements,
    memory.AtomicRmwOp: memrefs.expand_elements,
    memory.AtomicCasOp: memrefs.expand_elements,
    memory.GatherLoadOp: memrefs.expand_gather,
    memory.ScatterStoreOp: memrefs.expand_gather,
    memory.TiledLoadOp: memrefs.expand_masked,
    memory.TiledStoreOp: memrefs.expand_masked,
    memory.TiledAtomicRmwOp: memrefs.expand_masked,
    collectives.DotOp: _dot,
    collectives.ConvDotOp: _conv_dot,
    pointers.ConvTileOp: _gone_with_its_accesses,
    pointers.BlockTileOp: _gone_with_its_accesses,
    pointers.GetDimSizeOp: memrefs.expand_dim_size,
    memory.AllocaOp: with_tiles_of_one,
    shapes.InsertSliceOp: _insert_one,
    shapes.ExtractOp: with_tiles_of_one,
    collectives.ReduceOp: with_tiles_of_one,
    tokens.AssumeOp: _assume,
    pointers.AddPtrOp: _addptr,
    tiles.PragmaOp: _pragma,
}
"""By class of ops, what puts other ops in place of one that needs it; it says whether there was anything to do."""


# -- tiles of index ---------------------------------------------------------------------------------------------------


def _of_index(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.element_type, IndexType)


def _without_index_tiles(function: FuncOp) -> None:
    """An index has 64 bits on every target: tiles of them are tiles of i64, and what converts them follows."""
    found = False
    for op in ops_of(function):
        for value in [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]:
            if _of_index(value):
                Rewriter.replace_value_with_new_type(value, like(value.type, i64))
                found = True
    if not found:
        return
    entry = function.body.first_block
    if entry is not None:
        outputs = list(function.function_type.outputs.data)
        function.properties["function_type"] = FunctionType.from_lists([a.type for a in entry.args], outputs)
    for op in ops_of(function):
        if isinstance(op, IndexCastOp) and isinstance(op.input.type, TensorType):
            _recast(op)
        elif isinstance(op, shapes.SplatOp) and isinstance(op.source.type, IndexType):
            _cast_operand(op, 0)
        elif isinstance(op, tensor.ExtractOp) and isinstance(op.result.type, IndexType):
            _extract(op)


def _recast(op: IndexCastOp) -> None:
    source, result = op.input, op.result
    assert isinstance(source.type, TensorType) and isinstance(result.type, TensorType)
    widths = [t.element_type.width.data for t in (source.type, result.type)]  # both are integers now
    if widths[0] == widths[1]:
        result.replace_all_uses_with(source)
        erase(op)
        return
    cast = ExtSIOp if widths[0] < widths[1] else TruncIOp
    made = cast.create(operands=[source], result_types=[result.type])
    made.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    result.replace_all_uses_with(made.results[0])
    erase(op)


def _cast_operand(op: Operation, number: int) -> None:
    cast = IndexCastOp.create(operands=[op.operands[number]], result_types=[i64])
    cast.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(cast, op)
    op.operands[number] = cast.results[0]


def _extract(op: tensor.ExtractOp) -> None:
    """An element is an index again."""
    made = tensor.ExtractOp(op.tensor, list(op.indices), i64)
    cast = IndexCastOp.create(operands=[made.result], result_types=[IndexType()])
    assert op.parent is not None
    for new in (made, cast):
        new.location = op.location
        op.parent.insert_op_before(new, op)
    op.result.replace_all_uses_with(cast.results[0])
    erase(op)
