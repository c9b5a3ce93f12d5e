# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`recover-views`: loads and stores through tiles of pointers become ones through views, where they are the same.

A tile of pointers that is affine in the position (`analysis.affine`) addresses a box of a strided tensor:

    pointer[i, j] = base + rest + (start_0 + i) * stride_0 + (start_1 + j) * stride_1
    mask[i, j]    = i < size_0 - start_0  and  j < size_1 - start_1  and  what does not depend on the position

is the tile `start / extent` of a tensor of these sizes and strides at `base + rest`. What the mask leaves out are the
elements outside of the tensor. Two things are undefined through a view and are not through pointers, so they are shown
not to happen, or asked at run time by an `if` around the access: a tile that starts beyond the tensor, and a negative
index. Along a dimension without a mask the tensor is as large as the tiles that are accessed.

A mask may leave out the first positions of a tile (`i >= low`: what lies in front of a tensor). No view does, whose
indices are not negative. Unless that never happens, an `if` takes the view for tiles of which all first positions are
in, and the pointers for others: at the edge of a tensor, where a padded convolution begins.

Where a start is no multiple of the tile's extent, the tensor starts where the tile does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from libtile.analysis import Facts
from libtile.analysis.affine import Forms, one_like, permuted, positive_where, reshaped
from libtile.analysis.polynomials import ONE, ZERO, Form, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    NUMBER_TYPES,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
    TokenType,
    i1,
    is_float,
)
from libtile.dialects.interfaces import loop_around
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.numerics.elements import ELEMENTS, PACKED
from libtile.support import statistics
from libtile.support.records import dataclass, field
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_bool, constant_value, is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.pointer_boxes import take
from libtile.transforms.polynomial_scalars import Operands, ScalarWriter
from libtile.transforms.products import multiplied

_ACCESSES = ("load_ptr_tko", "store_ptr_tko")
_REMARK = "RecoverViews"
_LARGEST = (1 << 63) - 1
_UNIT_STRIDE = 16
"""The stride of a dimension of one element, which nothing is computed with: one that is a multiple of 16 bytes."""


@dataclass(frozen=True)
class RecoverViewsPass(ModulePass):
    """Make accesses through views of those through affine tiles of pointers.

    `guard`: also those that may lie outside of their tensor altogether, in an `if`. `everywhere`: also those that are
    no operands of products in loops. Tensor cores take operands from shared memory, into which TMA copies what is
    loaded through a view; for anything else that is a detour, and takes NVIDIA's assembler more instructions.
    """

    name = "recover-views"

    guard: bool = True
    everywhere: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        recover_views(op, self.guard, self.everywhere)


def recover_views(root: Operation, guard: bool = True, everywhere: bool = True) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        ops = ops_of(function, CudaTileOp)
        accesses = [op for op in ops if is_op(op, *_ACCESSES)]
        operands = multiplied(ops) if accesses and not everywhere else None
        reasons = {op: "" if operands is None else _reason_against(op, operands) for op in accesses}
        forms = Forms(Facts(function)) if "" in reasons.values() else None
        plans = [
            (op, reasons[op] if reasons[op] or forms is None else _plan_or_reason(op, forms, guard)) for op in accesses
        ]
        for op, plan in plans:
            changed |= _apply(op, plan)
    return changed


def _reason_against(op: CudaTileOp, multiplied_tiles: Collection[SSAValue]) -> str:
    """Why an access is better off with its pointers; empty where it is not."""
    if op.results[0] not in multiplied_tiles:
        return "no product on tensor cores takes it"
    return "" if loop_around(op) is not None else "it is not repeated"


def _plan_or_reason(op: CudaTileOp, forms: Forms, guard: bool) -> Plan | str:
    try:
        plan = Plan(op, forms)
    except NotAffineError as error:
        return str(error)
    return plan if guard or not plan.is_guarded else "it is not known that the tile starts within the tensor"


