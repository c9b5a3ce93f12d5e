# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which accesses of a cuda_tile function certainly touch different memory.

Two accesses are disjoint

- where they go through different globals: pointers of parameters, and loaded ones, may be equal;
- where they count from one pointer, and the bytes of one end before those of the other begin;
- where they count from one pointer at known distances, and no element of one lies on one of the other;
- where they are tiles of one tensor whose positions along a dimension are apart. That takes that different positions of
  the tensor are different memory, which its strides and sizes show or somebody promises.

What is not known to be disjoint may overlap. Masks and bounds only make an access smaller, and are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from xdsl.ir import Attribute, Operation, SSAValue

from libtile.analysis.affine import Forms
from libtile.analysis.dataflow import Facts
from libtile.analysis.polynomials import ONE, ZERO, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from libtile.dialects.effect_traits import ReadsThrough, accessed
from libtile.numerics.elements import PACKED, STORAGE_BYTES
from libtile.support.records import dataclass, field

MAX_BYTES = 1 << 14
"""Bytes of a tile that are looked at one by one."""
MAX_IN_LOOP = 8
"""Accesses of a loop that are compared with each other."""


@dataclass(frozen=True)
class Extent:
    """Positions along a dimension: where they start, how many there are, and the distance of two, in bytes."""

    start: Polynomial
    count: int
    stride: Polynomial


@dataclass(frozen=True)
class Access:
    """The memory of an access: bytes from `start` on behind `base`, at the positions of all dimensions.

    `tensor` is the tensor view that it goes through, if any; then `dims` are its dimensions.
    """

    base: SSAValue
    start: Polynomial
    dims: tuple[Extent, ...]
    bytes: int
    tensor: SSAValue | None = None

    @property
    def span(self) -> Polynomial:
        """The bytes from the first one to behind the last one."""
        total = Polynomial.constant(self.bytes)
        for dim in self.dims:
            total += dim.stride * Polynomial.constant(dim.count - 1)
        return total


