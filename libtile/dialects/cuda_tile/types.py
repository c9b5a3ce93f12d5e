# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of the cuda_tile dialect.

Number types are those that the spec declares: xDSL's builtin ones of their names (i1 .. i64, f16, f8E4M3FN, ...), and
`Fnv8E5M3FNUType`, which builtin lacks.
Every other type here is immutable, hashable and compared by value. What it holds and how it is spelled is said by its
form, see `type_forms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Builtin,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from libtile.dialects.cuda_tile.type_forms import DYNAMIC as DYNAMIC
from libtile.dialects.cuda_tile.type_forms import MAX_TILE_ELEMENTS as MAX_TILE_ELEMENTS
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES as NUMBER_NAMES
from libtile.dialects.cuda_tile.type_forms import (
    GatherScatterViewForm,
    PartitionViewForm,
    PointerForm,
    StridedViewForm,
    TensorViewForm,
    TestEvolvedForm,
    TileForm,
    TileViewForm,
    TokenForm,
    TypeForm,
)
from libtile.dialects.cuda_tile.type_forms import bit_width as bit_width
from libtile.dialects.cuda_tile.type_forms import is_float as is_float
from libtile.dialects.cuda_tile.type_forms import is_integer as is_integer
from libtile.dialects.cuda_tile.type_forms import quoted as quoted
from libtile.dialects.cuda_tile.type_forms import type_text as type_text
from libtile.ir.data_field import data_definition
from libtile.ir.plain_class import PlainClass
from libtile.ir.xdsl_classes import attach
from libtile.spec import default_spec

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

attach()


@irdl_attr_definition
class Fnv8E5M3FNUType(ParametrizedAttribute, TypeAttribute):
    """An unsigned 8-bit float (5 exponent bits, 3 mantissa bits): a block-scale type, since 13.4 (preview)."""

    name = "cuda_tile.fnv8E5M3FNU"


i1, i4, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 4, 8, 16, 32, 64))
f16, bf16, f32, f64 = Float16Type(), BFloat16Type(), Float32Type(), Float64Type()

_FLOATS: dict[str, Any] = {cls.name: cls for cls in Builtin.attributes} | {"fnv8E5M3FNU": Fnv8E5M3FNUType}

NUMBER_TYPES: dict[str, Attribute] = {
    name: IntegerType(declared.bits) if declared.kind == "integer" else _FLOATS[name]()
    for name, declared in default_spec().types.items()
    if declared.number is not None
}
"""Number types by their keyword; the one place that ties keywords to xDSL's types."""

NUMBER_NAMES.update({t: name for name, t in NUMBER_TYPES.items()})


class CudaTileType(TypeForm, Data[Any], TypeAttribute, metaclass=PlainClass):
    """Base of the dialect's own types: see `TypeForm`."""

    def print_parameter(self, printer: Printer) -> None:
        body = self.body()
        if body:
            printer.print_string(f"<{body}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("cuda_tile types are read by libtile.parse")


def is_element_type(type_: Attribute) -> bool:
    """Whether tiles of the inner dialects may have such elements: numbers, indices, pointers."""
    return type_ in NUMBER_NAMES or isinstance(type_, IndexType) or getattr(type_, "is_element", False)


def width_of(value: SSAValue) -> int:
    """The bits of a tile's elements."""
    assert isinstance(value.type, TileType)
    return bit_width(value.type.element_type)


def tile_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile; () for anything else."""
    return value.type.shape if isinstance(value.type, TileType) else ()


@data_definition
class PointerType(PointerForm, CudaTileType):
    """`ptr<f32>`: the address of an element in global memory. `ptr_attr` is None, none, unicast or multicast."""

    name = "cuda_tile.ptr"


@data_definition
class TileType(TileForm, CudaTileType):
    """`tile<2x4xf32>`: shape (empty for a scalar) and element type (a number or pointer type)."""

    name = "cuda_tile.tile"


@data_definition
class TensorViewType(TensorViewForm, CudaTileType):
    """`tensor_view<?x16xf32, strides=[?,1]>`: element type, shape and strides in elements (DYNAMIC where unknown)."""

    name = "cuda_tile.tensor_view"


class TileViewType(TileViewForm, CudaTileType):
    """Base of the views that are read and written tile by tile. `padding_value` is a PaddingValue keyword or None."""

    tile_class = TileType
    if TYPE_CHECKING:

        @property
        def tile_type(self) -> TileType: ...


@data_definition
class PartitionViewType(PartitionViewForm, TileViewType):
    """`partition_view<tile=(4x2), tensor_view<...>>`: a tensor view cut into touching tiles."""

    name = "cuda_tile.partition_view"


@data_definition
class StridedViewType(StridedViewForm, TileViewType):
    """`strided_view<tile=(4x2), traversal_strides=[4,3], tensor_view<...>>`: tiles at regular distances."""

    name = "cuda_tile.strided_view"


@data_definition
class GatherScatterViewType(GatherScatterViewForm, TileViewType):
    """`gather_scatter_view<tile=(8x16), tensor_view<...>, sparse_dim=0>`: rows chosen by index."""

    name = "cuda_tile.gather_scatter_view"


@data_definition
class TokenType(TokenForm, CudaTileType):
    """`token`: an ordering between memory operations of a tile block."""

    name = "cuda_tile.token"


@data_definition
class TestEvolvedType(TestEvolvedForm, CudaTileType):
    """The type of the testing versions whose parameters grew."""

    name = "cuda_tile.testing$bytecode_test_evolved"

    def __init__(
        self,
        base_type: Attribute,
        new_type: Attribute = i32,
        optional_attr: str | None = None,
        optional_type: Attribute | None = None,
    ):
        super().__init__(base_type, new_type, optional_attr, optional_type)


TYPES: tuple[type[Attribute], ...] = (
    Fnv8E5M3FNUType,
    PointerType,
    TileType,
    TensorViewType,
    PartitionViewType,
    StridedViewType,
    GatherScatterViewType,
    TokenType,
    TestEvolvedType,
)
