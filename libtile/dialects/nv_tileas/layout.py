# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`#nv_tileas.layout`: where each element of a tile lives; the encoding of tile types in nv_tileas.

    #nv_tileas.layout<register=[[0,1],[0,2]], lane=[[0,4],[1,0]], warp=[] : 2x8>

Each list holds the index of the element at one bit of the hardware's number (see `libtile.layouts.linear`), the sizes
of the tile follow (`scalar` for rank 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from xdsl.ir import Attribute

from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import layout_of
from libtile.layouts.linear import LinearLayout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


@data_definition
class LayoutAttr(ParsedData):
    """A linear layout as an attribute; `layout` is the layout itself, with outputs `dim0`, `dim1`, ..."""

    name = "nv_tileas.layout"

    layout = DataField[LinearLayout](0)

    def __init__(self, layout: LinearLayout):
        super().__init__((layout,))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def problem_of(self, shape: Sequence[int]) -> str | None:
        """What is wrong with it as the layout of a tile of this shape; None if nothing."""
        if self.shape != tuple(shape):
            return f"expects a layout of shape {list(shape)}, but got {list(self.shape)}"
        if not self.layout.is_surjective:
            return f"expects a layout that holds the whole tile, but got {self}"
        return None

    def body(self) -> str:
        parts = [f"{name}={_vectors(vectors)}" for name, vectors in self.layout.bases]
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return f"{', '.join(parts)} : {sizes}" if parts else f": {sizes}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        bases: dict[str, list[list[int]]] = {}
        if parser.parse_optional_punctuation(":") is None:
            while True:
                name = parser.parse_identifier()
                parser.parse_punctuation("=")
                bases[name] = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _vector(parser))
                if parser.parse_optional_punctuation(",") is None:
                    break
            parser.parse_punctuation(":")
        sizes = [] if parser.parse_optional_keyword("scalar") else _sizes(parser)
        try:
            return cls(LinearLayout.of(bases, {f"dim{i}": size for i, size in enumerate(sizes)}))
        except ValueError as error:
            parser.raise_error(str(error))


def linear_layout(type_: Attribute) -> LinearLayout | None:
    """The layout of a tile's type; None where it has none."""
    found = layout_of(type_)
    return found.layout if isinstance(found, LayoutAttr) else None


def _vectors(vectors: tuple[tuple[int, ...], ...]) -> str:
    lists = (f"[{','.join(map(str, vector))}]" for vector in vectors)
    return f"[{','.join(lists)}]"


def _sizes(parser: AttrParser) -> list[int]:
    sizes = [parser.parse_shape_dimension(allow_dynamic=False)]
    while parser._parse_optional_shape_delimiter() is not None:
        sizes.append(parser.parse_shape_dimension(allow_dynamic=False))
    return sizes


def _vector(parser: AttrParser) -> list[int]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
