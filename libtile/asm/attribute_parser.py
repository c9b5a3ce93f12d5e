# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes and locations: MLIR's builtin ones, those of the cuda_tile dialect, and aliases of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntegerAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute

from libtile.asm.cursor import integer_value
from libtile.asm.dense import dense_attribute
from libtile.asm.type_parser import TypeParser
from libtile.dialects.cuda_tile.attribute_text import LOCATIONS, debug_fields
from libtile.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DebugAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
    DivByAttr,
    EnumAttr,
    FileLineColRange,
    OptimizationHintsAttr,
    SameElementsAttr,
    TestValueAttr,
)
from libtile.dialects.cuda_tile.locations import call_site_loc, file_line_col
from libtile.dialects.cuda_tile.types import (
    NUMBER_NAMES,
    Fnv8E5M3FNUType,
    TileType,
    bit_width,
    f64,
    i1,
    i64,
    is_float,
)
from libtile.ir.strings import unquote
from libtile.numerics.float_bits import decode
from libtile.numerics.text import float_bits
from libtile.spec.model import EnumSpec

_FOREIGN = frozenset({"affine_map", "affine_set", "dense_resource", "opaque", "sparse", "strided", "distinct"})

PREFIX = "#cuda_tile."


class AttributeParser(TypeParser):
    """Reads attributes. A value of the dialect needs the `#cuda_tile.` prefix, other than in custom forms."""

    attribute_aliases: dict[str, Attribute]
    pending_locations: list[tuple[Any, str, int]]

    def attribute(self, type_: Attribute | None = None) -> Attribute:
        """An attribute, or fail with "expected attribute value". `type_` is the type that a number is known to have."""
        found = self.optional_attribute(type_)
        if found is None:
            raise self.wrong_token("expected attribute value")
        return found

    def optional_attribute(self, type_: Attribute | None = None) -> Attribute | None:
        kind = self.kind
        if kind in ("int", "-", "float"):
            return self._number(type_)
        if kind == "string":
            return self._string(type_)
        if kind == "at":
            return self.symbol_reference()
        if kind == "hash":
            return self._prefixed()
        if kind == "[":
            return self._array()
        if kind == "{":
            return DictionaryAttr(self.attribute_dictionary())
        if kind == "bare":
            return self._keyword(self.token, type_)
        if kind in ("bang", "("):
            return self.optional_type()
        return None

    def _keyword(self, keyword: str, type_: Attribute | None) -> Attribute | None:
        if keyword in ("true", "false"):
            self.advance()
            return IntegerAttr(int(keyword == "true"), i1)
        if keyword == "unit":
            self.advance()
            return UnitAttr()
        if keyword == "loc":
            return self.location()
        if keyword == "array":
            return self._dense_array()
        if keyword == "dense":
            return dense_attribute(self)
        if keyword in _FOREIGN:
            return self.foreign_attribute()
        return self.optional_type()

    def tile_of(self, type_: Attribute) -> TileType | None:
        """The tile type that the type of a `dense` constant stands for; None when it stands for none."""
        return type_ if isinstance(type_, TileType) else None

    def foreign_attribute(self) -> Attribute:
        """An attribute that xDSL's parser reads; the full parser has one."""
        raise self.wrong_token("expected attribute value")

    # -- builtin attributes -------------------------------------------------------------------------------------

    def _number(self, type_: Attribute | None) -> Attribute:
        start = self.start
        negative = self.accept("-")
        kind, token = self.kind, self.token
        if kind not in ("int", "float"):
            raise self.wrong_token("expected constant integer or floating point value")
        self.advance()
        if type_ is None:
            type_ = self.type() if self.accept(":") else (i64 if kind == "int" else f64)
        if is_float(type_):
            name = NUMBER_NAMES[type_]
            if kind == "int" and not token.startswith("0x"):
                self.decimal_float_error(start, token)
            if isinstance(type_, Fnv8E5M3FNUType):
                self.fail("fnv8E5M3FNU, a preview type, has no float attributes", start)
            bits = self.float_bits_of(token, negative, type_, start)
            return FloatAttr(decode(bits, name), cast(Any, type_))
        if kind == "float" or not (isinstance(type_, IntegerType) or str(type_) == "index"):
            what = "floating point value" if kind == "float" else "integer literal"
            self.fail(f"{what} not valid for specified type", start)
        value = -integer_value(token) if negative else integer_value(token)
        width = type_.width.data if isinstance(type_, IntegerType) else 64
        if not -(1 << (width - 1)) <= value < 1 << width:
            self.fail("integer constant out of range for attribute", start)
        if isinstance(type_, IntegerType) and width > 1 and value >= 1 << (width - 1):
            value -= 1 << width
        return IntegerAttr(value, cast(Any, type_))

    def decimal_float_error(self, start: int, token: str) -> None:
        """A whole number where a float is wanted: ambiguous, as hexadecimal digits are a bit pattern."""
        note = (start, self.op_prefix + "add a trailing dot to make the literal a float")
        raise self.report(
            self.op_prefix + "unexpected decimal integer literal for a floating point value", start, [note]
        )

    def float_bits_of(self, token: str, negative: bool, type_: Attribute, start: int) -> int:
        """The bit pattern of a float literal: a decimal number, or the bits themselves in hexadecimal."""
        name = NUMBER_NAMES[type_]
        if token.startswith("0x"):
            if negative:
                self.fail("hexadecimal float literal should not have a leading minus", start)
            value = integer_value(token)
            if value >> bit_width(type_):
                self.fail("float constant out of range for type", start)
            return value
        number = float(token)
        try:
            return float_bits(-number if negative else number, name)
        except ValueError as error:
            raise self.error(str(error), start) from None

    def _string(self, type_: Attribute | None) -> Attribute:
        value = unquote(self.token)
        self.advance()
        # A string may have a type, which means nothing here; where its type is known, a colon belongs to what follows.
        if type_ is None and self.kind == ":":
            self.advance()
            self.type()
        return StringAttr(value)

    def symbol_reference(self) -> SymbolRefAttr:
        root = self.symbol_name()
        nested: list[str] = []
        while self.kind == ":" and self.text.startswith("::@", self.start):
            self.advance()
            self.advance()
            nested.append(self.symbol_name())
        return SymbolRefAttr(root, nested)

    def _array(self) -> ArrayAttr[Attribute]:
        values: list[Attribute] = []
        self.nest()
        self.bracketed("[", "]", lambda: values.append(self.attribute()))
        self.depth -= 1
        return ArrayAttr(values)

    def attribute_dictionary(self) -> dict[str, Attribute]:
        """`{name = value, flag, ...}`, sorted by name."""
        entries: dict[str, Attribute] = {}
        self.nest()
        self.bracketed("{", "}", lambda: self._entry(entries), " in attribute dictionary")
        self.depth -= 1
        return dict(sorted(entries.items()))

    def _entry(self, entries: dict[str, Attribute]) -> None:
        start = self.start
        if self.kind == "string":
            name = unquote(self.token)
        elif self.kind == "bare":
            name = self.token
        else:
            raise self.wrong_token("expected attribute name")
        if not name:
            self.fail("expected valid attribute name")
        if name in entries:
            raise self.report(f"duplicate key '{name}' in dictionary attribute", start)
        self.advance()
        entries[name] = self.attribute() if self.accept("=") else UnitAttr()

    def _dense_array(self) -> Attribute:
        self.advance()
        self.expect("<", " after 'array'")
        start = self.start
        element = self.type()
        if not isinstance(element, IntegerType) and not is_float(element):
            self.fail(f"expected integer or float type in dense array, got {element}", start)
        if isinstance(element, IntegerType) and element.width.data > 64:
            self.fail(f"expected integers of at most 64 bits in dense array, got {element}", start)
        values: list[Any] = []
        if self.accept(":"):
            self.comma_list(lambda: values.append(self._dense_array_element(element)))
        self.expect(">", " to close an array attribute")
        return DenseArrayBase.from_list(cast(Any, element), values)

    def _dense_array_element(self, element: Attribute) -> int | float:
        start = self.start
        if isinstance(element, IntegerType):
            value = self.optional_integer()
            if value is None:
                self.fail("expected integer value", start)
            width = element.width.data
            if not -(1 << (width - 1)) <= value < 1 << width:
                self.fail("integer value too large", start)
            return value - (1 << width) if width > 1 and value >= 1 << (width - 1) else value
        number = self._number(element)
        assert isinstance(number, FloatAttr)  # as the element type is a float
        return float(number.value.data)

    # -- aliases and dialect attributes -------------------------------------------------------------------------

    def _prefixed(self) -> Attribute:
        token = self.token
        if not token.startswith(PREFIX):
            alias = self.attribute_aliases.get(token[1:])
            if alias is not None:
                self.count_alias(token[1:])
                self.advance()
                return alias
            if "." not in token:
                raise self.report(f"undefined symbol alias id '{token[1:]}'", self.start)
            return self.foreign_attribute()
        mnemonic = token[len(PREFIX) :]
        start = self.start
        self.nest()
        prefix, self.op_prefix = self.op_prefix, ""
        self.advance()
        found = self.dialect_attribute(mnemonic, start)
        self.op_prefix = prefix
        self.depth -= 1
        return found

    def dialect_attribute(self, mnemonic: str, start: int) -> Attribute:
        """The attribute whose mnemonic has just been read."""
        parse = _DIALECT.get(mnemonic)
        if parse is not None:
            return parse(self)
        for enum in self.spec.enums.values():
            if enum.attr == mnemonic:
                return self.enum_body(enum)
        raise self.report(f"unknown attribute `{mnemonic}` in dialect `cuda_tile`", start)

    def enum_body(self, enum: EnumSpec) -> EnumAttr:
        """`<keyword>`."""
        cases = enum.by_keyword
        self.expect("<")
        start = self.start
        value = self.keyword()
        if value not in cases:
            self.fail(f"expected ::mlir::cuda_tile::{enum.name} to be one of: {', '.join(cases)}", start)
        self.expect(">")
        return EnumAttr(enum, value)

    def hints(self) -> OptimizationHintsAttr:
        """`<sm_100 = {key = value, ...}, ...>`."""
        entries: dict[str, dict[str, Attribute]] = {}
        self.expect("<")
        if not self.accept(">"):
            self.comma_list(lambda: self._hint_entry(entries))
            self.expect(">")
        return OptimizationHintsAttr(dict(sorted(entries.items())))

    def _hint_entry(self, entries: dict[str, dict[str, Attribute]]) -> None:
        from libtile.dialects.cuda_tile.attribute_text import TypeElision, attribute_text

        key = self.keyword_or_string()
        self.expect("=")
        value = self.attribute()
        if key in entries:
            self.fail(f"duplicate optimization_hints key `{key}`")
        if not isinstance(value, DictionaryAttr):
            self.fail(
                f"expected dictionary attribute for optimization_hints entry `{key}` "
                f"got value={attribute_text(value, TypeElision.NEVER)}"
            )
        entries[key] = dict(value.data)

    # -- locations ----------------------------------------------------------------------------------------------

    def location(self) -> Attribute:
        """`loc(...)`."""
        self.advance()
        self.expect("(", " in location")
        found = self.location_instance()
        self.expect(")", " in location")
        return found

    def location_instance(self) -> Attribute:
        """What stands inside of `loc(...)`."""
        self.nest()
        found = self._location_instance()
        self.depth -= 1
        return found

    def _location_instance(self) -> Attribute:
        if self.kind == "hash":
            start = self.start
            found = self._prefixed()
            if not isinstance(found, LOCATIONS):
                raise self.report(f"expected location attribute, but got '{found}'", start)
            return found
        if self.kind == "string":
            return self._file_or_name()
        if self.kind == "bare":
            keyword = self.token
            if keyword == "unknown":
                self.advance()
                return UnknownLoc()
            if keyword == "callsite":
                return self._call_site()
            if keyword == "fused":
                return self._fused()
            if keyword == "loc":
                return self.location()
        raise self.wrong_token("expected location instance")

    def _file_or_name(self) -> Attribute:
        text = unquote(self.token)
        self.advance()
        if self.accept(":"):
            return self._file_range(text)
        child: Attribute = UnknownLoc()
        if self.accept("("):
            child = self.location_instance()
            self.expect(")", " after child location of NameLoc")
        return _unchecked(NameLoc, desc=StringAttr(text), location=child)

    def _file_range(self, filename: str) -> Attribute:
        """`line`, `line:column`, `line:column to :column` or `line:column to line:column`, behind the file's name."""
        line = self._position("expected integer line number in FileLineColRange")
        if not self.accept(":"):
            return file_line_col(filename, line, 0)
        column = self._position("expected integer column number in FileLineColRange")
        if not self.accept_keyword("to"):
            return file_line_col(filename, line, column)
        last_line = line
        if self.kind == "int":
            last_line = self._position("expected integer line number in FileLineColRange")
        if not self.accept(":"):
            raise self.wrong_token("expected either integer or `:` post `to` in FileLineColRange")
        last_column = self._position("expected integer column number in FileLineColRange")
        if (line, column) == (last_line, last_column):
            return file_line_col(filename, line, column)
        return FileLineColRange(filename, line, column, last_line, last_column)

    def _position(self, message: str) -> int:
        if self.kind != "int" or self.token.startswith("0x"):
            raise self.wrong_token(message)
        value = integer_value(self.token)
        if value >= 1 << 32:
            self.fail(message)
        self.advance()
        return value

    def _call_site(self) -> CallSiteLoc:
        self.advance()
        self.expect("(", " in callsite location")
        callee = self.location_instance()
        if not self.accept_keyword("at"):
            raise self.wrong_token("expected 'at' in callsite location")
        caller = self.location_instance()
        self.expect(")", " in callsite location")
        return call_site_loc(callee, caller)

    def _fused(self) -> FusedLoc:
        self.advance()
        metadata: Attribute = NoneAttr()
        if self.accept("<"):
            metadata = self.attribute()
            self.expect(">", " after fused location metadata")
        locations: list[Attribute] = []
        self.expect("[", " in fused location")
        self.comma_list(lambda: locations.append(self.location_instance()))
        self.expect("]", " in fused location")
        return _unchecked(FusedLoc, locations=ArrayAttr(locations), metadata=metadata)


