# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How ops get their layouts that have rules of their own: those that move elements, combine or multiply them, control
flow, pipelines and agents. All others are elementwise or accesses. See `assignment`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa import collectives
from libtile.dialects.nv_tileaa.collectives import Collective
from libtile.dialects.nv_tileaa.pointers import Elementwise
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    CatOp,
    ConstantOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    InsertSliceOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    Unary,
    ViewOp,
    integers_of,
)
from libtile.dialects.nv_tileaa.tokens import OptimizationBarrierOp, PragmaOp
from libtile.dialects.nv_tileas import tiles
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumeOneOp,
    ConsumerReadOp,
    PipelineYieldOp,
    ProduceOneOp,
    ProducerWriteOp,
    TurnOp,
)
from libtile.ir.places import ops_of
from libtile.ir.tile_form import TileOp
from libtile.layouts import REGISTER, LinearLayout, parts
from libtile.lowering.constants import takes_known_part
from libtile.lowering.errors import unsupported
from libtile.lowering.rules import Rules
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.chains import chained_products
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.products import Product, Products
from libtile.lowering.to_tileas.stages import held_tiles, staged_element, staged_type
from libtile.lowering.to_tileas.types import layout_of, tile_shape, with_layout

if TYPE_CHECKING:
    from libtile.lowering.to_tileas.assignment import Assigner

LEAVES = (ConstantOp, MakeRangeOp, SplatOp)

MOST_REMADE = 8
"""Registers of a thread that a tile may always take that is brought to where parts of it are told apart."""

RULES: Rules[Assigner] = Rules()
"""Ops whose results' layouts follow other rules than those of elementwise ops and accesses."""


@RULES.on(*LEAVES)
def _leaf(a: Assigner, op: Operation) -> None:
    """Constants, ranges and splats are made in the layout that somebody wants."""
    wanted = a.demands.of(op.results[0])
    a.keep(op, [wanted])


@RULES.on(BroadcastOp)
def _broadcast(a: Assigner, op: BroadcastOp) -> None:
    """In the layout that is wanted when the source can be had for it, else each thread repeats what it has."""
    source, result = op.source, op.result
    size = tile_shape(result)
    if not size:
        a.keep(op)
        return
    wanted = a.demands.of(result) or a.default(size)
    a.bind_results(op, a.clone(op, [a.get(source, layouts.shrunk(wanted, tile_shape(source) or ()))], [wanted]))


@RULES.on(ViewOp, ExpandDimsOp, PermuteOp)
def _rename(a: Assigner, op: Unary) -> None:
    source, result = op.source, op.result
    size, wanted = tile_shape(result), a.demands.of(result)
    if not size:
        a.keep(op)
    elif not tile_shape(source) or a.remakeable(source):
        layout = wanted or a.default(size)
        given = source_layout(op, layout) if tile_shape(source) else None
        a.bind_results(op, a.clone(op, [a.get(source, given)], [layout]))
    else:
        held = layout_of(a.values[source])
        layout = (
            layouts.permuted(held, integers_of(op.permutation))
            if isinstance(op, PermuteOp)
            else layouts.reshaped(held, size)
        )
        a.bind_results(op, a.clone(op, [a.get(source)], [layout]))


def _same_layout(a: Assigner, op: Collective) -> LinearLayout:
    """One layout for all operands of a reduction or scan: that of the first one that is not made at will."""
    size = tile_shape(op.inputs[0]) or ()
    held = [layout_of(a.values[v]) for v in op.inputs if not a.remakeable(v)]
    return held[0] if held else (a.demands.of(op.inputs[0]) or a.default(size))


def _body(a: Assigner, op: Collective) -> Region:
    old = op.body.block
    new = Block(arg_types=[a.default_type(v.type) for v in old.args])
    for before, after in zip(old.args, new.args):
        a.bind(before, after)
    with a.inside(new):
        a.convert_block(old)
    return Region(new)


@RULES.on(InsertSliceOp)
def _insert_slice(a: Assigner, op: InsertSliceOp) -> None:
    """In the layout of the tile that a part of is replaced."""
    source, destination, indices = op.source, op.destination, op.indices
    layout = None
    if size := tile_shape(destination):
        at_will = a.remakeable(destination)
        layout = a.demands.of(op.result) or a.default(size) if at_will else layout_of(a.values[destination])
    operands = [a.get(source), a.get(destination, layout), *(a.get(v) for v in indices)]
    a.bind_results(op, a.clone(op, operands, [layout]))


