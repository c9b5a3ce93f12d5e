# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of nv_tileaa: pointers, memory references, tiled views, queues, program ids, memory tokens.

A tile is a tensor type; a scalar of the source program is one of rank 0. `DYNAMIC` marks a size or stride that is only
known at run time (`?` in text; tensor types of xDSL have -1 for it, no tile has one). All types are immutable values,
compared by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.ir import Attribute, TypeAttribute

from libtile.dialects.cuda_tile.type_forms import is_addressable
from libtile.dialects.cuda_tile.types import DYNAMIC as DYNAMIC
from libtile.dialects.cuda_tile.verify.foreign_types import problem_of
from libtile.dialects.nv_tileaa.attributes import TilingAttr
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import parse_type, type_text

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

MAX_NUMBER = (1 << 63) - 1
"""The largest size or stride."""
MAX_STAGES = 1 << 16
"""The most entries of a queue or stages of a pipeline, and consumers of one: more than shared memory has words."""
MAX_BUFFER = (1 << 31) - 1
"""The most elements of a buffer."""

GLOBAL, SHARED, CONSTANT, LOCAL = 1, 3, 4, 5
"""Address spaces, numbered as in NVPTX (LLVM NVPTX usage guide, "Address spaces")."""


class TileAAType(ParsedData, TypeAttribute):
    """Base of the dialect's types."""


@data_definition
class PtrType(TileAAType):
    """`!nv_tileaa.ptr<f32, 1>`: an address, with the type of what it points to and its address space."""

    name = "nv_tileaa.ptr"
    is_element: ClassVar[bool] = True

    pointee = DataField[Attribute](0)
    space = DataField[int](1)

    def __init__(self, pointee: Attribute, space: int = GLOBAL):
        super().__init__((pointee, space))

    def problem(self) -> str | None:
        return _problem_in_memory(self, self.pointee)

    def body(self) -> str:
        return f"{type_text(self.pointee)}, {self.space}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> PtrType:
        pointee = parse_type(parser)
        return cls(pointee, natural(parser) if parser.parse_optional_punctuation(",") else GLOBAL)


@data_definition
class ProgramIdType(TileAAType):
    """`!nv_tileaa.program_id`: the index of a program (tile block) in the grid."""

    name = "nv_tileaa.program_id"

    def __init__(self, data: tuple[()] = ()):
        super().__init__(())


@data_definition
class MemTokenType(TileAAType):
    """`!nv_tileaa.mem_token`: an ordering between memory accesses; it has no run-time value."""

    name = "nv_tileaa.mem_token"

    def __init__(self, data: tuple[()] = ()):
        super().__init__(())


@data_definition
class QueueType(TileAAType):
    """`!nv_tileaa.queue<(f32, tile<4xf16>), isolated>`: hands values of these types from a producer to a consumer."""

    name = "nv_tileaa.queue"

    result_types = DataField[tuple[Attribute, ...]](0)
    isolated = DataField[bool](1)

    def __init__(self, result_types: Sequence[Attribute], isolated: bool = False):
        super().__init__((tuple(result_types), isolated))

    def problem(self) -> str | None:
        return problem_within(self.result_types)

    def body(self) -> str:
        return f"({', '.join(map(type_text, self.result_types))}){', isolated' if self.isolated else ''}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> QueueType:
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_type(parser))
        isolated = parser.parse_optional_punctuation(",") is not None
        if isolated:
            parser.parse_keyword("isolated")
        return cls(types, isolated)


@data_definition
class MemRefType(TileAAType):
    """`!nv_tileaa.memref<?x16xf16, strides=[?,1], 1, alias_scope=7>`: strided memory with known provenance.

    Sizes and strides count elements; strides are left out of the text when all are dynamic. Accesses through memrefs of
    different alias scopes never touch the same bytes.
    """

    name = "nv_tileaa.memref"

    element_type = DataField[Attribute](0)
    shape = DataField[tuple[int, ...]](1)
    strides = DataField[tuple[int, ...]](2)
    space = DataField[int](3)
    alias_scope = DataField[int | None](4)

    def __init__(
        self,
        element_type: Attribute,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        space: int = GLOBAL,
        alias_scope: int | None = None,
    ):
        kept = (DYNAMIC,) * len(shape) if strides is None else tuple(strides)
        super().__init__((element_type, tuple(shape), kept, space, alias_scope))

    @property
    def rank(self) -> int:
        return len(self.shape)

    def problem(self) -> str | None:
        if max((*self.shape, *self.strides), default=0) > MAX_NUMBER:
            return f"expects sizes and strides of 64 bits, but got {type_text(self)}"
        return _problem_in_memory(self, self.element_type)

    @property
    def dynamic_sizes(self) -> int:
        """How many sizes are only known at run time."""
        return self.shape.count(DYNAMIC)

    @property
    def dynamic_strides(self) -> int:
        """How many strides are only known at run time."""
        return self.strides.count(DYNAMIC)

    def body(self) -> str:
        text = "".join(f"{_number(d)}x" for d in self.shape) + type_text(self.element_type)
        if any(s != DYNAMIC for s in self.strides):
            text += f", strides=[{','.join(map(_number, self.strides))}]"
        text += f", {self.space}"
        return text if self.alias_scope is None else f"{text}, alias_scope={self.alias_scope}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> MemRefType:
        shape, element = _shape_and_element(parser)
        strides: Sequence[int] | None = None
        space, scope = GLOBAL, None
        while parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("strides"):
                parser.parse_punctuation("=")
                strides = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _integer_or_dynamic(parser)
                )
            elif parser.parse_optional_keyword("alias_scope"):
                parser.parse_punctuation("=")
                scope = parser.parse_integer(allow_boolean=False, allow_negative=False)
            else:
                space = natural(parser)
        if strides is not None and len(strides) != len(shape):
            parser.raise_error(f"expected {len(shape)} strides, but got {len(strides)}")
        return cls(element, shape, strides, space, scope)


