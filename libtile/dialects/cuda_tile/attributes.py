# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of the cuda_tile dialect: enums, assumption predicates, optimization hints, tile constants, debug info.

All are immutable values; what they hold and how they are spelled is said by their forms, see `attribute_forms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Data

from libtile.dialects.cuda_tile.attribute_forms import (
    AttributeForm,
    BoundedForm,
    DebugForm,
    DenseElementsForm,
    DICompileUnitForm,
    DIFileForm,
    DILexicalBlockForm,
    DILocForm,
    DISubprogramForm,
    DivByForm,
    EnumForm,
    OptimizationHintsForm,
    SameElementsForm,
    TestValueForm,
)
from libtile.dialects.cuda_tile.attribute_forms import element_storage_bytes as element_storage_bytes
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.light import stand_for
from libtile.ir.plain_class import PlainClass

if TYPE_CHECKING:
    from xdsl.dialects.builtin import FileLineColLoc
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

OUTSIDE_ATTRIBUTE = "cuda_tile.outside"
"""Discardable attribute of an access through a view: the dimensions of the view along which the tile may lie outside of
the tensor as a whole. What is loaded there is padding."""


class CudaTileAttribute(AttributeForm, Data[Any], metaclass=PlainClass):
    """Base of the dialect's attributes: see `AttributeForm`."""

    def body(self) -> str:
        from libtile.dialects.cuda_tile.attribute_text import body_text

        return body_text(self)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.body())

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("cuda_tile attributes are read by libtile.parse")


@data_definition
class EnumAttr(EnumForm, CudaTileAttribute):
    """A case of one of the enums in the spec, e.g. `EnumAttr("RoundingMode", "nearest_even")`.

    `enum` is the declaration, or the name of one of the default spec. ValueError when it has no such case.
    """

    name = "cuda_tile.enum"


@data_definition
class DivByAttr(DivByForm, CudaTileAttribute):
    """`div_by<16>` or `div_by<4, every 4 along 1>`."""

    name = "cuda_tile.div_by"


@data_definition
class SameElementsAttr(SameElementsForm, CudaTileAttribute):
    """`same_elements<[2, 4]>`: the tile is made of boxes of this shape, each of one value."""

    name = "cuda_tile.same_elements"


@data_definition
class BoundedAttr(BoundedForm, CudaTileAttribute):
    """`bounded<0, ?>`: inclusive signed bounds; None leaves one open."""

    name = "cuda_tile.bounded"


@data_definition
class OptimizationHintsAttr(OptimizationHintsForm, CudaTileAttribute):
    """`optimization_hints=<sm_100 = {num_cta_in_cga = 8}>`: by architecture, by key, an attribute."""

    name = "cuda_tile.optimization_hints"


@data_definition
class DenseElementsAttr(DenseElementsForm, CudaTileAttribute):
    """The value of a tile constant: its type, and its elements as little-endian bytes.

    Elements take whole bytes, `ceil(bits / 8)` each (tf32: 4), except i1, which takes one byte (0 or 1) each.
    A splat holds one element.
    """

    name = "cuda_tile.dense"


@data_definition
class TestValueAttr(TestValueForm, CudaTileAttribute):
    """The attribute of the testing versions."""

    name = "cuda_tile.bytecode_test_value"


# -- locations and debug information ----------------------------------------------------------------------------------


@data_definition
class FileLineColRange(Data[tuple[str, int, int, int, int]], metaclass=PlainClass):
    """`loc("file":1:2 to 3:4)`, MLIR's location of a range, which xDSL has no attribute for.

    A range whose end is its start is a `FileLineColLoc`. MLIR language reference, "Builtin dialect", FileLineColRange.
    """

    name = "builtin.file_line_col_range"

    filename = DataField[str](0)
    line = DataField[int](1)
    column = DataField[int](2)
    last_line = DataField[int](3)
    last_column = DataField[int](4)

    def __init__(self, filename: str, line: int, column: int, last_line: int, last_column: int):
        super().__init__((filename, line, column, last_line, last_column))

    def print_parameter(self, printer: Printer) -> None:
        raise TypeError("locations are printed by libtile.print_module")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("locations are read by libtile.parse")


stand_for(FileLineColRange)


class DebugAttr(DebugForm, CudaTileAttribute):
    """Base of the debug-information records; fields are named as in `spec/data/attributes.toml`."""


@data_definition
class DIFileAttr(DIFileForm, DebugAttr):
    """`#cuda_tile.di_file<"file.py" in "/directory">`."""

    name = "cuda_tile.di_file"


@data_definition
class DICompileUnitAttr(DICompileUnitForm, DebugAttr):
    name = "cuda_tile.di_compile_unit"


@data_definition
class DISubprogramAttr(DISubprogramForm, DebugAttr):
    name = "cuda_tile.di_subprogram"


@data_definition
class DILexicalBlockAttr(DILexicalBlockForm, DebugAttr):
    name = "cuda_tile.di_lexical_block"


@data_definition
class DILocAttr(DILocForm, DebugAttr):
    """A location with its debug scope: `#cuda_tile.di_loc<loc("file":line:col) in #scope>`."""

    name = "cuda_tile.di_loc"

    def position(self) -> FileLineColLoc:
        from libtile.dialects.cuda_tile.locations import file_line_col

        return file_line_col(self.filename, self.line, self.column)


ATTRIBUTES: tuple[type[Attribute], ...] = (
    EnumAttr,
    DivByAttr,
    SameElementsAttr,
    BoundedAttr,
    OptimizationHintsAttr,
    DenseElementsAttr,
    TestValueAttr,
    DIFileAttr,
    DICompileUnitAttr,
    DISubprogramAttr,
    DILexicalBlockAttr,
    DILocAttr,
)

PREDICATES: tuple[type[Attribute], ...] = (DivByAttr, SameElementsAttr, BoundedAttr)