def _unchecked(cls: type[Any], **fields: Attribute) -> Any:
    """A location attribute over any locations: xDSL's constructors take its own kinds only, not `DILocAttr`."""
    attr = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(attr, name, value)
    return attr


# -- the dialect's attributes -------------------------------------------------------------------------------------


def div_by(p: AttributeParser) -> DivByAttr:
    p.expect("<")
    start = p.start
    divisor = p.optional_integer()
    if divisor is None:
        p.error("expected integer value", start)
        p.fail("failed to parse parameter 'divisor' which is expected to be an integer")
    p.check_integer(divisor, start, signed=False)
    every = along = None
    if p.accept(","):
        p.expect_keyword("every")
        every = p.integer()
        p.expect_keyword("along")
        along = p.integer()
    p.expect(">")
    return DivByAttr(divisor, every, along)


def same_elements(p: AttributeParser) -> SameElementsAttr:
    p.expect("<")
    values = p.integer_list(64)
    p.expect(">")
    return SameElementsAttr(values)


def _bound(p: AttributeParser, name: str) -> int | None:
    if p.accept("?"):
        return None
    start = p.start
    value = p.optional_integer()
    if value is None:
        p.fail(f"failed to parse CudaTile_BoundedAttr parameter '{name}' which is to be a `std::optional<int64_t>`")
    return p.check_integer(value, start)


