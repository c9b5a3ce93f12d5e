# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`expand-views`: loads and stores of ragged tiles through views become ones through pointers, under a mask.

The element of a tile at position `i` is at `start + i` of the tensor, and is accessed where that is less than the size:

    position_d = index_d * step_d + iota
    pointer    = base + position_0 * stride_0 + position_1 * stride_1 + ...
    mask       = position_0 < size_0  and  position_1 < size_1  and ...       (unsigned)

An assembler that checks of such an access first whether there is such a tile and then which elements there are, each in
64 bits, makes half the instructions of the mask; and accesses under masks wait for no branch. It is the opposite of
`recover-views`, for tiles that no assembler copies as a whole (TMA).

Positions are of the width of sizes and indices. Where an index may be so large that they wrap around, it is compared
with the largest one that does not: no tensor whose size fits has tiles beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    NUMBER_TYPES,
    PartitionViewType,
    StridedViewType,
    TileType,
    i1,
    tile_shape,
    width_of,
)
from libtile.dialects.interfaces import control_flow
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.numerics.elements import ELEMENTS, PACKED
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.access_registers import MaskedAccess, masked_access
from libtile.transforms.canonical_values import constant_integer, create_before, defining, is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.infer_in_bounds import dimensions_in_bounds
from libtile.transforms.polynomial_scalars import Operands
from libtile.transforms.whole_tiles import first_that_takes_whole_tiles

_ACCESSES = ("load_view_tko", "store_view_tko")
_REMARK = "ExpandViews"
_LONG = ("pow", "remf", "sin", "cos", "tan", "sinh", "cosh")
_MOST_ACCESSES = 16
"""Beyond these what an assembler keeps of their addresses and masks takes registers that it had not taken."""
_MOST_WIDE = 2
"""Dimensions of several elements along which positions are compared and added."""
_MOST_REGISTERS = 28
"""With them and what every kernel needs a thread has little more than the 32 of which no multiprocessor runs out."""
_LITTLE = 8
"""Registers that are loaded beside a tile without being much."""
_MOVES = ("permute", "extract", "cat")
"""Ops by which elements come to other threads."""


class ViewStaysError(Exception):
    """Why an access stays one through a view."""


@dataclass(frozen=True)
class ExpandViewsPass(ModulePass):
    """Make masked accesses through pointers of those of ragged tiles through views.

    `everywhere`: also in functions with ops whose operands assemblers copy as whole tiles, with loops and with many
    accesses, whose addresses take registers all at once, and with ops that take more instructions than accesses do.
    """

    name = "expand-views"

    everywhere: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_views(op, self.everywhere)


def expand_views(root: Operation, everywhere: bool = False) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        ops = ops_of(function, CudaTileOp)
        accesses = [op for op in ops if is_op(op, *_ACCESSES)]
        if not accesses:
            continue
        facts = Facts(function)
        found = {op: _expansion(op, facts, everywhere) for op in accesses}
        reason = "" if everywhere else _reason_against(ops) or _reason_by_registers(ops, found.values())
        for op, expansion in found.items():
            changed |= _apply(op, expansion, reason)
    return changed


def _reason_against(ops: Sequence[CudaTileOp]) -> str:
    """Why accesses of a function with these ops stay through views; empty where they need not."""
    whole = first_that_takes_whole_tiles(ops)
    if whole is not None:
        return f"{whole.spec.name} takes whole tiles"
    flows = (control_flow(op) for op in ops)
    if any(flow is not None and flow.is_loop for flow in flows):
        return "there is a loop"
    long = next((op for op in ops if _is_long(op)), None)
    if long is not None:
        return f"{long.spec.name} takes more instructions than accesses do"
    accesses = [op for op in ops if is_op(op, *_ACCESSES)]
    if len(accesses) > _MOST_ACCESSES:
        return f"there are more than {_MOST_ACCESSES} accesses through views"
    return "" if any(is_op(op, "load_view_tko") for op in accesses) else "nothing is loaded through a view"


