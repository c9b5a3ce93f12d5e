# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa on pointers, memory references and views, and conversions between types."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.effect_traits import PureIfSaid
from libtile.dialects.interfaces import Folds, NamesMemoryOf, Partial
from libtile.dialects.nv_tileaa.attributes import ConvParamsAttr, RoundingModeAttr
from libtile.dialects.nv_tileaa.element_types import BLOCK_SCALED, bit_width, is_count, is_float, is_integer
from libtile.dialects.nv_tileaa.shapes import Unary, integers_of
from libtile.dialects.nv_tileaa.target import lacks_block_scaling
from libtile.dialects.nv_tileaa.types import GLOBAL, MemRefType, PtrType, TiledViewType
from libtile.ir.tile_form import TileOp, element_of, shape_of, tile_op, type_text
from libtile.numerics.elements import POINTER_BITS


def _require_same_shape(op: TileOp) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if shape_of(source) != shape_of(result):
        raise VerifyException(
            f"expects source and result to have the same shape, but got {type_text(source)} vs {type_text(result)}"
        )


@tile_op
class AddPtrOp(TileOp):
    """Moves pointers by offsets counted in elements of what they point to; shapes broadcast from scalars."""

    name = "nv_tileaa.addptr"
    base = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure(), Partial(), NamesMemoryOf("base", part=True))

    def check(self) -> None:
        base, offset, result = self.base.type, self.offset.type, self.result.type
        pointer = element_of(base)
        if not isinstance(pointer, PtrType) or element_of(result) != pointer:
            raise VerifyException(
                f"expects base and result to be pointers of one type, but got {type_text(base)} vs {type_text(result)}"
            )
        if not is_integer(element_of(offset)):
            raise VerifyException(f"expects an integer offset, but got {type_text(offset)}")
        shapes = {shape_of(base), shape_of(offset)} - {()}
        if len(shapes) > 1 or shape_of(result) != next(iter(shapes), ()):
            raise VerifyException(
                f"expects shapes that broadcast, but got {type_text(base)} and {type_text(offset)} -> "
                f"{type_text(result)}"
            )


def _is_address(element: Attribute) -> bool:
    """Whether integers of a type hold the bits of a pointer."""
    return isinstance(element, IntegerType) and element.width.data == POINTER_BITS


@tile_op
class IntToPtrOp(Unary):
    """64-bit integers as addresses."""

    name = "nv_tileaa.int_to_ptr"

    def check(self) -> None:
        _require_same_shape(self)
        if not _is_address(element_of(self.source.type)) or not isinstance(element_of(self.result.type), PtrType):
            raise VerifyException(
                f"expects integers of {POINTER_BITS} bits as source and pointers as result, but got "
                f"{type_text(self.source.type)} vs {type_text(self.result.type)}"
            )


@tile_op
class PtrToIntOp(Unary):
    """Addresses as 64-bit integers."""

    name = "nv_tileaa.ptr_to_int"

    def check(self) -> None:
        _require_same_shape(self)
        if not isinstance(element_of(self.source.type), PtrType) or not _is_address(element_of(self.result.type)):
            raise VerifyException(
                f"expects pointers as source and integers of {POINTER_BITS} bits as result, but got "
                f"{type_text(self.source.type)} vs {type_text(self.result.type)}"
            )


@tile_op
class BitcastOp(Unary):
    """The same bits as elements of another type of the same width; pointers keep their address space.

    Packing (`packed`) reads the elements of a rank-1 tile as dense little-endian bits: of 4-bit elements two to a byte.
    """

    name = "nv_tileaa.bitcast"
    traits = traits_def(Pure(), Folds("same_bits"), NamesMemoryOf())
    packed = opt_prop_def(UnitAttr)

    def check(self) -> None:
        source, result = element_of(self.source.type), element_of(self.result.type)
        for element in (source, result):  # an index has bits, but not for a program to see
            if not isinstance(element, IntegerType | PtrType) and not is_float(element):
                raise VerifyException(f"expects numbers or pointers, but got {type_text(element)}")
        if isinstance(source, PtrType) and isinstance(result, PtrType) and source.space != result.space:
            raise VerifyException("expects source and result to have the same address space")
        for value in self.packed_values:
            if len(shape_of(value.type)) != 1:
                raise VerifyException(f"expects packed elements in tiles of rank 1, but got {type_text(value.type)}")
        widths = [bit_width(t) * _count(v) for t, v in ((source, self.source.type), (result, self.result.type))]
        if self.packed is None:
            _require_same_shape(self)
        if widths[0] != widths[1]:
            raise VerifyException(
                f"expects source and result of the same width, but got {widths[0]} vs {widths[1]} bits"
            )

    @property
    def packed_values(self) -> tuple[SSAValue, ...]:
        """The values whose elements lie one behind the other without gaps; none unless the op is `packed`."""
        return () if self.packed is None else (self.source, self.result)


