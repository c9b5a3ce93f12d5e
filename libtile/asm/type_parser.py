# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types: numbers, function types, and the cuda_tile dialect's own, with or without the `!cuda_tile.` prefix.

Any other type (memref, vector, types of further dialects) is read by xDSL's parser at the same place of the text.
Grammar of the dialect's types: Tile IR specification, "Types".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    Signedness,
)
from xdsl.ir import Attribute

from libtile.asm.cursor import Cursor, integer_value
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_TYPES,
    Fnv8E5M3FNUType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TestEvolvedType,
    TileType,
    TokenType,
    i32,
)
from libtile.spec import Spec

_INTEGER = re.compile(r"(i|si|ui)([1-9][0-9]*)\Z")
_INNER_DIMENSIONS = re.compile(r"(?:x[0-9]++(?=x))++").match
_SIGNEDNESS = {"i": Signedness.SIGNLESS, "si": Signedness.SIGNED, "ui": Signedness.UNSIGNED}
_MAX_INTEGER_WIDTH = (1 << 24) - 1
_INT32_MAX = (1 << 31) - 1

_FOREIGN_KEYWORDS = frozenset({"memref", "tensor", "vector", "complex", "tuple", "f80", "f128"}) | {
    "f8E4M3", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E3M4", "f6E2M3FN", "f6E3M2FN"
}  # fmt: skip

# A dialect type up to its closing bracket, when nothing in it depends on where it stands (aliases, strings).
_CACHEABLE = re.compile(
    r'(?:!cuda_tile\.)?[a-z][a-z_]*+<(?:[^<>"!#-]|<(?:[^<>"!#-]|<[^<>"!#-]*+>)*+>)*+>', re.ASCII
).match

PREFIX = "!cuda_tile."


