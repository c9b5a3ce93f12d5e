# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scf, the grid, and messages. Tokens flow along but are nothing at run time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from libtile.lowering.llvm import control
from libtile.lowering.llvm.builder import Value
from libtile.lowering.llvm.control import Carried
from libtile.lowering.llvm.tile import Tile
from libtile.lowering.tileas_to_llvm.emitter import Emitter, rule


def _carried(e: Emitter, values: Sequence[SSAValue]) -> list[Carried]:
    """What the values are at run time; tokens are left out."""
    found = []
    for value in values:
        held = e.held[value]
        if held is not None:
            assert isinstance(held, Tile | Value)
            found.append(held)
    return found


def _bind(e: Emitter, values: Sequence[SSAValue], carried: Sequence[Carried]) -> None:
    rest = iter(carried)
    for value in values:
        e.bind(value, None if e.is_token(value) else next(rest))


def _arm(e: Emitter, block: Block) -> list[Carried]:
    """Emit a block; returns what its terminator hands on, and gives back what the block allocated."""
    kept, e.allocations = e.allocations, []
    given = _carried(e, e.emit_block(block))
    for allocation in reversed(e.allocations):
        from libtile.lowering.llvm import globals

        globals.free(e.b, allocation)
    e.allocations = kept
    return given


@rule("scf.for")
def _for(e: Emitter, op: Operation) -> None:
    lower, upper, step = (e.scalar(v) for v in op.operands[:3])
    block = op.regions[0].block

    def body(counter: Value, carried: list[Carried]) -> list[Carried]:
        e.bind(block.args[0], counter)
        _bind(e, block.args[1:], carried)
        return _arm(e, block)

    results = control.for_loop(
        e.b, lower, upper, step, _carried(e, op.operands[3:]), body, unsigned="unsignedCmp" in op.attributes
    )
    _bind(e, op.results, results)


@rule("scf.while")
def _while(e: Emitter, op: Operation) -> None:
    first, second = (region.block for region in op.regions)

    def before(carried: list[Carried]) -> tuple[Value, list[Carried]]:
        _bind(e, first.args, carried)
        condition, *given = _arm(e, first)
        assert isinstance(condition, Value)
        return condition, given

    def after(carried: list[Carried]) -> list[Carried]:
        _bind(e, second.args, carried)
        return _arm(e, second)

    _bind(e, op.results, control.while_loop(e.b, _carried(e, op.operands), before, after))


@rule("scf.if")
def _if(e: Emitter, op: Operation) -> None:
    then, otherwise = ((r.block if r.blocks else None) for r in op.regions)
    assert then is not None
    results = control.if_else(
        e.b,
        e.scalar(op.operands[0]),
        lambda: _arm(e, then),
        None if otherwise is None else lambda: _arm(e, otherwise),
    )
    _bind(e, op.results, results)


# -- grid, messages ---------------------------------------------------------------------------------------------------

_AXES = "xyz"


@rule("nv_tileaa.get_program_id", "nv_tileaa.get_num_programs")
def _grid(e: Emitter, op: Operation) -> None:
    axis = _AXES[e.attribute(op, "axis")]
    value = e.b.block_id(axis) if op.name.endswith("id") else e.b.num_blocks(axis)
    type_ = op.results[0].type
    if isinstance(type_, TensorType):
        e.bind(op.results[0], e.as_tile(value, type_.element_type))
        return
    assert isinstance(type_, IntegerType | IndexType)
    e.bind(op.results[0], e.b.cast("zext", value, "i64") if isinstance(type_, IndexType) else value)


@rule("nv_tileaa.print")
def _print(e: Emitter, op: Operation) -> None:
    tiles = [e.tile(v) for v in op.operands if not e.is_token(v)]
    from libtile.lowering.llvm import messages

    messages.print_tile(e.b, e.attribute(op, "format"), tiles)


@rule("nv_tileaa.assert")
def _assert(e: Emitter, op: Operation) -> None:
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(op.location)
    where = {"file": place.filename, "line": place.line} if place is not None else {}
    from libtile.lowering.llvm import messages

    messages.assert_(e.b, e.tile(op.operands[0]), e.attribute(op, "message"), **where)  # type: ignore[arg-type]


@rule("nv_tileaa.return")
def _return(e: Emitter, op: Operation) -> None:
    for allocation in reversed(e.allocations):
        from libtile.lowering.llvm import globals

        globals.free(e.b, allocation)
    e.b.return_()