def _count(type_: Attribute) -> int:
    count = 1
    for size in shape_of(type_):
        count *= size
    return count


class FloatConversion(Unary):
    """Base of conversions from or to floats."""

    rounding_mode = opt_prop_def(RoundingModeAttr)


@tile_op
class FpToFpOp(FloatConversion):
    """Floats in another format: the only op that changes the width of floats. Rounds to nearest even by default."""

    name = "nv_tileaa.fp_to_fp"

    def check(self) -> None:
        source, result = element_of(self.source.type), element_of(self.result.type)
        if not is_float(source):
            raise VerifyException("fp_to_fp source element type is not supported")
        if not is_float(result):
            raise VerifyException("fp_to_fp result element type is not supported")
        scaled = isinstance(source, BLOCK_SCALED) or isinstance(result, BLOCK_SCALED)
        if scaled and lacks_block_scaling(self) is not None:
            raise VerifyException("fp_to_fp block-scaled format requires a target that supports block-scaled MMA")
        _require_same_shape(self)


@tile_op
class EmulatedFpToFpOp(FloatConversion):
    """`fp_to_fp` from or to a block-scaled format on targets without block-scaled MMA: made of integer instructions."""

    name = "nv_tileaa.emulated_fp_to_fp"

    def check(self) -> None:
        _require_same_shape(self)
        elements = element_of(self.source.type), element_of(self.result.type)
        if not all(is_float(e) for e in elements) or not any(isinstance(e, BLOCK_SCALED) for e in elements):
            raise VerifyException("expects floats, one of which is of a block-scaled format")


@tile_op
class IntToFpOp(FloatConversion):
    """Integers as floats, rounded."""

    name = "nv_tileaa.int_to_fp"
    unsigned = opt_prop_def(UnitAttr)

    def check(self) -> None:
        _require_same_shape(self)
        if not is_integer(element_of(self.source.type)) or not is_float(element_of(self.result.type)):
            raise VerifyException("expects integers as source and floats as result")


@tile_op
class FpToIntOp(FloatConversion):
    """Floats as integers, truncated. With `saturating`, what does not fit gives the nearest limit, and NaN gives 0."""

    name = "nv_tileaa.fp_to_int"
    traits = traits_def(Pure(), Partial())
    unsigned = opt_prop_def(UnitAttr)
    saturating = opt_prop_def(UnitAttr)

    def check(self) -> None:
        _require_same_shape(self)
        if not is_float(element_of(self.source.type)) or not is_integer(element_of(self.result.type)):
            raise VerifyException("expects floats as source and integers as result")


class Elementwise(TileOp):
    """Base of the escape hatches: a function of tiles of one shape, elementwise; `pure` says that it has no effects."""

    traits = traits_def(PureIfSaid(), Partial())
    inputs = var_operand_def()
    outputs = var_result_def()
    pure = opt_prop_def(UnitAttr)

    def check(self) -> None:
        if len({shape_of(v.type) for v in [*self.inputs, *self.results]}) > 1:
            raise VerifyException("expects operands and results of one shape")


@tile_op
class ExternElementwiseOp(Elementwise):
    """Calls a function of a bitcode library on every element."""

    name = "nv_tileaa.extern_elementwise"
    symbol = prop_def(StringAttr)
    libname = opt_prop_def(StringAttr)
    libpath = opt_prop_def(StringAttr)


