# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of integers and pointers as affine functions of the position in the tile.

    value[i, j, ...] = start + i * steps[0] + j * steps[1] + ...

`start` and the steps are polynomials over the program's scalars, in whole numbers: an op takes part only if it cannot
wrap around, by what its flag promises or by the ranges of its operands. A scalar that is computed in another way is an
unknown of the polynomials itself. For pointers all of this counts elements of the pointee behind a scalar pointer.

What a `for` carries, and adds the same to in each iteration, is what it starts with and as often that as there were
iterations: the loop's counter tells how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.analysis.dataflow import Facts
from libtile.analysis.tokens import iteration_ends
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import PointerType, TileType, bit_width, is_integer
from libtile.dialects.interfaces import exit_of
from libtile.ir.operands import source_of
from libtile.ir.places import is_within, walk
from libtile.support.records import dataclass

MAX_TERMS = 16
"""Terms of a polynomial; a sum of more is not followed."""
MAX_DEPTH = 64
"""Ops between a tile and what it is computed from; longer computations are not followed."""

Interval = tuple[int, int]


class _Form(Protocol):
    """What positions of a tile are computed by: a form, or one with more to it."""

    def plus(self: Sum, other: Sum, sign: int = 1) -> Sum: ...


Sum = TypeVar("Sum", bound=_Form)


class NotAffineError(Exception):
    """A value is not affine in a way that is understood; the text says why, for a remark."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of unknowns: coefficients by the numbers of the unknowns, in order (none: the constant)."""

    terms: tuple[tuple[tuple[int, ...], int], ...] = ()

    @staticmethod
    def of(terms: dict[tuple[int, ...], int]) -> Polynomial:
        kept = tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor))
        if len(kept) > MAX_TERMS:
            raise NotAffineError("the computation of an index has too many terms")
        return Polynomial(kept)

    @staticmethod
    def constant(number: int) -> Polynomial:
        return Polynomial.of({(): number})

    @property
    def value(self) -> int | None:
        """The number that it is, for a constant."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def unknowns(self) -> set[int]:
        return {unknown for monomial, _ in self.terms for unknown in monomial}

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial.of(terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[tuple[int, ...], int] = {}
        for mine, a in self.terms:
            for its, b in other.terms:
                monomial = tuple(sorted((*mine, *its)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Polynomial.of(terms)

    def divided(self, divisor: int) -> Polynomial | None:
        """The quotient by a number, when it divides every coefficient."""
        if any(factor % divisor for _, factor in self.terms):
            return None
        return Polynomial(tuple((monomial, factor // divisor) for monomial, factor in self.terms))


ZERO, ONE = Polynomial(), Polynomial.constant(1)


@dataclass(frozen=True)
class Form:
    """An affine tile: see the module's text. `base` is the scalar pointer that a tile of pointers counts from."""

    shape: tuple[int, ...]
    start: Polynomial
    steps: tuple[Polynomial, ...]
    base: SSAValue | None = None

    def __post_init__(self) -> None:
        # A dimension of one element has no second position.
        kept = tuple(step if extent > 1 else ZERO for extent, step in zip(self.shape, self.steps))
        object.__setattr__(self, "steps", kept)

    def plus(self, other: Form, sign: int = 1) -> Form:
        """The sum or difference of forms of one shape, of which at most the first is of pointers."""
        factor = Polynomial.constant(sign)
        steps = tuple(a + b * factor for a, b in zip(self.steps, other.steps))
        return Form(self.shape, self.start + other.start * factor, steps, self.base)

    def scaled(self, factor: Polynomial) -> Form:
        return Form(self.shape, self.start * factor, tuple(step * factor for step in self.steps))

    @property
    def is_uniform(self) -> bool:
        return not any(step.terms for step in self.steps)


