# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of integers and pointers as affine functions of the position in the tile.

    value[i, j, ...] = start + i * steps[0] + j * steps[1] + ...

`start` and the steps are polynomials over the program's scalars, in whole numbers: an op takes part only if it cannot
wrap around, by what its flag promises or by the ranges of its operands. A scalar that is computed in another way is an
unknown of the polynomials itself. For pointers all of this counts elements of the pointee behind a scalar pointer.

What a loop carries, and adds the same to in each iteration, is what it starts with and as often that as there were
iterations: the loop's counter tells how many. A `for` has one, and a `loop` that carries one (`analysis.counters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from libtile.analysis.counters import CertainOps, Conditions, Counter, carried_number, counters_of, unassumed
from libtile.analysis.dataflow import Facts
from libtile.analysis.polynomials import ONE, ZERO, Form, NotAffineError, Polynomial
from libtile.analysis.tokens import iteration_ends
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import PointerType, TileType, bit_width, is_integer
from libtile.ir.facts import MAX_DIVISOR
from libtile.ir.places import is_within

MAX_DEPTH = 64
"""Ops between a tile and what it is computed from; longer computations are not followed."""

Interval = tuple[int, int]


class _Form(Protocol):
    """What positions of a tile are computed by: a form, or one with more to it."""

    def plus(self: Sum, other: Sum, sign: int = 1) -> Sum: ...


Sum = TypeVar("Sum", bound=_Form)


