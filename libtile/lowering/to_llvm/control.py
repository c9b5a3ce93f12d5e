# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scf, the grid, and messages. Tokens flow along but are nothing at run time."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import Operation

from libtile.codegen import control, globals, messages
from libtile.codegen.builder import Value
from libtile.codegen.control import Carried
from libtile.codegen.llvm_types import I64
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.flow import bind_carried, carried_values, emit_arm
from libtile.support.diagnostics import LoweringError


@rule("scf.for")
def _for(e: Emitter, op: Operation) -> None:
    lower, upper, step = (e.scalar(v) for v in op.operands[:3])
    block = op.regions[0].block

    def body(counter: Value, carried: list[Carried]) -> list[Carried]:
        e.bind(block.args[0], counter)
        bind_carried(e, block.args[1:], carried)
        return emit_arm(e, block)

    initial = carried_values(e, op.operands[3:])
    results = control.for_loop(e.b, lower, upper, step, initial, body, unsigned="unsignedCmp" in op.attributes)
    bind_carried(e, op.results, results)


@rule("scf.while")
def _while(e: Emitter, op: Operation) -> None:
    first, second = (region.block for region in op.regions)

    def before(carried: list[Carried]) -> tuple[Value, list[Carried]]:
        bind_carried(e, first.args, carried)
        condition, *given = emit_arm(e, first)
        assert isinstance(condition, Value)
        return condition, given

    def after(carried: list[Carried]) -> list[Carried]:
        bind_carried(e, second.args, carried)
        return emit_arm(e, second)

    bind_carried(e, op.results, control.while_loop(e.b, carried_values(e, op.operands), before, after))


@rule("scf.if")
def _if(e: Emitter, op: Operation) -> None:
    then, otherwise = ((r.block if r.blocks else None) for r in op.regions)
    assert then is not None
    results = control.if_else(
        e.b,
        e.scalar(op.operands[0]),
        lambda: emit_arm(e, then),
        None if otherwise is None else lambda: emit_arm(e, otherwise),
    )
    bind_carried(e, op.results, results)


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
    e.bind(op.results[0], e.b.cast("zext", value, I64) if isinstance(type_, IndexType) else value)


@rule("nv_tileaa.print")
def _print(e: Emitter, op: Operation) -> None:
    tiles = [e.tile(v) for v in op.operands if not e.is_token(v)]
    try:
        messages.print_tile(e.b, e.attribute(op, "format"), tiles)
    except LoweringError as problem:  # code generation knows of no places
        raise unsupported(op, f"cannot be compiled: {problem}", e.b.target.name) from None


@rule("nv_tileaa.assert")
def _assert(e: Emitter, op: Operation) -> None:
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(op.location)
    file, line = (place.filename, place.line) if place is not None else (messages.UNKNOWN_FILE, 0)
    messages.assert_(e.b, e.tile(op.operands[0]), e.attribute(op, "message"), file=file, line=line)


@rule("nv_tileaa.return")
def _return(e: Emitter, op: Operation) -> None:
    for allocation in reversed(e.allocations):
        globals.free(e.b, allocation)
    e.b.return_()