class Forms:
    """The forms of one function's values, found when they are asked for. Not kept up to date when it changes."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.unknowns: list[SSAValue] = []
        """The scalars that polynomials are over, by their numbers, with what `assume` says of them."""
        self._assumed: list[list[SSAValue]] = []
        """For each unknown the values that it is, those with fewer assumptions first."""
        self._certain = _CertainOps()
        self._numbers: dict[SSAValue, int] = {}
        self._known: dict[SSAValue, Form | NotAffineError] = {}
        self._depth = 0

    # -- forms ------------------------------------------------------------------------------------------------------

    def of(self, value: SSAValue) -> Form:
        """The form of a tile of integers or pointers, or of a scalar. NotAffineError where there is none."""
        known = self._known.get(value)
        if known is None:
            if self._depth >= MAX_DEPTH:
                if _shape(value) == ():
                    return self.stands_for_itself(value)
                raise NotAffineError("the computation of an index is too long to follow")
            self._depth += 1
            try:
                known = self._find(value)
            except NotAffineError as error:
                known = error
            finally:
                self._depth -= 1
            self._known[value] = known
        if isinstance(known, NotAffineError):
            raise known
        return known

    def _find(self, value: SSAValue) -> Form:
        op = value.owner
        if isinstance(value, BlockArgument) and value.index > 0 and isinstance(loop := op.parent_op(), OPS["for"]):
            return self._carried(value, loop)
        rule = _RULES.get(op.spec.name) if isinstance(op, CudaTileOp) else None
        if _shape(value) != ():
            if rule is None or not isinstance(op, CudaTileOp):
                what = op.spec.name if isinstance(op, CudaTileOp) else "a loop"
                raise NotAffineError(f"an index or an address comes from {what}")
            return rule(self, op)
        try:
            return rule(self, op) if rule is not None and isinstance(op, CudaTileOp) else self.stands_for_itself(value)
        except NotAffineError:
            return self.stands_for_itself(value)

    def _carried(self, value: BlockArgument, loop: CudaTileOp) -> Form:
        """The form of what a `for` carries: its start, and what an iteration adds so often as the counter tells."""
        # While it is looked for, something that it is computed of itself is found to be of another kind, or unknown.
        reason = NotAffineError("an index or an address comes from a loop that does not add the same to it each time")
        self._known[value] = alone = self.stands_for_itself(value) if _shape(value) == () else reason
        try:
            moved = self._moved(value, loop)
        except NotAffineError:
            moved = None
        if moved is None:
            if isinstance(alone, NotAffineError):
                raise alone
            return alone
        return moved

    def _moved(self, value: BlockArgument, loop: CudaTileOp) -> Form | None:
        number, step = value.index - 1, self.of(loop.operand("step")).start.value
        added = {self._added(value, end.operands[number], loop) for end in iteration_ends(loop)}
        if len(added) != 1 or step is None or step < 1 or loop.attribute_value("unsignedCmp"):
            return None
        (each,) = added
        per_count = each.divided(step) if each is not None else None
        if each is None or per_count is None:
            return None
        counter = self.of(value.owner.args[0]).start - self.of(loop.operand("lowerBound")).start
        first = self.of(loop.operand_group("initValues")[number])
        form = Form(first.shape, first.start + counter * per_count, first.steps, first.base)
        return form if self._is_exact(value, form, each) else None

    def _added(self, value: BlockArgument, next_: SSAValue, loop: CudaTileOp) -> Polynomial | None:
        """What an iteration adds to a value that it hands on: the same in all of them, and to all elements."""
        total = ZERO
        while next_ is not value:
            op = next_.owner
            if isinstance(op, OPS["assume"]):
                next_ = op.operand("value")
                continue
            if isinstance(op, OPS["offset"]):
                next_, amount = op.operand("ptr"), op.operand("offset")
            elif isinstance(op, OPS["addi"]):
                next_, amount = op.operand("lhs"), op.operand("rhs")
                if isinstance(amount, BlockArgument) or is_within(amount, loop):
                    next_, amount = amount, next_
            else:
                return None
            form = self.of(amount)
            if not form.is_uniform or any(is_within(self.unknowns[unknown], loop) for unknown in form.start.unknowns):
                return None
            total += form.start
        return total

    def _is_exact(self, value: BlockArgument, form: Form, each: Polynomial) -> bool:
        """Whether the sums of integers that a loop carries do not wrap around; of pointers that would be undefined."""
        if form.base is not None:
            return True
        assert isinstance(value.type, TileType)
        limit = 1 << (bit_width(value.type.element_type) - 1)
        last = form.start + each
        for extent, step in zip(form.shape, form.steps, strict=True):
            last += step * Polynomial.constant(extent - 1)
        return all(-limit <= low and high < limit for low, high in map(self.bounds, (form.start, last)))

    def stands_for_itself(self, value: SSAValue) -> Form:
        """A scalar that stands for itself."""
        assert isinstance(value.type, TileType)
        if isinstance(value.type.element_type, PointerType):
            return Form((), ZERO, (), value)
        # What is assumed on the way that control has to the value in any case is known of it everywhere.
        values = [value]
        while isinstance(assume := values[0].owner, OPS["assume"]) and self._certain.runs_with_operand(assume):
            values.insert(0, assume.operand("value"))
        number = self._numbers.get(values[0])
        if number is None:
            number = self._numbers[values[0]] = len(self.unknowns)
            self.unknowns.append(value)
            self._assumed.append(values)
        elif len(values) > len(self._assumed[number]):
            self.unknowns[number], self._assumed[number] = value, values
        return Form((), Polynomial.of({(number,): 1}), ())

    def at(self, unknown: int, place: Operation) -> SSAValue:
        """The value that an op in front of `place` can use for an unknown, with as many assumptions as there are."""
        return next(
            (value for value in reversed(self._assumed[unknown]) if self._certain.is_before(value, place)),
            self._assumed[unknown][0],
        )

    # -- ranges -----------------------------------------------------------------------------------------------------

    def interval(self, value: SSAValue) -> Interval:
        """Bounds of all elements of an integer value, as signed numbers."""
        assert isinstance(value.type, TileType)
        limit = 1 << (bit_width(value.type.element_type) - 1)
        fact = self.facts.of(value)
        divisor = fact.scalar_divisor if value.type.shape == () and fact.scalar_divisor < limit else 1
        lower = -limit if fact.lower is None else max(fact.lower, -limit)
        upper = limit - 1 if fact.upper is None else min(fact.upper, limit - 1)
        return -(-lower // divisor) * divisor, upper // divisor * divisor

    def bounds(self, polynomial: Polynomial) -> Interval:
        """Bounds of a polynomial, from those of its unknowns."""
        lower = upper = 0
        for monomial, factor in polynomial.terms:
            low = high = factor
            for unknown in monomial:
                corners = [a * b for a in (low, high) for b in self.interval(self.unknowns[unknown])]
                low, high = min(corners), max(corners)
            lower, upper = lower + low, upper + high
        return lower, upper

    def divisible(self, polynomial: Polynomial, divisor: int) -> bool:
        """Whether a power of two divides it, by its coefficients or by what is known of its unknowns."""
        for monomial, factor in polynomial.terms:
            known = factor & -factor
            for unknown in monomial:
                known *= self.facts.of(self.unknowns[unknown]).scalar_divisor
            if known % divisor:
                return False
        return True

    def is_positive(self, polynomial: Polynomial) -> bool:
        """Whether it is greater than 0 in every run, where all of its unknowns are defined."""
        for _ in range(MAX_DEPTH):
            if self.bounds(polynomial)[0] > 0:
                return True
            smaller = self._at_an_end(polynomial)
            if smaller is None:
                return False
            polynomial = smaller
        return False

    def is_positive_everywhere(self, form: Form) -> bool:
        """Whether all elements of a tile of integers are greater than 0."""
        least = form.start
        for extent, step in zip(form.shape, form.steps, strict=True):
            low, high = self.bounds(step)
            if low < 0 < high:
                return False
            if low < 0:  # it counts down: the last position has the smallest number
                least += step * Polynomial.constant(extent - 1)
        return self.is_positive(least)

    def _at_an_end(self, polynomial: Polynomial) -> Polynomial | None:
        """Something not greater, with a bound of a loop in place of an induction variable: the last that it may be
        where it is subtracted, or else the first where it is added."""
        first: Polynomial | None = None
        for monomial, factor in polynomial.terms:
            loop = loop_of(self.unknowns[monomial[0]]) if len(monomial) == 1 else None
            if loop is None or loop.attribute_value("unsignedCmp"):
                continue
            without = polynomial - Polynomial.of({monomial: factor})
            if factor < 0:
                return without - self.at_most(loop, -factor)
            if first is None:
                first = without + self.of(loop.operand("lowerBound")).start * Polynomial.constant(factor)
        return first

    def at_most(self, loop: CudaTileOp, factor: int) -> Polynomial:
        """Something that `factor` times the induction variable never exceeds."""
        bound = loop.operand("upperBound")
        op = bound.owner
        if isinstance(op, OPS["divi"]) and op.attribute_value("signedness") == "signed":
            divided, divisor = self.of(op.operand("lhs")).start, self.of(op.operand("rhs")).start.value
            rounding = op.attribute_value("rounding")
            if divisor == factor and rounding == "positive_inf":
                return divided - ONE  # factor * (bound - 1) < divided
            starts_at_zero = self.interval(loop.operand("lowerBound"))[0] >= 0  # else a quotient may be rounded up
            if divisor == factor and (rounding == "negative_inf" or starts_at_zero):
                return divided - Polynomial.constant(factor)
        return (self.of(bound).start - ONE) * Polynomial.constant(factor)

    # -- building blocks of the rules -------------------------------------------------------------------------------

    def exact(self, op: CudaTileOp, bounds: Interval) -> None:
        """Refuse a result that may have wrapped around."""
        type_ = op.results[0].type
        assert isinstance(type_, TileType)
        limit = 1 << (bit_width(type_.element_type) - 1)
        overflow = op.spec.attribute("overflow")
        if overflow is not None and op.attribute_value("overflow") in ("no_signed_wrap", "no_wrap"):
            return
        if bounds[0] < -limit or bounds[1] >= limit:
            raise NotAffineError(f"{op.spec.name} of {bit_width(type_.element_type)} bits may wrap around")


def loop_of(value: SSAValue) -> CudaTileOp | None:
    """The `for` whose induction variable the value is, with assumptions about it or without."""
    while isinstance(value.owner, OPS["assume"]):
        value = value.owner.operand("value")
    if not isinstance(value, BlockArgument) or value.index != 0 or not isinstance(value.owner, Block):
        return None
    parent = value.owner.parent_op()
    return parent if isinstance(parent, OPS["for"]) else None


def _shape(value: SSAValue) -> tuple[int, ...] | None:
    return value.type.shape if isinstance(value.type, TileType) else None


class _CertainOps:
    """The order of the ops of blocks, as they were when first asked for."""

    def __init__(self) -> None:
        self._places: dict[Block, tuple[dict[Operation, int], int]] = {}

    def _of(self, block: Block) -> tuple[dict[Operation, int], int]:
        """The numbers of a block's ops, and from which one on they may not run, because an op before it left."""
        found = self._places.get(block)
        if found is None:
            ops = list(block.ops)
            certain = next((number + 1 for number, op in enumerate(ops) if _leaves(op)), len(ops))
            found = self._places[block] = {op: number for number, op in enumerate(ops)}, certain
        return found

    def runs_with_operand(self, op: Operation) -> bool:
        """Whether the op runs wherever its source is defined: in one block, and before anything can leave it."""
        block, owner = op.parent_block(), source_of(op).owner
        if block is None or (owner if isinstance(owner, Block) else owner.parent_block()) is not block:
            return False
        numbers, certain = self._of(block)
        return numbers[op] < certain

    def is_before(self, value: SSAValue, place: Operation) -> bool:
        """Whether a value is defined where `place` is, which stood in its block when this was first asked."""
        if isinstance(value.owner, Block):
            return True  # it dominates the assumptions about it, and what these are for
        block = value.owner.parent_block()
        inner: Operation | None = place
        while inner is not None and inner.parent_block() is not block:
            inner = inner.parent_op()
        if inner is None or block is None:
            return False
        numbers, _ = self._of(block)
        return numbers[value.owner] < numbers[inner]


