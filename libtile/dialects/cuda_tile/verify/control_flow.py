# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of loops, conditionals and their terminators (Tile IR specification, group Control Flow)."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.dialects.cuda_tile.forms import CudaTileOp, TensorViewType, TileViewType
from libtile.dialects.cuda_tile.verify.report import (
    Report,
    fail,
    fail_plain,
    op_name,
    quoted,
    quoted_list,
    region_rule,
    rule,
)
from libtile.ir.forms import Attribute, FunctionType, Operation, Region


def _operand_types(op: Operation) -> list[Attribute]:
    return [v.type for v in op._operands]


def _result_types(op: Operation) -> list[Attribute]:
    return [v.type for v in op.results]


def _view_kind(type_: Attribute) -> str | None:
    """How diagnostics name a view: a value of such a type may not leave the region that it is made in."""
    if isinstance(type_, TensorViewType):
        return "tensor_view"
    return "tile view" if isinstance(type_, TileViewType) else None


def _no_views(op: CudaTileOp, what: str, types: Sequence[Attribute]) -> None:
    for index, type_ in enumerate(types):
        kind = _view_kind(type_)
        if kind is not None:
            fail(op, f"{what} {index} is a {kind}, which is not supported")


# -- loops ----------------------------------------------------------------------------------------------------------


def _carried_values(op: CudaTileOp, inits: Sequence[Attribute], carried: Sequence[Attribute]) -> None:
    if len(inits) != len(carried):
        fail(
            op,
            f"mismatch in number of region iterator values and loop iterator inits: {len(carried)} vs {len(inits)}",
        )
    for index, (init, inner) in enumerate(zip(inits, carried)):
        _no_views_at(op, index, inner)
        if init != inner:
            fail(
                op,
                f"init value {index} and region iter_value {index} have different type: "
                f"{quoted(init)} != {quoted(inner)}",
            )
    _no_views(op, "result type", _result_types(op))


def _no_views_at(op: CudaTileOp, index: int, type_: Attribute) -> None:
    kind = _view_kind(type_)
    if kind is not None:
        fail(op, f"loop-carried value {index} is a {kind}, which is not supported")


def _argument_types(region: Region) -> list[Attribute]:
    block = region.first_block
    return [a.type for a in block.args] if block is not None else []


@region_rule("for")
def for_(op: CudaTileOp, report: Report) -> None:
    arguments = _argument_types(op.regions[0])
    if not arguments:
        fail(op, "expected at least one block argument for induction variable")
    bound = op._operands[0].type
    if arguments[0] != bound:
        fail(
            op,
            "expected induction variable to be same type as bounds and step: "
            f"{quoted(arguments[0])} vs {quoted(bound)}",
        )
    _carried_values(op, _operand_types(op)[3:], arguments[1:])


@region_rule("loop")
def loop(op: CudaTileOp, report: Report) -> None:
    _carried_values(op, _operand_types(op), _argument_types(op.regions[0]))


# -- if -------------------------------------------------------------------------------------------------------------


@rule("if")
def if_(op: CudaTileOp, report: Report) -> None:
    results = _result_types(op)
    _no_views(op, "result type", results)
    then_region, else_region = op.regions
    _branch(op, then_region, "then", results)
    if else_region.first_block is not None:
        _branch(op, else_region, "else", results)
    elif results:
        fail(op, "has non-empty return type, must define else branch")


def _branch(op: CudaTileOp, region: Region, name: str, results: list[Attribute]) -> None:
    """A branch that yields, yields values of the types of the results; others leave the op in another way."""
    last = region.blocks[0].last_op
    if last is None or op_name(last) != "cuda_tile.yield":
        return
    yielded = _operand_types(last)
    if results and not yielded:
        fail(op, f"has return type of {quoted_list(results)} but {name} branch does not yield anything")
    if yielded and not results:
        fail(op, f"does not return a value, but {name} branch yields {quoted_list(yielded)}")
    if yielded != results:
        fail(
            op,
            f"type does not match yield type, {name} branch yields {quoted_list(yielded)} "
            f"but op result type is {quoted_list(results)}",
        )


# -- leaving loops and functions ------------------------------------------------------------------------------------


def _enclosing_loop(op: CudaTileOp, allowed: tuple[str, ...]) -> Operation:
    """The nearest enclosing op of `allowed`, with nothing but conditionals in between."""
    parent = op.parent_op()
    while parent is not None:
        name = op_name(parent)
        if name in allowed:
            return parent
        if name != "cuda_tile.if":
            break
        parent = parent.parent_op()
    names = "', '".join((*allowed, "cuda_tile.if"))
    message = f"can only be nested within a ancestor chain of '{names}' operations"
    if parent is None:
        fail(op, message)
    fail(op, message, (parent, "see unexpected ancestor operation"))


@rule("break")
def break_(op: CudaTileOp, report: Report) -> None:
    target = _enclosing_loop(op, ("cuda_tile.loop",))
    found, expected = _operand_types(op), _result_types(target)
    if found != expected:
        fail(
            op,
            "operand types must correspond to the parent loop result types: "
            f"({quoted_list(found)}) vs ({quoted_list(expected)})",
        )


@rule("continue")
def continue_(op: CudaTileOp, report: Report) -> None:
    target = _enclosing_loop(op, ("cuda_tile.for", "cuda_tile.loop"))
    name = op_name(target).removeprefix("cuda_tile.")
    # `loop` may return other types than it carries; `for` returns what it carries.
    what, expected = (
        ("iter_values", _operand_types(target)) if name == "loop" else ("return types", _result_types(target))
    )
    found = _operand_types(op)
    if found != expected:
        fail_plain(
            op,
            f"`{name}` is missing a valid terminator. `continue` op should have operand types that match the "
            f"parent loop {what}: ({quoted_list(expected)}), but found: ({quoted_list(found)})",
        )


@rule("return")
def return_(op: CudaTileOp, report: Report) -> None:
    """In a function, or in conditionals and `loop`s in it; the operands are the function's results."""
    function = op.parent_op()
    while function is not None and op_name(function) in _RETURN_THROUGH:
        function = function.parent_op()
    if not isinstance(function, CudaTileOp) or not function.spec.has_trait("function"):
        fail(
            op,
            "must be used within a cuda_tile.entry, cuda_tile.if, or cuda_tile.loop operation",
        )
    type_ = function.properties.get("function_type")
    results = list(type_.outputs.data) if isinstance(type_, FunctionType) else []
    name = function.attribute_value("sym_name")
    if len(op._operands) != len(results):
        fail(op, f"has {len(op._operands)} operands, but enclosing function (@{name}) returns {len(results)}")
    if function.spec.name == "entry" and results:
        fail(op, f"has {len(op._operands)} operands, but entry function must return 0 operands")
    for index, (found, expected) in enumerate(zip(_operand_types(op), results)):
        if found != expected:
            fail_plain(
                op,
                f"type of return operand {index} ({quoted(found)}) doesn't match function result type "
                f"({quoted(expected)}) in function @{name}",
            )


_RETURN_THROUGH = frozenset({"cuda_tile.if", "cuda_tile.loop"})
"""Ops that a return leaves on its way out of the function."""
