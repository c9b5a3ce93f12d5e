# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches that a loop takes in its last iteration only, as what the counter is there.

    for i in 0 to min(n, b + 1) { if (i + 1) * 128 > b * 128 { A } }
    for i in 0 to min(n, b + 1) { if i == b { A with b for i } }

So causal attention with tiles of one size masks the tile on the diagonal. The condition takes no arithmetic then, and
what the branch computes of the counter is the same for the whole loop: a mask of rows and columns is.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from libtile.analysis.affine import Forms, one_like, positive_where
from libtile.analysis.polynomials import ONE, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.interfaces import body, bounds_of
from libtile.transforms.canonical_values import create_before, defining, is_op, replace_op

_MOST_BOUNDS = 8
"""Numbers that are looked at of which a loop's bound is the smallest."""


def last_count(compare: CudaTileOp, forms: Forms) -> tuple[SSAValue, SSAValue] | None:
    """The counter of a loop and what it is in the last iteration, where an ordered comparison decides branches in that
    loop and holds in no other iteration; None elsewhere."""
    uses = list(compare.results[0].uses)
    if not uses or not all(is_op(use.operation, "if") for use in uses):
        return None
    if str(compare.attribute_value("comparison_predicate")) in ("equal", "not_equal"):
        return None
    try:
        needed = [form.start for form in positive_where(compare, forms, forms.of, one_like)]
    except NotAffineError:
        return None
    return _last_count(needed[0], compare, forms) if len(needed) == 1 else None


def use_count(compare: CudaTileOp, counter: SSAValue, last: SSAValue) -> None:
    """Ask for the number of the last iteration in place of a comparison, and use it in the branches that follow it."""
    taken = [use.operation.regions[0] for use in compare.results[0].uses]
    asked = {"comparison_predicate": "equal", "signedness": "signed"}
    made = create_before(compare, "cmpi", {"lhs": counter, "rhs": last}, [compare.results[0].type], asked)
    replace_op(compare, [made])
    counter.replace_uses_with_if(last, lambda use: any(region.is_ancestor(use.operation) for region in taken))


def _last_count(needed: Polynomial, compare: CudaTileOp, forms: Forms) -> tuple[SSAValue, SSAValue] | None:
    """The counter of a loop, and what it is in the last iteration, if something is greater than 0 in that one only."""
    for number in needed.unknowns:
        loop = forms.loop_of(forms.unknowns[number])
        factor = dict(needed.terms).get((number,), 0)
        if not is_op(loop, "for") or loop is None or forms.step_of(loop) is None or factor <= 0:
            continue
        rest = needed - Polynomial.of({(number,): factor})
        if number in rest.unknowns or not loop.is_ancestor(compare):
            continue
        counter, times = body(loop).args[0], Polynomial.constant(factor)
        for last, value in _last_counts(loop, forms):
            ahead = (last - ONE) * times + rest
            if value.type != counter.type or not forms.is_positive(last * times + rest):
                continue
            if forms.is_negative_nowhere(ahead * Polynomial.constant(-1)):
                return counter, value
    return None


def _last_counts(loop: CudaTileOp, forms: Forms) -> Iterator[tuple[Polynomial, SSAValue]]:
    """What a loop's counter never exceeds, as polynomials that are one value that there is in front of the loop."""
    for bound in _bounds(bounds_of(loop)[1]):
        try:
            most = _whole(bound, forms) - ONE
        except NotAffineError:
            continue
        match most.terms:
            case (((unknown,), 1),):
                yield most, forms.at(unknown, loop)


def _bounds(bound: SSAValue) -> list[SSAValue]:
    """The numbers of which a bound is the smallest."""
    found: list[SSAValue] = []
    pending = [bound]
    while pending and len(found) < _MOST_BOUNDS:
        value = pending.pop()
        op = value.owner
        if isinstance(op, OPS["mini"]) and op.attribute_value("signedness") == "signed":
            pending += op.operands
        else:
            found.append(value)
    return found


def _whole(value: SSAValue, forms: Forms) -> Polynomial:
    """The polynomial of a number, which may be a quotient without a remainder."""
    divide = defining(value, "divi")
    if divide is not None and divide.attribute_value("signedness") == "signed":
        divided, divisor = (forms.of(divide.operand(name)).start for name in ("lhs", "rhs"))
        quotient = divided.divided(divisor.value) if divisor.value is not None and divisor.value > 0 else None
        if quotient is not None:
            return quotient
    return forms.of(value).start
