# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The traits that the spec names, each as a function from a declaration to a check.

`STRUCTURAL_TRAITS` run before the members' constraints, `TYPE_TRAITS` right after them, `NATIVE_TRAITS` last; these
may have a second check that runs when the ops inside are valid. A trait that is in none of the tables (`pure`,
`constant_like`, ...) states a property that needs no check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libtile.dialects.cuda_tile.forms import CudaTileOp, DenseElementsAttr, PointerType, TileType
from libtile.dialects.cuda_tile.type_forms import is_number
from libtile.dialects.cuda_tile.verify.report import fail, op_name, quoted
from libtile.dialects.cuda_tile.verify.structure import is_symbol_table
from libtile.ir.forms import ArrayAttr, Attribute, DictionaryAttr, FunctionType, StringAttr, UnregisteredOp
from libtile.spec import OpSpec
from libtile.support.records import dataclass

Check = Callable[[CudaTileOp], None]
TraitCheck = Callable[[OpSpec, tuple[str, ...]], Check]


def _pass(op: CudaTileOp) -> None:
    pass


# -- values by name -------------------------------------------------------------------------------------------------


def _types(spec: OpSpec, name: str) -> Callable[[CudaTileOp], Any]:
    """A getter of the type of a member: None when it is absent, a tuple of types for a variadic one."""
    operand = next((v for v in spec.operands if v.name == name), None)
    if operand is not None:
        if operand.is_variadic:
            return lambda op: tuple(v.type for v in op.operand_group(name))
        if all(v.arity == "one" for v in spec.operands):
            index = spec.operands.index(operand)
            return lambda op: op._operands[index].type
        return lambda op: next((v.type for v in op.operand_group(name)), None)
    result = next((v for v in spec.results if v.name == name), None)
    if result is not None:
        if result.is_variadic:
            return lambda op: tuple(v.type for v in op.result_group(name))
        index = spec.results.index(result)
        return lambda op: op.results[index].type
    return lambda op: _attribute_type(op.properties[name])


def _attribute_type(attr: Attribute) -> Attribute | None:
    return attr.type if isinstance(attr, DenseElementsAttr) else getattr(attr, "type", None)


def _shape(type_: Attribute | None) -> tuple[int, ...] | None:
    return type_.shape if isinstance(type_, TileType) else None


def _element(type_: Attribute | None) -> Attribute | None:
    return type_.element_type if isinstance(type_, TileType) else type_


def _rank(type_: Attribute | None) -> int | None:
    return type_.rank if isinstance(type_, TileType) else None


def _all_match(what: str, key: Callable[[Any], Any]) -> TraitCheck:
    def trait(spec: OpSpec, names: tuple[str, ...]) -> Check:
        getters = tuple(_types(spec, name) for name in names)
        first, rest = getters[0], getters[1:]
        message = f"failed to verify that all of {{{', '.join(names)}}} have {what}"

        def check(op: CudaTileOp) -> None:
            expected = first(op)
            for getter in rest:
                found = getter(op)
                if found is not expected and key(found) != key(expected):
                    fail(op, message)

        return check

    return trait


# -- relations between types ----------------------------------------------------------------------------------------


def _i1_result_like_operands(spec: OpSpec, names: tuple[str, ...]) -> Check:
    def check(op: CudaTileOp) -> None:
        result, operand = op.results[0].type, op._operands[0].type
        if not is_number(_element(result), "i1") or _shape(result) != _shape(operand):
            fail(op, "failed to verify that Result type has i1 element type and same shape as operands")

    return check


def _pointer_to(spec: OpSpec, names: tuple[str, ...]) -> Check:
    pointer, value = (_types(spec, n) for n in names)
    message = f"failed to verify that `{names[0]}` type is expected a pointer type of `{names[1]}` type"

    def check(op: CudaTileOp) -> None:
        pointers, values = pointer(op), value(op)
        element = _element(pointers)
        matches = (
            isinstance(element, PointerType)
            and _shape(pointers) == _shape(values)
            and element.pointee == _element(values)
        )
        if not matches:
            fail(op, message)

    return check


def _optional_match(message: str, key: Callable[[Any], Any], optional: int) -> TraitCheck:
    """Members `names` agree where the one at `optional` is present."""

    def trait(spec: OpSpec, names: tuple[str, ...]) -> Check:
        getters = tuple(_types(spec, n) for n in names)
        text = "failed to verify that " + message.format(*names)

        def check(op: CudaTileOp) -> None:
            types = tuple(g(op) for g in getters)
            if types[optional] is not None and key(types[0]) != key(types[1]):
                fail(op, text)

        return check

    return trait


TYPE_TRAITS: dict[str, TraitCheck] = {
    "same_type": _all_match("same type", lambda t: t),
    "same_shape": _all_match("same shape", _shape),
    "same_rank": _all_match("same rank", _rank),
    "same_element_type": _all_match("the same element type", _element),
    "i1_result_like_operands": _i1_result_like_operands,
    "pointer_to": _pointer_to,
    "mask_shape": _optional_match("shape of '{0}' must match the shape of '{1}'", _shape, 0),
    "padding_type": _optional_match("type of '{0}' must match the type of '{1}'", lambda t: t, 0),
    "mask_shape_of": _optional_match("shape of '{0}' must match the shape of '{1}'", _shape, 1),
}


# -- structure ------------------------------------------------------------------------------------------------------


def _parent(spec: OpSpec, names: tuple[str, ...]) -> Check:
    allowed = frozenset(f"cuda_tile.{n}" for n in names)
    listed = ", ".join(f"cuda_tile.{n}" for n in names)
    message = f"expects parent op {'to be one of ' if len(names) > 1 else ''}'{listed}'"

    def check(op: CudaTileOp) -> None:
        parent = op.parent_op()
        if parent is None or op_name(parent) not in allowed:
            fail(op, message)

    return check


