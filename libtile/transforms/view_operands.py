# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`view-operands`: what products in loops load through tiles of pointers is loaded through views, where TMA, or copies
of 16 bytes, can then bring it to shared memory.

    x = load_ptr_tko base + (row + i) * stride + (col + j), row + i < rows and col + j < cols

becomes a load through a `strided_view` of a tensor of these sizes and strides, from its element [row, col] on, which is
padded where the mask is 0. Where a tile of numbers says which rows are loaded, the view is a `gather_scatter_view`.

Other than `recover-views` makes them, tiles may lie outside of the tensor altogether: all of them is padding then, as
TMA and the lowering have it, and `outside` on the load says so to those who would call it undefined. So this is for a
compilation, and none of the optimizer's passes. What a view's tensor is made of is the same in a whole launch, as the
host makes descriptors of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from libtile.analysis import Facts
from libtile.analysis.affine import Forms
from libtile.analysis.polynomials import ONE, ZERO, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    is_float,
)
from libtile.dialects.interfaces import loop_around
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.numerics.elements import ELEMENTS, PACKED, STORAGE_BYTES
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import target
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_value, is_op, replace_op
from libtile.transforms.dce import eliminate_dead_code
from libtile.transforms.greedy import functions_in
from libtile.transforms.pointer_boxes import Box, Dimension, place_in_function
from libtile.transforms.polynomial_scalars import Operands, ScalarWriter
from libtile.transforms.products import PRODUCTS

ON_THE_WAY = ("reshape", "permute", "ftof")
"""Ops between a load and a product that move and round its elements."""
ALIGNMENT = 16
"""Bytes that copies to shared memory move at once, of rows and where these begin."""
MOST_DIMENSIONS = 5
"""Of a tensor that TMA copies from."""
_REMARK = "ViewOperands"


@dataclass(frozen=True)
class ViewOperandsPass(ModulePass):
    """Load operands of products in loops through views, for targets that copy by TMA."""

    name = "view-operands"

    gpu_name: str = "sm_90"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if target(self.gpu_name).has("tma"):
            view_operands(op)


def view_operands(root: Operation) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        ops = ops_of(function, CudaTileOp)
        accesses = [op for op in ops if _is_operand(op)]
        if any(is_op(op, *PRODUCTS) and loop_around(op) is not None for op in ops):
            accesses += [op for op in ops if is_op(op, "store_ptr_tko")]
        forms = Forms(Facts(function)) if accesses else None
        plans = [(op, _plan_or_reason(op, forms)) for op in accesses if forms is not None]
        for op, plan in plans:
            stores = is_op(op, "store_ptr_tko")
            if isinstance(plan, str):
                if not stores:
                    reporting.missed(op, _REMARK, "Operand is loaded through pointers", plan)
                continue
            if stores:
                reporting.done(op, _REMARK, "Rows that are stored through pointers are stored through a view")
                statistics.count("rows through views")
            else:
                reporting.done(op, _REMARK, "Operand that is loaded through pointers is loaded through a view")
                statistics.count("operands through views")
            _Writer(op, plan).write()
        if any(not isinstance(plan, str) for _, plan in plans):
            eliminate_dead_code(function)
            changed = True
    return changed


def _is_operand(op: CudaTileOp) -> bool:
    """Whether a load through pointers is in a loop, and nothing but products read what it gives."""
    if not is_op(op, "load_ptr_tko") or loop_around(op) is None:
        return False
    users = list(_users(op.results[0]))
    return bool(users) and all(is_op(user, *PRODUCTS) for user in users)


def _users(value: SSAValue) -> Iterator[Operation]:
    for use in value.uses:
        if is_op(use.operation, *ON_THE_WAY):
            yield from _users(use.operation.results[0])
        else:
            yield use.operation


@dataclass(frozen=True)
class _Plan:
    """The box of a load; its dimensions in the order of the tensor, the one of stride 1 last; what pads it."""

    box: Box
    dims: tuple[Dimension, ...]
    padding: str | None


def _plan_or_reason(op: CudaTileOp, forms: Forms) -> _Plan | str:
    try:
        return _plan(op, forms)
    except NotAffineError as error:
        return str(error)


