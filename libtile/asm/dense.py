# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of constants: `<f32: [1.0, 2.0]> : tile<2xf32>` of the custom form, and `dense<[1.0, 2.0]> : T`.

Elements are kept as bytes from the start, so that a large constant costs little more than its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from libtile.asm.cursor import ParseError
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, element_storage_bytes
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, NUMBER_TYPES, TileType, type_text
from libtile.ir.strings import unquote
from libtile.numerics.elements import ELEMENTS
from libtile.spec import default_spec

if TYPE_CHECKING:
    from libtile.asm.attribute_parser import AttributeParser

_ELEMENT_TYPES = default_spec().constraints["number_tile"].summary.removeprefix("tile of ").removesuffix(" values")
_EXPECTED_ELEMENT = f"expect element type to be one of {_ELEMENT_TYPES} values, but got"
_RAGGED = "tensor literal is invalid; ranks are not consistent between elements"


class _Literal:
    """Reads one literal: numbers in nested lists, or a string of hexadecimal digits. Fills `raw` and `shape`."""

    def __init__(self, parser: AttributeParser, element_type: Attribute):
        self.parser = parser
        self.type = element_type
        self.size = element_storage_bytes(element_type)
        self.raw = bytearray()
        self.shape: list[int] = []
        self.is_hex = False

    def read(self) -> None:
        if self.parser.kind == "string":
            self._hex_string()
        else:
            self.shape = self._value()

    def _value(self) -> list[int]:
        p = self.parser
        if p.kind != "[":
            self._number()
            return []
        p.nest()
        p.advance()
        count = 0
        inner: list[int] = []
        while True:
            shape = self._value()
            if count == 0:
                inner = shape
            elif shape != inner:
                p.fail(_RAGGED)
            count += 1
            if not p.accept(","):
                break
        p.expect("]")
        p.depth -= 1
        return [count, *inner]

    def _number(self) -> None:
        p = self.parser
        start = p.start
        if isinstance(self.type, IntegerType):
            bits = self._integer(start, self.type.width.data)
        else:
            bits = self._float(start)
        self.raw += bits.to_bytes(self.size, "little")

    def _integer(self, start: int, width: int) -> int:
        p = self.parser
        if width > 1 and p.kind == "bare" and p.token in ("true", "false"):
            p.fail("expected integer value", start)
        value = p.optional_integer()
        if value is None:
            p.fail("expected integer value", start)
        if width == 64:
            p.check_integer(value, start)
        elif not (-(1 << (width - 1)) <= value < 1 << width):
            p.fail("integer constant out of range for type", start)
        return value & 1 if width == 1 else value & ((1 << width) - 1)

    def _float(self, start: int) -> int:
        p = self.parser
        negative = p.accept("-")
        kind, token = p.kind, p.token
        if kind == "int" and not token.startswith("0x"):
            p.decimal_float_error(start, token)
        if kind not in ("int", "float"):
            p.fail("expected floating point literal", start)
        p.advance()
        return p.float_bits_of(token, negative, self.type, start)

    def _hex_string(self) -> None:
        p = self.parser
        text = unquote(p.token)
        try:
            data = bytes.fromhex(text[2:]) if text.startswith("0x") else None
        except ValueError:
            data = None
        if data is None:
            p.fail("expected string containing hex digits starting with `0x`")
        if not data or len(data) % self.size:
            p.fail("elements hex data size is invalid for provided type")
        element = ELEMENTS[NUMBER_NAMES[self.type]]
        if element.is_partial:
            parts = (data[i : i + self.size] for i in range(0, len(data), self.size))
            if any(int.from_bytes(part, "little") >> element.bits for part in parts):
                p.fail("elements hex data has a value that is out of range for the type")
        p.advance()
        self.raw += data
        self.is_hex = True

    def attribute(self, type_: TileType, type_start: int) -> DenseElementsAttr:
        """The constant as one of `type_`: a single value stands for any shape."""
        p = self.parser
        count = len(self.raw) // self.size
        if self.is_hex:
            if count not in (1, type_.num_elements):
                p.fail("elements hex data size is invalid for provided type", type_start)
        elif self.shape and tuple(self.shape) != type_.shape:
            p.fail(
                f"inferred shape of elements literal ({_list(self.shape)}) does not match type ({_list(type_.shape)})",
                type_start,
            )
        raw = bytes(self.raw)
        first = raw[: self.size]
        return DenseElementsAttr(type_, first if raw == first * count else raw)


def _list(shape: list[int] | tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def typed_elements(p: AttributeParser) -> DenseElementsAttr:
    """`<f32: value> : tile<...>`, as in `constant` and `global`."""
    p.expect("<")
    try:
        element = p.type()
    except ParseError:
        p.fail(f"{_EXPECTED_ELEMENT} '<<NULL TYPE>>'")
    if NUMBER_NAMES.get(element, "i4") == "i4":
        p.fail(f"{_EXPECTED_ELEMENT} '{type_text(element, short=False)}'")
    p.expect(":")
    literal = _Literal(p, element)
    literal.read()
    p.expect(">")
    p.expect(":")
    start = p.start
    type_ = p.type()
    if not isinstance(type_, TileType):
        p.fail(f"result #0 must be tile of {_ELEMENT_TYPES} values, but got '{type_text(type_, short=False)}'", start)
    if type_.element_type != element:
        p.fail(
            f"mismatch between the element type: '{NUMBER_NAMES[element]}' and the tile element type "
            f"'{type_text(type_.element_type, short=False)}'",
            start,
        )
    return literal.attribute(type_, start)


def dense_attribute(p: AttributeParser) -> Attribute:
    """`dense<value> : T`. For a type that stands for no tile xDSL reads it."""
    start = p.start
    p.advance()
    p.expect("<", " after 'dense'")
    body = p.end if p.kind == "eof" else p.start
    end = _closing(p, body)
    p.seek(end)
    p.expect(">")
    p.expect(":")
    type_start = p.start
    type_ = p.tile_of(p.type())
    if type_ is None:
        p.seek(start)
        return p.foreign_attribute()
    if type_.element_type not in NUMBER_TYPES.values():
        p.fail("expected integer or float element type in elements literal", type_start)
    after = p.last_end
    p.seek(body)
    literal = _Literal(p, type_.element_type)
    literal.read()
    p.expect(">", " to close an elements literal")
    attribute = literal.attribute(type_, type_start)
    p.seek(after)
    return attribute


def _closing(p: AttributeParser, start: int) -> int:
    """The offset of the bracket that closes an elements literal (which has no other bracket of this kind)."""
    while p.kind not in (">", "eof", "error"):
        p.advance()
    return p.start