@dataclass
class Aliasing:
    """The memory of one function's accesses. Not kept up to date when the function changes.

    `distinct_elements` promises that different positions of a tensor view are different memory.
    """

    facts: Facts
    distinct_elements: bool = False
    forms: Forms = field(init=False)
    _accesses: dict[Operation, Access | None] = field(init=False, default_factory=dict)
    _injective: dict[SSAValue, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.forms = Forms(self.facts)

    # -- questions --------------------------------------------------------------------------------------------------

    def are_disjoint(self, one: Operation, other: Operation) -> bool:
        """Whether two loads or stores, each run once between two runs of any loop around both, touch no common byte."""
        a, b = self.access(one), self.access(other)
        if a is None or b is None:
            return False
        try:
            return self._disjoint(a, b)
        except NotAffineError:  # more terms than are followed
            return False

    def are_disjoint_in_loop(self, ops: Sequence[CudaTileOp], loop: CudaTileOp) -> bool:
        """Whether none of these accesses in a loop, at any depth, writes what one of them touches in another
        iteration: all read, or each pair of which one writes moves on by as much as keeps them apart."""
        if all(op.has_trait(ReadsThrough) for op in ops):
            return True
        if len(ops) > MAX_IN_LOOP:
            return False
        try:
            step = self.forms.step_of(loop)
            if step is None:
                return False
            return all(
                self._apart_in_loop(one, other, loop, step)
                for number, one in enumerate(ops)
                for other in ops[number:]
                if not (one.has_trait(ReadsThrough) and other.has_trait(ReadsThrough))
            )
        except NotAffineError:
            return False

    def step_in_loop(self, op: Operation, loop: CudaTileOp) -> int | None:
        """The bytes by which what a load or a store touches moves with each iteration of a loop; None: not known."""
        access = self.access(op)
        if access is None or self._is_inside(access.base, loop):
            return None
        try:
            # Counters of loops in this one are other directions; what else changes in it is not known.
            kept = {
                monomial: factor
                for monomial, factor in access.start.terms
                if any(self._counts(unknown, loop) for unknown in monomial)
                or not all(self._counts(unknown) for unknown in monomial)
            }
            factor, step = self._factor(Polynomial.of(kept), loop), self.forms.step_of(loop)
            return None if factor is None or step is None else (factor * step).value
        except NotAffineError:
            return None

    def _counts(self, unknown: int, loop: CudaTileOp | None = None) -> bool:
        """Whether an unknown is the counter of a loop, of this one if one is named."""
        found = self.forms.loop_of(self.forms.unknowns[unknown])
        return found is loop if loop is not None else found is not None

    def access(self, op: Operation) -> Access | None:
        """The memory of a load or a store; None where it is not known, or is no such box."""
        if op not in self._accesses:
            try:
                self._accesses[op] = self._find(op) if isinstance(op, CudaTileOp) else None
            except NotAffineError:
                self._accesses[op] = None
        return self._accesses[op]

    # -- what is accessed -------------------------------------------------------------------------------------------

    def _find(self, op: CudaTileOp) -> Access | None:
        memory = accessed(op)
        if memory is None:
            return None
        if isinstance(memory.type, TileType):
            return self._through_pointers(memory)
        return self._through_view(memory, op.operand_group("index"))

    def _through_pointers(self, pointers: SSAValue) -> Access | None:
        assert isinstance(pointers.type, TileType) and isinstance(pointers.type.element_type, PointerType)
        size = _bytes(pointers.type.element_type.pointee)
        form = self.forms.of(pointers)
        if size is None or form.base is None:
            return None
        base, start = self._base(form.base)
        dims = [Extent(ZERO, count, step) for count, step in zip(form.shape, form.steps)]
        scale = Polynomial.constant(size)
        start = (start + form.start) * scale
        placed = []
        for dim in dims:
            step = dim.stride * scale
            if self.forms.bounds(step)[0] < 0:  # it counts down: from its last position up
                if self.forms.bounds(step)[1] > 0:
                    return None
                start += step * Polynomial.constant(dim.count - 1)
                step *= Polynomial.constant(-1)
            placed.append(Extent(ZERO, dim.count, step))
        return Access(base, start, tuple(placed), size)

    def _base(self, pointer: SSAValue) -> tuple[SSAValue, Polynomial]:
        """The pointer that another is computed from, and how many elements it lies behind."""
        distance = ZERO
        while isinstance(op := pointer.owner, (OPS["assume"], OPS["offset"])):
            if isinstance(op, OPS["offset"]):
                distance += self.forms.of(op.operand("offset")).start
                pointer = op.operand("ptr")
            else:
                pointer = op.operand("value")
        return pointer, distance

    def _through_view(self, view: SSAValue, index: Sequence[SSAValue]) -> Access | None:
        type_, maker = view.type, view.owner
        if not isinstance(type_, PartitionViewType | StridedViewType) or not isinstance(maker, CudaTileOp):
            return None
        size, tensor = _bytes(type_.tensor_view.element_type), maker.operand("tensor_view")
        made = tensor.owner
        if size is None or not isinstance(made, OPS["make_tensor_view"]):
            return None
        base, start = self._base(made.operand("base"))
        scale = Polynomial.constant(size)
        start *= scale
        steps = type_.traversal_strides if isinstance(type_, StridedViewType) else type_.tile_shape
        strides, dims = self._strides(made), {}
        for dim, value, count, step in zip(type_.dim_map, index, type_.tile_shape, steps):
            first = self.forms.of(value).start
            if self.forms.bounds(first)[0] < 0:  # an index is unsigned
                return None
            extent = Extent(first * Polynomial.constant(step), count, strides[dim] * scale)
            if self.forms.bounds(extent.stride)[0] < 0:
                return None
            dims[dim] = extent
            start += extent.start * extent.stride
        return Access(base, start, tuple(dims[dim] for dim in sorted(dims)), size, tensor)

    def _strides(self, made: CudaTileOp) -> list[Polynomial]:
        return self._filled(made, "dynamicStrides", _tensor_type(made).strides)

    def _filled(self, made: CudaTileOp, group: str, static: Sequence[int]) -> list[Polynomial]:
        dynamic = iter(made.operand_group(group))
        return [
            self.forms.of(next(dynamic)).start if number == DYNAMIC else Polynomial.constant(number)
            for number in static
        ]

    # -- comparing --------------------------------------------------------------------------------------------------

    def _disjoint(self, a: Access, b: Access) -> bool:
        if a.base is not b.base:
            return _are_different_globals(a.base, b.base)
        distance = b.start - a.start
        if self._at_least(distance, a.span) or self._at_least(ZERO - distance, b.span):
            return True
        mine, its = _steps(a), _steps(b)
        if distance.value is not None and mine is not None and its is not None:
            return _never_meet(distance.value, mine, its, a.bytes, b.bytes)
        if a.tensor is None or a.tensor is not b.tensor or not self._is_injective(a.tensor):
            return False
        return any(self._apart(x, y) for x, y in zip(a.dims, b.dims))

    def _at_least(self, number: Polynomial, other: Polynomial) -> bool:
        if number.value is not None and other.value is not None:
            return number.value >= other.value
        return self.forms.is_positive(number - other + ONE)

    def _apart(self, a: Extent, b: Extent) -> bool:
        distance = b.start - a.start
        return self._at_least(distance, Polynomial.constant(a.count)) or self._at_least(
            ZERO - distance, Polynomial.constant(b.count)
        )

    def _is_injective(self, tensor: SSAValue) -> bool:
        """Whether different positions of a tensor view are different memory."""
        if self.distinct_elements:
            return True
        known = self._injective.get(tensor)
        if known is None:
            made = tensor.owner
            assert isinstance(made, CudaTileOp)
            known = self._injective[tensor] = self._are_nested(made)
        return known

    def _are_nested(self, made: CudaTileOp) -> bool:
        """Whether each dimension's stride is more than all inner dimensions together span."""
        sizes = self._filled(made, "dynamicShape", _tensor_type(made).shape)
        dims = list(zip(self._strides(made), sizes))
        inner = ONE
        while dims:
            outer = [dim for dim in dims if self._at_least(dim[0], inner)]
            smallest = [x for x in outer if all(x is y or self._at_least(y[0], x[0]) for y in dims)]
            if not smallest:
                return False
            stride, size = smallest[0]
            dims.remove(smallest[0])
            inner = inner + stride * (size - ONE)
        return True

    def _apart_in_loop(self, one: CudaTileOp, other: CudaTileOp, loop: CudaTileOp, step: Polynomial) -> bool:
        """Whether two accesses in a loop touch no common byte in different iterations of it."""
        a, b = self.access(one), self.access(other)
        if a is None or b is None or self._is_inside(a.base, loop) or self._is_inside(b.base, loop):
            return False
        if a.base is not b.base:
            return _are_different_globals(a.base, b.base)
        if self._moves_past(a.start, b.start, a.span, b.span, loop, step):
            return True
        tensor = a.tensor
        if tensor is None or tensor is not b.tensor or self._is_inside(tensor, loop) or not self._is_injective(tensor):
            return False
        return any(
            self._moves_past(x.start, y.start, Polynomial.constant(x.count), Polynomial.constant(y.count), loop, step)
            for x, y in zip(a.dims, b.dims)
        )

    def _moves_past(
        self,
        first: Polynomial,
        second: Polynomial,
        length: Polynomial,
        its: Polynomial,
        loop: CudaTileOp,
        step: Polynomial,
    ) -> bool:
        """Whether two stretches that begin at these places, and move on by the same in each iteration of a loop, do
        not meet in different ones."""
        factor = self._factor(first, loop)
        if factor is None or factor != self._factor(second, loop):
            return False
        moved, apart = factor * step, second - first
        # One iteration is the nearest that they come to each other; they may go up or down.
        return any(
            self._at_least(by + apart, length) and self._at_least(by - apart, its) for by in (moved, ZERO - moved)
        )

    def _factor(self, number: Polynomial, loop: CudaTileOp) -> Polynomial | None:
        """What a number grows by with the loop's counter; None where something else changes it, too."""
        terms: dict[tuple[int, ...], int] = {}
        for monomial, factor in number.terms:
            left = list(monomial)
            for unknown in monomial:
                if self._counts(unknown, loop):
                    left.remove(unknown)
            if any(self._is_inside(self.forms.unknowns[unknown], loop) for unknown in left):
                return None
            if len(monomial) - len(left) > 1:
                return None
            if len(left) < len(monomial):
                terms[tuple(left)] = terms.get(tuple(left), 0) + factor
        return Polynomial.of(terms)

    def _is_inside(self, value: SSAValue, loop: CudaTileOp) -> bool:
        parent = value.owner.parent_op()
        return parent is not None and loop.is_ancestor(parent)


def _tensor_type(made: CudaTileOp) -> TensorViewType:
    type_ = made.results[0].type
    assert isinstance(type_, TensorViewType)  # as declared
    return type_


def _bytes(element: Attribute) -> int | None:
    """The bytes of an element in memory; None where several share one, or its size is another matter."""
    name = NUMBER_NAMES.get(element)
    return None if name is None or name in PACKED else STORAGE_BYTES[name]


def _are_different_globals(a: SSAValue, b: SSAValue) -> bool:
    names = [value.owner.properties["name"] for value in (a, b) if isinstance(value.owner, OPS["get_global"])]
    return len(names) == 2 and names[0] != names[1]


_Steps = tuple[tuple[int, int], ...]


def _steps(access: Access) -> _Steps | None:
    """Counts and strides of the dimensions, where these are known and the tile is not too large to look at."""
    steps = [(dim.count, dim.stride.value) for dim in access.dims if dim.count > 1]
    known = tuple((count, stride) for count, stride in steps if stride is not None)
    small = prod(count for count, _ in known) * access.bytes <= MAX_BYTES
    return known if len(known) == len(steps) and small else None


@lru_cache(maxsize=1024)
def _never_meet(distance: int, a: _Steps, b: _Steps, a_bytes: int, b_bytes: int) -> bool:
    """Whether no byte of a box is one of another box that starts `distance` bytes behind it, by looking at all."""
    return {start + distance for start in _starts(b)}.isdisjoint(_meeting(a, a_bytes, b_bytes))


def _starts(steps: _Steps) -> list[int]:
    """Where the elements of a box start."""
    found = [0]
    for count, stride in steps:
        found = [start + index * stride for start in found for index in range(count)]
    return found


def _meeting(steps: _Steps, size: int, other: int) -> Iterator[int]:
    """Where elements of `other` bytes start that meet one of a box's, of `size` bytes."""
    return (start + byte for start in _starts(steps) for byte in range(1 - other, size))
