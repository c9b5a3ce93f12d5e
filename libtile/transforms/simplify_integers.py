# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`simplify-integers`: arithmetic that ranges decide.

What is known of integers (`analysis`: constants, `assume`, induction variables, block ids, and all that is computed of
them) decides comparisons, minima and maxima, remainders and quotients of what is smaller than the divisor, and masks
that take nothing away. Where ranges do not meet, differences do: of a number and one more, of the counter of a loop and
the loop's bounds. Conditions made of such comparisons follow, and with them the select chains that a frontend
writes for Python's `//` and `%`: behind this pass `canonicalize` has a constant condition to work with. A select of the
two numbers that its condition compares is their minimum or maximum.

Every rule gives a value that the op itself would have given, in all runs without undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from libtile.analysis import Facts
from libtile.analysis.affine import Forms, one_like, positive_where
from libtile.analysis.polynomials import NotAffineError
from libtile.dialects.constant_ops import has_constants
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, EnumAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1, is_integer, width_of
from libtile.ir.facts import Fact
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass, replace
from libtile.transforms import reporting
from libtile.transforms.canonical_values import (
    constant_bool,
    constant_integer,
    create_before,
    defining,
    is_op,
    negated,
    replace_op,
)
from libtile.transforms.effects import has_no_effects
from libtile.transforms.greedy import functions_in

_REMARK = "SimplifyIntegers"


@dataclass(frozen=True)
class SimplifyIntegersPass(ModulePass):
    """Replace integer arithmetic by what ranges say that it gives."""

    name = "simplify-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simplify_integers(op)


def simplify_integers(root: Operation) -> bool:
    """Simplify in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        known = Known(Facts(function))
        for op in ops_of(function, CudaTileOp):
            if len(op.results) == 1 and op.parent is not None:
                changed |= _simplify(op, known)
        # Those that others choose between last: what they are to these is for `canonicalize` to see, in a select.
        for op in reversed(ops_of(function, OPS["select"])):
            changed |= not any(is_op(use.operation, "select") for use in op.results[0].uses) and _chosen(op, known)
        for op in ops_of(function, OPS["cmpi"]):
            changed |= _last_iteration(op, known)
    return changed


class Known:
    """What is known of a function's values: their ranges, and what they are of others, found when it is asked for."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.conditions: dict[Hashable, tuple[CudaTileOp, bool]] = {}
        """The comparisons so far by what they ask, and whether they ask for the opposite."""

    def asked_before(self, op: CudaTileOp) -> tuple[SSAValue | None, bool]:
        """The result of an earlier comparison of the same numbers, and whether it is the opposite of this one's."""
        key, opposite = _asked(op)
        first = self.conditions.get(key)
        if first is None or not _is_before(first[0], op):
            self.conditions[key] = op, opposite
            return None, False
        return first[0].results[0], first[1] != opposite

    @cached_property
    def forms(self) -> Forms:
        """The values as sums of products of others."""
        return Forms(self.facts)


def _last_iteration(op: CudaTileOp, known: Known) -> bool:
    """Ask for the number of a loop's last iteration where a condition of branches holds in no other one."""
    from libtile.transforms.last_iterations import last_count, use_count

    found = last_count(op, known.forms)
    if found is None:
        return False
    _say(op, "branches of last iterations")
    use_count(op, *found)
    return True


def _simplify(op: CudaTileOp, known: Known) -> bool:
    type_ = op.results[0].type
    if op.spec.name == "constant" or not isinstance(type_, TileType) or not is_integer(type_.element_type):
        return False
    if op.regions or not has_no_effects(op) or not has_constants(type_):
        return False
    value = known.facts.of(op.results[0]).value
    if value is not None and (type_.element_type != i1 or op.spec.name in _KEEP_BITS):
        return _set_constant(op, value, "values known")
    rule = _RULES.get(op.spec.name)
    return rule is not None and rule(op, known)


