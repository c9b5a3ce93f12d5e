# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`simplify-integers`: arithmetic that ranges decide.

What is known of integers (`analysis`: constants, `assume`, induction variables, block ids, and all that is computed of
them) decides comparisons, minima and maxima, remainders and quotients of what is smaller than the divisor, and masks
that take nothing away. Conditions made of such comparisons follow, and with them the select chains that a frontend
writes for Python's `//` and `%`: behind this pass `canonicalize` has a constant condition to work with.

Every rule gives a value that the op itself would have given, in all runs without undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from libtile.analysis import Facts
from libtile.dialects.constant_ops import has_constants
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, EnumAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1, is_integer
from libtile.ir.facts import Fact
from libtile.ir.places import walk
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_bool, create_before, replace_op
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
        facts = Facts(function)
        for op in list(walk(function)):
            if isinstance(op, CudaTileOp) and len(op.results) == 1 and op.parent is not None:
                changed |= _simplify(op, facts)
    return changed


def _simplify(op: CudaTileOp, facts: Facts) -> bool:
    type_ = op.results[0].type
    if op.spec.name == "constant" or not isinstance(type_, TileType) or not is_integer(type_.element_type):
        return False
    if op.regions or not has_no_effects(op) or not has_constants(type_):
        return False
    known = facts.of(op.results[0]).value
    if known is not None and (type_.element_type != i1 or op.spec.name in _KEEP_BITS):
        return _set_constant(op, known, "values known")
    rule = _RULES.get(op.spec.name)
    return rule is not None and rule(op, facts)


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

_Rule = Callable[[CudaTileOp, Facts], bool]


def _signed_as_unsigned(op: CudaTileOp, facts: tuple[Fact, Fact]) -> bool:
    """Whether the op's numbers mean the same with and without a sign, or are signed: bounds are of signed numbers."""
    return op.attribute_value("signedness") == "signed" or all(_is_at_least(fact, 0) for fact in facts)


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


def _compare(op: CudaTileOp, facts: Facts) -> bool:
    known = facts.of(op.operand("lhs")), facts.of(op.operand("rhs"))
    if _is_condition(op.operand("lhs")):
        return False
    predicate = str(op.attribute_value("comparison_predicate"))
    if predicate not in ("equal", "not_equal") and not _signed_as_unsigned(op, known):
        return False
    answer = _DECIDED[predicate](*known)
    if answer is None:
        return False
    return _set_constant(op, int(answer), "comparisons decided")


def _extreme(op: CudaTileOp, facts: Facts) -> bool:
    known = facts.of(op.operand("lhs")), facts.of(op.operand("rhs"))
    if _is_condition(op.operand("lhs")) or not _signed_as_unsigned(op, known):
        return False
    for index in (0, 1):
        mine, other = known[index], known[1 - index]
        smaller, larger = _is_at_most(mine, other), _is_at_most(other, mine)
        if smaller if isinstance(op, OPS["mini"]) else larger:
            return _use(op, op.operands[index], "minima and maxima decided")
    return False


def _absolute(op: CudaTileOp, facts: Facts) -> bool:
    (source,) = op.operands
    return _is_at_least(facts.of(source), 0) and _use(op, source, "absolute values of positive numbers")


def _remainder(op: CudaTileOp, facts: Facts) -> bool:
    a, b = (facts.of(operand) for operand in op.operands)
    if _is_at_least(a, 0) and _is_less(a, b):
        return _use(op, op.operand("lhs"), "remainders of smaller numbers")
    return False


def _quotient(op: CudaTileOp, facts: Facts) -> bool:
    a, b = (facts.of(operand) for operand in op.operands)
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


def _logic(op: CudaTileOp, facts: Facts) -> bool:
    """`and`, `or` and `xor` of conditions of which one is known; masks that keep all bits that a number may have."""
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    if type_.element_type != i1:
        return isinstance(op, OPS["andi"]) and _mask(op, facts)
    for value, other in _both_ways(op):
        known = constant_bool(value)
        if known is None:
            continue
        match op.spec.name, known:
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


def _mask(op: CudaTileOp, facts: Facts) -> bool:
    for value, other in _both_ways(op):
        number, mask = facts.of(value), facts.of(other).value
        if mask is None or mask < 0 or mask & (mask + 1) or not _is_at_least(number, 0):
            continue
        if number.upper is not None and number.upper <= mask:
            return _use(op, value, "masks without effect")
    return False


_RULES: dict[str, _Rule] = {
    "cmpi": _compare,
    "mini": _extreme,
    "maxi": _extreme,
    "absi": _absolute,
    "remi": _remainder,
    "divi": _quotient,
    "andi": _logic,
    "ori": _logic,
    "xori": _logic,
}
