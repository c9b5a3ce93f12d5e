# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The textual form of functions:

    nv_tileaa.func @name(%a: !nv_tileaa.ptr<f32, 1> {nv_tileaa.hidden}, %n: tile<i32>) -> (types) attributes {...} {
      ...
    }

A declaration has types instead of named arguments, and no body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.ir import Attribute, Region

from libtile.dialects.nv_tileaa.attributes import CAPABILITY, LEGACY_CAPABILITY
from libtile.ir.tile_form import TileOp, parse_type, type_text
from libtile.ir.tile_form_text import parse_types, print_attributes

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

F = TypeVar("F", bound=TileOp)


def parse_function(cls: type[F], parser: Parser) -> F:
    """The rest of a function behind `nv_tileaa.func`."""
    properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
    arguments: list[Parser.Argument] = []
    types: list[Attribute] = []
    attributes: list[DictionaryAttr] = []

    def argument() -> None:
        named = parser.parse_optional_unresolved_operand()
        if named is not None:
            parser.parse_punctuation(":")
        types.append(parse_type(parser))
        attributes.append(DictionaryAttr(dict(parser.parse_optional_dictionary_attr_dict())))
        location = parser.parse_optional_location()
        if named is not None:
            arguments.append(parser.Argument(named.span, types[-1], location))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    if arguments and len(arguments) != len(types):
        parser.raise_error("expected all arguments or none to be named")
    outputs = parse_types(parser) if parser.parse_optional_punctuation("->") else []
    extra = parser.parse_optional_attr_dict_with_keyword()
    given = dict(extra.data) if extra is not None else {}
    if LEGACY_CAPABILITY in given:
        given.setdefault(CAPABILITY, given.pop(LEGACY_CAPABILITY))
    properties["function_type"] = FunctionType.from_lists(types, outputs)
    if any(a.data for a in attributes):
        properties["arg_attrs"] = ArrayAttr(attributes)
    properties |= {n: given.pop(n) for n in cls.get_irdl_definition().properties if n in given}
    if types and not arguments:
        body = Region()
    else:
        body = parser.parse_optional_region(arguments) or Region()
    return cls.create(properties=properties, attributes=given, regions=[body])


def print_function(op: TileOp, printer: Printer) -> None:
    """The rest of a function behind `nv_tileaa.func`."""
    properties = dict(op.properties)
    printer.print_string(" ")
    name, type_ = properties.pop("sym_name"), properties.pop("function_type")
    assert isinstance(name, StringAttr) and isinstance(type_, FunctionType)  # the class declares them so
    printer.print_symbol_name(name.data)
    inputs, outputs = type_.inputs.data, type_.outputs.data
    arg_attrs = properties.pop("arg_attrs", None)
    body = op.regions[0]
    entry = body.first_block
    printer.print_string("(")
    for index, input_ in enumerate(inputs):
        if index:
            printer.print_string(", ")
        if entry is not None:
            printer.print_ssa_value(entry.args[index])
            printer.print_string(": ")
        printer.print_string(type_text(input_))
        if isinstance(arg_attrs, ArrayAttr):
            print_attributes(printer, arg_attrs.data[index].data)
    printer.print_string(")")
    if outputs:
        printer.print_string(f" -> ({', '.join(map(type_text, outputs))})")
    rest = {**properties, **op.attributes}
    if rest:
        printer.print_string(" attributes")
        print_attributes(printer, rest)
    if entry is not None:
        printer.print_string(" ")
        printer.print_region(body, print_entry_block_args=False)