def _set_constant(op: CudaTileOp, value: int, what: str) -> bool:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    bits = bit_width(type_.element_type)
    size = max(bits // 8, 1)
    raw = (value & ((1 << bits) - 1)).to_bytes(size, "little")
    _say(op, what)
    replace_op(op, [create_before(op, "constant", {}, [type_], {"value": DenseElementsAttr(type_, raw)})])
    return True


def _use(op: CudaTileOp, value: SSAValue, what: str) -> bool:
    _say(op, what)
    replace_op(op, [value])
    return True


def _say(op: CudaTileOp, what: str) -> None:
    statistics.count(what)
    reporting.done(op, _REMARK, "Integer arithmetic that ranges decide is gone", Op=op.name, What=what)


_KEEP_BITS = ("andi", "select", "broadcast", "reshape", "permute")
"""Ops whose facts hold for i1, too: the others' are of signed numbers, and no rule says what these are in one bit."""


def _is_condition(value: SSAValue) -> bool:
    return isinstance(value.type, TileType) and value.type.element_type == i1


# -- rules ------------------------------------------------------------------------------------------------------------

_Rule = Callable[[CudaTileOp, Known], bool]


def _signed_as_unsigned(op: CudaTileOp, facts: tuple[Fact, Fact]) -> bool:
    """Whether the op's numbers mean the same with and without a sign, or are signed: bounds are of signed numbers."""
    return op.attribute_value("signedness") == "signed" or all(_is_at_least(fact, 0) for fact in facts)


def _bounded(op: CudaTileOp, known: Known) -> tuple[Fact, Fact]:
    """What is known of both operands, with both bounds, as the op reads them: with a sign or without."""
    bits = width_of(op.operand("lhs"))
    a, b = (known.facts.of(op.operand(name)).within(bits) for name in ("lhs", "rhs"))
    return (a, b) if op.attribute_value("signedness") == "signed" else (_unsigned(a, bits), _unsigned(b, bits))


def _unsigned(fact: Fact, bits: int) -> Fact:
    """The bounds of numbers without a sign: those that look negative are the large ones."""
    lower, upper, all_ = fact.lower, fact.upper, 1 << bits
    assert lower is not None and upper is not None
    if lower < 0 <= upper:
        return replace(fact, lower=0, upper=all_ - 1)
    return replace(fact, lower=lower % all_, upper=upper % all_)


def _is_at_least(fact: Fact, number: int) -> bool:
    return fact.lower is not None and fact.lower >= number


def _is_less(a: Fact, b: Fact) -> bool:
    """Whether every element of one is less than every element of the other."""
    return a.upper is not None and b.lower is not None and a.upper < b.lower


def _is_at_most(a: Fact, b: Fact) -> bool:
    return a.upper is not None and b.lower is not None and a.upper <= b.lower


_DECIDED: dict[str, Callable[[Fact, Fact], bool | None]] = {
    "less_than": lambda a, b: True if _is_less(a, b) else False if _is_at_most(b, a) else None,
    "less_than_or_equal": lambda a, b: True if _is_at_most(a, b) else False if _is_less(b, a) else None,
    "greater_than": lambda a, b: True if _is_less(b, a) else False if _is_at_most(a, b) else None,
    "greater_than_or_equal": lambda a, b: True if _is_at_most(b, a) else False if _is_less(a, b) else None,
    "equal": lambda a, b: False if _is_less(a, b) or _is_less(b, a) else None,
    "not_equal": lambda a, b: True if _is_less(a, b) or _is_less(b, a) else None,
}


def _compare(op: CudaTileOp, known: Known) -> bool:
    if _is_condition(op.operand("lhs")):
        return False
    predicate = str(op.attribute_value("comparison_predicate"))
    answer = _DECIDED[predicate](*_bounded(op, known))
    if answer is None and predicate not in ("equal", "not_equal"):
        answer = next((holds for holds in (True, False) if _always(op, known.forms, holds)), None)
    if answer is None:
        return _condition_again(op, known)
    return _set_constant(op, int(answer), "comparisons decided")


def _condition_again(op: CudaTileOp, known: Known) -> bool:
    """Use a condition itself that a comparison asks for as a number, or an earlier comparison that asks the same or the
    opposite. What is no condition of selects and branches keeps its form, which says what a mask bounds."""
    value, opposite = _as_number(op) or known.asked_before(op)
    if value is None:
        return False
    if not opposite:
        return _use(op, value, "conditions that are there already")
    if not all(is_op(use.operation, "if", "select") and use.index == 0 for use in op.results[0].uses):
        return False
    return _use(op, negated(value, op), "conditions that are there already")


def _asked(op: CudaTileOp) -> tuple[Hashable, bool]:
    """What a comparison asks of which numbers, and whether it asks for the opposite: all are made of two."""
    predicate = str(op.attribute_value("comparison_predicate"))
    a, b = op.operand("lhs"), op.operand("rhs")
    if predicate in ("equal", "not_equal"):
        return frozenset((a, b)), predicate == "not_equal"
    if predicate.startswith("greater"):
        a, b = b, a
    opposite = predicate.endswith("or_equal")  # a <= b: not b < a
    return ((b, a) if opposite else (a, b), op.attribute_value("signedness")), opposite


def _as_number(op: CudaTileOp) -> tuple[SSAValue, bool] | None:
    """The condition of which a comparison asks whether it is 0 as a number, and whether it has to be false."""
    wide, number = defining(op.operand("lhs"), "exti"), constant_integer(op.operand("rhs"))
    predicate = str(op.attribute_value("comparison_predicate"))
    if (
        wide is None
        or number != 0
        or predicate not in ("equal", "not_equal")
        or not _is_condition(wide.operand("from"))
    ):
        return None
    return wide.operand("from"), predicate == "equal"


def _is_before(first: Operation, op: Operation) -> bool:
    """Whether the result of an op that was met before another one, if it is still there, can be used there."""
    block = first.parent_block()
    inner: Operation | None = op
    while inner is not None and inner.parent_block() is not block:
        inner = inner.parent_op()
    return block is not None and inner is not None


def _always(op: CudaTileOp, forms: Forms, holds: bool) -> bool:
    """Whether the difference of its operands shows that a comparison holds, or that it does not, for all elements: a
    number and one more, say, or the counter of a loop and the loop's bounds."""
    try:
        needed = positive_where(op, forms, forms.of, one_like, holds)
        return all(map(forms.is_positive_everywhere, needed))
    except NotAffineError:
        return False


def _extreme(op: CudaTileOp, known: Known) -> bool:
    if _is_condition(op.operand("lhs")):
        return False
    bounds = _bounded(op, known)
    for index in (0, 1):
        mine, other = bounds[index], bounds[1 - index]
        wanted = _is_at_most(mine, other) if isinstance(op, OPS["mini"]) else _is_at_most(other, mine)
        if wanted or _is_extreme(op, index, known.forms):
            return _use(op, op.operands[index], "minima and maxima decided")
    return False


def _is_extreme(op: CudaTileOp, index: int, forms: Forms) -> bool:
    """Whether the difference of its operands shows which one is the minimum or the maximum."""
    if op.attribute_value("signedness") != "signed":
        return False
    small, large = (index, 1 - index) if isinstance(op, OPS["mini"]) else (1 - index, index)
    try:
        a, b = forms.of(op.operands[small]), forms.of(op.operands[large])
        return forms.is_positive_everywhere(b.plus(a, -1).plus(one_like(a)))
    except NotAffineError:
        return False


def _chosen(op: CudaTileOp, known: Known) -> bool:
    """The smaller or larger one of two numbers, as a comparison chooses it (`std::min`, a conditional expression)."""
    condition, *arms = op.operands
    compare = defining(condition, "cmpi")
    if compare is None or {*arms} != {*compare.operands} or _is_condition(arms[0]):
        return False
    predicate = str(compare.attribute_value("comparison_predicate"))
    if predicate in ("equal", "not_equal"):
        return False
    smaller = predicate.startswith("less") == (arms[0] is compare.operand("lhs"))
    given = {"lhs": compare.operand("lhs"), "rhs": compare.operand("rhs")}
    signedness = {"signedness": str(compare.attribute_value("signedness"))}
    made = create_before(op, "mini" if smaller else "maxi", given, [op.results[0].type], signedness)
    owner = made.owner
    _use(op, made, "minima and maxima that were selects")
    if isinstance(owner, CudaTileOp):
        _extreme(owner, known)
    return True


def _identity(op: CudaTileOp, known: Known) -> bool:
    """An operand to which the other one does nothing."""
    neutral = 1 if isinstance(op, OPS["muli"]) else 0
    sides = _both_ways(op) if isinstance(op, (OPS["addi"], OPS["muli"])) else _both_ways(op)[:1]
    return any(
        neutral in (known.facts.of(other).value, constant_integer(other))
        and _use(op, value, "sums, products and shifts that change nothing")
        for value, other in sides
    )


def _absolute(op: CudaTileOp, known: Known) -> bool:
    (source,) = op.operands
    return _is_at_least(known.facts.of(source), 0) and _use(op, source, "absolute values of positive numbers")


def _remainder(op: CudaTileOp, known: Known) -> bool:
    a, b = (known.facts.of(operand) for operand in op.operands)
    if _is_at_least(a, 0) and _is_less(a, b):
        return _use(op, op.operand("lhs"), "remainders of smaller numbers")
    return False


def _quotient(op: CudaTileOp, known: Known) -> bool:
    a, b = (known.facts.of(operand) for operand in op.operands)
    if b.value == 1 and _signed_as_unsigned(op, (a, b)):
        return _use(op, op.operand("lhs"), "quotients by one")
    rounding = op.attribute_value("rounding")
    if not _is_at_least(a, 0) or rounding == "positive_inf":
        if rounding == "negative_inf":
            reporting.missed(op, _REMARK, "Floor division is no plain one", "its dividend may be negative")
        return False
    if _is_less(a, b):
        return _set_constant(op, 0, "quotients of smaller numbers")
    if rounding == "negative_inf" and _is_at_least(b, 1):
        op.properties["rounding"] = EnumAttr("RoundingMode", "zero")
        _say(op, "floor divisions made plain")
        return True
    return False


def _logic(op: CudaTileOp, known: Known) -> bool:
    """`and`, `or` and `xor` of conditions of which one is known; masks that keep all bits that a number may have."""
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    if type_.element_type != i1:
        return isinstance(op, OPS["andi"]) and _mask(op, known)
    for value, other in _both_ways(op):
        first = constant_bool(value)
        if first is None:
            continue
        match op.spec.name, first:
            case ("andi", True) | ("ori", False) | ("xori", False):
                return _use(op, other, "conditions decided")
            case ("andi", False) | ("ori", True):
                return _use(op, value, "conditions decided")
            case ("xori", True) if (second := constant_bool(other)) is not None:
                return _set_constant(op, int(not second), "conditions decided")
    return False


def _both_ways(op: CudaTileOp) -> tuple[tuple[SSAValue, SSAValue], tuple[SSAValue, SSAValue]]:
    """The operands of a commutative op, either one first."""
    lhs, rhs = op.operand("lhs"), op.operand("rhs")
    return (lhs, rhs), (rhs, lhs)


def _mask(op: CudaTileOp, known: Known) -> bool:
    for value, other in _both_ways(op):
        number, mask = known.facts.of(value), known.facts.of(other).value
        if mask is None or mask < 0 or mask & (mask + 1) or not _is_at_least(number, 0):
            continue
        if number.upper is not None and number.upper <= mask:
            return _use(op, value, "masks without effect")
    return False


_RULES: dict[str, _Rule] = {
    "cmpi": _compare,
    "mini": _extreme,
    "maxi": _extreme,
    "addi": _identity,
    "subi": _identity,
    "muli": _identity,
    "shli": _identity,
    "shri": _identity,
    "absi": _absolute,
    "remi": _remainder,
    "divi": _quotient,
    "andi": _logic,
    "ori": _logic,
    "xori": _logic,
}
