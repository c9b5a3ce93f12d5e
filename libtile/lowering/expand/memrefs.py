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
from libtile.dialects.nv_tileaa.pointers import BitcastOp, BlockTileOp, ConvTileOp, GetDimSizeOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.tokens import AssumeOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType, TiledViewType
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import TileOp, element_of, erase, is_token, shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.expand.maker import Maker, array_of, tile_like, with_tiles_of_one
from libtile.numerics.elements import ELEMENTS
from libtile.support.records import dataclass


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
    merged = isinstance(op.accessed.type, TiledViewType) and op.accessed.type.is_merged
    if not op.group("mask") and not others and not convolution and not exchange and not merged:
        return False
    if convolution and not isinstance(op, TiledLoadOp):
        raise unsupported(op, "writes through the view of a convolution's activation, which is read only")
    if is_packed(element_of(op.value_type)):
        what = "has a mask" if not merged else "runs over groups of dimensions"
        raise unsupported(op, f"{what} on elements of 4 bits, which have no addresses")
    maker, shape, base = Maker(op), shape_of(op.value_type), op.accessed
    places = _tile_places(maker, op, base, shape)
    inside: SSAValue | None = None
    for number, (position, size) in places.limits:
        if number < len(op.inside) and op.inside[number]:
            continue
        here = position if isinstance(position.type, TensorType) else maker.splat(position, shape)
        for good in (
            maker.compare(here, maker.constant(0, shape), "sge"),
            maker.compare(here, maker.splat(size, shape), "slt"),
        ):
            inside = good if inside is None else maker.both(inside, good)
    mask = op.group("mask")[0] if op.group("mask") else None
    if mask is not None and shape_of(mask.type) != tuple(shape):
        mask = maker.put(SplatOp.make(mask, results=[tile_like(shape, i1)]))
    pointers = places.memory.pointers(places.positions, shape)
    whole = mask if inside is None else inside if mask is None else maker.both(inside, mask)
    groups: dict[str, SSAValue | None] = {"mask": whole}
    if isinstance(op, TiledLoadOp) and whole is None:
        groups["other"] = None
    elif isinstance(op, TiledLoadOp) and not others:
        groups["other"] = _padding(maker, op, shape, mask, places.padding)
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


@dataclass
class _Places:
    """Where the elements of a tile lie along each dimension of a memref; by dimension of the tile, what of its
    positions has to be at least 0 and below which number; and what is read elsewhere."""

    memory: Memory
    positions: list[SSAValue]
    limits: list[tuple[int, tuple[SSAValue, SSAValue]]]
    padding: str | None


def _tile_places(maker: Maker, op: MemoryOp, base: SSAValue, shape: Sequence[int]) -> _Places:
    """Where the elements of a tile of a view, or of a box of a memref, lie."""
    type_ = base.type
    if isinstance(type_, MemRefType):
        memory, positions = Memory(maker, base, op), _positions(maker, op.coordinates, shape)
        limits = [(dim, (at, memory.scalar(memory.sizes[dim]))) for dim, at in enumerate(positions)]
        return _Places(memory, positions, limits, None)
    assert isinstance(type_, TiledViewType)
    view = base.owner
    if isinstance(view, ConvTileOp):
        return _convolution_places(maker, op, view, shape)
    if not isinstance(view, BlockTileOp) or type_.layout.leading:
        how = "goes through groups of dimensions, or with a mask,"
        raise unsupported(op, f"{how} to a view of which it is not known where it is made")
    memory, layout = Memory(maker, view.source, op), type_.layout
    sizes = [memory.scalar(size) for size in memory.sizes]
    found: dict[int, SSAValue] = {}
    limits = []
    for dim, (value, group) in enumerate(zip(op.coordinates, type_.groups, strict=True)):
        if dim == layout.sparse_dim:
            position = _along(maker, maker.as_i64(value), shape, dim)
        else:
            step = type_.traversal_strides[dim]
            index = maker.as_index(value)
            start = index if step == 1 else maker.mul(index, maker.index(step))
            position = maker.add(maker.positions(shape, dim), maker.splat(start, shape))
        found.update(_over_group(maker, position, group, sizes, shape))
        limits.append((dim, (position, _number_of(maker, group, sizes))))
    return _Places(memory, [found[d] for d in range(len(sizes))], limits, layout.padding)


def _number_of(maker: Maker, group: Sequence[int], sizes: Sequence[SSAValue]) -> SSAValue:
    """How many positions there are over a group of dimensions with these sizes."""
    total = sizes[group[0]]
    for dim in group[1:]:
        total = maker.mul(total, sizes[dim])
    return total