def _apply(op: CudaTileOp, plan: Plan | str) -> bool:
    what = "load" if is_op(op, "load_ptr_tko") else "store"
    if isinstance(plan, str):
        reporting.missed(op, _REMARK, f"{what.capitalize()} through pointers is not one through a view", plan)
        return False
    message = f"{what.capitalize()} through pointers made one through a view"
    message += " where the mask leaves out no first positions" if plan.whole else ""
    reporting.done(op, _REMARK, message, Guarded="yes" if plan.is_guarded else "no")
    if plan.whole:
        statistics.count(f"{what}s that keep their pointers for first positions")
    statistics.count(f"{what}s through views")
    if plan.is_guarded:
        statistics.count("guards")
    Writer(op, plan).write()
    return True


# -- what the mask says -----------------------------------------------------------------------------------------------


@dataclass
class Conditions:
    """A mask: the forms that are greater than 0, and the scalars that are true, where it is."""

    positive: list[Form] = field(default_factory=list)
    scalars: list[SSAValue] = field(default_factory=list)

    def add(self, forms: Forms, mask: SSAValue) -> None:
        """Add what a condition says; NotAffineError for one that is no conjunction of bounds."""
        type_, op = mask.type, mask.owner
        assert isinstance(type_, TileType)
        if constant_bool(mask) is True:
            return
        if type_.shape == ():
            self.scalars.append(mask)
            return
        if not isinstance(op, CudaTileOp):
            raise NotAffineError("the mask is carried by a loop")
        inner = Conditions()
        match op.spec.name:
            case "andi":
                for operand in op.operands:
                    inner.add(forms, operand)
            case "cmpi":
                inner.positive = positive_where(op, forms, forms.of, one_like)
            case "reshape" | "broadcast" | "permute":
                inner.add(forms, op.operand("source"))
                inner.positive = [_moved(form, op, type_.shape) for form in inner.positive]
            case name:
                raise NotAffineError(f"the mask comes from {name}")
        self.positive += inner.positive
        self.scalars += inner.scalars


def _moved(form: Form, op: CudaTileOp, shape: tuple[int, ...]) -> Form:
    if op.spec.name == "reshape":
        return reshaped(form, shape)
    if op.spec.name == "permute":
        return permuted(form, op.attribute_value("permutation"))
    return Form(shape, form.start, form.steps)


# -- the view ---------------------------------------------------------------------------------------------------------


@dataclass
class Dimension:
    """Along a dimension of the tile: where it starts in the tensor, and the tensor's size and stride, in elements."""

    extent: int
    stride: Polynomial
    start: Polynomial = ZERO
    size: Polynomial = ONE
    below: Polynomial | None = None
    """Positions from this one on are masked."""

    @property
    def is_unit(self) -> bool:
        return self.extent == 1