@RULES.on(ExtractSliceOp, ExtractOp)
def _extract_part(a: Assigner, op: TileOp) -> None:
    """Where it lies in the whole, if registers tell parts apart. A whole that is made at will is made so, and one of
    which several parts are taken is brought there once: its threads do not exchange it again for each."""
    assert isinstance(op, ExtractSliceOp | ExtractOp)
    whole, size, layout = op.source, tile_shape(op.result), None
    source = a.get(whole)
    if size and takes_known_part(op):
        held = layout_of(source)
        bits = parts.part_bits(held, size)
        if not parts.are_told_apart(held, bits) and (a.remakeable(whole) or _is_one_of_several(op)):
            near = parts.in_registers(held, bits)
            if parts.are_told_apart(near, bits) and near.in_size(REGISTER) <= max(held.in_size(REGISTER), MOST_REMADE):
                source, held = a.get(whole, near), near
        if parts.are_told_apart(held, bits):
            layout = parts.part_layout(held, size)
    a.bind_results(op, a.clone(op, [source if v is whole else a.get(v) for v in op.operands], [layout]))


@RULES.on(CatOp)
def _cat(a: Assigner, op: CatOp) -> None:
    """In the layout that is wanted, if registers tell both tiles apart there, or else in that of the first tile that is
    not made at will, and further registers."""
    part, whole, wanted = tile_shape(op.lhs), tile_shape(op.result), a.demands.of(op.result)
    assert part is not None and whole is not None
    if wanted is not None and parts.are_told_apart(wanted, parts.part_bits(wanted, part)):
        layout, joined = parts.part_layout(wanted, part), wanted
    else:
        held = [layout_of(a.values[v]) for v in (op.lhs, op.rhs) if not a.remakeable(v)]
        layout = held[0] if held else a.default(part)
        joined = parts.cat_layout(layout, op.dim.value.data)
    a.bind_results(op, a.clone(op, [a.get(op.lhs, layout), a.get(op.rhs, layout)], [joined]))


def _is_one_of_several(op: ExtractSliceOp | ExtractOp) -> bool:
    """Whether other ops of its block take parts of the same shape out of the same tile."""
    takers = [use.operation for use in op.source.uses]
    alike = [
        o for o in takers if isinstance(o, type(op)) and o.parent is op.parent and o.result_types == op.result_types
    ]
    return len(alike) > 1 and all(takes_known_part(o) for o in alike)


@RULES.on(Elementwise)
def _foreign(a: Assigner, op: Elementwise) -> None:
    """Foreign code gets all of its tiles in one layout, and is not made again in another."""
    tiles_ = [v for v in (*op.outputs, *op.inputs) if tile_shape(v) is not None]
    layout = a.choose(op, tiles_[0]) if tiles_ else None
    operands = [a.get(v, layout if tile_shape(v) else None) for v in op.inputs]
    a.bind_results(op, a.clone(op, operands, [layout if tile_shape(v) else None for v in op.outputs]))


@RULES.on(OptimizationBarrierOp)
def _optimization_barrier(a: Assigner, op: OptimizationBarrierOp) -> None:
    """Each value in the layout that it has."""
    operands = [a.get(v) for v in op.values]
    given = [layout_of(v) if tile_shape(v) is not None else None for v in operands]
    a.bind_results(op, a.clone(op, operands, given))


@RULES.on(PragmaOp)
def _pragma(a: Assigner, op: PragmaOp) -> None:
    """Directives at the begin and the end of what they are for, which stands between the two."""
    a.emit(tiles.PragmaOp.make(ocgEnterDirectives=op.directives, location=op.location))
    if op.body is None or op.body.first_block is None:
        return
    last = op.body.block.last_op
    for inner in op.body.block.ops:
        if inner is not last:
            a.convert(inner)
    a.emit(tiles.PragmaOp.make(ocgLeaveDirectives=op.directives, location=op.location))


