# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`contract-views`: masked accesses through pointers become ones of ragged tiles through views again.

It is the opposite of `expand-views`, and reads what that writes, or others write alike:

    position_d = index_d * step_d + iota
    pointer    = base + position_0 * stride_0 + position_1 * stride_1 + ...
    mask       = position_0 < size_0  and  position_1 < size_1  and ...       (unsigned)

A lowering that asks once whether a tile is whole, and accesses it by 16 bytes then, wants to see the tile. Other than
`recover-views` this asks nothing at run time of tiles beyond the tensor: `outside` on the access says along which
dimensions there may be such. So it is for a compilation, and none of the optimizer's passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE, DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    NUMBER_TYPES,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    is_float,
    tile_shape,
    width_of,
)
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.numerics.elements import ELEMENTS, PACKED
from libtile.support import statistics
from libtile.support.records import dataclass, field
from libtile.transforms import reporting
from libtile.transforms.canonical_values import (
    constant_integer,
    constant_value,
    create_before,
    defining,
    is_op,
    replace_op,
)
from libtile.transforms.dce import eliminate_dead_code
from libtile.transforms.greedy import functions_in
from libtile.transforms.polynomial_scalars import Operands

_ACCESSES = ("load_ptr_tko", "store_ptr_tko")
_REMARK = "ContractViews"
_LARGEST = (1 << 31) - 1
"""Up to here a number of 32 bits is the same with a sign and without."""
_UNIT_STRIDE = 16
"""Of a dimension of one element, with which nothing is computed: a multiple of what an access may be wide."""


class PointersStayError(Exception):
    """Why an access stays one through pointers."""


@dataclass(frozen=True)
class ContractViewsPass(ModulePass):
    """Make accesses of ragged tiles through views of masked ones through pointers."""

    name = "contract-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        contract_views(op)


def contract_views(root: Operation) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        accesses = [op for op in ops_of(function, CudaTileOp) if is_op(op, *_ACCESSES) and _is_masked_tile(op)]
        facts = Facts(function) if accesses else None
        found = [_apply(op, facts) for op in accesses if facts is not None]
        if any(found):
            eliminate_dead_code(function)
            changed = True
    return changed


def _is_masked_tile(op: CudaTileOp) -> bool:
    mask = op.optional_operand("mask")
    return mask is not None and any(extent > 1 for extent in tile_shape(mask))


def _apply(op: CudaTileOp, facts: Facts) -> bool:
    what = "Load" if is_op(op, "load_ptr_tko") else "Store"
    try:
        contraction = Contraction(op, facts)
    except PointersStayError as error:
        reporting.missed(op, _REMARK, f"{what} under a mask is not one of a ragged tile", str(error))
        return False
    reporting.done(op, _REMARK, f"{what} under a mask made one of a ragged tile through a view")
    statistics.count(f"{what.lower()}s through views")
    contraction.write()
    return True


@dataclass
class Along:
    """Positions along a dimension of the tile: `index * step + iota`. An index that is a number stands for itself."""

    index: SSAValue | int
    step: int
    extent: int
    width: int
    stride: SSAValue | int
    size: SSAValue | int | None = None
    inside: bool = field(init=False, default=False)


