# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses to elements of memrefs and to parts of tiles of views, through pointers.

An element lies at the memref's base and the sum of its indices times the strides. Accesses to single elements are not
compared with the memref's sizes, as one beyond them is undefined; those of tiles with a mask are, as what lies beyond a
view is padding or not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, TensorType, i1, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import OptionalDef, VariadicDef

from libtile.analysis.alias_scopes import ALIAS_SCOPE, scope_of
from libtile.dialects import arith, tensor
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.nv_tileaa.attributes import PaddingValueAttr, TilingAttr
from libtile.dialects.nv_tileaa.memory import (
    AtomicCasOp,
    AtomicRmwOp,
    Load,
    LoadOp,
    MemoryOp,
    StoreOp,
    TiledAtomicRmwOp,
    TiledLoadOp,
    TiledStoreOp,
)
from libtile.dialects.nv_tileaa.pointers import BitcastOp, BlockTileOp, ConvTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.tokens import AssumeOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType, TiledViewType
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import TileOp, element_of, erase, is_token, shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.expand.maker import Maker, array_of, tile_like, with_tiles_of_one
from libtile.numerics.elements import ELEMENTS


class Memory:
    """A memref that is known to be made by an op: its base, and the sizes and strides, as values in front of an op."""

    def __init__(self, maker: Maker, value: SSAValue, user: Operation):
        source = value
        while isinstance(source.owner, AssumeOp):
            source = source.owner.value
        made = source.owner
        type_ = source.type
        if not isinstance(made, MakeMemRefOp) or not isinstance(type_, MemRefType):
            raise unsupported(user, "accesses a memref of which it is not known where it is made")
        self.maker, self.type, self._made = maker, type_, made
        self.sizes = self._numbers(type_.shape, iter(made.sizes))
        self.strides = self._numbers(type_.strides, iter(made.strides))

    @staticmethod
    def _numbers(static: Sequence[int], dynamic: Iterator[SSAValue]) -> list[SSAValue | int]:
        return [next(dynamic) if number == DYNAMIC else number for number in static]

    def base(self) -> SSAValue:
        """The address of the first element, a pointer; moved by the memref's offset in bytes."""
        base, offset = self._made.base, self._made.offset
        if isinstance(base.type, TensorType):
            base = self.maker.put(tensor.ExtractOp(base, [], base.type.element_type))
        return base if offset is None else _moved_by_bytes(self.maker, base, self.maker.as_index(offset))

    def scalar(self, number: SSAValue | int) -> SSAValue:
        """A size or a stride as an index."""
        return self.maker.index(number) if isinstance(number, int) else self.maker.as_index(number)

    def pointers(self, positions: Sequence[SSAValue], shape: Sequence[int]) -> SSAValue:
        """A tile of pointers to the elements at these positions, one for each dimension: scalars, or tiles of i64."""
        maker, base, offset = self.maker, self.base(), None
        for position, stride in zip(positions, self.strides, strict=True):
            if isinstance(position.type, TensorType):
                part = position
                if stride != 1:
                    part = maker.mul(part, maker.splat(self.scalar(stride), shape))
                offset = part if offset is None else maker.add(offset, part)
            else:
                index = maker.as_index(position)
                distance = index if stride == 1 else maker.mul(index, self.scalar(stride))
                base = maker.moved(base, distance)
        if offset is None:
            return maker.put(SplatOp.make(base, results=[tile_like(shape, base.type)]))
        return maker.moved(maker.put(SplatOp.make(base, results=[tile_like(shape, base.type)])), offset)


def _moved_by_bytes(maker: Maker, base: SSAValue, offset: SSAValue) -> SSAValue:
    """A pointer moved by a number of bytes."""
    assert isinstance(base.type, PtrType)
    byte = PtrType(i8, base.type.space)
    as_bytes = maker.put(BitcastOp.make(base, results=[byte]))
    return maker.put(BitcastOp.make(maker.moved(as_bytes, offset), results=[base.type]))


def _positions(maker: Maker, indices: Sequence[SSAValue], shape: Sequence[int]) -> list[SSAValue]:
    """Where the elements of an access lie along each dimension of a memref: tiles of indices name one for each element,
    scalars the first one of a box, whose dimensions are the last ones."""
    if any(shape_of(v.type) for v in indices):
        return [maker.as_i64(v) if shape_of(v.type) else maker.as_index(v) for v in indices]
    found = []
    for number, value in enumerate(indices):
        axis, index = number - (len(indices) - len(shape)), maker.as_index(value)
        if axis < 0 or shape[axis] == 1:
            found.append(index)
        else:
            found.append(maker.add(maker.positions(shape, axis), maker.splat(index, shape)))
    return found


