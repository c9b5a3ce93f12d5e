# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom forms that are read by hand: ops whose format in the spec is `custom`.

`PARSERS` is the table; a parser fills an `OpState`. How such ops are written is in `custom_ops_print`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr, UnitAttr
from xdsl.ir import Attribute

from libtile.asm.custom_views import VIEW_PARSERS
from libtile.asm.op_state import Argument, OpState, Use
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TileViewType,
    i1,
    quoted,
)

if TYPE_CHECKING:
    from libtile.asm.parser import Parser

ParseOp = Callable[["Parser", OpState], None]


def type_list(p: Parser) -> list[Attribute]:
    """Types with commas between."""
    types: list[Attribute] = []
    p.comma_list(lambda: types.append(p.type()))
    return types


# -- functions ----------------------------------------------------------------------------------------------------


def _parse_function(p: Parser, s: OpState, *, op: str, hints: bool) -> None:
    """`@name(%arg: type, ...) -> type (optimization_hints=<...>)? { ... } attributes?`"""
    s.properties["sym_name"] = StringAttr(p.symbol_name())
    arguments: list[Argument] = []
    p.argument_list(arguments)
    results: list[Attribute] = []
    result_attributes: list[dict[str, Attribute]] = []
    if p.accept("->"):
        _parse_results(p, results, result_attributes)
    s.properties["function_type"] = FunctionType.from_lists([a.type for a in arguments], results)
    if any(a.attributes for a in arguments):
        s.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(a.attributes or {}) for a in arguments])
    if any(result_attributes):
        s.properties["res_attrs"] = ArrayAttr([DictionaryAttr(a) for a in result_attributes])
    if hints and p.accept_keyword("optimization_hints"):
        p.expect("=")
        s.properties["optimization_hints"] = p.hints()
    spec = p.spec.ops[op]
    s.regions["body"] = p.region(arguments, terminator=spec)
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())


def _parse_results(p: Parser, types: list[Attribute], attributes: list[dict[str, Attribute]]) -> None:
    if p.kind != "(":
        types.append(p.type())
        return

    def one() -> None:
        types.append(p.type())
        attributes.append(p.attribute_dictionary() if p.kind == "{" else {})

    p.bracketed("(", ")", one)


# -- loops --------------------------------------------------------------------------------------------------------


def _assignments(p: Parser) -> tuple[list[Use], list[Use]]:
    """`(%argument = %value, ...)`."""
    arguments: list[Use] = []
    values: list[Use] = []

    def one() -> None:
        arguments.append(p.operand())
        p.expect("=")
        values.append(p.operand())

    p.bracketed("(", ")", one)
    return arguments, values


def _parse_for(p: Parser, s: OpState) -> None:
    """`unsigned? %i in (%a to %b, step %c) : type (iter_values(...) -> (types))? { ... }`"""
    if p.accept_keyword("unsigned"):
        s.properties["unsignedCmp"] = UnitAttr()
    induction = p.operand()
    p.expect_keyword("in")
    p.expect("(")
    lower = p.operand()
    p.expect_keyword("to")
    upper = p.operand()
    p.expect(",")
    p.expect_keyword("step")
    step = p.operand()
    p.expect(")")
    p.expect(":")
    type_ = p.type()
    arguments = [Argument(induction, type_)]
    initial: list[Use] = []
    types: list[Attribute] = []
    if p.accept_keyword("iter_values"):
        names, initial = _assignments(p)
        p.expect("->")
        p.expect("(")
        types = type_list(p)
        p.expect(")")
        if len(initial) != len(types):
            p.fail("mismatch in number of loop-carried values and defined values", s.start)
        arguments += [Argument(name, t) for name, t in zip(names, types)]
    s.regions["region"] = p.region(arguments, terminator=p.spec.ops["for"])
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())
    for name, use in (("lowerBound", lower), ("upperBound", upper), ("step", step)):
        s.operands[name] = [use]
        s.types[name] = [type_]
    s.operands["initValues"] = initial
    s.types["initValues"] = types
    s.types["resultValues"] = types