class Contraction:
    """A masked access through pointers as one through a view. PointersStayError, with a reason, where there is none."""

    def __init__(self, op: CudaTileOp, facts: Facts) -> None:
        self.op, self.facts = op, facts
        self.is_load = is_op(op, "load_ptr_tko")
        pointers = op.operand("source" if self.is_load else "destination")
        assert isinstance(pointers.type, TileType) and isinstance(pointers.type.element_type, PointerType)
        self.shape, self.pointer = pointers.type.shape, pointers.type.element_type
        self._check_access()
        self.padding = self._padding()
        address = defining(pointers, "offset")
        base = _scalar(address.operand("ptr")) if address is not None else None
        if address is None or base is None:
            raise PointersStayError("its pointers are not one pointer and distances")
        if width_of(address.operand("offset")) != 64:
            raise PointersStayError("its distances are not of 64 bits")
        self.base = base
        self.bounds: dict[tuple[SSAValue, int | None], SSAValue] = {}
        """What positions, along a dimension of the tile or (None) of one element, are less than."""
        self._add_bounds(op.operand("mask"), None)
        self.dims: list[Along | None] = [None] * len(self.shape)
        self._add_distances(address.operand("offset"))
        self.guards: dict[SSAValue, int] = {}
        """Indices that are less than a number where anything is accessed: what is left of the mask."""
        for (value, _), size in self.bounds.items():
            self._add_guard(_narrow(value), size)
        dims = [along for along in self.dims if along is not None]
        if not self.guards.keys() <= {_narrow(d.index) for d in dims if isinstance(d.index, SSAValue)}:
            raise PointersStayError("the mask bounds what the address does not come from")
        for along in dims:
            self._check(along)

    def _check_access(self) -> None:
        pointee = self.pointer.pointee
        if self.op.attribute_value("memory_ordering_semantics") != "weak":
            raise PointersStayError("the access is not weak")
        if self.op.properties.get("optimization_hints") is not None:
            raise PointersStayError("it has hints")
        if pointee not in NUMBER_NAMES or NUMBER_NAMES[pointee] in PACKED:
            raise PointersStayError(f"no view has elements of type {pointee}")

    def _padding(self) -> str | None:
        """The keyword of what a load gives where its mask is 0; None where nothing is said of it."""
        value = self.op.optional_operand("paddingValue") if self.is_load else None
        if value is None:
            return None
        attr = constant_value(value)
        if attr is None or not attr.is_splat:
            raise PointersStayError("it is padded by different numbers")
        element, (bits,) = attr.type.element_type, attr.elements()
        known = ELEMENTS[NUMBER_NAMES[element]].padding
        keywords = [word for word, stored in known.items() if stored == bits and (word == "zero" or is_float(element))]
        if not keywords:
            raise PointersStayError("it is padded by what no view is padded by")
        return keywords[0]

    # -- the mask -----------------------------------------------------------------------------------------------------

    def _add_bounds(self, mask: SSAValue, dim: int | None) -> None:
        dim = self._varies_along(mask, dim)
        op = mask.owner
        if not isinstance(op, CudaTileOp):
            raise PointersStayError("the mask is carried by a loop or comes from outside")
        match op.spec.name:
            case "andi":
                for operand in op.operands:
                    self._add_bounds(operand, dim)
            case "broadcast" | "reshape":
                self._add_bounds(op.operand("source"), dim)
            case "cmpi":
                self._add_bound(op, dim)
            case name:
                raise PointersStayError(f"the mask comes from {name}")

    def _varies_along(self, value: SSAValue, dim: int | None) -> int | None:
        """The one dimension of the tile along which a value is of several elements; `dim` for one of another rank."""
        if len(tile_shape(value)) != len(self.shape):
            return dim
        wide = [number for number, extent in enumerate(tile_shape(value)) if extent > 1]
        return wide[0] if len(wide) == 1 else None

    def _add_bound(self, op: CudaTileOp, dim: int | None) -> None:
        size = _scalar(op.operand("rhs"))
        if op.attribute_value("comparison_predicate") != "less_than" or op.attribute_value("signedness") != "unsigned":
            raise PointersStayError("the mask is no bound of unsigned positions")
        if size is None:
            raise PointersStayError("positions have different bounds")
        small = _without_reshape(op.operand("lhs"))
        if self.bounds.setdefault((small, dim if tile_shape(small) else None), size) is not size:
            raise PointersStayError("the mask has two bounds along a dimension")

    def _add_guard(self, index: SSAValue, size: SSAValue) -> None:
        number = constant_integer(size)
        if number is None or tile_shape(index):
            raise PointersStayError("the mask bounds what the address does not come from")
        if self.guards.setdefault(index, number) != number:
            raise PointersStayError("the mask has two bounds along a dimension")

    # -- the address --------------------------------------------------------------------------------------------------

    def _add_distances(self, value: SSAValue) -> None:
        """Take in a sum of positions times strides, of the access's rank."""
        op = value.owner
        if isinstance(op, CudaTileOp) and is_op(op, "broadcast"):
            self._add_distances(op.operand("source"))
        elif isinstance(op, CudaTileOp) and is_op(op, "addi") and defining(op.operand("rhs"), "iota") is None:
            for operand in op.operands:
                self._add_distances(operand)
        else:
            self._add_position(value)

    def _add_position(self, value: SSAValue) -> None:
        wide = sum(extent > 1 for extent in tile_shape(value))
        dim, source = self._varies_along(value, None), _without_reshape(value)
        if wide > 1:
            raise PointersStayError("a distance is no position along one dimension")
        stride: SSAValue | int = 1
        position = self._position(source, dim)
        if (position, dim) not in self.bounds and (product := defining(source, "muli")) is not None:
            factor = _scalar(product.operand("rhs"))
            if factor is None:
                raise PointersStayError("positions are multiplied by others")
            number = constant_integer(factor)
            position, stride = self._position(product.operand("lhs"), dim), factor if number is None else number
        along = self._along(position, stride)
        along.size = self.bounds.pop((position, dim), None)
        if dim is None:
            dim = next((d for d, n in enumerate(self.shape) if n == 1 and self.dims[d] is None), None)
        if dim is None or self.dims[dim] is not None or along.extent != self.shape[dim]:
            raise PointersStayError("dimensions of the tile are no dimensions of a tensor")
        self.dims[dim] = along

    def _position(self, value: SSAValue, dim: int | None) -> SSAValue:
        """The positions that a distance of 64 bits is made of, in the width in which they are compared."""
        return value if (value, dim) in self.bounds else _narrow(value)

    @staticmethod
    def _along(position: SSAValue, stride: SSAValue | int) -> Along:
        extent, width = (tile_shape(position) or (1,))[0], width_of(position)
        start: SSAValue | None = position
        if extent > 1 and defining(position, "iota") is not None:
            start = None
        elif extent > 1:
            sum_ = defining(position, "addi")
            if sum_ is None or defining(sum_.operand("rhs"), "iota") is None:
                raise PointersStayError("positions are none that follow one another")
            start = _scalar(sum_.operand("lhs"))
            if start is None:
                raise PointersStayError("positions start at several places")
        number = 0 if start is None else constant_integer(start)
        if number is not None:
            whole = number % extent == 0
            return Along(number // extent if whole else number, extent if whole else 1, extent, width, stride)
        assert start is not None  # it has no number
        product = defining(start, "muli")
        step = constant_integer(product.operand("rhs")) if product is not None else None
        if product is None or not step:
            return Along(start, 1, extent, width, stride)
        return Along(product.operand("lhs"), step, extent, width, stride)

    def _check(self, along: Along) -> None:
        """Refuse positions that may wrap around, and say how large a dimension without a bound is."""
        index, size = along.index, along.size
        number = constant_integer(size) if isinstance(size, SSAValue) else None
        along.size = size = size if number is None else number
        if size == 0:
            raise PointersStayError("nothing of the tile is accessed")
        guard = self.guards.get(_narrow(index)) if isinstance(index, SSAValue) else None
        if guard is not None:
            most = self._most_of(size) if isinstance(size, SSAValue) else size
            if most is None or guard * along.step < most:
                raise PointersStayError("the mask leaves out tiles within the tensor")
        most = index if isinstance(index, int) else self._most_of(index)
        most = most if guard is None else min(most, guard - 1)
        if most * along.step + along.extent > 1 << along.width:
            raise PointersStayError("positions may wrap around")
        if size is None:
            along.size, along.inside = most * along.step + along.extent, True
            if along.size > _LARGEST:
                raise PointersStayError("a dimension has no bound")
        if isinstance(along.stride, int) and not 0 < along.stride <= _LARGEST:
            raise PointersStayError("a stride is not positive")

    def _most_of(self, value: SSAValue) -> int:
        """The largest that a number without a sign can be."""
        fact, inner = self.facts.of(value), _narrow(value)
        if fact.lower is not None and fact.lower >= 0 and fact.upper is not None:
            return fact.upper
        return (1 << width_of(inner)) - 1

    # -- writing it ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Replace the access."""
        op = self.op
        dims = [along or self._of_one() for along in self.dims]
        view = self._view(dims)
        index = [self._index(along) for along in dims]
        bits = max(width_of(value) for value in index)
        operands: dict[str, SSAValue | Sequence[SSAValue] | None] = {
            "view": view,
            "index": [self._unsigned(value, bits) for value in index],
            "token": op.optional_operand("token"),
        }
        if not self.is_load:
            operands["tile"] = op.operand("value")
        name = "load_view_tko" if self.is_load else "store_view_tko"
        made = build(name, operands, [r.type for r in op.results], {"memory_ordering_semantics": "weak"})
        if any(along.inside for along in dims):
            made.properties["inbounds"] = DenseArrayBase.from_list(i1, [int(along.inside) for along in dims])
        outside = [number for number, along in enumerate(dims) if not along.inside]
        if outside:
            made.attributes[OUTSIDE_ATTRIBUTE] = DenseArrayBase.from_list(i64, outside)
        made.location = op.location
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(made, op)
        replace_op(op, list(made.results))

    def _of_one(self) -> Along:
        """A dimension of one element that the address does not depend on."""
        made = Along(0, 1, 1, 32, _UNIT_STRIDE, 1)
        made.inside = True
        return made

    def _view(self, dims: Sequence[Along]) -> SSAValue:
        order = sorted(range(len(dims)), key=lambda number: dims[number].stride == 1)
        sizes, strides = [dims[number].size for number in order], [dims[number].stride for number in order]
        dynamic = [self._known_positive(n) for n in (*sizes, *strides) if isinstance(n, SSAValue)]
        bits = max((width_of(value) for value in dynamic), default=32)
        written = iter([self._unsigned(value, bits) for value in dynamic])
        operands: Operands = {
            "base": self.base,
            "dynamicShape": [next(written) for n in sizes if isinstance(n, SSAValue)],
            "dynamicStrides": [next(written) for n in strides if isinstance(n, SSAValue)],
        }
        shape, steps = ([n if isinstance(n, int) else DYNAMIC for n in group] for group in (sizes, strides))
        tensor = TensorViewType(self.pointer.pointee, shape, steps, self.pointer.ptr_attr)
        made = self._create("make_tensor_view", operands, tensor)
        places, tile = [order.index(number) for number in range(len(dims))], [along.extent for along in dims]
        traversal = [along.step for along in dims]
        if traversal == tile:
            type_ = PartitionViewType(tile, tensor, places, self.padding)
            return self._create("make_partition_view", {"tensor_view": made}, type_)
        strided = StridedViewType(tile, traversal, tensor, places, self.padding)
        return self._create("make_strided_view", {"tensor_view": made}, strided)

    def _index(self, along: Along) -> SSAValue:
        if isinstance(along.index, SSAValue):
            return self._known_positive(along.index)
        bits = 32 if along.index <= _LARGEST else 64
        type_ = TileType((), NUMBER_TYPES[f"i{bits}"])
        raw = along.index.to_bytes(bits // 8, "little")
        return self._create("constant", {}, type_, value=DenseElementsAttr(type_, raw))

    def _known_positive(self, value: SSAValue) -> SSAValue:
        """A number without a sign as one that is the same with a sign."""
        for narrow in (_narrow(value), value):
            lower = self.facts.of(narrow).lower
            if lower is not None and lower >= 0:
                return narrow
        return self._unsigned(value, 64)

    def _unsigned(self, value: SSAValue, bits: int) -> SSAValue:
        if width_of(value) == bits:
            return value
        type_ = TileType((), NUMBER_TYPES[f"i{bits}"])
        return self._create("exti", {"from": value}, type_, signedness="unsigned")

    def _create(self, name: str, operands: Operands, type_: Attribute, **attributes: object) -> SSAValue:
        return create_before(self.op, name, operands, [type_], attributes)


def _narrow(value: SSAValue) -> SSAValue:
    """What a number, or each of a tile, is without the zeros that it was extended by."""
    wide = defining(value, "exti")
    return value if wide is None or wide.attribute_value("signedness") != "unsigned" else wide.operand("from")


def _without_reshape(value: SSAValue) -> SSAValue:
    """What a tile that only one dimension varies along is a reshape of."""
    while (op := defining(value, "reshape")) is not None and len(tile_shape(op.operand("source"))) <= 1:
        value = op.operand("source")
    return value


def _scalar(value: SSAValue) -> SSAValue | None:
    """The scalar that is spread over a tile; None for another tile."""
    while tile_shape(value):
        op = value.owner
        if not isinstance(op, CudaTileOp) or not is_op(op, "reshape", "broadcast"):
            return None
        value = op.operand("source")
    return value