def _leaves(op: Operation) -> bool:
    """Whether control may leave the op's block through the op, or stay in it for ever."""
    for inner in walk(op):
        if isinstance(inner, (OPS["assert"], OPS["loop"])):
            return True
        exit_ = exit_of(inner)
        target = exit_.target(inner) if exit_ is not None else op
        if target is None or not op.is_ancestor(target):
            return True
    return False


# -- rules ------------------------------------------------------------------------------------------------------------

_Rule = Callable[[Forms, CudaTileOp], Form]
_RULES: dict[str, _Rule] = {}


def _rule(*names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


@_rule("constant")
def _constant(forms: Forms, op: CudaTileOp) -> Form:
    value, type_ = op.properties["value"], op.results[0].type
    assert isinstance(value, DenseElementsAttr) and isinstance(type_, TileType)
    if not is_integer(type_.element_type) or not value.is_splat:
        raise NotAffineError("an index is a constant with different elements")
    (bits,), width = value.elements(), bit_width(type_.element_type)
    number = bits - (1 << width) if bits >> (width - 1) & 1 else bits
    return Form(type_.shape, Polynomial.constant(number), (ZERO,) * type_.rank)


@_rule("iota")
def _iota(forms: Forms, op: CudaTileOp) -> Form:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    forms.exact(op, (0, type_.shape[0] - 1))
    return Form(type_.shape, ZERO, (ONE,))


@_rule("addi", "subi")
def _sum(forms: Forms, op: CudaTileOp) -> Form:
    (low, high), (least, most) = (forms.interval(x) for x in op.operands)
    a, b = (forms.of(x) for x in op.operands)
    sign = 1 if isinstance(op, OPS["addi"]) else -1
    forms.exact(op, (low + least, high + most) if sign == 1 else (low - most, high - least))
    return a.plus(b, sign)


@_rule("muli")
def _product(forms: Forms, op: CudaTileOp) -> Form:
    forms.exact(op, _products(*(forms.interval(x) for x in op.operands)))
    a, b = (forms.of(x) for x in op.operands)
    if not b.is_uniform:
        a, b = b, a
    if not b.is_uniform:
        raise NotAffineError("an index is multiplied by another")
    return a.scaled(b.start)


def _products(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


@_rule("shli")
def _shift(forms: Forms, op: CudaTileOp) -> Form:
    source, amount = op.operand("lhs"), forms.of(op.operand("rhs")).start.value
    if amount is None or not 0 <= amount < 64:
        raise NotAffineError("an index is shifted by an amount that is not known")
    forms.exact(op, _products(forms.interval(source), (1 << amount, 1 << amount)))
    return forms.of(source).scaled(Polynomial.constant(1 << amount))


@_rule("negi")
def _negation(forms: Forms, op: CudaTileOp) -> Form:
    source = op.operand("source")
    low, high = forms.interval(source)
    forms.exact(op, (-high, -low))
    return forms.of(source).scaled(Polynomial.constant(-1))


@_rule("exti", "trunci")
def _conversion(forms: Forms, op: CudaTileOp) -> Form:
    source = op.operand("from")
    assert isinstance(source.type, TileType)
    low, high = forms.interval(source)
    if bit_width(source.type.element_type) == 1:
        raise NotAffineError("an index is made of a condition")
    if isinstance(op, OPS["exti"]) and op.attribute_value("signedness") == "unsigned" and low < 0:
        raise NotAffineError("a number that may be negative is extended as an unsigned one")
    forms.exact(op, (low, high))
    return forms.of(source)


@_rule("assume")
def _assume(forms: Forms, op: CudaTileOp) -> Form:
    value, assumed = op.results[0], op.operand("value")
    if _shape(value) != ():
        return forms.of(assumed)
    assert isinstance(value.type, TileType)
    if isinstance(value.type.element_type, PointerType):
        return forms.stands_for_itself(value)
    inner = forms.of(assumed)
    # An unknown that is said to be something is the same unknown, of which more is known.
    return forms.stands_for_itself(value) if inner == forms.stands_for_itself(assumed) else inner


@_rule("reshape")
def _reshape(forms: Forms, op: CudaTileOp) -> Form:
    return reshaped(forms.of(op.operand("source")), _shape(op.results[0]) or ())


def reshaped(form: Form, shape: Sequence[int]) -> Form:
    """The form under another shape, which may only gain and lose dimensions of one element, or be of one value."""
    if form.is_uniform:
        return Form(tuple(shape), form.start, (ZERO,) * len(shape), form.base)
    if [extent for extent in form.shape if extent > 1] != [extent for extent in shape if extent > 1]:
        raise NotAffineError("a reshape lays out an index in other dimensions")
    steps = iter(step for extent, step in zip(form.shape, form.steps) if extent > 1)
    return Form(tuple(shape), form.start, tuple(next(steps) if extent > 1 else ZERO for extent in shape), form.base)


@_rule("broadcast")
def _broadcast(forms: Forms, op: CudaTileOp) -> Form:
    form = forms.of(op.operand("source"))
    return Form(_shape(op.results[0]) or (), form.start, form.steps, form.base)


@_rule("permute")
def _permute(forms: Forms, op: CudaTileOp) -> Form:
    form, order = forms.of(op.operand("source")), op.attribute_value("permutation")
    return permuted(form, order)


_OPPOSITE = {
    "less_than": "greater_than_or_equal",
    "less_than_or_equal": "greater_than",
    "greater_than": "less_than_or_equal",
    "greater_than_or_equal": "less_than",
}


def positive_where(
    op: CudaTileOp, forms: Forms, of: Callable[[SSAValue], Sum], one: Callable[[Sum], Sum], holds: bool = True
) -> list[Sum]:
    """What is above 0, all of it, where a comparison of integers holds, or where it does not, in forms that `of` gives
    of its sides; `one` gives 1 in the form of another. NotAffineError for one of conditions, or for equality."""
    predicate = str(op.attribute_value("comparison_predicate"))
    if predicate not in _OPPOSITE:
        raise NotAffineError("the mask compares for equality")
    predicate = predicate if holds else _OPPOSITE[predicate]
    small, large = op.operand("lhs"), op.operand("rhs")
    if predicate.startswith("greater"):
        small, large = large, small
    assert isinstance(small.type, TileType)
    if bit_width(small.type.element_type) == 1:
        raise NotAffineError("the mask compares conditions")
    a, b = of(small), of(large)
    difference = b.plus(a, -1)
    found = [difference.plus(one(a)) if predicate.endswith("or_equal") else difference]
    if op.attribute_value("signedness") == "unsigned":
        if forms.interval(large)[0] < 0:
            raise NotAffineError("the bound of an unsigned comparison is not known to be positive")
        found.append(a.plus(one(a)))  # what is negative is large, and beyond the bound
    return found


def one_like(form: Form) -> Form:
    """1 at each position of a tile of the same shape."""
    return Form(form.shape, ONE, (ZERO,) * len(form.shape))


def permuted(form: Form, order: Iterable[int | IntegerAttr]) -> Form:
    """The form of a transposed tile: dimension `d` of it is dimension `order[d]` of the tile."""
    dims = [int(d) if isinstance(d, int) else d.value.data for d in order]
    return Form(tuple(form.shape[d] for d in dims), form.start, tuple(form.steps[d] for d in dims), form.base)


@_rule("offset")
def _offset(forms: Forms, op: CudaTileOp) -> Form:
    return forms.of(op.operand("ptr")).plus(forms.of(op.operand("offset")))  # that it overflows is undefined
