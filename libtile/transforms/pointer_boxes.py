# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which box of a strided tensor a tile of pointers addresses, where rows of the tensor may be chosen by numbers.

    pointer[i, j] = base + rest + at_0 * stride_0 + ... + (start_k + i) * stride_k + (start_n + j)
    pointer[i, j] = base + rest + numbers[i] * stride + (start_n + j)
    mask[i, j]    = at_0 < size_0  and  start_k + i < size_k  and  numbers[i] < size  and  start_n + j < size_n

Sizes and strides, and `rest`, are made of what the kernel is launched with, so that a tensor of these is the same for
all accesses of a launch; where the box starts may be anything that is not negative. Forms are those of
`analysis.affine`: in whole numbers, of ops that cannot wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.analysis.affine import Forms, one_like, permuted, positive_where, reshaped
from libtile.analysis.polynomials import ONE, ZERO, Form, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width
from libtile.support.records import dataclass, replace
from libtile.transforms.canonical_values import constant_bool

UNBOUNDED = (1 << 31) - 1
"""The size of a dimension of which nothing is masked: an index is less than that, and so is what TMA counts."""


@dataclass(frozen=True)
class Numbers:
    """A tile of numbers along one dimension of another tile, to each of whose elements it is added so many times."""

    tile: SSAValue
    dim: int
    factor: Polynomial


@dataclass(frozen=True)
class Chosen:
    """A tile that is an affine form, and maybe numbers of which nothing is known."""

    form: Form
    numbers: Numbers | None = None

    def plus(self, other: Chosen, sign: int = 1) -> Chosen:
        found = [n for n in (self.numbers, other.numbers) if n is not None]
        if len(found) > 1:
            raise NotAffineError("an index is a sum of several tiles of numbers")
        if other.numbers is not None and sign < 0:
            found = [replace(other.numbers, factor=other.numbers.factor * Polynomial.constant(-1))]
        return Chosen(self.form.plus(other.form, sign), found[0] if found else None)


@dataclass
class Dimension:
    """Of a tensor: its size and stride, in elements, and where the box starts along it. `tile` is the dimension of the
    tile that runs along it, if there is one."""

    stride: Polynomial
    start: Polynomial
    size: Polynomial
    extent: int = 1
    tile: int | None = None
    inside: bool = False
    """Whether no element of the box lies beyond the tensor."""