def _plan(op: CudaTileOp, forms: Forms) -> _Plan:
    stores = is_op(op, "store_ptr_tko")
    pointers = op.operand("destination" if stores else "source")
    assert isinstance(pointers.type, TileType) and isinstance(pointers.type.element_type, PointerType)
    pointee = pointers.type.element_type.pointee
    if op.attribute_value("memory_ordering_semantics") != "weak":
        raise NotAffineError("the access is not weak")
    if pointee not in NUMBER_NAMES or NUMBER_NAMES[pointee] in PACKED:
        raise NotAffineError(f"no view has elements of type {pointee}")
    padding = None if stores else _padding(op)
    box = Box(forms, pointers, op.optional_operand("mask"))
    size = STORAGE_BYTES[NUMBER_NAMES[pointee]]
    dims = sorted(box.dims, key=lambda dim: (dim.stride == ONE, -1 if dim.tile is None else dim.tile))
    if not dims or dims[-1].stride != ONE or dims[-1].extent * size < ALIGNMENT:
        raise NotAffineError("no dimension of the tile is contiguous, for 16 bytes at least")
    strides = [dim.stride for dim in dims[:-1]] + ([] if box.numbers is None else [box.numbers.factor])
    elements = max(ALIGNMENT // size, 1)
    if not all(forms.divisible(number, elements) for number in (*strides, box.rest)):
        raise NotAffineError("rows are not known to begin at multiples of 16 bytes")
    if forms.facts.of(box.base).scalar_divisor % ALIGNMENT:
        raise NotAffineError("the pointer is not known to be a multiple of 16 bytes")
    if len(dims) > MOST_DIMENSIONS:
        raise NotAffineError(f"the tensor would have more than {MOST_DIMENSIONS} dimensions")
    if box.numbers is not None:
        _check_numbers(box, dims, forms)
    elif stores:
        raise NotAffineError("its rows lie one behind the other, as contract-views takes them")
    return _Plan(box, tuple(dims), padding)


def _check_numbers(box: Box, dims: Sequence[Dimension], forms: Forms) -> None:
    assert box.numbers is not None and box.number_size is not None
    if len(dims) != 1 or dims[0].tile is None or len(box.form.shape) != 2:
        raise NotAffineError("rows of something else than a matrix are chosen by numbers")
    if forms.bounds(box.numbers.factor)[0] < 0:
        raise NotAffineError("the stride of rows may be negative")
    unknowns = {*box.numbers.factor.unknowns, *box.number_size.unknowns}
    if not all(map(box.is_launch_unknown, unknowns)):
        raise NotAffineError("the rows that are chosen are of a tensor that changes within a launch")
    if forms.bounds(box.number_size)[0] < 0:
        raise NotAffineError("the number of rows is not known to be positive")


def _padding(op: CudaTileOp) -> str | None:
    """The keyword of what the load gives where its mask is 0. NotAffineError where there is none for it."""
    value = op.optional_operand("paddingValue")
    if value is None or op.optional_operand("mask") is None:
        return "zero"  # of what is masked nothing is said
    attr = constant_value(value)
    if attr is None or not attr.is_splat:
        raise NotAffineError("it is padded by different numbers")
    element, (bits,) = attr.type.element_type, attr.elements()
    known = ELEMENTS[NUMBER_NAMES[element]].padding
    keywords = [word for word, stored in known.items() if stored == bits and (word == "zero" or is_float(element))]
    if not keywords:
        raise NotAffineError("it is padded by what no view is padded by")
    return keywords[0]


class _Writer:
    """Loads through a view in place of pointers, as a plan says."""

    def __init__(self, op: CudaTileOp, plan: _Plan):
        self.op, self.plan, self.box = op, plan, plan.box
        self.here = ScalarWriter(op, plan.box.forms)
        place = place_in_function(op)
        self.outside = ScalarWriter(place, plan.box.forms)

    def write(self) -> None:
        op, at = self.op, self.here
        view, index, dims = self._gathered() if self.box.numbers is not None else self._strided()
        positive = self.box.forms.is_positive
        outside = [n for n, d in enumerate(dims) if d is not None and not positive(d.size - d.start)]
        inside = [d is not None and d.inside for d in dims]
        assert isinstance(view.type, PartitionViewType | StridedViewType | GatherScatterViewType)
        settings = {"memory_ordering_semantics": "weak", **({"inbounds": inside} if any(inside) else {})}
        operands: Operands = {"view": view, "index": index, "token": op.optional_operand("token")}
        if stores := is_op(op, "store_ptr_tko"):
            (given,) = op.operand_group("value")
            made = build("store_view_tko", {"tile": given, **operands}, [op.results[0].type], settings)
        else:
            result = op.results[0].type
            assert isinstance(result, TileType)
            types = [TileType(view.type.tile_shape, result.element_type), op.results[1].type]
            made = build("load_view_tko", operands, types, settings)
        hints = op.properties.get("optimization_hints")
        if hints is not None:
            made.properties["optimization_hints"] = hints
        if outside:
            made.attributes[OUTSIDE_ATTRIBUTE] = DenseArrayBase.from_list(i64, outside)
        made.location = op.location
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(made, op)
        if stores:
            replace_op(op, made.results)
            return
        value: SSAValue = made.results[0]
        if value.type != result:
            value = at.create("reshape", {"source": value}, result)
        replace_op(op, [value, made.results[1]])

    def _tensor(self, sizes: Sequence[Polynomial], strides: Sequence[Polynomial]) -> SSAValue:
        at, base = self.outside, self.box.base
        assert isinstance(base.type, TileType) and isinstance(base.type.element_type, PointerType)
        pointer = base.type.element_type
        if self.box.rest != ZERO:
            distance = at.number(self.box.rest, at.bits([self.box.rest]))
            base = at.create("offset", {"ptr": base, "offset": distance}, base.type)
        bits = at.bits([*sizes, *strides])
        shape, steps = ([DYNAMIC if n.value is None else n.value for n in numbers] for numbers in (sizes, strides))
        operands: Operands = {
            "base": base,
            "dynamicShape": [at.number(n, bits) for n in sizes if n.value is None],
            "dynamicStrides": [at.number(n, bits) for n in strides if n.value is None],
        }
        return at.create("make_tensor_view", operands, TensorViewType(pointer.pointee, shape, steps, pointer.ptr_attr))

    def _strided(self) -> tuple[SSAValue, list[SSAValue], Sequence[Dimension | None]]:
        dims, forms = self.plan.dims, self.box.forms
        tensor = self._tensor([d.size for d in dims], [d.stride for d in dims])
        # Of the tile the dimensions that only the tensor has come first, and those of one element that it has not.
        lone = [d for d in dims if d.tile is None]
        by_tile = {d.tile: d for d in dims if d.tile is not None}
        order = [*lone, *(by_tile[t] for t in range(len(self.box.form.shape)) if t in by_tile)]
        steps = [d.extent if forms.divisible(d.start, d.extent) else 1 for d in order]
        shape, places = [d.extent for d in order], [dims.index(d) for d in order]
        bits = self.here.bits([d.start for d in order])
        index = [self._index(d, step, bits) for d, step in zip(order, steps)]
        assert isinstance(tensor.type, TensorViewType)
        if steps == shape:
            tiles = PartitionViewType(shape, tensor.type, places, self.plan.padding)
            view = self.outside.create("make_partition_view", {"tensor_view": tensor}, tiles)
        else:
            strided = StridedViewType(shape, steps, tensor.type, places, self.plan.padding)
            view = self.outside.create("make_strided_view", {"tensor_view": tensor}, strided)
        return view, index, order

    def _index(self, dim: Dimension, step: int, bits: int) -> SSAValue:
        quotient = dim.start.divided(step)
        if quotient is not None:
            return self.here.number(quotient, bits)
        number = self.here.number(dim.start, bits)
        operands = {"lhs": number, "rhs": self.here.constant(step, bits)}
        return self.here.create("divi", operands, number.type, signedness="signed", rounding="zero")

    def _gathered(self) -> tuple[SSAValue, list[SSAValue], Sequence[Dimension | None]]:
        numbers, (dim,) = self.box.numbers, self.plan.dims
        assert numbers is not None and self.box.number_size is not None and dim.tile is not None
        sizes, strides = [dim.size], [dim.stride]
        sizes.insert(numbers.dim, self.box.number_size)
        strides.insert(numbers.dim, numbers.factor)
        tensor = self._tensor(sizes, strides)
        assert isinstance(tensor.type, TensorViewType)
        type_ = GatherScatterViewType(self.box.form.shape, tensor.type, numbers.dim, self.plan.padding)
        view = self.outside.create("make_gather_scatter_view", {"tensor_view": tensor}, type_)
        rows = numbers.tile
        assert isinstance(rows.type, TileType)
        flat = TileType((rows.type.num_elements,), rows.type.element_type)
        if rows.type != flat:
            rows = self.here.create("reshape", {"source": rows}, flat)
        index = [self.here.number(dim.start, self.here.bits([dim.start]))]
        index.insert(numbers.dim, rows)
        return view, index, [None, dim] if numbers.dim == 0 else [dim, None]