def _is_long(op: CudaTileOp) -> bool:
    """Whether an op on tiles is computed by a call, or a loop, in a function of its own that takes registers."""
    type_ = op.results[0].type if op.results else None
    if not isinstance(type_, TileType) or type_.num_elements == 1:
        return False
    match op.spec.name:
        case "divi" | "remi":
            return constant_integer(op.operand("rhs")) is None
        case "divf":
            return op.attribute_value("rounding_mode") not in ("approx", "full")
        case "sqrt" | "rsqrt" | "exp" | "exp2" | "log" | "log2" | "tanh":
            return type_.element_type == NUMBER_TYPES["f64"]
        case name:
            return name in _LONG


def _reason_by_registers(ops: Sequence[CudaTileOp], found: Iterable[Expansion | str]) -> str:
    """Why accesses stay through views where all that they take at once makes up more registers than views need."""
    expansions = [expansion for expansion in found if isinstance(expansion, Expansion)]
    loads = [expansion.access.registers for expansion in expansions if expansion.is_load]
    stores = [expansion.access.registers for expansion in expansions if not expansion.is_load]
    taken = sum(loads) + max(stores, default=0)
    if taken <= _MOST_REGISTERS or _keeps_all_it_loads(ops, expansions, loads):
        return ""
    return f"they would take {taken} registers of a thread at once, which is more than {_MOST_REGISTERS}"


def _keeps_all_it_loads(ops: Sequence[CudaTileOp], expansions: Sequence[Expansion], loads: Sequence[int]) -> bool:
    """Whether a function has all that it loads in registers either way: one tile, whose elements stay where they are,
    and of which an assembler does not find out beforehand which elements there are."""
    if sum(loads) - max(loads, default=0) > _LITTLE or any(is_op(op, *_MOVES) for op in ops):
        return False
    return all(expansion.access.is_short and not expansion.is_at_a_known_place for expansion in expansions)


def _expansion(op: CudaTileOp, facts: Facts, everywhere: bool) -> Expansion | str:
    """An access as one through pointers, or why it is none."""
    try:
        expansion = Expansion(op, facts)
    except ViewStaysError as error:
        return str(error)
    if not everywhere and sum(extent > 1 for extent in expansion.type.tile_shape) > _MOST_WIDE:
        return f"its tile has more than {_MOST_WIDE} dimensions of several elements"
    return expansion


def _apply(op: CudaTileOp, expansion: Expansion | str, reason: str) -> bool:
    what = "Load" if is_op(op, "load_view_tko") else "Store"
    if reason or isinstance(expansion, str):
        reporting.missed(op, _REMARK, f"{what} through a view is not one through pointers", reason or str(expansion))
        return False
    reporting.done(op, _REMARK, f"{what} through a view made one through pointers", Masked=expansion.masked)
    statistics.count(f"{what.lower()}s through pointers")
    expansion.write()
    return True