class Box:
    """The box that a tile of pointers addresses under a mask. NotAffineError, with the reason, where there is none."""

    def __init__(self, forms: Forms, pointers: SSAValue, mask: SSAValue | None):
        self.forms = forms
        chosen = self._chosen(pointers)
        self.form, self.numbers = chosen.form, chosen.numbers
        base = self.form.base
        if base is None or not self._is_launched(base):
            raise NotAffineError("the address comes from a pointer that the kernel is not launched with")
        assert isinstance(base.type, TileType)
        self.base = base
        self.rest = self.form.start
        self.dims: list[Dimension] = []
        above, below, lone = self._bounds(mask)
        self.number_size = above.pop(-1, None)
        if self.numbers is not None:
            if self.number_size is None:
                raise NotAffineError("the numbers of rows have no bound")
            if -1 not in below and forms.interval(self.numbers.tile)[0] < 0:
                raise NotAffineError("it is not known that the numbers of rows are not negative")
        for d, (extent, stride) in enumerate(zip(self.form.shape, self.form.steps)):
            if self.numbers is None or d != self.numbers.dim:
                self._add_tile_dimension(d, extent, stride, above.get(d), below.get(d, []))
        self._add_lone(lone)
        self._add_unmasked()
        if not self._is_of_launch(self.rest) or not forms.is_negative_nowhere(self.rest):
            raise NotAffineError("the tensor would start at an address that changes within a launch")

    # -- forms with numbers -----------------------------------------------------------------------------------------

    def _chosen(self, value: SSAValue) -> Chosen:
        try:
            return Chosen(self.forms.of(value))
        except NotAffineError as reason:
            type_, op = value.type, value.owner
            if not isinstance(type_, TileType):
                raise
            try:
                found = self._followed(op, type_) if isinstance(op, CudaTileOp) else None
            except NotAffineError as deeper:  # a sum that may wrap around, say, which is numbers as it is
                return self._root(value, type_, deeper)
            return found if found is not None else self._root(value, type_, reason)

    def _followed(self, op: CudaTileOp, type_: TileType) -> Chosen | None:
        """What an op makes of tiles with numbers; None where that has to be numbers of its own."""
        forms = self.forms
        match op.spec.name:
            case "addi":
                (a, b), (c, d) = (forms.interval(x) for x in op.operands)
                forms.exact(op, (a + c, b + d))
                return self._chosen(op.operand("lhs")).plus(self._chosen(op.operand("rhs")))
            case "offset":
                return self._chosen(op.operand("ptr")).plus(self._chosen(op.operand("offset")))
            case "muli":
                (a, b), (c, d) = (forms.interval(x) for x in op.operands)
                corners = [x * y for x in (a, b) for y in (c, d)]
                forms.exact(op, (min(corners), max(corners)))
                return _product(*(self._chosen(x) for x in op.operands))
            case "exti" if op.attribute_value("signedness") == "signed":
                return self._chosen(op.operand("from"))
            case "assume":
                return self._chosen(op.operand("value"))
            case "broadcast":
                inner = self._chosen(op.operand("source"))
                return replace(inner, form=Form(type_.shape, inner.form.start, inner.form.steps, inner.form.base))
            case "reshape":
                return _reshaped(self._chosen(op.operand("source")), type_.shape)
        return None

    @staticmethod
    def _root(value: SSAValue, type_: TileType, reason: NotAffineError) -> Chosen:
        wide = [d for d, n in enumerate(type_.shape) if n > 1]
        if len(wide) != 1 or bit_width(type_.element_type) not in (32, 64):
            raise reason
        return Chosen(Form(type_.shape, ZERO, (ZERO,) * type_.rank), Numbers(value, wide[0], ONE))

    # -- the mask ---------------------------------------------------------------------------------------------------

    def _bounds(
        self, mask: SSAValue | None
    ) -> tuple[dict[int, Polynomial], dict[int, list[Polynomial]], list[Polynomial]]:
        """What is positive where the mask is: by dimensions of the tile, at position 0, what falls with the position
        (by -1 for numbers: what they are less than) and what grows with it; and what does not change with it."""
        above: dict[int, Polynomial] = {}
        below: dict[int, list[Polynomial]] = {}
        lone: list[Polynomial] = []
        for found in [] if mask is None else self._positive(mask):
            steps = [d for d, step in enumerate(found.form.steps) if step != ZERO]
            start = found.form.start
            if found.numbers is not None:
                self._bound_numbers(found.numbers, start, steps, above, below)
            elif not steps:
                lone.append(start)
            elif len(steps) > 1 or found.form.steps[steps[0]].value not in (1, -1):
                raise NotAffineError("the mask is not a bound of one position")
            elif found.form.steps[steps[0]] == ONE:
                below.setdefault(steps[0], []).append(start)
            elif above.setdefault(steps[0], start) != start:
                raise NotAffineError("the mask has two bounds along a dimension")
        return above, below, lone

    def _bound_numbers(
        self,
        bound: Numbers,
        start: Polynomial,
        steps: list[int],
        above: dict[int, Polynomial],
        below: dict[int, list[Polynomial]],
    ) -> None:
        mine = self.numbers
        if mine is None or bound.tile is not mine.tile or steps or bound.factor.value not in (1, -1):
            raise NotAffineError("the mask bounds other numbers than the address has")
        if bound.factor == ONE:
            if start != ONE:  # what is less than 0 is masked, as views have it
                raise NotAffineError("the mask bounds the numbers of rows from below, and not by 0")
            below.setdefault(-1, []).append(start)
        elif above.setdefault(-1, start) != start:
            raise NotAffineError("the mask has two bounds of the numbers of rows")

    def _positive(self, mask: SSAValue) -> list[Chosen]:
        """The forms that are greater than 0 where a condition is true."""
        type_, op = mask.type, mask.owner
        assert isinstance(type_, TileType)
        if constant_bool(mask) is True:
            return []
        if not isinstance(op, CudaTileOp):
            raise NotAffineError("the mask is carried by a loop")
        match op.spec.name:
            case "andi":
                return [found for operand in op.operands for found in self._positive(operand)]
            case "cmpi":
                return positive_where(op, self.forms, self._chosen, lambda other: Chosen(one_like(other.form)))
            case "reshape":
                return [_reshaped(found, type_.shape) for found in self._positive(op.operand("source"))]
            case "broadcast":
                inner = self._positive(op.operand("source"))
                return [replace(f, form=Form(type_.shape, f.form.start, f.form.steps)) for f in inner]
            case "permute":
                inner = self._positive(op.operand("source"))
                if any(f.numbers is not None for f in inner):
                    raise NotAffineError("the mask transposes bounds of numbers")
                return [Chosen(permuted(f.form, op.attribute_value("permutation"))) for f in inner]
            case name:
                raise NotAffineError(f"the mask comes from {name}")

    # -- dimensions -------------------------------------------------------------------------------------------------

    def _add_tile_dimension(
        self, tile: int, extent: int, stride: Polynomial, above: Polynomial | None, below: Sequence[Polynomial]
    ) -> None:
        if extent == 1:
            if above is not None:
                raise NotAffineError("a dimension of one element is masked")
            return
        if stride == ZERO or self.forms.bounds(stride)[0] < 0 or not self._is_of_launch(stride):
            raise NotAffineError("a stride is zero, may be negative, or changes within a launch")
        if not all(map(self.forms.is_positive, below)):
            raise NotAffineError("the mask leaves out the first positions of a tile")
        if above is None:
            size, start = Polynomial.constant(UNBOUNDED), self._within(stride)
        else:
            size, start = self._parted(above)
        self._add(Dimension(stride, start, size, extent, tile))

    def _add(self, dim: Dimension) -> None:
        low, high = self.forms.bounds(dim.start)
        if low < 0 and not self.forms.is_negative_nowhere(dim.start):
            raise NotAffineError("it is not known that the tile starts at no negative index")
        if high + dim.extent > 1 << 31:
            raise NotAffineError("an index may need more than 31 bits")
        if self.forms.bounds(dim.size)[0] < 0:
            raise NotAffineError("a size is not known to be positive")
        dim.inside = dim.size.value == UNBOUNDED and high + dim.extent <= UNBOUNDED
        self.rest -= dim.start * dim.stride
        self.dims.append(dim)

    def _parted(self, bound: Polynomial) -> tuple[Polynomial, Polynomial]:
        """The size and the start of which something that has to be positive is the difference."""
        launched = {m: f for m, f in bound.terms if m and all(map(self.is_launch_unknown, m))}
        if not launched:  # a size that is known
            launched = {(): dict(bound.terms).get((), 0)}
        size = Polynomial.of(launched)
        return size, size - bound

    def _within(self, stride: Polynomial) -> Polynomial:
        """How far along a dimension without a bound the pointers start: the multiples of the stride among what changes
        within a launch."""
        if len(stride.terms) != 1:
            return ZERO
        ((monomial, factor),) = stride.terms
        taken: dict[tuple[int, ...], int] = {}
        for term, number in self.rest.terms:
            left = list(term)
            if number % factor or not take(left, monomial) or not left:
                continue
            if not any(map(self.is_launch_unknown, left)):
                taken[tuple(left)] = number // factor
        return Polynomial.of(taken)

    def _add_lone(self, lone: Sequence[Polynomial]) -> None:
        """Dimensions along which the tile is one element, which the mask bounds."""
        for bound in dict.fromkeys(lone):
            if self.forms.is_positive(bound):
                continue
            size, start = self._parted(bound)
            changing = [m for m, _ in start.terms if m]
            if not changing:
                raise NotAffineError("the mask depends on what is no index")
            first = changing[0]
            stride: dict[tuple[int, ...], int] = {}
            for term, number in self.rest.terms:
                left = list(term)
                if take(left, first) and all(map(self.is_launch_unknown, left)):
                    stride[tuple(left)] = number
            found = Polynomial.of(stride).divided(dict(start.terms)[first])
            if found is None or not found.terms or self.forms.bounds(found)[0] < 0:
                raise NotAffineError("the mask bounds what the address does not come from")
            self._add(Dimension(found, start, size))

    def _add_unmasked(self) -> None:
        """Dimensions along which the tile is one element, without a bound: what is left that changes in a launch."""
        strides: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for term, number in self.rest.terms:
            changing = tuple(u for u in term if not self.is_launch_unknown(u))
            if changing:
                strides.setdefault(tuple(u for u in term if self.is_launch_unknown(u)), {})[changing] = number
        for launched, terms in strides.items():
            factor = gcd(*terms.values())
            start = Polynomial.of({m: n // factor for m, n in terms.items()})
            self._add(Dimension(Polynomial.of({launched: factor}), start, Polynomial.constant(UNBOUNDED)))

    # -- what a launch says -----------------------------------------------------------------------------------------

    def _is_of_launch(self, number: Polynomial) -> bool:
        return all(map(self.is_launch_unknown, number.unknowns))

    def is_launch_unknown(self, unknown: int) -> bool:
        return self._is_launched(self.forms.unknowns[unknown])

    @staticmethod
    def _is_launched(value: SSAValue) -> bool:
        """Whether a scalar is an argument of the kernel, with assumptions about it or without."""
        while isinstance(value.owner, OPS["assume"]):
            value = value.owner.operand("value")
        if not isinstance(value, BlockArgument) or not isinstance(value.owner, Block):
            return False
        return isinstance(value.owner.parent_op(), OPS["entry"])


def _product(a: Chosen, b: Chosen) -> Chosen:
    if not b.form.is_uniform or b.numbers is not None:
        a, b = b, a
    if not b.form.is_uniform or b.numbers is not None:
        raise NotAffineError("an index is multiplied by another")
    factor, numbers = b.form.start, a.numbers
    scaled = None if numbers is None else replace(numbers, factor=numbers.factor * factor)
    return Chosen(a.form.scaled(factor), scaled)


def _reshaped(chosen: Chosen, shape: Sequence[int]) -> Chosen:
    if chosen.numbers is None:
        return Chosen(reshaped(chosen.form, shape))
    old = [d for d, n in enumerate(chosen.form.shape) if n > 1]
    wide = [d for d, n in enumerate(shape) if n > 1]
    if [chosen.form.shape[d] for d in old] != [shape[d] for d in wide]:
        raise NotAffineError("a reshape lays out an index in other dimensions")
    numbers = replace(chosen.numbers, dim=wide[old.index(chosen.numbers.dim)])
    steps = [ZERO] * len(shape)
    for before, after in zip(old, wide):
        steps[after] = chosen.form.steps[before]
    return Chosen(Form(tuple(shape), chosen.form.start, tuple(steps), chosen.form.base), numbers)


def take(monomial: list[int], divisor: Sequence[int]) -> bool:
    """Take the unknowns of a divisor out of a monomial; False where one is missing."""
    for unknown in divisor:
        if unknown not in monomial:
            return False
        monomial.remove(unknown)
    return True


def place_in_function(op: Operation) -> Operation:
    """The op of the kernel's own block within which an op stands."""
    while (around := op.parent_op()) is not None and not isinstance(around, OPS["entry"]):
        op = around
    return op