class Plan:
    """How an access goes through a view. NotAffineError where it cannot, with the reason."""

    def __init__(self, op: CudaTileOp, forms: Forms) -> None:
        self.op, self.forms = op, forms
        pointers = op.operand_group("source" if is_op(op, "load_ptr_tko") else "destination")[0]
        assert isinstance(pointers.type, TileType)
        _check_access(op, pointers.type)
        self.form = forms.of(pointers)
        self.dims = [Dimension(extent, step) for extent, step in zip(self.form.shape, self.form.steps)]
        self.needed: list[tuple[Polynomial, Polynomial]] = []
        """Pairs of which the first has to be less than the second, or nothing is accessed."""
        self.whole: list[Polynomial] = []
        """What has to be greater than 0, or the first positions of the tile are masked."""
        self.conditions = Conditions()
        mask = op.optional_operand("mask")
        if mask is not None:
            self.conditions.add(forms, mask)
        self._check_strides()
        lower = self._bounds()
        self._place(lower)
        self._check_sizes()

    @property
    def is_guarded(self) -> bool:
        return bool(self.needed or self.whole or self.conditions.scalars)

    def _check_strides(self) -> None:
        for dim in self.dims:
            if not dim.is_unit and (dim.stride == ZERO or self.forms.bounds(dim.stride)[0] < 0):
                zero = dim.stride == ZERO
                raise NotAffineError(f"a stride is {'zero' if zero else 'not known to be positive'}")

    def _bounds(self) -> dict[int, list[Polynomial]]:
        """Take in the mask's bounds from above; returns those from below: of what has to be positive at position 0."""
        lower: dict[int, list[Polynomial]] = {}
        for form in self.conditions.positive:
            along = [number for number, step in enumerate(form.steps) if step != ZERO]
            if not along:
                self._need(ZERO, form.start)
            elif len(along) > 1 or form.steps[along[0]].value not in (1, -1):
                raise NotAffineError("the mask is not a bound of one position")
            elif form.steps[along[0]] == ONE:
                lower.setdefault(along[0], []).append(form.start)
            else:
                dim = self.dims[along[0]]
                if dim.below is not None and dim.below != form.start:
                    raise NotAffineError("the mask has two bounds along a dimension")
                dim.below = form.start
        return lower

    def _need(self, small: Polynomial, large: Polynomial) -> None:
        if not self.forms.is_positive(large - small, self.op):
            self.needed.append((small, large))

    def _place(self, lower: dict[int, list[Polynomial]]) -> None:
        for number, bounds in lower.items():
            for bound in bounds:
                if self.forms.is_positive(bound, self.op):
                    continue
                if self.forms.divisible(bound - ONE, self.dims[number].extent):
                    self.needed.append((ZERO, bound))  # then all positions are in, or all are out
                elif self.forms.is_positive(ONE - bound, self.op):
                    raise NotAffineError("the mask leaves out the first positions of each tile")
                else:
                    self.whole.append(bound)
        self.rest = self.form.start
        for number, dim in enumerate(self.dims):
            if dim.below is not None and not dim.is_unit:
                self._place_masked(dim, lower.get(number, []))
            elif dim.below is not None:
                self._need(ZERO, dim.below)
        for dim in self.dims:
            if dim.below is None and not dim.is_unit:
                self._place_unmasked(dim)
        # An address in front of the pointer may be none at all.
        if not self.forms.is_negative_nowhere(self.rest, self.op):
            for dim in self.dims:
                dim.size, dim.start = dim.size - dim.start if dim.below is not None else dim.size, ZERO
                if dim.below is None:
                    dim.size = Polynomial.constant(dim.extent)
            self.rest = self.form.start

    def _place_masked(self, dim: Dimension, lower: Sequence[Polynomial]) -> None:
        assert dim.below is not None
        taken = {monomial: -factor for monomial, factor in dim.below.terms if monomial and factor < 0}
        start = Polynomial.of(taken)
        masked = any(bound == start + ONE for bound in lower)
        at_least_zero = masked or self.forms.is_negative_nowhere(start, self.op)
        if at_least_zero and self.forms.divisible(start, dim.extent):
            dim.start = start
        dim.size = dim.below + dim.start
        self._need(dim.start, dim.size)
        self.rest -= dim.start * dim.stride

    def _place_unmasked(self, dim: Dimension) -> None:
        """Count the tiles of a loop from the loop's first one on, so that its tensor is the same in all iterations."""
        start, end = ZERO, Polynomial.constant(dim.extent)
        divisor = dim.stride.terms[0] if len(dim.stride.terms) == 1 else None
        for monomial, factor in self.rest.terms if divisor is not None else ():
            left = list(monomial)
            if divisor is None or factor <= 0 or factor % divisor[1] or not take(left, divisor[0]) or len(left) != 1:
                continue
            loop, number = self.forms.loop_of(self.forms.unknowns[left[0]]), factor // divisor[1]
            term = Polynomial.of({tuple(left): number})
            most = self.forms.at_most(loop, number, self.op) if loop is not None else None
            if most is None or not self.forms.is_negative_nowhere(term, self.op):
                continue
            if not self.forms.divisible(term, dim.extent):
                continue
            start, end = start + term, end + most
        dim.start, dim.size = start, end
        self.rest -= start * dim.stride

    def _check_sizes(self) -> None:
        numbers = [number for dim in self.dims for number in (dim.start, dim.size, dim.stride)]
        numbers += [self.rest, *self.whole, *(number for pair in self.needed for number in pair)]
        for number in numbers:
            low, high = self.forms.bounds(number)
            if low < -_LARGEST or high > _LARGEST:
                raise NotAffineError("a size, an index or an address may need more than 64 bits")
        if any(dim.size.value is not None and dim.size.value <= 0 for dim in self.dims):
            raise NotAffineError("nothing of the tile is accessed")