def bounded(p: AttributeParser) -> BoundedAttr:
    p.expect("<")
    lower = _bound(p, "lb")
    p.expect(",")
    upper = _bound(p, "ub")
    p.expect(">")
    return BoundedAttr(lower, upper)


def _test_value(p: AttributeParser) -> TestValueAttr:
    p.expect("<")
    value = p.integer()
    p.expect(">")
    return TestValueAttr(value)


def _di_file(p: AttributeParser) -> DIFileAttr:
    p.expect("<")
    name = p.string()
    p.expect_keyword("in")
    directory = p.string()
    p.expect(">")
    return DIFileAttr(name, directory)


def _di_loc(p: AttributeParser) -> DILocAttr:
    p.expect("<")
    start = p.start
    source = p.location() if p.kind == "bare" and p.token == "loc" else p.location_instance()
    if not isinstance(source, FileLineColLoc):
        p.fail("failed to parse CudaTile_DILocAttr parameter 'sourceLoc' which is to be a `FileLineColLoc`", start)
    p.expect_keyword("in")
    start = p.start
    scope = p.attribute()
    if not isinstance(scope, DISubprogramAttr | DILexicalBlockAttr):
        p.fail("failed to parse CudaTile_DILocAttr parameter 'scope' which is to be a `DILocalScopeAttr`", start)
    p.expect(">")
    return DILocAttr(scope, source.filename.data, source.line.data, source.column.data)


