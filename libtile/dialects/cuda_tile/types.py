# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of the cuda_tile dialect.

Number types are those that the spec declares: xDSL's builtin ones of their names (i1 .. i64, f16, f8E4M3FN, ...), and
`Fnv8E5M3FNUType`, which builtin lacks.
Every other type here is immutable, hashable and compared by value. `text(short=True)` is the spelling inside of a
cuda_tile module (`tile<2xf32>`), `text(short=False)` the spelling elsewhere (`!cuda_tile.tile<2xf32>`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

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

from libtile.ir.data_field import DataField, data_definition
from libtile.ir.plain_class import PlainClass
from libtile.spec import default_spec

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

DYNAMIC = -(2**63)
"""A size or stride that is only known at run time; prints as `?`."""

MAX_TILE_ELEMENTS = 0x1000000
"""The largest number of elements of a tile (16 Mi)."""


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

NUMBER_NAMES: dict[Attribute, str] = {t: name for name, t in NUMBER_TYPES.items()}


class CudaTileType(Data[Any], TypeAttribute, metaclass=PlainClass):
    """Base of the dialect's own types: a value (`data`), a mnemonic, and a textual body."""

    mnemonic: ClassVar[str]

    def body(self) -> str:
        """The text between the angle brackets, without them; empty for a type without parameters.

        Types nested in a dialect type have no prefix.
        """
        raise TypeError(f"{type(self).__name__} has no textual body")  # every subclass has one

    def text(self, short: bool = True) -> str:
        body = self.body()
        return ("" if short else "!cuda_tile.") + self.mnemonic + (f"<{body}>" if body else "")

    def __str__(self) -> str:
        return self.text(short=False)

    def print_parameter(self, printer: Printer) -> None:
        body = self.body()
        if body:
            printer.print_string(f"<{body}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("cuda_tile types are read by libtile.parse")


def type_text(type_: Attribute, short: bool = True) -> str:
    """The spelling of any type that a cuda_tile module can hold."""
    if isinstance(type_, CudaTileType):
        return type_.text(short)
    if type_ in NUMBER_NAMES:
        return NUMBER_NAMES[type_]
    return str(type_)


def _dims(values: Sequence[int], separator: str) -> str:
    return separator.join("?" if v == DYNAMIC else str(v) for v in values)


def is_integer(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType)


def is_float(type_: Attribute) -> bool:
    return type_ in NUMBER_NAMES and not isinstance(type_, IntegerType)


def is_element_type(type_: Attribute) -> bool:
    """Whether tiles of the inner dialects may have such elements: numbers, indices, pointers."""
    return type_ in NUMBER_NAMES or isinstance(type_, IndexType) or getattr(type_, "is_element", False)


def quoted(type_: Attribute) -> str:
    """A type as diagnostics spell it."""
    return f"'{type_text(type_, short=False)}'"


def width_of(value: SSAValue) -> int:
    """The bits of a tile's elements."""
    assert isinstance(value.type, TileType)
    return bit_width(value.type.element_type)


def tile_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile; () for anything else."""
    return value.type.shape if isinstance(value.type, TileType) else ()


def bit_width(type_: Attribute) -> int:
    """Width in bits of a number type (tf32: 19), or 64 for a pointer; KeyError for anything else."""
    from libtile.spec import default_spec

    if isinstance(type_, PointerType):
        return 64
    return default_spec().types[NUMBER_NAMES[type_]].bits


@data_definition
class PointerType(CudaTileType):
    """`ptr<f32>`: the address of an element in global memory. `ptr_attr` is None, none, unicast or multicast."""

    name = "cuda_tile.ptr"
    mnemonic = "ptr"

    pointee = DataField[Attribute](0)
    ptr_attr = DataField[str | None](1)

    def __init__(self, pointee: Attribute, ptr_attr: str | None = None):
        super().__init__((pointee, ptr_attr))

    def body(self) -> str:
        return type_text(self.pointee) + (f", <{self.ptr_attr}>" if self.ptr_attr is not None else "")


@data_definition
class TileType(CudaTileType):
    """`tile<2x4xf32>`: shape (empty for a scalar) and element type (a number or pointer type)."""

    name = "cuda_tile.tile"
    mnemonic = "tile"

    shape = DataField[tuple[int, ...]](0)
    element_type = DataField[Attribute](1)

    def __init__(self, shape: Sequence[int], element_type: Attribute):
        super().__init__((tuple(shape), element_type))

    @property
    def rank(self) -> int:
        return len(self.data[0])

    @property
    def num_elements(self) -> int:
        return prod(self.data[0])

    def body(self) -> str:
        return "".join(f"{d}x" for d in self.shape) + type_text(self.element_type)


@data_definition
class TensorViewType(CudaTileType):
    """`tensor_view<?x16xf32, strides=[?,1]>`: element type, shape and strides in elements (DYNAMIC where unknown)."""

    name = "cuda_tile.tensor_view"
    mnemonic = "tensor_view"

    element_type = DataField[Attribute](0)
    shape = DataField[tuple[int, ...]](1)
    strides = DataField[tuple[int, ...]](2)
    ptr_attr = DataField[str | None](3)

    def __init__(
        self, element_type: Attribute, shape: Sequence[int], strides: Sequence[int], ptr_attr: str | None = None
    ):
        super().__init__((element_type, tuple(shape), tuple(strides), ptr_attr))

    @property
    def rank(self) -> int:
        return len(self.data[1])

    def body(self) -> str:
        text = "".join(f"{_dims([d], '')}x" for d in self.shape) + type_text(self.element_type)
        if self.strides:
            text += f", strides=[{_dims(self.strides, ',')}]"
        if self.ptr_attr is not None:
            text += f", #cuda_tile.ptr_attr<{self.ptr_attr}>"
        return text


class TileViewType(CudaTileType):
    """Base of the views that are read and written tile by tile. `padding_value` is a PaddingValue keyword or None."""

    tile_shape: DataField[tuple[int, ...]]
    tensor_view: DataField[TensorViewType]
    padding_value: DataField[str | None]

    @property
    def tile_type(self) -> TileType:
        """The type of a tile that a load through this view yields."""
        return TileType(self.tile_shape, self.tensor_view.element_type)

    def _common_body(self, middle: str, tail: str) -> str:
        padding = f"padding_value = {self.padding_value}, " if self.padding_value is not None else ""
        tile = "x".join(map(str, self.tile_shape))
        return f"tile=({tile}), {middle}{padding}{type_text(self.tensor_view)}{tail}"


def _dim_map_tail(dim_map: Sequence[int]) -> str:
    return "" if tuple(dim_map) == tuple(range(len(dim_map))) else f", dim_map=[{', '.join(map(str, dim_map))}]"


@data_definition
class PartitionViewType(TileViewType):
    """`partition_view<tile=(4x2), tensor_view<...>>`: a tensor view cut into touching tiles."""

    name = "cuda_tile.partition_view"
    mnemonic = "partition_view"

    tile_shape = DataField[tuple[int, ...]](0)
    tensor_view = DataField[TensorViewType](1)
    dim_map = DataField[tuple[int, ...]](2)
    padding_value = DataField[str | None](3)

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: TensorViewType,
        dim_map: Sequence[int],
        padding_value: str | None = None,
    ):
        super().__init__((tuple(tile_shape), tensor_view, tuple(dim_map), padding_value))

    def body(self) -> str:
        return self._common_body("", _dim_map_tail(self.dim_map))


@data_definition
class StridedViewType(TileViewType):
    """`strided_view<tile=(4x2), traversal_strides=[4,3], tensor_view<...>>`: tiles at regular distances."""

    name = "cuda_tile.strided_view"
    mnemonic = "strided_view"

    tile_shape = DataField[tuple[int, ...]](0)
    traversal_strides = DataField[tuple[int, ...]](1)
    tensor_view = DataField[TensorViewType](2)
    dim_map = DataField[tuple[int, ...]](3)
    padding_value = DataField[str | None](4)

    def __init__(
        self,
        tile_shape: Sequence[int],
        traversal_strides: Sequence[int],
        tensor_view: TensorViewType,
        dim_map: Sequence[int],
        padding_value: str | None = None,
    ):
        super().__init__((tuple(tile_shape), tuple(traversal_strides), tensor_view, tuple(dim_map), padding_value))

    def body(self) -> str:
        strides = f"traversal_strides=[{','.join(map(str, self.traversal_strides))}], "
        return self._common_body(strides, _dim_map_tail(self.dim_map))


@data_definition
class GatherScatterViewType(TileViewType):
    """`gather_scatter_view<tile=(8x16), tensor_view<...>, sparse_dim=0>`: rows chosen by index."""

    name = "cuda_tile.gather_scatter_view"
    mnemonic = "gather_scatter_view"

    tile_shape = DataField[tuple[int, ...]](0)
    tensor_view = DataField[TensorViewType](1)
    sparse_dim = DataField[int](2)
    padding_value = DataField[str | None](3)

    def __init__(
        self, tile_shape: Sequence[int], tensor_view: TensorViewType, sparse_dim: int, padding_value: str | None = None
    ):
        super().__init__((tuple(tile_shape), tensor_view, sparse_dim, padding_value))

    def body(self) -> str:
        return self._common_body("", f", sparse_dim={self.sparse_dim}")


@data_definition
class TokenType(CudaTileType):
    """`token`: an ordering between memory operations of a tile block."""

    name = "cuda_tile.token"
    mnemonic = "token"

    def __init__(self, data: None = None):
        super().__init__(())

    def body(self) -> str:
        return ""


@data_definition
class TestEvolvedType(CudaTileType):
    """The type of the testing versions whose parameters grew."""

    name = "cuda_tile.testing$bytecode_test_evolved"
    mnemonic = "testing$bytecode_test_evolved"

    def __init__(
        self,
        base_type: Attribute,
        new_type: Attribute = i32,
        optional_attr: str | None = None,
        optional_type: Attribute | None = None,
    ):
        super().__init__((base_type, new_type, optional_attr, optional_type))

    def body(self) -> str:
        base, new, attr, type_ = self.data
        parts = [type_text(base)]
        if new != i32:
            parts.append(type_text(new))
        if attr is not None:
            parts.append(f"<{attr}>")
        if type_ is not None:
            parts.append(type_text(type_))
        return ", ".join(parts)


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