class TypeParser(Cursor):
    """Reads types. `type()` raises `ParseError` after recording the diagnostic; `optional_type()` may give None."""

    spec: Spec
    type_aliases: dict[str, Attribute]
    type_cache: dict[str, Attribute]
    alias_sizes: dict[str, tuple[int, int, int]]
    alias_use = (0, 0)

    def type(self) -> Attribute:
        """A type; inside of a custom form the dialect's types need no prefix."""
        match = _CACHEABLE(self.text, self.start)
        if match is not None:
            cached = self.type_cache.get(match[0])
            if cached is not None:
                self.seek(match.end())
                self.last_end = match.end()
                return cached
        found = self.optional_type()
        if found is None:
            if self.kind != "bare":
                self.fail("expected valid keyword")
            keyword = self.keyword()
            self.fail(f"unknown type: {keyword}")
        if match is not None and match.end() == self.last_end:
            self.type_cache[match[0]] = found
        return found

    def non_function_type(self) -> Attribute:
        """A type of the generic syntax."""
        if self.kind == "(":
            raise self.wrong_token("expected non-function type")
        found = self.optional_type()
        if found is None:
            raise self.wrong_token("expected non-function type")
        return found

    def optional_type(self) -> Attribute | None:
        """The type that starts here, or None when none does."""
        kind = self.kind
        if kind == "bare":
            return self._keyword_type(self.token)
        if kind == "bang":
            return self._prefixed_type()
        if kind == "(":
            return self.function_type()
        return None

    def function_type(self) -> FunctionType:
        """`(T, ...) -> T` or `(T, ...) -> (T, ...)`."""
        inputs: list[Attribute] = []
        self.bracketed("(", ")", lambda: inputs.append(self.type()))
        self.expect("->")
        return FunctionType.from_lists(inputs, self.type_list())

    def type_list(self) -> list[Attribute]:
        """One type, or any number of them in parentheses."""
        if self.kind != "(":
            return [self.non_function_type()]
        types: list[Attribute] = []
        self.bracketed("(", ")", lambda: types.append(self.type()))
        return types

    def _keyword_type(self, keyword: str) -> Attribute | None:
        number = NUMBER_TYPES.get(keyword)
        if number is not None:
            self.advance()
            return number
        parse = _MNEMONICS.get(keyword)
        if parse is not None:
            self.advance()
            start = self.start
            return self._checked(parse(self), start)
        match = _INTEGER.match(keyword)
        if match is not None:
            width = integer_value(match[2])
            if width > _MAX_INTEGER_WIDTH:
                self.fail(f"integer bitwidth is limited to {_MAX_INTEGER_WIDTH} bits")
            self.advance()
            return IntegerType(width, _SIGNEDNESS[match[1]])
        if keyword == "index":
            self.advance()
            return IndexType()
        if keyword == "none":
            self.advance()
            return NoneType()
        if keyword in _FOREIGN_KEYWORDS:
            return self.foreign_type()
        return None

    def count_alias(self, name: str) -> None:
        """Add a use of an alias to what is being defined."""
        size, depth, levels = self.alias_sizes.get(name, (1, 1, 0))
        self.nests(levels)
        self.alias_use = (self.alias_use[0] + size, max(self.alias_use[1], depth))

    def _prefixed_type(self) -> Attribute:
        token = self.token
        alias = self.type_aliases.get(token[1:])
        if alias is not None:
            self.count_alias(token)
            self.advance()
            return alias
        if not token.startswith(PREFIX):
            if "." not in token:
                raise self.report(f"undefined symbol alias id '{token[1:]}'", self.start)
            return self.foreign_type()
        mnemonic = token[len(PREFIX) :]
        parse = _MNEMONICS.get(mnemonic)
        if parse is None:
            raise self.report(f"unknown  type `{mnemonic}` in dialect `cuda_tile`", self.start)
        # What is wrong inside of a dialect's own syntax is not reported as the op's.
        prefix, self.op_prefix = self.op_prefix, ""
        self.advance()
        start = self.start
        found = self._checked(parse(self), start)
        self.op_prefix = prefix
        return found

    def _checked(self, type_: Attribute, start: int) -> Attribute:
        message = self.type_error(type_)
        if message is not None:
            self.fail(message, start)
        return type_

    def type_error(self, type_: Attribute) -> str | None:
        """The first invariant that a dialect type violates."""
        from libtile.dialects.cuda_tile.verify import verify_type

        return verify_type(type_)

    def foreign_type(self) -> Attribute:
        """A type that xDSL's parser reads; the full parser has one."""
        raise self.wrong_token("expected non-function type")

    # -- parts --------------------------------------------------------------------------------------------------

    def dimensions(self, dynamic: bool, trailing_x: bool = True) -> list[int]:
        """`4x8x` (or `4x8` without the trailing `x`), `?` for a dynamic size where allowed."""
        sizes: list[int] = []
        if trailing_x:
            while self.kind in ("int", "?"):
                sizes.append(self._dimension(dynamic))
                self._inner_dimensions(sizes)
                self._dimension_x()
            return sizes
        if self.kind in ("int", "?"):
            sizes.append(self._dimension(dynamic))
            while self.kind == "bare" and self.token[0] == "x":
                self._inner_dimensions(sizes)
                self._dimension_x()
                sizes.append(self._dimension(dynamic))
        return sizes

    def _inner_dimensions(self, sizes: list[int]) -> None:
        """`x4x8` of the token `x4x8xf32`, at once: the token is as long as all that follows, and read once."""
        inner = _INNER_DIMENSIONS(self.text, self.start)
        if inner is None:
            return
        start = self.start
        for digits in inner[0][1:].split("x"):
            start += 1
            sizes.append(self._size(digits, start))
            start += len(digits)
        self.seek(start)

    def _dimension(self, dynamic: bool) -> int:
        if self.kind == "?":
            if not dynamic:
                self.fail("expected static shape")
            self.advance()
            return DYNAMIC
        if self.kind != "int":
            raise self.wrong_token("expected integer in dimension list")
        if self.token.startswith("0x"):
            # `0x4xf32` is the sizes 0 and 4, not a hexadecimal number.
            self.seek(self.start + 1)
            return 0
        value = self._size(self.token, self.start)
        self.advance()
        return value

    def _size(self, digits: str, start: int) -> int:
        value = integer_value(digits)
        if value >= 1 << 63:
            self.fail("invalid dimension", start)
        return value

    def _dimension_x(self) -> None:
        if self.kind != "bare" or self.token[0] != "x":
            raise self.wrong_token("expected 'x' in dimension list")
        if len(self.token) > 1:
            self.seek(self.start + 1)
        else:
            self.advance()

    def integer_list(self, bits: int, context: str = "") -> list[int]:
        values: list[int] = []
        self.bracketed("[", "]", lambda: values.append(self.integer(bits)), context)
        return values

    def element_type(self) -> Attribute:
        self.nest()
        found = self.type()
        self.depth -= 1
        return found

    def enum_keyword(self, name: str) -> str:
        """A case's keyword of the declared enum `name`, or the diagnostic that an enum parameter gives."""
        start = self.start
        if self.kind != "bare":
            self.fail(f"expected keyword for ::mlir::cuda_tile::{name}")
        value = self.keyword()
        allowed = self.spec.enums[name].by_keyword
        if value not in allowed:
            self.fail(f"expected ::mlir::cuda_tile::{name} to be one of: {', '.join(allowed)}", start)
        return value


def _tile(p: TypeParser) -> TileType:
    p.expect("<")
    shape = p.dimensions(dynamic=False)
    element = p.element_type()
    p.expect(">")
    return TileType(shape, element)


def _pointer_attribute(p: TypeParser) -> str:
    """`<multicast>` or `#cuda_tile.ptr_attr<multicast>`."""
    if p.kind == "hash":
        if p.token != "#cuda_tile.ptr_attr":
            p.fail("expected 'ptr_attr' attribute")
        p.advance()
    p.expect("<")
    value = p.enum_keyword("PtrAttr")
    p.expect(">")
    return value


def _pointer(p: TypeParser) -> PointerType:
    p.expect("<")
    pointee = p.element_type()
    attribute = _pointer_attribute(p) if p.accept(",") else None
    p.expect(">")
    return PointerType(pointee, attribute)