def _parse_loop(p: Parser, s: OpState) -> None:
    """`(iter_values(...))? (: types (-> types)?)? { ... }`: without iteration values the types are the results'."""
    arguments: list[Argument] = []
    initial: list[Use] = []
    types: list[Attribute] = []
    results: list[Attribute] = []
    if p.accept_keyword("iter_values"):
        names, initial = _assignments(p)
        p.expect(":")
        types = type_list(p)
        if len(names) != len(types):
            p.fail("found different number of iter_values and types")
        if p.accept("->"):
            results = type_list(p)
        arguments = [Argument(name, t) for name, t in zip(names, types)]
    elif p.accept(":"):
        results = type_list(p)
    s.regions["region"] = p.region(arguments, terminator=p.spec.ops["loop"])
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())
    s.operands["initValues"] = initial
    s.types["initValues"] = types
    s.types["resultValues"] = results


# -- shapes of views ----------------------------------------------------------------------------------------------


def _parse_shape_query(p: Parser, s: OpState, *, of_tiles: bool) -> None:
    """`%view : type -> type`, with one result per dimension."""
    view = p.operand()
    p.expect(":")
    start = p.start
    type_ = p.type()
    p.expect("->")
    result = p.type()
    if of_tiles:
        if not isinstance(type_, TileViewType):
            p.fail(f"expected tile view, got {quoted(type_)}", start)
        rank = len(type_.tile_shape)
    else:
        if not isinstance(type_, TensorViewType):
            p.fail(f"expected tensor_view, got {quoted(type_)}", start)
        rank = type_.rank
    s.operands["src"] = [view]
    s.types["src"] = [type_]
    s.types["result"] = [result] * rank


# -- making views -------------------------------------------------------------------------------------------------

Extent = tuple[int, int]
"""A size or stride in the text (DYNAMIC for a value), and where it stands."""


def _extents(p: Parser, dynamic: list[Use]) -> list[Extent]:
    extents: list[Extent] = []

    def one() -> None:
        start = p.start
        constant = p.optional_integer()
        if constant is not None:
            extents.append((p.check_integer(constant, start), start))
            return
        if p.kind != "percent":
            p.fail("expected either integer or SSA value", start)
        dynamic.append(p.operand())
        extents.append((DYNAMIC, start))

    p.bracketed("[", "]", one)
    return extents


def _compare_extents(p: Parser, given: list[Extent], wanted: Sequence[int], start: int, what: str) -> None:
    if len(given) != len(wanted):
        p.fail(
            f"expected {what} declaration to contain {len(wanted)} elements due to tensor_view type, but {len(given)} "
            "were provided",
            start,
        )

    def text(extent: int) -> str:
        return "dynamic" if extent == DYNAMIC else str(extent)

    for index, ((extent, offset), expected) in enumerate(zip(given, wanted)):
        if extent != expected:
            p.fail(
                f"input {what} dimension {index} does not match tensor_view type (expected {text(expected)}, "
                f"got {text(extent)})",
                offset,
            )


def _parse_make_tensor_view(p: Parser, s: OpState) -> None:
    """`%base, shape = [...], strides = [...] : ((pointer-type ,)? index-type? ->)? type`"""
    base = p.operand()
    p.expect(",")
    shape_values: list[Use] = []
    stride_values: list[Use] = []
    p.expect_keyword("shape")
    p.expect("=")
    shape_start = p.start
    shape = _extents(p, shape_values)
    p.expect(",")
    p.expect_keyword("strides")
    p.expect("=")
    stride_start = p.start
    strides = _extents(p, stride_values)
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())
    p.expect(":")
    base_type, index_type, view = _tensor_view_types(p, bool(shape_values or stride_values))
    s.operands["base"] = [base]
    s.types["base"] = [base_type or TileType((), PointerType(view.element_type))]
    p.resolve(base, s.types["base"][0])
    _compare_extents(p, shape, view.shape, shape_start, "shape")
    _compare_extents(p, strides, view.strides, stride_start, "stride")
    for name, values in (("dynamicShape", shape_values), ("dynamicStrides", stride_values)):
        s.operands[name] = values
        s.types[name] = [index_type] * len(values) if index_type is not None else []
    s.types["result"] = [view]