class Expansion:
    """An access through a view as one through pointers. ViewStaysError where there is none, with the reason."""

    def __init__(self, op: CudaTileOp, facts: Facts) -> None:
        self.op = op
        self.facts = facts
        (view,) = op.operand_group("view")
        type_ = view.type
        if not isinstance(type_, PartitionViewType | StridedViewType):
            raise ViewStaysError("it has an index per element")
        tiles = defining(view, "make_partition_view") or defining(view, "make_strided_view")
        tensor = defining(tiles.operand("tensor_view"), "make_tensor_view") if tiles is not None else None
        if tensor is None:
            raise ViewStaysError("its tensor is made elsewhere")
        self.type, self.tensor = type_, tensor
        self._check_access()
        if all(dimensions_in_bounds(op, facts)):
            raise ViewStaysError("it is in bounds")
        if prod(type_.tile_shape) == 1:
            raise ViewStaysError("it is of one element")
        if self._is_cut_at_a_known_place():
            raise ViewStaysError("it is known which elements are outside")
        self.inside = dimensions_in_bounds(op, facts, by_space=False)
        self.steps = type_.traversal_strides if isinstance(type_, StridedViewType) else type_.tile_shape
        self.dims = tuple(type_.dim_map) or tuple(range(len(type_.tile_shape)))
        self.width = self._width()

    @property
    def is_load(self) -> bool:
        """Whether it is one of `load_view_tko`."""
        return is_op(self.op, "load_view_tko")

    @property
    def access(self) -> MaskedAccess:
        """What a thread does for it."""
        return masked_access(self.type, self.tensor, self.facts, self.inside, self.is_load)

    @property
    def is_at_a_known_place(self) -> bool:
        """Whether the index is constant along every dimension."""
        return all(constant_integer(index) is not None for index in self.op.operand_group("index"))

    @property
    def masked(self) -> str:
        """The tile's dimensions that have a bound."""
        return ", ".join(str(number) for number, inside in enumerate(self.inside) if not inside)

    def _check_access(self) -> None:
        element = self.type.tensor_view.element_type
        if self.op.attribute_value("memory_ordering_semantics") != "weak":
            raise ViewStaysError("the access is not weak")
        if self.op.properties.get("optimization_hints") is not None:
            raise ViewStaysError("it has hints on how to copy a tile")
        if element not in NUMBER_NAMES or NUMBER_NAMES[element] in PACKED:
            raise ViewStaysError(f"no pointer is to one {element}")

    def _is_cut_at_a_known_place(self) -> bool:
        """Whether index and size are constants along every dimension: then nobody looks for the tile at run time."""
        return self.is_at_a_known_place and DYNAMIC not in self.type.tensor_view.shape

    def _width(self) -> int:
        """The bits of a position: those of sizes and indices, 32 at least."""
        dynamic = [width_of(value) for value in self.tensor.operand_group("dynamicShape")]
        indices = [width_of(value) for value in self.op.operand_group("index")]
        wide = any(size != DYNAMIC and size >= 1 << 32 for size in self.type.tensor_view.shape)
        return 64 if wide else max(32, *dynamic, *indices)

    # -- writing it -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Replace the access."""
        sizes, strides = self._numbers("Shape"), self._numbers("Strides")
        offset: SSAValue | None = None
        mask: SSAValue | None = None
        parts = zip(self.op.operand_group("index"), self.steps, self.type.tile_shape, self.dims, self.inside)
        for number, (index, step, extent, dim, inside) in enumerate(parts):
            position = self._position(index, step, extent)
            conditions = [self._guard(index, step, extent)]
            if not inside:
                conditions.append(self._less(position, self._number(sizes[dim], self.width)))
            for condition in conditions:
                if condition is not None:
                    mask = self._two("andi", mask, self._along(condition, number))
            distance = self._widened(position, 64)
            if strides[dim] != 1:
                distance = self._two("muli", distance, self._number(strides[dim], 64))
            offset = self._two("addi", offset, self._along(distance, number))
        assert offset is not None and mask is not None  # a tile without dimensions is in bounds
        shape = self.type.tile_shape
        base = self.tensor.operand("base")
        pointers = self._broadcast(self._reshape(base, (1,) * len(shape)), shape)
        operands = {"ptr": pointers, "offset": self._broadcast(offset, shape)}
        self._replace(self._create("offset", operands, pointers.type), self._broadcast(mask, shape))

    def _replace(self, pointers: SSAValue, mask: SSAValue) -> None:
        op = self.op
        operands: dict[str, SSAValue | None] = {"mask": mask, "token": op.optional_operand("token")}
        if is_op(op, "load_view_tko"):
            name = "load_ptr_tko"
            operands |= {"source": pointers, "paddingValue": self._padding()}
        else:
            name = "store_ptr_tko"
            operands |= {"destination": pointers, "value": op.operand("tile")}
        made = build(name, operands, [result.type for result in op.results], {"memory_ordering_semantics": "weak"})
        made.attributes.update(op.attributes)
        made.location = op.location
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(made, op)
        replace_op(op, list(made.results))

    def _padding(self) -> SSAValue | None:
        """A tile of what the view has outside of its tensor."""
        if self.type.padding_value is None:
            return None
        element = self.type.tensor_view.element_type
        traits = ELEMENTS[NUMBER_NAMES[element]]
        bits = traits.padding[self.type.padding_value]
        raw = bits.to_bytes(traits.storage_bytes, "little")
        type_ = TileType(self.type.tile_shape, element)
        return self._create("constant", {}, type_, value=DenseElementsAttr(type_, raw))

    def _numbers(self, what: str) -> list[int | SSAValue]:
        """The sizes or strides of the tensor's dimensions, each a number or a scalar."""
        tensor = self.type.tensor_view
        dynamic = iter(self.tensor.operand_group(f"dynamic{what}"))
        return [number if number != DYNAMIC else next(dynamic) for number in getattr(tensor, what.lower())]

    def _position(self, index: SSAValue, step: int, extent: int) -> SSAValue:
        """Where the elements along a dimension of the tile are in the tensor: a scalar where there is but one."""
        start: SSAValue | None = None
        if constant_integer(index) != 0:
            start = self._widened(index, self.width)
            if step != 1:
                start = self._two("muli", start, self._number(step, self.width))
        if extent == 1:
            return start if start is not None else self._number(0, self.width)
        return self._two("addi", start, self._create("iota", {}, TileType((extent,), NUMBER_TYPES[f"i{self.width}"])))

    def _guard(self, index: SSAValue, step: int, extent: int) -> SSAValue | None:
        """Whether no position wraps around; None where none can."""
        most = ((1 << self.width) - extent) // step
        fact = self.facts.of(index)
        largest = fact.upper if fact.lower is not None and fact.lower >= 0 else None
        if largest is None:  # which is what it reads as without a sign
            largest = (1 << width_of(index)) - 1
        if largest <= most:
            return None
        number = self._widened(index, self.width)
        return self._less(number, self._number(most + 1, self.width)) if most + 1 < 1 << self.width else None

    # -- small ops --------------------------------------------------------------------------------------------------

    def _create(self, name: str, operands: Operands, type_: Attribute, **attributes: object) -> SSAValue:
        return create_before(self.op, name, operands, [type_], attributes)

    def _number(self, number: int | SSAValue, width: int) -> SSAValue:
        """A number, or a scalar that is read as unsigned, of `width` bits."""
        if not isinstance(number, int):
            return self._widened(number, width)
        type_ = TileType((), NUMBER_TYPES[f"i{width}"])
        raw = number.to_bytes(width // 8, "little")
        return self._create("constant", {}, type_, value=DenseElementsAttr(type_, raw))

    def _widened(self, value: SSAValue, width: int) -> SSAValue:
        type_ = value.type
        assert isinstance(type_, TileType)
        if width_of(value) == width:
            return value
        wide = TileType(type_.shape, NUMBER_TYPES[f"i{width}"])
        return self._create("exti", {"from": value}, wide, signedness="unsigned")

    def _less(self, small: SSAValue, large: SSAValue) -> SSAValue:
        shape = tile_shape(small)
        operands = {"lhs": small, "rhs": self._broadcast(self._reshape(large, (1,) * len(shape)), shape)}
        settings = {"comparison_predicate": "less_than", "signedness": "unsigned"}
        return self._create("cmpi", operands, TileType(shape, i1), **settings)

    def _two(self, name: str, lhs: SSAValue | None, rhs: SSAValue) -> SSAValue:
        """`name lhs, rhs` of tiles spread over each other's shape; the right one where there is no other."""
        if lhs is None:
            return rhs
        rank = max(len(tile_shape(lhs)), len(tile_shape(rhs)))
        lhs, rhs = (value if tile_shape(value) else self._reshape(value, (1,) * rank) for value in (lhs, rhs))
        shape = tuple(map(max, tile_shape(lhs), tile_shape(rhs)))
        operands = {"lhs": self._broadcast(lhs, shape), "rhs": self._broadcast(rhs, shape)}
        return self._create(name, operands, operands["lhs"].type)

    def _along(self, value: SSAValue, number: int) -> SSAValue:
        """A scalar, or a tile of one dimension, as a tile that varies along a dimension of the access alone."""
        shape = [1] * len(self.type.tile_shape)
        shape[number] = (tile_shape(value) or (1,))[0]
        return self._reshape(value, tuple(shape))

    def _reshape(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        return self._spread("reshape", value, shape)

    def _broadcast(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        return self._spread("broadcast", value, shape)

    def _spread(self, name: str, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        type_ = value.type
        assert isinstance(type_, TileType)
        if type_.shape == shape:
            return value
        return self._create(name, {"source": value}, TileType(shape, type_.element_type))