def _stride(p: TypeParser) -> int:
    start = p.start
    if p.accept("?"):
        return DYNAMIC
    value = p.optional_integer()
    if value is None:
        p.fail("expected either 64-bit integer or question mark", start)
    p.check_integer(value, start)
    if value <= 0:
        p.fail(f"expected strictly positive integer, got {value}", start)
    return value


def _tensor_view(p: TypeParser) -> TensorViewType:
    p.expect("<")
    shape = p.dimensions(dynamic=True)
    element = p.element_type()
    strides: list[int] = []
    attribute = None
    if shape:
        if not p.accept(","):
            p.fail("expected 'strides'")
        p.expect_keyword("strides")
        p.expect("=")
        p.bracketed("[", "]", lambda: strides.append(_stride(p)), "strides array")
        if p.accept(","):
            attribute = _pointer_attribute(p)
    elif p.accept(","):
        if p.kind == "hash":
            attribute = _pointer_attribute(p)
        elif p.accept_keyword("strides"):
            p.fail("strides must not be provided for 0-d tiles")
        else:
            p.fail("unexpected token after element type in 0-d tensor_view")
    p.expect(">")
    return TensorViewType(element, shape, strides, attribute)


def _tile_shape(p: TypeParser) -> list[int]:
    p.expect_keyword("tile")
    p.expect("=")
    start = p.start
    p.expect("(")
    shape = p.dimensions(dynamic=False, trailing_x=False)
    p.expect(")")
    for index, size in enumerate(shape):
        if not 0 < size <= _INT32_MAX:
            p.fail(
                f"tile dimension {index} exceeds i32 limitations (got {size}, expected strictly positive and less than "
                f"or equal to {_INT32_MAX})",
                start,
            )
    return shape


def _padding(p: TypeParser) -> str | None:
    if not p.accept_keyword("padding_value"):
        return None
    start = p.start
    p.expect("=")
    value = p.keyword()
    allowed = p.spec.enums["PaddingValue"].by_keyword
    if value not in allowed:
        listed = ", ".join(allowed)
        p.fail(f'invalid padding_value attribute specification. Got "{value}" but expect one of: {listed}', start)
    p.expect(",")
    return value


def _viewed(p: TypeParser) -> TensorViewType:
    view = p.element_type()
    if not isinstance(view, TensorViewType):
        p.fail(f"expected 'tensor_view' type, but got '{view}'")
    return view


def _dim_map(p: TypeParser, rank: int) -> list[int]:
    if not p.accept(","):
        return list(range(rank))
    p.expect_keyword("dim_map")
    p.expect("=")
    return p.integer_list(32, "dim map")


def _partition_view(p: TypeParser) -> PartitionViewType:
    p.expect("<")
    shape = _tile_shape(p)
    p.expect(",")
    padding = _padding(p)
    view = _viewed(p)
    dim_map = _dim_map(p, len(shape))
    p.expect(">")
    return PartitionViewType(shape, view, dim_map, padding)


def _strided_view(p: TypeParser) -> StridedViewType:
    p.expect("<")
    shape = _tile_shape(p)
    p.expect(",")
    p.expect_keyword("traversal_strides")
    p.expect("=")
    strides = p.integer_list(32)
    p.expect(",")
    padding = _padding(p)
    view = _viewed(p)
    dim_map = _dim_map(p, len(shape))
    p.expect(">")
    return StridedViewType(shape, strides, view, dim_map, padding)


def _gather_scatter_view(p: TypeParser) -> GatherScatterViewType:
    p.expect("<")
    shape = _tile_shape(p)
    p.expect(",")
    padding = _padding(p)
    view = _viewed(p)
    p.expect(",")
    p.expect_keyword("sparse_dim")
    p.expect("=")
    sparse_dim = p.integer(32, signed=False)
    p.expect(">")
    return GatherScatterViewType(shape, view, sparse_dim, padding)


def _evolved(p: TypeParser) -> TestEvolvedType:
    """`<base (, new)? (, <padding>)? (, optional)?>`: of two further types the first is the new one."""
    p.expect("<")
    base = p.element_type()
    new: Attribute = i32
    attribute = None
    optional = None
    seen_new = False
    while p.accept(","):
        if p.accept("<"):
            attribute = p.enum_keyword("PaddingValue")
            p.expect(">")
        elif not seen_new and attribute is None:
            new, seen_new = p.element_type(), True
        else:
            optional = p.element_type()
    p.expect(">")
    return TestEvolvedType(base, new, attribute, optional)


_MNEMONICS: dict[str, Callable[[TypeParser], Attribute]] = {
    "tile": _tile,
    "ptr": _pointer,
    "tensor_view": _tensor_view,
    "partition_view": _partition_view,
    "strided_view": _strided_view,
    "gather_scatter_view": _gather_scatter_view,
    "token": lambda p: TokenType(),
    "fnv8E5M3FNU": lambda p: Fnv8E5M3FNUType(),
    TestEvolvedType.mnemonic: _evolved,
}
"""Reads what follows a type's mnemonic. A number type has its keyword alone."""