def _check_access(op: CudaTileOp, pointers: TileType) -> None:
    element = pointers.element_type
    assert isinstance(element, PointerType)
    if op.attribute_value("memory_ordering_semantics") != "weak":
        raise NotAffineError("the access is not weak")
    if pointers.num_elements == 1:
        raise NotAffineError("it is of one element")
    if element.pointee not in NUMBER_NAMES or NUMBER_NAMES[element.pointee] in PACKED:
        raise NotAffineError(f"no view has elements of type {element.pointee}")


# -- writing it -------------------------------------------------------------------------------------------------------


class Writer(ScalarWriter):
    """Replaces an access by what a plan says."""

    def __init__(self, op: CudaTileOp, plan: Plan) -> None:
        super().__init__(op, plan.forms)
        self.plan = plan
        self.access = op
        self.is_load = is_op(op, "load_ptr_tko")

    def write(self) -> None:
        if not self.plan.is_guarded:
            replace_op(self.access, self._access())
            return
        op, condition = self.access, self._condition()
        token = op.results[-1].first_use is not None
        types = [result.type for result in op.results if token or not isinstance(result.type, TokenType)]
        then, otherwise = (Block([build("yield", {"operands": []})]) for _ in range(2))
        guard = build("if", {"condition": condition}, types, regions=[then, otherwise])
        guard.location = op.location
        block = op.parent_block()
        assert block is not None and then.last_op is not None and otherwise.last_op is not None
        block.insert_op_before(guard, op)
        self.place = then.last_op
        then.last_op.operands = self._access()[: len(types)]
        self.place = otherwise.last_op
        otherwise.last_op.operands = (self._again() if self.plan.whole else self._nothing())[: len(types)]
        for end in (then.last_op, otherwise.last_op):
            end.location = op.location
        replace_op(op, [*guard.results, *([] if token else [None])])

    def _condition(self) -> SSAValue:
        condition: SSAValue | None = None
        type_ = TileType((), i1)
        pairs = [*self.plan.needed, *((ZERO, bound) for bound in self.plan.whole)]
        bits = self.bits([number for pair in pairs for number in pair])
        parts = list(dict.fromkeys(self.plan.conditions.scalars))
        for small, large in dict.fromkeys(pairs):
            operands = {"lhs": self.number(small, bits), "rhs": self.number(large, bits)}
            settings = {"comparison_predicate": "less_than", "signedness": "signed"}
            parts.append(self.create("cmpi", operands, type_, **settings))
        for part in parts:
            condition = part if condition is None else self.create("andi", {"lhs": condition, "rhs": part}, type_)
        assert condition is not None  # an access without a guard needs none
        return condition

    # -- the access -------------------------------------------------------------------------------------------------

    def _access(self) -> list[SSAValue]:
        """Make the view and the access through it; returns the values of the op's results."""
        op, dims = self.access, self.plan.dims
        padding = self._padding() if self.is_load else None
        view = self._view(padding)
        assert isinstance(view.type, PartitionViewType)
        bits = self.bits([dim.start for dim in dims])
        operands: dict[str, SSAValue | Sequence[SSAValue] | None] = {
            "view": view,
            "index": [self._index(dim, bits) for dim in dims],
            "token": op.optional_operand("token"),
        }
        settings = {"memory_ordering_semantics": "weak"}
        if not self.is_load:
            operands["tile"] = op.operand_group("value")[0]
        name = "load_view_tko" if self.is_load else "store_view_tko"
        made = build(name, operands, [result.type for result in op.results], settings)
        hints = op.properties.get("optimization_hints")
        if hints is not None:
            made.properties["optimization_hints"] = hints
        made.location = op.location
        block = self.place.parent_block()
        assert block is not None
        block.insert_op_before(made, self.place)
        results: list[SSAValue] = list(made.results)
        other = op.optional_operand("paddingValue") if self.is_load else None
        mask = op.optional_operand("mask")
        if other is not None and mask is not None and padding is None:
            chosen = {"cond": mask, "val_if_true": results[0], "val_if_false": other}
            results[0] = self.create("select", chosen, results[0].type)
        return results

    def _index(self, dim: Dimension, bits: int) -> SSAValue:
        quotient = dim.start.divided(dim.extent)
        if quotient is not None:
            return self.number(quotient, bits)
        operands = {"lhs": self.number(dim.start, bits), "rhs": self.constant(dim.extent, bits)}
        type_ = TileType((), NUMBER_TYPES[f"i{bits}"])
        return self.create("divi", operands, type_, signedness="signed", rounding="zero")

    def _view(self, padding: str | None) -> SSAValue:
        dims, base = self.plan.dims, self.plan.form.base
        assert base is not None and isinstance(base.type, TileType)  # tiles of pointers count from one
        pointer = base.type.element_type
        assert isinstance(pointer, PointerType)
        if self.plan.rest != ZERO:
            distance = self.number(self.plan.rest, self.bits([self.plan.rest]))
            base = self.create("offset", {"ptr": base, "offset": distance}, base.type)
        order = sorted(range(len(dims)), key=lambda number: dims[number].stride == ONE)
        sizes = [dims[number].size for number in order]
        strides = [
            Polynomial.constant(_UNIT_STRIDE) if dims[number].is_unit else dims[number].stride for number in order
        ]
        bits = self.bits([*sizes, *strides])
        shape, steps = ([_static(number) for number in numbers] for numbers in (sizes, strides))
        operands: Operands = {
            "base": base,
            "dynamicShape": [self.number(size, bits) for size in sizes if size.value is None],
            "dynamicStrides": [self.number(stride, bits) for stride in strides if stride.value is None],
        }
        tensor = TensorViewType(pointer.pointee, shape, steps, pointer.ptr_attr)
        made = self.create("make_tensor_view", operands, tensor)
        dim_map = [order.index(number) for number in range(len(dims))]
        tiles = PartitionViewType(self.plan.form.shape, tensor, dim_map, padding)
        return self.create("make_partition_view", {"tensor_view": made}, tiles)

    def _padding(self) -> str | None:
        """The keyword of what the load gives where its mask is 0; None where there is none."""
        value = self.access.optional_operand("paddingValue")
        attr = constant_value(value) if value is not None else None
        if attr is None or not attr.is_splat or self.access.optional_operand("mask") is None:
            return None
        element, (bits,) = attr.type.element_type, attr.elements()
        known = ELEMENTS[NUMBER_NAMES[element]].padding
        keywords = [word for word, stored in known.items() if stored == bits]
        return next((word for word in keywords if word == "zero" or is_float(element)), None)

    def _again(self) -> list[SSAValue]:
        """The access as it was."""
        again = self.access.clone()
        again.location = self.access.location
        block = self.place.parent_block()
        assert block is not None
        block.insert_op_before(again, self.place)
        return list(again.results)

    def _nothing(self) -> list[SSAValue]:
        """The op's results where no element is accessed."""
        op = self.access
        token = op.optional_operand("token")
        if token is None:
            token = self.create("make_token", {}, TokenType())
        if not self.is_load:
            return [token]
        padding = op.optional_operand("paddingValue")
        if padding is None:  # what it is does not matter
            type_ = op.results[0].type
            assert isinstance(type_, TileType)
            zero = bytes(ELEMENTS[NUMBER_NAMES[type_.element_type]].storage_bytes)
            padding = self.create("constant", {}, type_, value=DenseElementsAttr(type_, zero))
        return [padding, token]


def _static(number: Polynomial) -> int:
    return DYNAMIC if number.value is None else number.value