class Forms:
    """The forms of one function's values, found when they are asked for. Not kept up to date when it changes."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.unknowns: list[SSAValue] = []
        """The scalars that polynomials are over, by their numbers, with what `assume` says of them."""
        self._assumed: list[list[SSAValue]] = []
        """For each unknown the values that it is, those with fewer assumptions first."""
        self._certain = CertainOps()
        self._conditions = Conditions()
        self._counters: dict[CudaTileOp, Counter | None] = {}
        self._positive: dict[Operation, list[Polynomial]] = {}
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
        if isinstance(value, BlockArgument) and isinstance(loop := op.parent_op(), (OPS["for"], OPS["loop"])):
            number = carried_number(value, loop)
            if number is not None and self._counter(loop) is not value:
                return self._carried(value, number, loop)
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

    def _carried(self, value: BlockArgument, number: int, loop: CudaTileOp) -> Form:
        """The form of what a loop carries: its start, and what an iteration adds so often as the counter tells."""
        # While it is looked for, something that it is computed of itself is found to be of another kind, or unknown.
        why = "does not add the same to it each time" if self._counter(loop) is not None else "counts nothing"
        reason = NotAffineError(f"an index or an address comes from a loop that {why}")
        self._known[value] = alone = self.stands_for_itself(value) if _shape(value) == () else reason
        try:
            moved = self._moved(value, number, loop)
        except NotAffineError:
            moved = None
        if moved is None:
            if isinstance(alone, NotAffineError):
                raise alone
            return alone
        return moved

    def _moved(self, value: BlockArgument, number: int, loop: CudaTileOp) -> Form | None:
        counter, step = self._counter(loop), self.step_of(loop)
        added = {self._added(value, end.operands[number], loop) for end in iteration_ends(loop)}
        if len(added) != 1 or counter is None or step is None or not step.value:
            return None
        (each,) = added
        per_count = each.divided(step.value) if each is not None else None
        if each is None or per_count is None:
            return None
        counted = self.of(counter).start - self._first_of(loop)
        first = self.of(loop.operand_group("initValues")[number])
        form = Form(first.shape, first.start + counted * per_count, first.steps, first.base)
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

    # -- counters ---------------------------------------------------------------------------------------------------

    def loop_of(self, value: SSAValue) -> CudaTileOp | None:
        """The loop whose counter the value is, with assumptions about it or without: what tells its iterations apart.
        The number of a `for`, or of what a `loop` carries the first to which each iteration adds the same."""
        value = unassumed(value)
        loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
        if not isinstance(loop, (OPS["for"], OPS["loop"])):
            return None
        return loop if self._counter(loop) is value else None

    def _counter(self, loop: CudaTileOp) -> BlockArgument | None:
        if isinstance(loop, OPS["for"]):
            return loop.regions[0].blocks[0].args[0]
        found = self._counted(loop)
        return None if found is None else found.value

    def _counted(self, loop: CudaTileOp) -> Counter | None:
        """What a `loop` counts; None where it counts nothing, or may count up to where numbers wrap around."""
        if loop not in self._counters:
            counters = counters_of(loop, self._conditions)
            self._counters[loop] = next((each for each in counters if each.range(self._range) is not None), None)
        return self._counters[loop]

    def _range(self, value: SSAValue) -> tuple[int | None, int | None]:
        fact = self.facts.of(value)
        return fact.lower, fact.upper

    def step_of(self, loop: CudaTileOp) -> Polynomial | None:
        """What an iteration adds to the counter; None where there is none, or it counts in another way."""
        if isinstance(loop, OPS["for"]):
            step = self.of(loop.operand("step")).start
            return None if loop.attribute_value("unsignedCmp") or (step.value or 1) < 1 else step
        found = self._counted(loop)
        return None if found is None else Polynomial.constant(found.step)

    def _first_of(self, loop: CudaTileOp) -> Polynomial:
        """What the counter is in the first iteration."""
        found = self._counted(loop) if isinstance(loop, OPS["loop"]) else None
        return self.of(loop.operand("lowerBound") if found is None else found.first).start

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
        return self._divisor(polynomial) % divisor == 0

    def _divisor(self, polynomial: Polynomial) -> int:
        """A power of two that divides a polynomial; a large one for 0."""
        found = MAX_DIVISOR
        for monomial, factor in polynomial.terms:
            known = factor & -factor
            for unknown in monomial:
                known *= self.facts.of(self.unknowns[unknown]).scalar_divisor
            found = min(found, known)
        return found

    def is_positive(self, polynomial: Polynomial, place: Operation | None = None) -> bool:
        """Whether it is greater than 0 in every run, where all of its unknowns are defined; or where an op runs, if one
        is named, because of the branches on the way to it."""
        at_place = [] if place is None else self.positive_at(place)
        # A multiple of 16 that is positive is at least 16.
        known = [each - Polynomial.constant(self._divisor(each) - 1) for each in at_place]
        for _ in range(MAX_DEPTH):
            if self.bounds(polynomial)[0] > 0 or any(self.bounds(polynomial - each)[0] >= 0 for each in known):
                return True
            smaller = self._at_an_end(polynomial, place)
            if smaller is None:
                return False
            polynomial = smaller
        return False

    def is_negative_nowhere(self, polynomial: Polynomial, place: Operation | None = None) -> bool:
        """Whether it is 0 or greater in every run, or where an op runs."""
        return self.bounds(polynomial)[0] >= 0 or self.is_positive(polynomial + ONE, place)

    def positive_at(self, place: Operation) -> list[Polynomial]:
        """What is greater than 0 whenever an op runs, by the branches on the way to it."""
        known = self._positive.get(place)
        if known is None:
            known = self._positive[place] = []
            for condition, holds in self._conditions.at(place):
                op = condition.owner
                if isinstance(op, OPS["cmpi"]):
                    try:
                        known += [form.start for form in positive_where(op, self, self.of, one_like, holds)]
                    except NotAffineError:
                        continue
        return known

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

    def _at_an_end(self, polynomial: Polynomial, place: Operation | None) -> Polynomial | None:
        """Something not greater (where an op runs), with a bound of a loop in place of a counter: the last that it may
        be where it is subtracted, or else the first where it is added."""
        first: Polynomial | None = None
        for monomial, factor in polynomial.terms:
            loop = self.loop_of(self.unknowns[monomial[0]]) if len(monomial) == 1 else None
            if loop is None or self.step_of(loop) is None:
                continue
            without = polynomial - Polynomial.of({monomial: factor})
            most = self.at_most(loop, -factor, place) if factor < 0 else None
            if most is not None:
                return without - most
            if first is None and factor > 0 and self._counts_up(loop):
                first = without + self._first_of(loop) * Polynomial.constant(factor)
        return first

    def _counts_up(self, loop: CudaTileOp) -> bool:
        found = self._counted(loop) if isinstance(loop, OPS["loop"]) else None
        return found is None or found.step > 0

    def at_most(self, loop: CudaTileOp, factor: int, place: Operation | None = None) -> Polynomial | None:
        """Something that `factor` (more than 0) times the counter of a loop never exceeds, where an op in it runs if
        one is named; None where nothing is known."""
        if self.step_of(loop) is None:
            return None
        if isinstance(loop, OPS["for"]):
            return self._below(loop.operand("upperBound"), factor, loop)
        if not self._counts_up(loop):
            return self._first_of(loop) * Polynomial.constant(factor)
        counter = self._counted(loop)
        number = None if counter is None or place is None else self._numbers.get(counter.value)
        if number is None or place is None:
            return None
        for known in self.positive_at(place):
            by = -dict(known.terms).get((number,), 0)
            rest = known + Polynomial.of({(number,): by})
            if by < 1 or factor % by or any(is_within(self.unknowns[each], loop) for each in rest.unknowns):
                continue
            if by == 1 and len(rest.terms) == 1 and len(rest.terms[0][0]) == 1 and rest.terms[0][1] == 1:
                return self._below(self.unknowns[rest.terms[0][0][0]], factor, loop)
            return (rest - ONE) * Polynomial.constant(factor // by)
        return None

    def _below(self, bound: SSAValue, factor: int, loop: CudaTileOp) -> Polynomial:
        """Something that `factor` times the counter of a loop never exceeds where it is less than a bound."""
        op = bound.owner
        if isinstance(op, OPS["divi"]) and op.attribute_value("signedness") == "signed":
            divided, divisor = self.of(op.operand("lhs")).start, self.of(op.operand("rhs")).start.value
            rounding = op.attribute_value("rounding")
            if divisor == factor and rounding == "positive_inf":
                return divided - ONE  # factor * (bound - 1) < divided
            starts_at_zero = self.bounds(self._first_of(loop))[0] >= 0  # else a quotient may be rounded up
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


def _shape(value: SSAValue) -> tuple[int, ...] | None:
    return value.type.shape if isinstance(value.type, TileType) else None


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