@tile_op
class ElementwiseInlineAsmOp(Elementwise):
    """PTX on every element, or on `packed_element` of them at a time, side by side in registers of up to 32 bits.

    `constraints` are LLVM's: one for each register of the results and then of the operands, and clobbers.
    """

    name = "nv_tileaa.elementwise_inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    packed_element = opt_prop_def(IntegerAttr)

    @property
    def elements_at_once(self) -> int:
        """How many elements the code takes of each operand at a time."""
        return 1 if self.packed_element is None else self.packed_element.value.data

    @property
    def registers(self) -> tuple[list[str], list[str]]:
        """The constraints of the registers that the code writes, and of those that it reads."""
        parts = [part.strip() for part in self.constraints.data.split(",") if part.strip()]
        written = [part.lstrip("=&") for part in parts if part.startswith("=")]
        return written, [part for part in parts if not part.startswith(("=", "~"))]

    @staticmethod
    def registers_of(bits: int, count: int) -> int:
        """How many registers so many elements of a width take: of 32 bits, or one each where they are wider."""
        return count if bits > REGISTER_BITS else max(bits * count // REGISTER_BITS, 1)

    def check(self) -> None:
        super().check()
        count = self.elements_at_once
        if count < 1 or count & (count - 1):
            raise VerifyException(f"expects packed_element to be a power of two, but got {count}")
        written, read = self.registers
        for what, values, given in (("results", self.outputs, written), ("operands", self.inputs, read)):
            needed = sum(self.registers_of(bit_width(element_of(v.type)), count) for v in values)
            if len(given) != needed:
                raise VerifyException(f"expects constraints of {needed} registers for its {what}, but got {len(given)}")


REGISTER_BITS = 32
"""Bits of the registers that packed elements of inline PTX lie in."""


@tile_op
class CallElementwiseIntrinsicOp(Elementwise):
    """Calls an LLVM intrinsic on every element."""

    name = "nv_tileaa.call_elementwise_intrinsic"
    intrinsic = prop_def(StringAttr)


@tile_op
class MakeMemRefOp(TileOp):
    """Memory at `base` (moved by `offset` bytes) with sizes and strides in elements; the type has the static ones."""

    name = "nv_tileaa.make_memref"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    base = operand_def()
    offset = opt_operand_def()
    sizes = var_operand_def()
    strides = var_operand_def()
    result = result_def()
    alias_scope = opt_prop_def(IntegerAttr)
    traits = traits_def(Pure(), Partial(), NamesMemoryOf("base"))

    @classmethod
    def infer_segments_from_results(cls, types: Sequence[Attribute], results: Sequence[Attribute]) -> list[int] | None:
        """The result's type says how many sizes and strides there are; one more operand is the offset."""
        if len(results) != 1 or not isinstance(results[0], MemRefType):
            return None
        sizes, strides = results[0].dynamic_sizes, results[0].dynamic_strides
        offset = len(types) - 1 - sizes - strides
        return [1, offset, sizes, strides] if offset in (0, 1) else None

    def check(self) -> None:
        base, result = element_of(self.base.type), self.result.type
        if not isinstance(base, PtrType) or not isinstance(result, MemRefType):
            raise VerifyException("expects a pointer as base and a memref as result")
        if base.pointee != result.element_type or base.space != result.space:
            raise VerifyException(
                f"expects the result to keep the base's element type and address space, but got {base} vs {result}"
            )
        for value in (*self.group("offset"), *self.sizes, *self.strides):
            if not is_count(value.type):
                raise VerifyException(
                    f"expects offset, sizes and strides to be numbers, but got {type_text(value.type)}"
                )
        for what, given, needed in (
            ("sizes", self.sizes, result.dynamic_sizes),
            ("strides", self.strides, result.dynamic_strides),
        ):
            if len(given) != needed:
                raise VerifyException(f"expects {needed} dynamic {what}, but got {len(given)}")
        scope = self.alias_scope
        if scope is not None and not 0 <= scope.value.data < 1 << 32:
            raise VerifyException(f"expects an alias scope of 32 bits, but got {scope.value.data}")
        if scope is not None and result.alias_scope not in (None, scope.value.data):
            raise VerifyException("expects the result to have the alias scope of the op")


class TileBlocking(Unary):
    """Base: cuts `source` into tiles. Group i of `dim_groups` has the axes of the source that tile axis i runs over."""

    traits = traits_def(Pure(), NamesMemoryOf())
    tile_sizes = opt_prop_def(DenseArrayBase, prop_name="tileSizes")
    dim_groups = opt_prop_def(ArrayAttr, prop_name="dimGroups")

    @property
    def groups(self) -> list[tuple[int, ...]]:
        return [integers_of(group) for group in self.dim_groups.data] if self.dim_groups is not None else []

    def check_blocking(self) -> None:
        """VerifyException unless sizes and groups fit together."""
        sizes, groups = integers_of(self.tile_sizes), self.groups
        if not sizes:
            raise VerifyException("expects non-empty tileSizes")
        if not groups:
            raise VerifyException("expects non-empty dimGroups")
        if len(sizes) != len(groups):
            raise VerifyException(
                f"expects rank of tileSizes be equal to rank of dimGroups, but got {len(sizes)} vs {len(groups)}"
            )
        if any(size <= 0 for size in sizes):
            raise VerifyException("expects all tile size bigger than zero")
        seen: set[int] = set()
        for axis in (axis for group in groups for axis in group):
            if axis in seen:
                raise VerifyException(f"expects dim is being tiled only one time, but got {axis}")
            seen.add(axis)

    def check_result(self) -> None:
        """VerifyException unless the result views the source in tiles of these sizes."""
        result = self.result.type
        if not isinstance(result, TiledViewType):
            raise VerifyException(f"expects a tiled_view as result, but got {type_text(result)}")
        if result.source != self.source.type or result.shape != integers_of(self.tile_sizes):
            raise VerifyException("expects the result to view the source in tiles of tileSizes")
        tiling, rank = result.layout, len(result.shape)
        dims = result.source.rank if isinstance(result.source, MemRefType) else rank
        for axis in (axis for group in self.groups for axis in group):
            if not 0 <= axis < dims:
                raise VerifyException(f"expects dims in range 0 to {dims - 1}, but got {axis}")
        steps, sparse = tiling.traversal_strides, tiling.sparse_dim
        if tuple(self.groups) != result.groups:
            stated, tiled = ([list(group) for group in groups] for groups in (self.groups, result.groups))
            raise VerifyException(f"expects the dimGroups of the result's tiling, which are {tiled}, but got {stated}")
        if steps is not None and (len(steps) != rank or any(step < 1 for step in steps)):
            raise VerifyException(f"expects {rank} positive traversal_strides, but got {list(steps)}")
        if sparse is not None and not 0 <= sparse < rank:
            raise VerifyException(f"expects sparse_dim in range 0 to {rank - 1}, but got {sparse}")


@tile_op
class BlockTileOp(TileBlocking):
    """A tiled view of a memref (or tile): what loads and stores through tiles take."""

    name = "nv_tileaa.block_tile"

    def check(self) -> None:
        self.check_blocking()
        self.check_result()


@tile_op
class ConvTileOp(TileBlocking):
    """A tiled view of a convolution's activation by output positions; the channel is a group of its own.

    With `leading=1` in its tiling the first coordinate of an access is the place in the filter, counted row by row (it
    is the first place without). An element is that of the activation at `output * stride - pad_lower + place *
    dilation` along each spatial axis (the last ones but the channel), or padding outside of it.
    """

    name = "nv_tileaa.conv_tile"
    filter_sizes = prop_def(DenseArrayBase, prop_name="filterSizes")
    conv_params = prop_def(ConvParamsAttr)
    channel_axis = prop_def(IntegerAttr, prop_name="channelAxis")

    def check(self) -> None:
        self.check_blocking()
        if any(not 1 <= size <= 3 for size in integers_of(self.filter_sizes)):
            raise VerifyException("expects filter size must be in range 1 to 3")
        self.conv_params.check()
        channel = self.channel_axis.value.data
        group = next((g for g in self.groups if channel in g), None)
        if group is None:
            raise VerifyException("expects channel must be a dimGroup")
        if len(group) != 1:
            raise VerifyException("expects channel dimGroup should contain only channel")
        given, needed = len(self.conv_params.data[0]), len(self.filter_shape)
        if given != needed:
            raise VerifyException(f"expects conv_params of {needed} dimensions, as filterSizes has, but got {given}")
        self.check_result()

    @property
    def filter_shape(self) -> tuple[int, ...]:
        """The sizes of the filter, by spatial axis."""
        return integers_of(self.filter_sizes)

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The axes of the activation that the filter goes along."""
        source = self.source.type
        rank = source.rank if isinstance(source, MemRefType) else len(shape_of(source))
        others = [axis for axis in range(rank) if axis != self.channel_axis.value.data]
        return tuple(others[len(others) - len(self.filter_shape) :])


@tile_op
class GetDimSizeOp(Unary):
    """The size of a memref along `dim`; of a tiled view, the number of tiles along it."""

    name = "nv_tileaa.get_dim_size"
    traits = traits_def(Pure(), Partial())
    dim = prop_def(IntegerAttr)

    def check(self) -> None:
        source = self.source.type
        rank = source.rank if isinstance(source, MemRefType | TiledViewType) else len(shape_of(source))
        if not 0 <= self.dim.value.data < rank:
            raise VerifyException(f"expects dim in range 0 to {rank - 1}, but got {self.dim.value.data}")
        if not is_count(self.result.type):
            raise VerifyException(f"expects a number as result, but got {type_text(self.result.type)}")


@tile_op
class GetGlobalOp(TileOp):
    """The address of a global."""

    name = "nv_tileaa.get_global"
    result = result_def()
    global_name = prop_def(SymbolRefAttr, prop_name="name")
    traits = traits_def(Pure())

    def check(self) -> None:
        from libtile.dialects.nv_tileaa.functions import require_symbol

        found = require_symbol(self, self.global_name, "nv_tileaa.global")
        pointer = element_of(self.result.type)
        if not isinstance(pointer, PtrType) or shape_of(self.result.type):
            raise VerifyException(f"expects a pointer as result, but got {type_text(self.result.type)}")
        value = found.properties.get("value")
        held = value.type.element_type if isinstance(value, DenseElementsAttr) else None
        if pointer.space != GLOBAL or pointer.pointee != held:
            raise VerifyException(
                f"expects a pointer to {type_text(held) if held is not None else 'elements'} in global memory, but got "
                f"{type_text(pointer)}"
            )