@RULES.on(collectives.ReduceOp)
def _reduce(a: Assigner, op: collectives.ReduceOp) -> None:
    layout = _same_layout(a, op)
    rest = layouts.sliced(layout, op.dim.value.data) if len(layout.outs) > 1 else a.default(())
    operands = [a.get(v, layout) for v in op.inputs]
    a.bind_results(op, a.clone(op, operands, [rest] * len(op.outputs), [_body(a, op)]))


@RULES.on(collectives.ScanOp)
def _scan(a: Assigner, op: collectives.ScanOp) -> None:
    layout = _same_layout(a, op)
    operands = [a.get(v, layout) for v in op.inputs]
    a.bind_results(op, a.clone(op, operands, [layout] * len(op.outputs), [_body(a, op)]))


def _dot(a: Assigner, op: Product) -> None:
    wanted: list[LinearLayout | None] = list(a.products.operand_layouts(op))
    if a.products.of(op).atom is None:  # fused multiply-adds fetch operands from shared memory, however they came
        wanted[:2] = None, None
    operands = [a.get(v, layout) for v, layout in zip(op.operands, wanted, strict=True)]
    made = a.clone(op, operands, [wanted[2]])
    made.properties.update(a.products.chosen(op))
    made.attributes.update(a.products.explained(op))
    a.bind_results(op, made)


RULES.on(collectives.DotOp)(_dot)
RULES.on(collectives.ScaledDotOp)(_dot)


# -- control flow -----------------------------------------------------------------------------------------------------


def _carried_layout(a: Assigner, start: SSAValue, inside: SSAValue) -> LinearLayout | None:
    size = tile_shape(start)
    if size is None:
        return None
    wanted = a.demands.of(inside)
    if wanted is not None:
        return wanted
    return layout_of(a.values[start]) if not a.remakeable(start) else a.default(size)


def _result_layout(a: Assigner, result: SSAValue) -> LinearLayout | None:
    """Of a result of a while or if."""
    size, op = tile_shape(result), result.owner
    if size is None:
        return None
    if isinstance(op, scf.IfOp) and (made := a.origins.of_branches(op, op.results.index(result))) is not None:
        return made
    return a.demands.of(result) or a.origins.of(result) or a.default(size)


@RULES.on(scf.ForOp)
def _for(a: Assigner, op: scf.ForOp) -> None:
    old = op.body.block
    carried = [_carried_layout(a, v, arg) for v, arg in zip(op.iter_args, old.args[1:])]
    starts = [a.get(v, layout) for v, layout in zip(op.iter_args, carried)]
    bounds = [a.get(v) for v in (op.lb, op.ub, op.step)]
    new = Block(arg_types=[bounds[0].type, *(v.type for v in starts)])
    for before, after in zip(old.args, new.args):
        a.bind(before, after)
    with a.inside(new):
        a.convert_body(old, carried)
    a.bind_results(op, a.clone(op, [*bounds, *starts], carried, [Region(new)]))


