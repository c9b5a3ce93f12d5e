# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the dialect's types hold and how they are spelled, whichever IR they are of: xDSL's (`types`) or `light` IR.

A class here is the base of both. `text(short=True)` is the spelling inside of a cuda_tile module (`tile<2xf32>`),
`text(short=False)` the spelling elsewhere (`!cuda_tile.tile<2xf32>`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from libtile.ir.forms import Attribute, FunctionType, IntegerType, TypeAttribute
from libtile.ir.members import DataField
from libtile.spec import default_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from xdsl.ir import Data

    class _Base(Data[Any], TypeAttribute):
        """What a subclass derives from beside its form."""
else:
    _Base = object

DYNAMIC = -(2**63)
"""A size or stride that is only known at run time; prints as `?`."""

MAX_TILE_ELEMENTS = 0x1000000
"""The largest number of elements of a tile (16 Mi)."""

NUMBER_NAMES: dict[Attribute, str] = {}
"""The keywords of number types, of each kind of IR that is loaded."""


class TypeForm(_Base):
    """Base of the dialect's own types: a value (`data`), a mnemonic, and a textual body."""

    __slots__ = ()
    mnemonic: ClassVar[str]
    data: Any

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


def type_text(type_: Attribute, short: bool = True) -> str:
    """The spelling of any type that a cuda_tile module can hold."""
    if isinstance(type_, TypeForm):
        return type_.text(short)
    if type_ in NUMBER_NAMES:
        return NUMBER_NAMES[type_]
    return function_type_text(type_) if isinstance(type_, FunctionType) else str(type_)


def function_type_text(type_: FunctionType) -> str:
    return signature_text(type_.inputs.data, type_.outputs.data)


def signature_text(inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> str:
    """The type of a function from and to these."""
    texts = [generic_type_text(t) for t in outputs]
    single = len(texts) == 1 and not isinstance(outputs[0], FunctionType)
    given = ", ".join(map(generic_type_text, inputs))
    return f"({given}) -> {texts[0] if single else '(' + ', '.join(texts) + ')'}"


def generic_type_text(type_: Attribute) -> str:
    """A type outside of the dialect's custom forms: with the dialect's prefix."""
    return type_text(type_, short=False)


def quoted(type_: Attribute) -> str:
    """A type as diagnostics spell it."""
    return f"'{type_text(type_, short=False)}'"


def _dims(values: Sequence[int], separator: str) -> str:
    return separator.join("?" if v == DYNAMIC else str(v) for v in values)


def is_number(type_: Attribute | None, keyword: str) -> bool:
    """Whether a type is that of numbers with this keyword."""
    return type_ is not None and NUMBER_NAMES.get(type_) == keyword


def is_integer(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType)


_NO_ADDRESS = {"i4"}
"""Number types that only a tile may hold."""


def is_addressable(type_: Attribute) -> bool:
    """Whether numbers of the type lie in memory one by one: whether they can be pointed to and viewed."""
    return type_ in NUMBER_NAMES and NUMBER_NAMES[type_] not in _NO_ADDRESS


def is_float(type_: Attribute) -> bool:
    return type_ in NUMBER_NAMES and not isinstance(type_, IntegerType)


@lru_cache(maxsize=256)
def bit_width(type_: Attribute) -> int:
    """Width in bits of a number type (tf32: 19), or 64 for a pointer; KeyError for anything else."""
    if isinstance(type_, PointerForm):
        return 64
    return default_spec().types[NUMBER_NAMES[type_]].bits


class PointerForm(TypeForm):
    """`ptr<f32>`: the address of an element in global memory. `ptr_attr` is None, none, unicast or multicast."""

    __slots__ = ()
    mnemonic = "ptr"

    pointee = DataField[Attribute](0)
    ptr_attr = DataField[str | None](1)

    def __init__(self, pointee: Attribute, ptr_attr: str | None = None):
        super().__init__((pointee, ptr_attr))

    def body(self) -> str:
        return type_text(self.pointee) + (f", <{self.ptr_attr}>" if self.ptr_attr is not None else "")


class TileForm(TypeForm):
    """`tile<2x4xf32>`: shape (empty for a scalar) and element type (a number or pointer type)."""

    __slots__ = ()
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


class TensorViewForm(TypeForm):
    """`tensor_view<?x16xf32, strides=[?,1]>`: element type, shape and strides in elements (DYNAMIC where unknown)."""

    __slots__ = ()
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


class TileViewForm(TypeForm):
    """Base of the views that are read and written tile by tile. `padding_value` is a PaddingValue keyword or None."""

    __slots__ = ()

    tile_shape: DataField[tuple[int, ...]]
    tensor_view: DataField[TensorViewForm]
    padding_value: DataField[str | None]

    tile_class: ClassVar[type[TileForm]]

    @property
    def tile_type(self) -> TileForm:
        """The type of a tile that a load through this view yields."""
        return self.tile_class(self.tile_shape, self.tensor_view.element_type)

    def _common_body(self, middle: str, tail: str) -> str:
        padding = f"padding_value = {self.padding_value}, " if self.padding_value is not None else ""
        tile = "x".join(map(str, self.tile_shape))
        return f"tile=({tile}), {middle}{padding}{type_text(self.tensor_view)}{tail}"


def _dim_map_tail(dim_map: Sequence[int]) -> str:
    return "" if tuple(dim_map) == tuple(range(len(dim_map))) else f", dim_map=[{', '.join(map(str, dim_map))}]"


class PartitionViewForm(TileViewForm):
    """`partition_view<tile=(4x2), tensor_view<...>>`: a tensor view cut into touching tiles."""

    __slots__ = ()
    mnemonic = "partition_view"

    tile_shape = DataField[tuple[int, ...]](0)
    tensor_view = DataField[TensorViewForm](1)
    dim_map = DataField[tuple[int, ...]](2)
    padding_value = DataField[str | None](3)

    def __init__(
        self,
        tile_shape: Sequence[int],
        tensor_view: TensorViewForm,
        dim_map: Sequence[int],
        padding_value: str | None = None,
    ):
        super().__init__((tuple(tile_shape), tensor_view, tuple(dim_map), padding_value))

    def body(self) -> str:
        return self._common_body("", _dim_map_tail(self.dim_map))


class StridedViewForm(TileViewForm):
    """`strided_view<tile=(4x2), traversal_strides=[4,3], tensor_view<...>>`: tiles at regular distances."""

    __slots__ = ()
    mnemonic = "strided_view"

    tile_shape = DataField[tuple[int, ...]](0)
    traversal_strides = DataField[tuple[int, ...]](1)
    tensor_view = DataField[TensorViewForm](2)
    dim_map = DataField[tuple[int, ...]](3)
    padding_value = DataField[str | None](4)

    def __init__(
        self,
        tile_shape: Sequence[int],
        traversal_strides: Sequence[int],
        tensor_view: TensorViewForm,
        dim_map: Sequence[int],
        padding_value: str | None = None,
    ):
        super().__init__((tuple(tile_shape), tuple(traversal_strides), tensor_view, tuple(dim_map), padding_value))

    def body(self) -> str:
        strides = f"traversal_strides=[{','.join(map(str, self.traversal_strides))}], "
        return self._common_body(strides, _dim_map_tail(self.dim_map))


class GatherScatterViewForm(TileViewForm):
    """`gather_scatter_view<tile=(8x16), tensor_view<...>, sparse_dim=0>`: rows chosen by index."""

    __slots__ = ()
    mnemonic = "gather_scatter_view"

    tile_shape = DataField[tuple[int, ...]](0)
    tensor_view = DataField[TensorViewForm](1)
    sparse_dim = DataField[int](2)
    padding_value = DataField[str | None](3)

    def __init__(
        self, tile_shape: Sequence[int], tensor_view: TensorViewForm, sparse_dim: int, padding_value: str | None = None
    ):
        super().__init__((tuple(tile_shape), tensor_view, sparse_dim, padding_value))

    def body(self) -> str:
        return self._common_body("", f", sparse_dim={self.sparse_dim}")


class TokenForm(TypeForm):
    """`token`: an ordering between memory operations of a tile block."""

    __slots__ = ()
    mnemonic = "token"

    def __init__(self, data: None = None):
        super().__init__(())

    def body(self) -> str:
        return ""


class TestEvolvedForm(TypeForm):
    """The type of the testing versions whose parameters grew."""

    __slots__ = ()
    mnemonic = "testing$bytecode_test_evolved"

    def __init__(
        self,
        base_type: Attribute,
        new_type: Attribute,
        optional_attr: str | None = None,
        optional_type: Attribute | None = None,
    ):
        super().__init__((base_type, new_type, optional_attr, optional_type))

    def body(self) -> str:
        base, new, attr, type_ = self.data
        parts = [type_text(base)]
        if not is_number(new, "i32"):
            parts.append(type_text(new))
        if attr is not None:
            parts.append(f"<{attr}>")
        if type_ is not None:
            parts.append(type_text(type_))
        return ", ".join(parts)