def _accessed_again(op: MemoryOp, base: SSAValue, **groups: SSAValue) -> None:
    """Give an access pointers for its base and indices, and other operands in place of its own, by name."""
    kept: list[SSAValue] = []
    sizes, scope = [], scope_of(op)
    for name, _ in op.get_irdl_definition().operands:
        own: tuple[SSAValue, ...] = op.group(name)
        if name == "base":
            own = (base,)
        elif name == "indices":
            own = ()
        elif name in groups:
            own = (groups[name],)
        kept += own
        sizes.append(len(own))
    op.operands = kept
    op.properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    op.properties.pop("in_bounds", None)
    if scope is not None:
        op.attributes[ALIAS_SCOPE] = IntegerAttr(scope, i64)


_VALUES = ("value", "compare", "replacement", "other", "mask")
"""Operands of accesses that are scalars where the access is of one element."""


def expand_elements(op: LoadOp | StoreOp | AtomicRmwOp | AtomicCasOp) -> bool:
    """Give an access of elements of a memref, or of one element, tiles."""
    base, type_ = op.accessed, op.value_type
    if not isinstance(base.type, MemRefType) and isinstance(base.type, TensorType) and isinstance(type_, TensorType):
        return False
    shape, maker = shape_of(type_), Maker(op)
    pointers = base
    if isinstance(base.type, MemRefType):
        memory = Memory(maker, base, op)
        if is_packed(base.type.element_type):
            raise unsupported(op, "accesses single elements of 4 bits, which have no addresses")
        pointers = memory.pointers(_positions(maker, op.coordinates, shape), shape)
    elif not isinstance(base.type, TensorType):
        pointers = maker.put(SplatOp.make(base, results=[tile_like((), base.type)]))
    groups: dict[str, SSAValue] = {}
    for name in _VALUES:
        if name not in dict(op.get_irdl_definition().operands):
            continue
        for value in op.group(name):
            if not isinstance(value.type, TensorType) or (name == "mask" and shape_of(value.type) != shape):
                groups[name] = maker.put(SplatOp.make(value, results=[tile_like(shape, element_of(value.type))]))
    _accessed_again(op, pointers, **groups)
    with_tiles_of_one(op)
    return True


def is_packed(element: Attribute) -> bool:
    """Whether two elements share a byte of memory."""
    name = NUMBER_NAMES.get(element)
    return name is not None and ELEMENTS[name].is_packed


# -- rows by index ----------------------------------------------------------------------------------------------------