@RULES.on(scf.WhileOp)
def _while(a: Assigner, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    carried = [_carried_layout(a, v, arg) for v, arg in zip(op.arguments, before.args)]
    starts = [a.get(v, layout) for v, layout in zip(op.arguments, carried)]
    results = [_result_layout(a, r) for r in op.res]
    first = Block(arg_types=[v.type for v in starts])
    for old_arg, new_arg in zip(before.args, first.args):
        a.bind(old_arg, new_arg)
    with a.inside(first):
        a.convert_body(before, [None, *results])
    second = Block(arg_types=[staged_type(with_layout(r.type, layout)) for r, layout in zip(op.res, results)])
    for old_arg, new_arg in zip(after.args, second.args):
        a.bind(old_arg, new_arg)
    with a.inside(second):
        a.convert_body(after, carried)
    a.bind_results(op, a.clone(op, starts, results, [Region(first), Region(second)]))


@RULES.on(scf.IfOp)
def _if(a: Assigner, op: scf.IfOp) -> None:
    results = [_result_layout(a, r) for r in op.output]
    regions = []
    condition = a.get(op.cond)
    for region in op.regions:
        if not region.blocks:
            regions.append(Region())
            continue
        block = Block()
        with a.inside(block):
            a.convert_body(region.block, results)
        regions.append(Region(block))
    a.bind_results(op, a.clone(op, [condition], results, regions))


# -- pipelines --------------------------------------------------------------------------------------------------------


def _yielding(a: Assigner, old: Block, new: Block, first: int = 0) -> list[SSAValue]:
    """Rebuild the ops of a block that ends with a yield; what it yields, from value number `first` on."""
    last = old.last_op
    for op in old.ops:
        if op is not last:
            a.convert(op)
    assert isinstance(last, PipelineYieldOp)
    values = [a.get(v) for v in last.operands[first:]]
    end = PipelineYieldOp.make(values, location=last.location)
    new.add_op(end)
    return values


def _in_place(
    a: Assigner, op: Operation, new: Block, values: Sequence[SSAValue], tokens: Sequence[Attribute], dropped: int = 0
) -> None:
    """The op with a rebuilt region, which yields the results behind tokens of these types and `dropped` others."""
    made = type(op).create(
        operands=[a.get(v) for v in op.operands],
        result_types=[*tokens, *(v.type for v in values)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[Region(new)],
    )
    made.location = op.location
    a.emit(made)
    kept = [*op.results[: len(tokens)], *op.results[len(tokens) + dropped :]]
    for old, result in zip(kept, made.results, strict=True):
        a.bind(old, result)


@RULES.on(ProduceOneOp, ConsumeOneOp)
def _one_turn(a: Assigner, op: TurnOp) -> None:
    new = Block()
    with a.inside(new):
        values = _yielding(a, op.body.block, new)
    _in_place(a, op, new, values, [])


@RULES.on(ProducerWriteOp)
def _write(a: Assigner, op: ProducerWriteOp) -> None:
    """What the region yields for the stage is copied to its buffers."""
    token, old, held = staged_type(op.token.type), op.body.block, held_tiles(op)
    new = Block(arg_types=[staged_element(argument.type) for argument in old.args])
    used = [v for v in (*old.args, *op.outputs[:held]) if v.first_use is not None]
    if any(isinstance(v.type, TensorType) for v in used):
        raise unsupported(op, "has a stage of tiles, which its own producer reads", a.products.gpu.name)
    last = old.last_op
    assert isinstance(last, PipelineYieldOp)
    with a.inside(new):
        values = _yielding(a, old, new, held)
        for given, buffer in zip(last.operands[:held], new.args):
            assert new.last_op is not None
            copy = tiles.CopyOp.make(a.get(given), buffer, location=op.location)
            new.insert_op_before(copy, new.last_op)
    _in_place(a, op, new, values, [token], held)


@RULES.on(ConsumerReadOp)
def _read(a: Assigner, op: ConsumerReadOp) -> None:
    """What the region gets of the stage is copied from its buffers, as somebody wants it."""
    token, old = staged_type(op.token.type), op.body.block
    new = Block(arg_types=[staged_element(argument.type) for argument in old.args])
    with a.inside(new):
        for before, buffer in zip(old.args, new.args):
            size = tile_shape(before)
            if size is None:
                a.bind(before, buffer)
            elif before.first_use is not None:
                type_ = with_layout(before.type, a.demands.of(before) or a.default(size))
                made = tiles.CopyOp.make(buffer, results=[type_], location=op.location)
                a.emit(made)
                a.bind(before, made.results[0])
        values = _yielding(a, old, new)
    _in_place(a, op, new, values, [token])


@RULES.on(AgentSwitchOp)
def _agents(a: Assigner, op: AgentSwitchOp) -> None:
    """Each agent by itself, laid out for its own warps."""
    from libtile.lowering.to_tileas.stage_products import products_of_stages

    gpu, regions = a.products.gpu, []
    for region, warps in zip(op.regions, op.warps):
        if warps & (warps - 1) and any(tile_shape(r) for inner in ops_of(region) for r in inner.results):
            raise unsupported(op, f"has an agent of {warps} warps, and tiles lie in a power of two of them", gpu.name)
        chained = chained_products(region) | products_of_stages(region, gpu, warps)
        agent = a.agent(op, region, Products(gpu, warps, chained, a.products.in_tensor_memory))
        block = Block()
        with agent.inside(block):
            agent.import_tiles(region)
            _yielding(agent, region.block, block)
        regions.append(Region(block))
    made = AgentSwitchOp.create(properties=dict(op.properties), attributes=dict(op.attributes), regions=regions)
    made.location = op.location
    a.emit(made)