@data_definition
class TiledViewType(TileAAType):
    """`!nv_tileaa.tiled_view<!nv_tileaa.memref<...>, 64x64, #nv_tileaa.tiling<...>>`: memory read and written by tiles.

    `source` is the memref (or tile) that is viewed, `shape` the shape of a tile, `layout` how tiles lie on the source.
    """

    name = "nv_tileaa.tiled_view"

    source = DataField[Attribute](0)
    shape = DataField[tuple[int, ...]](1)
    layout = DataField[TilingAttr](2)

    def __init__(self, source: Attribute, shape: Sequence[int], layout: TilingAttr | None = None):
        super().__init__((source, tuple(shape), layout or TilingAttr()))

    @property
    def element_type(self) -> Attribute:
        return self.source.element_type if isinstance(self.source, MemRefType) else self.source

    @property
    def rank(self) -> int:
        """The number of indices that name a tile: the rank of what is viewed, or how many groups its dims form."""
        return self.source.rank if isinstance(self.source, MemRefType) and not self.is_merged else len(self.shape)

    @property
    def dim_map(self) -> tuple[int, ...]:
        """For each dimension of a tile the dimension of the source that it runs along."""
        return self.layout.dim_map or tuple(range(len(self.shape)))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """For each dimension of a tile the dimensions of the source that it runs over, the last one fastest."""
        return self.layout.dim_groups or tuple((dim,) for dim in self.dim_map)

    @property
    def is_merged(self) -> bool:
        """Whether a dimension of a tile runs over several of the source."""
        return self.layout.dim_groups is not None

    def problem(self) -> str | None:
        rank, dims = len(self.shape), self.source.rank if isinstance(self.source, MemRefType) else len(self.shape)
        mapped, groups = self.layout.dim_map, self.groups
        if rank > dims:
            return f"expects tiles of at most {dims} dimensions, but got {rank}"
        if mapped is not None and (len(mapped) != rank or len(set(mapped) & set(range(dims))) != rank):
            return f"expects a dim_map of {rank} dimensions of the source, but got {list(mapped)}"
        if len(groups) == rank and sorted(dim for group in groups for dim in group) == [*range(dims)]:
            return None
        shown = [list(group) for group in groups]
        return f"expects a dim_group for each of {rank} dimensions, of all {dims} dims of the source, but got {shown}"

    @property
    def traversal_strides(self) -> tuple[int, ...]:
        """For each dimension of a tile the distance, in elements of the source, between tiles at adjacent indices: 1
        where a view has a sparse dimension."""
        if self.layout.sparse_dim is not None:
            return (1,) * len(self.shape)
        return self.layout.traversal_strides or self.shape

    def body(self) -> str:
        text = f"{type_text(self.source)}, {'x'.join(map(str, self.shape)) or '1'}"
        return text if self.layout == TilingAttr() else f"{text}, {self.layout}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> TiledViewType:
        source = parse_type(parser)
        parser.parse_punctuation(",")
        shape = _sizes(parser)
        if parser.parse_optional_punctuation(",") is None:
            return cls(source, shape)
        layout = parser.parse_attribute()
        if not isinstance(layout, TilingAttr):
            parser.raise_error("expected a tiling attribute")
        return cls(source, shape, layout)


def problem_within(types: Sequence[Attribute]) -> str | None:
    """What is wrong with the first of the types that a type is made of with which something is."""
    found = (problem_of(type_) for type_ in types)
    return next((problem for problem in found if problem is not None), None)


def _problem_in_memory(type_: Attribute, element: Attribute) -> str | None:
    """What is wrong with a type of memory that has such elements."""
    if isinstance(element, PtrType):
        return element.problem()
    if is_addressable(element):
        return None
    return f"expects memory of numbers or pointers, but got {type_text(type_)}"


def _number(value: int) -> str:
    return "?" if value == DYNAMIC else str(value)


def natural(parser: AttrParser) -> int:
    """A number without a sign."""
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _integer_or_dynamic(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?"):
        return DYNAMIC
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _shape_and_element(parser: AttrParser) -> tuple[tuple[int, ...], Attribute]:
    """`?x4xf32`: sizes, then the element type."""
    dims, element = parser.parse_ranked_shape()
    return tuple(DYNAMIC if d < 0 else d for d in dims), element


def _sizes(parser: AttrParser) -> tuple[int, ...]:
    """`64x64`."""
    sizes = [parser.parse_shape_dimension(allow_dynamic=False)]
    while parser._parse_optional_shape_delimiter() is not None:
        sizes.append(parser.parse_shape_dimension(allow_dynamic=False))
    return tuple(sizes)


TYPES: tuple[type[Attribute], ...] = (PtrType, ProgramIdType, QueueType, MemRefType, TiledViewType, MemTokenType)