def expand_gather(op: MemoryOp) -> bool:
    """A gather or scatter is the tiled access of a view with a sparse dimension."""
    maker, base = Maker(op), op.accessed
    view = base
    if isinstance(base.type, MemRefType):
        sparse = [n for n, v in enumerate(op.coordinates) if shape_of(v.type)]
        if len(sparse) != 1 or len(shape_of(op.value_type)) != base.type.rank:
            raise unsupported(op, "is no access to rows of a memref: one index is a tile, and tiles have its rank")
        view = view_of(maker, base, base.type, shape_of(op.value_type), sparse[0])
    cls = TiledLoadOp if isinstance(op, Load) else TiledStoreOp
    made = cls.create(
        operands=[view, *list(op.operands)[1:]],
        result_types=[r.type for r in op.results],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    _insert(op, made)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    erase(op)
    return True


def _insert(op: Operation, made: Operation) -> None:
    made.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(made, op)


def view_of(
    maker: Maker, base: SSAValue, type_: MemRefType, shape: Sequence[int], sparse: int | None = None
) -> SSAValue:
    """A view of a memref with a tile at every element; with a `sparse` dimension tiles of indices select along it."""
    steps = (1,) * len(shape) if sparse is None else None
    tiling = TilingAttr(traversal_strides=steps, sparse_dim=sparse)
    groups = ArrayAttr([array_of([dim]) for dim in range(len(shape))])
    made = BlockTileOp.make(
        base, results=[TiledViewType(type_, tuple(shape), tiling)], tileSizes=array_of(shape), dimGroups=groups
    )
    return maker.put(made)


# -- tiles with a mask ------------------------------------------------------------------------------------------------


def expand_masked(op: TiledLoadOp | TiledStoreOp | TiledAtomicRmwOp) -> bool:
    """A tiled access with a mask, or with what stands for elements that are not read, through pointers."""
    others: tuple[SSAValue, ...] = op.group("other") if isinstance(op, TiledLoadOp) else ()
    convolution = isinstance(op.accessed.owner, ConvTileOp)
    exchange = isinstance(op, TiledAtomicRmwOp) and op.rmw_mode.keyword == "xchg"  # which nv_tileas has no tiles for
    if not op.group("mask") and not others and not convolution and not exchange:
        return False
    if convolution and not isinstance(op, TiledLoadOp):
        raise unsupported(op, "writes through the view of a convolution's activation, which is read only")
    if is_packed(element_of(op.value_type)):
        raise unsupported(op, "has a mask on elements of 4 bits, which have no addresses")
    maker, shape, base = Maker(op), shape_of(op.value_type), op.accessed
    positions, memory, padding = _tile_positions(maker, op, base, shape)
    inside: SSAValue | None = None
    flags = op.inside
    for number, position in enumerate(positions):
        if number < len(flags) and flags[number]:
            continue
        size = maker.splat(memory.scalar(memory.sizes[number]), shape)
        here = position if isinstance(position.type, TensorType) else maker.splat(position, shape)
        for good in (
            maker.compare(here, maker.constant(0, shape), "sge"),
            maker.compare(here, size, "slt"),
        ):
            inside = good if inside is None else maker.both(inside, good)
    mask = op.group("mask")[0] if op.group("mask") else None
    if mask is not None and shape_of(mask.type) != tuple(shape):
        mask = maker.put(SplatOp.make(mask, results=[tile_like(shape, i1)]))
    pointers = memory.pointers(positions, shape)
    whole = mask if inside is None else inside if mask is None else maker.both(inside, mask)
    assert whole is not None or others or exchange
    groups = {} if whole is None else {"mask": whole}
    if isinstance(op, TiledLoadOp) and not others:
        groups["other"] = _padding(maker, op, shape, mask, padding)
    made = _become_pointer_access(op, pointers, groups)
    if whole is not None and isinstance(made, AtomicRmwOp) and made.result.first_use is not None:
        _zeros_elsewhere(made, whole)
    return True


def _zeros_elsewhere(op: AtomicRmwOp, mask: SSAValue) -> None:
    """What was there before, and zeros where the mask is false."""
    assert op.next_op is not None
    maker, old = Maker(op.next_op), op.result
    chosen = maker.select(mask, old, _of_bits(maker, old.type, 0))
    old.replace_uses_with_if(chosen, lambda use: use.operation is not chosen.owner)


def _of_bits(maker: Maker, type_: Attribute, bits: int) -> SSAValue:
    """A tile of one number, by its bits."""
    shape, element = shape_of(type_), element_of(type_)
    stored = bits.to_bytes(ELEMENTS[NUMBER_NAMES[element]].storage_bytes, "little")
    value = DenseElementsAttr(TileType(shape, element), stored)
    return maker.put(ConstantOp.make(results=[tile_like(shape, element)], value=value))


def _tile_positions(
    maker: Maker, op: MemoryOp, base: SSAValue, shape: Sequence[int]
) -> tuple[list[SSAValue], Memory, str | None]:
    """Where the elements of a tile of a view lie along the dimensions of its memref, that memref, and the padding."""
    type_ = base.type
    if isinstance(type_, MemRefType):
        return _positions(maker, op.coordinates, shape), Memory(maker, base, op), None
    assert isinstance(type_, TiledViewType)
    view = base.owner
    if isinstance(view, ConvTileOp):
        return _convolution_positions(maker, op, view, shape)
    if not isinstance(view, BlockTileOp) or type_.layout.leading:
        raise unsupported(op, "goes with a mask to a view of which it is not known where it is made")
    memory, layout = Memory(maker, view.source, op), type_.layout
    found: list[SSAValue | None] = [None] * len(memory.strides)
    for dim, (value, axis) in enumerate(zip(op.coordinates, type_.dim_map, strict=True)):
        if dim == layout.sparse_dim:
            found[axis] = _along(maker, maker.as_i64(value), shape, dim)
            continue
        step = type_.traversal_strides[dim]
        index = maker.as_index(value)
        start = index if step == 1 else maker.mul(index, maker.index(step))
        found[axis] = maker.add(maker.positions(shape, dim), maker.splat(start, shape))
    positions = [maker.index(0) if p is None else p for p in found]
    return positions, memory, layout.padding


def _convolution_positions(
    maker: Maker, op: MemoryOp, view: ConvTileOp, shape: Sequence[int]
) -> tuple[list[SSAValue], Memory, str | None]:
    """Where the elements of a tile of an activation lie, that a filter sees at one of its places from each output."""
    memory, type_ = Memory(maker, view.source, op), view.result.type
    assert isinstance(type_, TiledViewType)
    if view.groups != [(axis,) for axis in range(len(shape))] or len(shape) != memory.type.rank:
        raise unsupported(view, "has dimGroups of several axes, or not all of them in order")
    pad_lower, _, stride, dilation = view.conv_params.data
    coordinates = [maker.as_index(v) for v in op.coordinates]
    place = coordinates.pop(0) if type_.layout.leading else maker.index(0)
    spatial, sizes = view.spatial_axes, view.filter_shape
    positions = []
    for axis, (index, extent) in enumerate(zip(coordinates, shape, strict=True)):
        start = maker.mul(index, maker.index(extent))
        steps = maker.positions(shape, axis)
        if axis in spatial:
            d = spatial.index(axis)
            along = place
            for size in reversed(sizes[d + 1 :]):
                along = maker.put(arith.DivUIOp(along, maker.index(size)))
            along = maker.put(arith.RemUIOp(along, maker.index(sizes[d])))
            start = maker.mul(start, maker.index(stride[d]))
            start = maker.add(start, maker.add(maker.mul(along, maker.index(dilation[d])), maker.index(-pad_lower[d])))
            if stride[d] != 1:
                steps = maker.mul(steps, maker.constant(stride[d], shape))
        positions.append(maker.add(steps, maker.splat(start, shape)))
    return positions, memory, type_.layout.padding


def _along(maker: Maker, indices: SSAValue, shape: Sequence[int], dim: int) -> SSAValue:
    """A tile of indices of rank 1 in every row along a dimension of a shape."""
    ones = [size if d == dim else 1 for d, size in enumerate(shape)]
    if len(shape) > 1:
        indices = maker.put(ViewOp.make(indices, results=[tile_like(ones, i64)]))
    return indices if ones == list(shape) else maker.put(BroadcastOp.make(indices, results=[tile_like(shape, i64)]))


def _padding(
    maker: Maker, op: TiledLoadOp, shape: Sequence[int], mask: SSAValue | None, padding: str | None
) -> SSAValue:
    """What a masked load without `other` gives where it reads nothing: the padding beyond the view, zero where the mask
    is false."""
    element = element_of(op.value_type)
    keyword = op.padding_value.keyword if isinstance(op.padding_value, PaddingValueAttr) else padding
    type_ = tile_like(shape, element)
    bits = ELEMENTS[NUMBER_NAMES[element]].padding[keyword] if keyword is not None else 0
    if not bits or mask is None:
        return _of_bits(maker, type_, bits)
    return maker.select(mask, _of_bits(maker, type_, bits), _of_bits(maker, type_, 0))


_BY_POINTERS = {TiledLoadOp: LoadOp, TiledStoreOp: StoreOp, TiledAtomicRmwOp: AtomicRmwOp}


def _become_pointer_access(op: MemoryOp, pointers: SSAValue, groups: dict[str, SSAValue]) -> Operation:
    """The access through pointers in place of a tiled one."""
    cls = _BY_POINTERS[type(op)]
    operands: list[list[SSAValue]] = []
    for name, _ in cls.get_irdl_definition().operands:
        own = list(op.group(name)) if name in dict(op.get_irdl_definition().operands) else []
        own = [pointers] if name == "base" else [] if name == "indices" else own
        operands.append([groups[name]] if name in groups else own)
    properties: dict[str, Any] = {
        name: value
        for name, value in op.properties.items()
        if name in cls.get_irdl_definition().properties and name not in (SEGMENTS, "in_bounds", "padding_value")
    }
    made = cls.make(*_groups(cls, operands), results=_results(cls, op), location=op.location, **properties)
    if (scope := scope_of(op)) is not None:
        made.attributes[ALIAS_SCOPE] = IntegerAttr(scope, i64)
    _insert(op, made)
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    erase(op)
    return made


def _groups(cls: type[TileOp], operands: Sequence[list[SSAValue]]) -> list[Any]:
    """Operand groups as `make` takes them: a value, None, or a list of a variadic one."""
    given: list[Any] = []
    for (_, definition), group in zip(cls.get_irdl_definition().operands, operands, strict=True):
        single = not isinstance(definition, VariadicDef) or isinstance(definition, OptionalDef)
        given.append((group[0] if group else None) if single else group)
    return given


def _results(cls: type[TileOp], op: MemoryOp) -> list[Any]:
    """Result types as `make` takes them: one for each result that the class declares, None for an absent one."""
    types = [r.type for r in op.results]
    tokens = [t for t in types if is_token(t)]
    values = [t for t in types if not is_token(t)]
    names = [name for name, _ in cls.get_irdl_definition().results]
    return [(tokens[0] if tokens else None) if name == "result_token" else values[0] for name in names]