def _over_group(
    maker: Maker, position: SSAValue, group: Sequence[int], sizes: Sequence[SSAValue], shape: Sequence[int]
) -> dict[int, SSAValue]:
    """By dimension of a group with these sizes, where elements lie along it that have a position over all of them."""
    found: dict[int, SSAValue] = {}
    for dim in reversed(group[1:]):
        # A position over dimensions of which one has no elements is outside; it is not divided by 0 for that.
        size = maker.splat(maker.put(arith.MaxUIOp(sizes[dim], maker.index(1))), shape)
        found[dim] = maker.put(arith.RemUIOp(position, size))
        position = maker.put(arith.DivUIOp(position, size))
    return found | {group[0]: position}


def _convolution_places(maker: Maker, op: MemoryOp, view: ConvTileOp, shape: Sequence[int]) -> _Places:
    """Where the elements of a tile of an activation lie, that a filter sees at one of its places from each output."""
    memory, type_ = Memory(maker, view.source, op), view.result.type
    assert isinstance(type_, TiledViewType)
    pad_lower, pad_upper, stride, dilation = view.conv_params.data
    coordinates = [maker.as_index(v) for v in op.coordinates]
    place = coordinates.pop(0) if type_.layout.leading else maker.index(0)
    spatial, filter_ = view.spatial_axes, view.filter_shape
    sizes = [memory.scalar(size) for size in memory.sizes]
    outputs = list(sizes)
    for d, axis in enumerate(spatial):
        more = pad_lower[d] + pad_upper[d] - dilation[d] * (filter_[d] - 1) - 1
        seen = maker.put(arith.MaxSIOp(maker.add(sizes[axis], maker.index(more)), maker.index(-stride[d])))
        steps = maker.put(arith.FloorDivSIOp(seen, maker.index(stride[d])))
        outputs[axis] = maker.add(steps, maker.index(1))
    found: dict[int, SSAValue] = {}
    limits = []
    for dim, (index, extent, group) in enumerate(zip(coordinates, shape, type_.groups, strict=True)):
        start = maker.mul(index, maker.index(extent))
        position = maker.add(maker.positions(shape, dim), maker.splat(start, shape))
        if len(group) > 1:
            limits.append((dim, (position, _number_of(maker, group, outputs))))
        for axis, at in _over_group(maker, position, group, outputs, shape).items():
            if axis in spatial:
                d = spatial.index(axis)
                along = place
                for size in reversed(filter_[d + 1 :]):
                    along = maker.put(arith.DivUIOp(along, maker.index(size)))
                along = maker.put(arith.RemUIOp(along, maker.index(filter_[d])))
                moved = maker.add(maker.mul(along, maker.index(dilation[d])), maker.index(-pad_lower[d]))
                if stride[d] != 1:
                    at = maker.mul(at, maker.constant(stride[d], shape))
                at = maker.add(at, maker.splat(moved, shape))
            found[axis] = at
            limits.append((dim, (at, sizes[axis])))
    return _Places(memory, [found[axis] for axis in range(len(sizes))], limits, type_.layout.padding)


def expand_dim_size(op: GetDimSizeOp) -> bool:
    """The number of tiles over a group of dimensions."""
    type_ = op.source.type
    if not isinstance(type_, TiledViewType) or not type_.is_merged:
        return False
    dim, view, maker = op.dim.value.data, op.source.owner, Maker(op)
    if not isinstance(view, BlockTileOp):
        raise unsupported(op, "asks for the tiles of a view by groups, of which it is not known where it is made")
    memory, step = Memory(maker, view.source, op), type_.traversal_strides[dim]
    total = _number_of(maker, type_.groups[dim], [memory.scalar(size) for size in memory.sizes])
    count = maker.put(arith.CeilDivUIOp(total, maker.index(step)))
    if op.result.type != count.type:
        cast = arith.IndexCastOp.create(operands=[count], result_types=[element_of(op.result.type)])
        count = maker.put(cast)
        if isinstance(op.result.type, TensorType):
            count = maker.put(SplatOp.make(count, results=[op.result.type]))
    op.result.replace_all_uses_with(count)
    erase(op)
    return True


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


def _become_pointer_access(op: MemoryOp, pointers: SSAValue, groups: dict[str, SSAValue | None]) -> Operation:
    """The access through pointers in place of a tiled one, with these operands (None: without) in place of its own."""
    cls = _BY_POINTERS[type(op)]
    operands: list[list[SSAValue]] = []
    for name, _ in cls.get_irdl_definition().operands:
        own = list(op.group(name)) if name in dict(op.get_irdl_definition().operands) else []
        own = [pointers] if name == "base" else [] if name == "indices" else own
        given = groups.get(name)
        operands.append(own if name not in groups else [given] if given is not None else [])
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