def _tensor_view_types(p: Parser, dynamic: bool) -> tuple[Attribute | None, Attribute | None, TensorViewType]:
    """Types of the base pointer (where it is given), of the dynamic extents, and of the result."""
    types = type_list(p)
    if p.kind == "->" or dynamic:
        p.expect("->")
        given = types
        found = p.type()
    else:
        given, found = types[:-1], types[-1]
    if not isinstance(found, TensorViewType):
        p.fail(f"expected 'tensor_view' type, but got {quoted(found)}")
    base: Attribute | None = None
    # The type of the base is written when its pointer has an attribute, in front of the type of the extents.
    if len(given) > int(dynamic) and isinstance(given[0], TileType) and isinstance(given[0].element_type, PointerType):
        base, given = given[0], given[1:]
    if len(given) != int(dynamic):
        p.fail("expected a type for the dynamic extents" if dynamic else "unexpected type of dynamic extents")
    return base, given[0] if dynamic else None, found


def _parse_make_view(p: Parser, s: OpState, *, cls: type[TileViewType]) -> None:
    """`%tensor_view : type`."""
    view = p.operand()
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())
    p.expect(":")
    start = p.start
    type_ = p.type()
    if not isinstance(type_, cls):
        p.fail(f"expected '{cls.mnemonic}' type, but got {quoted(type_)}", start)
    s.operands["tensor_view"] = [view]
    s.types["tensor_view"] = [type_.tensor_view]
    s.types["result"] = [type_]


# -- calls --------------------------------------------------------------------------------------------------------


def _parse_call(p: Parser, s: OpState) -> None:
    """`@callee(%operand, ...) {attributes} : (types) -> types`: the form has no constant arguments."""
    s.properties["callee"] = p.symbol_reference()
    s.properties["const_args"] = ArrayAttr([])
    s.offsets["operands"] = p.start
    p.expect("(")
    s.operands["operands"] = p.operand_list()
    p.expect(")")
    if p.kind == "{":
        s.attributes.update(p.attribute_dictionary())
    p.expect(":")
    type_ = p.function_type()
    s.types["operands"] = list(type_.inputs.data)
    s.types["results"] = list(type_.outputs.data)


def _padding_without_mask(s: OpState) -> None:
    """A load with padding and no mask prints as one with a mask: the element type tells them apart."""
    types = s.types.get("mask")
    if not types or s.operands.get("paddingValue") or not isinstance(types[0], TileType):
        return
    if types[0].element_type != i1 and types == s.types.get("result"):
        s.operands["paddingValue"] = s.operands.pop("mask")
        s.types["paddingValue"] = s.types.pop("mask")
        s.offsets["paddingValue"] = s.offsets.pop("mask", s.start)


ADJUSTMENTS: dict[str, Callable[[OpState], None]] = {"load_ptr_tko": _padding_without_mask}
"""What has to be put right after an op was read by its declared format, because the format is ambiguous."""

PARSERS: dict[str, ParseOp] = {
    "entry": partial(_parse_function, op="entry", hints=True),
    "testing$func": partial(_parse_function, op="testing$func", hints=False),
    "for": _parse_for,
    "loop": _parse_loop,
    "get_index_space_shape": partial(_parse_shape_query, of_tiles=True),
    "get_tensor_shape": partial(_parse_shape_query, of_tiles=False),
    "make_tensor_view": _parse_make_tensor_view,
    "make_partition_view": partial(_parse_make_view, cls=PartitionViewType),
    "make_strided_view": partial(_parse_make_view, cls=StridedViewType),
    "make_gather_scatter_view": partial(_parse_make_view, cls=GatherScatterViewType),
    "preview$call": _parse_call,
    **VIEW_PARSERS,
}