def _no_region_arguments(spec: OpSpec, names: tuple[str, ...]) -> Check:
    def check(op: CudaTileOp) -> None:
        for index, region in enumerate(op.regions):
            if any(block.args for block in region.blocks):
                which = f"region #{index}" if len(op.regions) > 1 else "region"
                fail(op, f"{which} should have no arguments")

    return check


def _single_block(spec: OpSpec, names: tuple[str, ...]) -> Check:
    terminated = not spec.has_trait("no_terminator")

    def check(op: CudaTileOp) -> None:
        for index, region in enumerate(op.regions):
            block = region.first_block
            if block is not region.last_block:
                fail(op, f"expects region #{index} to have 0 or 1 blocks")
            if terminated and block is not None and block.first_op is None:
                fail(op, "expects a non-empty block")

    return check


STRUCTURAL_TRAITS: dict[str, TraitCheck] = {
    "parent": _parent,
    "no_region_arguments": _no_region_arguments,
    "single_block": _single_block,
    "implicit_terminator": _single_block,
}


# -- native traits --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NativeTrait:
    """A trait with a check on the op, and one that runs when the ops inside are valid."""

    entrance: TraitCheck
    exit: TraitCheck | None = None


def _all_same(message: str, key: Callable[[Any], Any], with_results: bool) -> TraitCheck:
    def trait(spec: OpSpec, names: tuple[str, ...]) -> Check:
        def check(op: CudaTileOp) -> None:
            values = (*op._operands, *op.results) if with_results else op._operands
            if not op._operands:
                fail(op, "expected 1 or more operands, but found 0")
            expected = key(values[0].type)
            if any(key(v.type) != expected for v in values):
                fail(op, message)

        return check

    return trait


def _terminator(spec: OpSpec, names: tuple[str, ...]) -> Check:
    def check(op: CudaTileOp) -> None:
        if op.parent is None or op.parent.last_op is not op:
            fail(op, "must be the last operation in the parent block")

    return check


def _implicit_terminator_exit(spec: OpSpec, names: tuple[str, ...]) -> Check:
    allowed = frozenset(f"cuda_tile.{n}" for n in names)
    implied = f"cuda_tile.{names[0]}"

    def check(op: CudaTileOp) -> None:
        for region in op.regions:
            last = region.first_block.last_op if region.first_block is not None else None
            if last is not None and op_name(last) not in allowed:
                note = f"in custom textual format, the absence of terminator implies '{implied}'"
                fail(op, f"expects regions to end with '{implied}', found '{op_name(last)}'", (op, note))

    return check


def _symbol(spec: OpSpec, names: tuple[str, ...]) -> Check:
    def check(op: CudaTileOp) -> None:
        if not isinstance(op.properties.get("sym_name"), StringAttr):
            fail(op, "requires string attribute 'sym_name'")
        if op.results:
            fail(op, "symbols must not have results")
        parent = op.parent_op()
        if parent is not None and not isinstance(parent, UnregisteredOp) and not is_symbol_table(parent):
            fail(op, "symbol's parent must have the SymbolTable trait")

    return check


def _function(spec: OpSpec, names: tuple[str, ...]) -> Check:
    symbol = _symbol(spec, names)

    def check(op: CudaTileOp) -> None:
        symbol(op)
        function = op.properties["function_type"]
        if not isinstance(function, FunctionType):
            fail(op, "attribute 'function_type' failed to satisfy constraint: type attribute of function type")
        _attribute_dictionaries(op, "arg_attrs", "argument", len(function.inputs.data))
        _attribute_dictionaries(op, "res_attrs", "result", len(function.outputs.data))
        _entry_block(op, tuple(function.inputs.data))

    return check


def _attribute_dictionaries(op: CudaTileOp, name: str, what: str, count: int) -> None:
    attr = op.properties.get(name)
    if attr is None:
        return
    assert isinstance(attr, ArrayAttr)  # as the declared kind says
    dictionaries = attr.data
    if len(dictionaries) != count:
        fail(
            op,
            f"expects {what} attribute array to have the same number of elements as the number of function "
            f"{what}s, got {len(dictionaries)}, but expected {count}",
        )
    for dictionary in dictionaries:
        if isinstance(dictionary, DictionaryAttr) and any("." not in key for key in dictionary.data):
            fail(op, f"{what}s may only have dialect attributes")


def _entry_block(op: CudaTileOp, inputs: tuple[Attribute, ...]) -> None:
    block = op.regions[0].blocks[0]
    if len(block.args) != len(inputs):
        fail(op, f"entry block must have {len(inputs)} arguments to match function signature")
    for index, (arg, expected) in enumerate(zip(block.args, inputs)):
        if arg.type != expected:
            fail(
                op,
                f"type of entry block argument #{index}({quoted(arg.type)}) must match the type of the "
                f"corresponding argument in function signature({quoted(expected)})",
            )


def _nothing(spec: OpSpec, names: tuple[str, ...]) -> Check:
    return _pass


NATIVE_TRAITS: dict[str, NativeTrait] = {
    "same_operands_and_result_element_type": NativeTrait(
        _all_same("requires the same element type for all operands and results", _element, True)
    ),
    "same_operands_and_result_shape": NativeTrait(
        _all_same("requires the same shape for all operands and results", _shape, True)
    ),
    "same_operands_shape": NativeTrait(_all_same("requires the same shape for all operands", _shape, False)),
    "terminator": NativeTrait(_terminator),
    "implicit_terminator": NativeTrait(_nothing, _implicit_terminator_exit),
    "symbol": NativeTrait(_symbol),
    "function": NativeTrait(_function),
}