_FIELD_KINDS: dict[str, tuple[type[Attribute], ...]] = {
    "file": (DIFileAttr,),
    "compile_unit": (DICompileUnitAttr,),
    "scope": (DISubprogramAttr, DILexicalBlockAttr),
}
_TEXT_FIELDS = frozenset({"subprogram_name", "linkage_name"})


def _debug_field(p: AttributeParser, cls: type[DebugAttr], text_name: str, field: str) -> Any:
    start = p.start
    if field in _FIELD_KINDS:
        value = p.optional_attribute()
        if not isinstance(value, _FIELD_KINDS[field]):
            wanted = "DILocalScopeAttr" if field == "scope" else _FIELD_KINDS[field][0].__name__
            what = f"CudaTile_{cls.__name__} parameter '{text_name}' which is to be a `{wanted}`"
            p.fail(f"failed to parse {what}", start)
        return value
    if field in _TEXT_FIELDS:
        return p.string()
    return p.integer(32, signed=False)


def _debug_struct(cls: type[DebugAttr]) -> Callable[[AttributeParser], DebugAttr]:
    """Reads `<name = value, ...>` in any order."""
    fields = {text_name: (field, optional) for text_name, field, optional in debug_fields(cls)}

    def parse(p: AttributeParser) -> DebugAttr:
        values: dict[str, Any] = {}
        p.expect("<")
        while True:
            start = p.start
            if p.kind != "bare":
                p.fail("expected a parameter name in struct")
            text_name = p.keyword()
            if text_name not in fields or fields[text_name][0] in values:
                p.fail(f"duplicate or unknown struct parameter name: {text_name}", start)
            p.expect("=")
            values[fields[text_name][0]] = _debug_field(p, cls, text_name, fields[text_name][0])
            if not p.accept(","):
                break
        for text_name, (field, optional) in fields.items():
            if field not in values:
                if not optional:
                    p.fail(f"struct is missing required parameter: {text_name}")
                values[field] = 0
        p.expect(">")
        return cls(**values)

    return parse


_DIALECT: dict[str, Callable[[AttributeParser], Attribute]] = {
    "div_by": div_by,
    "same_elements": same_elements,
    "bounded": bounded,
    "optimization_hints": lambda p: p.hints(),
    "bytecode_test_value": _test_value,
    "di_file": _di_file,
    "di_loc": _di_loc,
    "di_compile_unit": _debug_struct(DICompileUnitAttr),
    "di_subprogram": _debug_struct(DISubprogramAttr),
    "di_lexical_block": _debug_struct(DILexicalBlockAttr),
}
"""Reads what follows an attribute's mnemonic; enums are found in the spec."""

PREDICATES: dict[str, Callable[[AttributeParser], Attribute]] = {
    "div_by": div_by,
    "same_elements": same_elements,
    "bounded": bounded,
}
