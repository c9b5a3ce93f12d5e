# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries facts through a cuda_tile function: one rule per op, loops to a fixpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.analysis.counters import Conditions, counters_of
from libtile.analysis.counters import Counter as LoopCounter
from libtile.dialects.cuda_tile.attributes import BoundedAttr, DenseElementsAttr, DivByAttr, SameElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, PointerType, TileType, bit_width, i1, is_integer, width_of
from libtile.dialects.interfaces import bounds_of
from libtile.ir import facts as f
from libtile.ir.facts import Fact, power_of_two_factor
from libtile.ir.operands import source_of
from libtile.ir.places import ops_in
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import replace

MAX_ITERATIONS = 8
MAX_CONSTANT_ELEMENTS = 4096

MAX_VISITS = 64
"""Visits of a loop's body, in all iterations of the loops around it, after which nothing is assumed of what it carries:
loops in one another would multiply them otherwise."""


Ranges = dict[int, tuple[int | None, int | None]]
"""The least and the largest number that a value may be, where they are known, by numbers of values."""


class State(dict[SSAValue, Fact]):
    """The facts of values; and how often each loop's body was visited to find them."""

    def __init__(self) -> None:
        super().__init__()
        self.visits: Counter[Block] = Counter()
        self._conditions = Conditions()
        self._counters: dict[Operation, list[LoopCounter]] = {}

    def counted(self, loop: CudaTileOp) -> Ranges:
        """The ranges of what a `loop` counts, by the numbers of what it carries."""
        counters = self._counters.get(loop)
        if counters is None:
            counters = self._counters[loop] = counters_of(loop, self._conditions)
        found = {}
        for counter in counters:
            range_ = counter.range(lambda value: (get(self, value).lower, get(self, value).upper))
            if range_ is not None:
                found[counter.value.index] = range_
        return found


Rule = Callable[[CudaTileOp, State], Fact]
_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of ops with one result."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def get(state: State, value: SSAValue) -> Fact:
    fact = state.get(value)
    return fact if fact is not None else Fact.unknown(len(tile_shape(value.type)))


def _arithmetic(function: Callable[..., Fact]) -> Rule:
    """The rule of an op whose result may wrap around, unless the op says that it does not."""

    def found(op: CudaTileOp, state: State) -> Fact:
        facts = (get(state, operand).within(width_of(operand)) for operand in op.operands)
        wraps = op.attribute_value("overflow") not in ("no_signed_wrap", "no_wrap")
        return function(*facts).clamped(width_of(op.results[0]), wraps)

    return found


for _name, _function in (("addi", f.add), ("subi", f.subtract), ("muli", f.multiply), ("negi", f.negate)):
    rule(_name)(_arithmetic(_function))


@rule("andi")
def _and(op: CudaTileOp, state: State) -> Fact:
    return f.bitwise_and(*(get(state, operand) for operand in op.operands))


@rule("divi")
def _divide(op: CudaTileOp, state: State) -> Fact:
    a, b = (get(state, x) for x in op.operands)
    if op.attribute_value("signedness") == "unsigned" and (a.lower is None or a.lower < 0):
        return replace(Fact.unknown(len(a.divisor)), constancy=tuple(map(min, a.constancy, b.constancy)))
    if a.upper is None and a.lower is not None and a.lower >= 0:
        a = replace(a, upper=(1 << (width_of(op.results[0]) - 1)) - 1)
    return f.divide(a, b, up=op.attribute_value("rounding") == "positive_inf")


@rule("remi")
def _remainder(op: CudaTileOp, state: State) -> Fact:
    a, b = (get(state, x) for x in op.operands)
    if op.attribute_value("signedness") == "unsigned" and (a.lower is None or a.lower < 0):
        return replace(Fact.unknown(len(a.divisor)), constancy=tuple(map(min, a.constancy, b.constancy)))
    if op.attribute_value("signedness") == "unsigned" and (b.lower is None or b.lower < 0):
        b = replace(b, lower=None, upper=None)  # what looks negative is large
    return f.remainder(a, b)


@rule("mini", "maxi")
def _extreme(op: CudaTileOp, state: State) -> Fact:
    a, b = (get(state, x) for x in op.operands)
    joined = f.minimum_or_maximum(a, b, isinstance(op, OPS["mini"]))
    negative = any(x.lower is None or x.lower < 0 for x in (a, b))
    if op.attribute_value("signedness") == "unsigned" and negative:
        return replace(joined, lower=None, upper=None)
    return joined


@rule("shli")
def _shift_left(op: CudaTileOp, state: State) -> Fact:
    bits = width_of(op.results[0])
    return _arithmetic(lambda a, b: f.shift_left(a, b, bits))(op, state)


@rule("shri")
def _shift_right(op: CudaTileOp, state: State) -> Fact:
    a, b = (get(state, x) for x in op.operands)
    known = b.value is not None and 0 <= b.value < width_of(op.results[0]) and a.lower is not None and a.lower >= 0
    if not known or b.value is None:
        return replace(Fact.unknown(len(a.divisor)), constancy=tuple(map(min, a.constancy, b.constancy)))
    quotient = f.divide(a, Fact.constant(1 << b.value, (1,) * len(a.divisor)))
    return replace(quotient, lower=None if a.lower is None else a.lower >> b.value)


@rule("offset")
def _offset(op: CudaTileOp, state: State) -> Fact:
    pointers, offsets = op.operands
    assert isinstance(pointers.type, TileType)
    return f.add(get(state, pointers), get(state, offsets), pointee_bytes(pointers.type))


@rule("exti")
def _extend(op: CudaTileOp, state: State) -> Fact:
    source = op.operand("from")
    fact = get(state, source)
    if width_of(source) == 1:  # whose one bit is 1 in facts, and -1 where it is read as a signed number
        flat = replace(Fact.unknown(len(fact.divisor)), constancy=fact.constancy)
        signed = op.attribute_value("signedness") == "signed"
        if fact.value is not None:
            return Fact.constant(-fact.value if signed else fact.value, tile_shape(op.results[0].type))
        return replace(flat, lower=-1 if signed else 0, upper=0 if signed else 1)
    non_negative = fact.lower is not None and fact.lower >= 0
    if op.attribute_value("signedness") == "signed" or non_negative:
        limit = 1 << (width_of(source) - 1)
        if fact.lower is None or fact.lower <= -limit:  # a wrap in the narrow type would break a run in the wide one
            return f.aligned_runs(fact).within(width_of(source))
        return fact.within(width_of(source))
    return replace(f.aligned_runs(fact), lower=None, upper=None)


@rule("trunci")
def _truncate(op: CudaTileOp, state: State) -> Fact:
    fact = _arithmetic(lambda a: a)(op, state)
    limit = 1 << width_of(op.results[0])
    return replace(fact, divisor=tuple(d if d < limit else f.MAX_DIVISOR for d in fact.divisor))


@rule("cmpi")
def _compare(op: CudaTileOp, state: State) -> Fact:
    # Runs that begin at a multiple of their length wrap around nowhere within, as signed numbers or unsigned ones.
    a, b = (f.aligned_runs(get(state, x)) for x in op.operands)
    return f.compare(a, b, str(op.attribute_value("comparison_predicate")))


@rule("select")
def _select(op: CudaTileOp, state: State) -> Fact:
    condition, a, b = op.operands
    found = f.select(*(get(state, x) for x in op.operands))
    divisor = _floored(condition, a, b, state)
    if divisor is None or divisor.upper is None:
        return found
    return replace(found, lower=max(found.lower or 0, 0), upper=min(divisor.upper - 1, _or(found.upper, divisor.upper)))


def _or(limit: int | None, other: int) -> int:
    return other if limit is None else limit


def _floored(condition: SSAValue, a: SSAValue, b: SSAValue, state: State) -> Fact | None:
    """What is known of the divisor where a choice makes the remainder of a signed division one that is rounded down
    (`remainder + divisor if remainder < 0 else remainder`), by a positive divisor; else None."""
    remainder, added = b.owner, a.owner
    if not (isinstance(remainder, OPS["remi"]) and remainder.attribute_value("signedness") == "signed"):
        return None
    divisor = remainder.operand("rhs")
    if not isinstance(added, OPS["addi"]) or {*added.operands} != {b, divisor}:
        return None
    fact = get(state, divisor)
    return fact if fact.lower is not None and fact.lower > 0 and _is_where_negative(condition, b, state) else None


def _is_where_negative(condition: SSAValue, number: SSAValue, state: State) -> bool:
    """Whether a condition is that a number is less than 0, in the words of a frontend that asks for the divisor's sign
    as well."""
    op = condition.owner
    if not isinstance(op, CudaTileOp) or len(op.operands) != 2:
        return False
    a, b = op.operands
    if op.spec.name == "xori":
        return any(_is_where_negative(x, number, state) and _is_never(y, state) for x, y in ((a, b), (b, a)))
    if op.spec.name == "andi":
        pairs = ((a, b), (b, a))
        return any(
            _is_where_negative(x, number, state) and _compared_with_zero(y, "not_equal", state) is number
            for x, y in pairs
        )
    return _compared_with_zero(condition, "less_than", state) is number


def _is_never(condition: SSAValue, state: State) -> bool:
    """Whether a condition is false, as one that asks for the sign of a positive number."""
    compared = _compared_with_zero(condition, "less_than", state)
    lower = None if compared is None else get(state, compared).lower
    return get(state, condition).value == 0 or (lower is not None and lower >= 0)


def _compared_with_zero(condition: SSAValue, predicate: str, state: State) -> SSAValue | None:
    """The number that a condition compares with 0, as a signed one."""
    op = condition.owner
    if not isinstance(op, OPS["cmpi"]) or str(op.attribute_value("comparison_predicate")) != predicate:
        return None
    lhs, rhs = op.operands
    return lhs if op.attribute_value("signedness") == "signed" and get(state, rhs).value == 0 else None


@rule("constant")
def _constant(op: CudaTileOp, state: State) -> Fact:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    if not is_integer(type_.element_type):
        return Fact.unknown(len(tile_shape(type_)))
    value = op.properties["value"]
    bits = bit_width(type_.element_type)
    assert isinstance(value, DenseElementsAttr)  # as declared
    elements = value.elements()
    signed = [e - (1 << bits) if bits > 1 and e >> (bits - 1) & 1 else e for e in elements]
    if len(signed) == 1:
        return Fact.constant(signed[0], type_.shape)
    if len(signed) > MAX_CONSTANT_ELEMENTS:
        return Fact.unknown(len(type_.shape))
    return f.of_elements(signed, type_.shape)


@rule("iota")
def _iota(op: CudaTileOp, state: State) -> Fact:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    fact = f.iota(type_.shape[0])
    limit = 1 << (bit_width(type_.element_type) - 1)
    return fact if type_.shape[0] <= limit else replace(fact, lower=None, upper=None)


@rule("broadcast")
def _broadcast(op: CudaTileOp, state: State) -> Fact:
    source, result = op.operand("source"), op.results[0]
    return f.broadcast(get(state, source), tile_shape(source.type), tile_shape(result.type))


@rule("reshape")
def _reshape(op: CudaTileOp, state: State) -> Fact:
    source, result = op.operand("source"), op.results[0]
    return f.reshape(get(state, source), tile_shape(source.type), tile_shape(result.type))


@rule("permute")
def _permute(op: CudaTileOp, state: State) -> Fact:
    return f.permute(get(state, op.operand("source")), op.attribute_value("permutation"))


@rule("ptr_to_int", "int_to_ptr")
def _address(op: CudaTileOp, state: State) -> Fact:
    fact = get(state, op.operand("source"))
    flat = tuple(fact.divisor_at(d, 1) for d in range(len(fact.divisor)))
    return Fact(flat, (1,) * len(flat), fact.constancy)


@rule("assume")
def _assume(op: CudaTileOp, state: State) -> Fact:
    return analyse_assumption(op, get(state, op.operand("value")))


def analyse_assumption(op: CudaTileOp, fact: Fact) -> Fact:
    """What is known of the result of an `assume`, with what is known of its operand."""
    value, predicate = op.operand("value"), op.properties["predicate"]
    shape = tile_shape(value.type)
    element = value.type.element_type if isinstance(value.type, TileType) else None
    if isinstance(predicate, BoundedAttr | DivByAttr) and element == i1:
        return fact  # a claim about a signed number
    if isinstance(predicate, BoundedAttr):
        lowers = [x for x in (fact.lower, predicate.lower) if x is not None]
        uppers = [x for x in (fact.upper, predicate.upper) if x is not None]
        return replace(fact, lower=max(lowers, default=None), upper=min(uppers, default=None))
    if isinstance(predicate, SameElementsAttr):
        claimed = [power_of_two_factor(v) for v in predicate.values] or [1]
        return replace(fact, constancy=tuple(max(a, min(b, s)) for a, b, s in zip(fact.constancy, claimed, shape)))
    if isinstance(predicate, DivByAttr):
        return _divisible(fact, predicate, value, shape)
    return fact


def _divisible(fact: Fact, predicate: DivByAttr, value: SSAValue, shape: tuple[int, ...]) -> Fact:
    divisor, contiguity = list(fact.divisor), list(fact.contiguity)
    along = predicate.along or 0
    every = min(power_of_two_factor(predicate.every or 1), shape[along]) if predicate.every else 1
    for d in range(len(shape)):
        if d == along and every >= contiguity[d]:
            contiguity[d] = every
            divisor[d] = max(divisor[d], predicate.divisor) if every == fact.contiguity[d] else predicate.divisor
        elif every == 1 and fact.contiguity[d] == 1:
            divisor[d] = max(divisor[d], predicate.divisor)
    return replace(fact, divisor=tuple(divisor), contiguity=tuple(contiguity))


# -- control flow ---------------------------------------------------------------------------------------------------


def _is_tracked(type_: Attribute) -> bool:
    return isinstance(type_, TileType) and (
        isinstance(type_.element_type, PointerType) or is_integer(type_.element_type)
    )


def _visit_block(block: Block, state: State) -> None:
    for op in ops_in(block):
        visit = _visitor(type(op))
        if visit is not None:
            visit(op, state)


Visit = Callable[[Any, State], None]


@cache
def _visitor(cls: type[Operation]) -> Visit | None:
    """What is done with ops of a class; None where nothing is known of their results."""
    flow: Mapping[str, Visit] = {"for": _visit_for, "loop": _visit_loop, "if": _visit_if}
    for name, visit in flow.items():
        if issubclass(cls, OPS[name]):
            return visit
    if issubclass(cls, (OPS["get_tile_block_id"], OPS["get_num_tile_blocks"])):
        return _visit_grid
    if issubclass(cls, (OPS["reduce"], OPS["scan"])):
        return None  # their bodies see single elements of which nothing is known
    return _visit_by_rule if issubclass(cls, CudaTileOp) and cls.spec.name in _RULES else None


def _visit_grid(op: Operation, state: State) -> None:
    first = 0 if isinstance(op, OPS["get_tile_block_id"]) else 1
    for result in op.results:
        state[result] = replace(Fact.unknown(1), lower=first, upper=first + f.MAX_GRID - 1)


class _Found(NamedTuple):
    """What was found of an op's result, and all that it was found from, which the op keeps: several passes ask for the
    facts of a function, of which the most are what they were."""

    operands: Sequence[SSAValue]
    facts: tuple[Fact | None, ...]
    type: Attribute
    properties: dict[str, Attribute]
    fact: Fact | None


def _visit_by_rule(op: CudaTileOp, state: State) -> None:
    result, operands = op.results[0], op._operands
    facts = tuple(map(state.get, operands))
    found: _Found | None = op._found_fact
    if (
        found is None
        or found.operands is not operands
        or found.type is not result._type
        or found.facts != facts
        or found.properties != op.properties
    ):
        fact = _by_rule(op, state) if _is_tracked(result._type) else None
        found = op._found_fact = _Found(operands, facts, result._type, op.properties.copy(), fact)
    if found.fact is not None:
        state[result] = found.fact


def _by_rule(op: CudaTileOp, state: State) -> Fact:
    """What the rule of an op says. It asks for the op itself, the types of its operands, and the facts of these, and
    for nothing else: see `_Found`."""
    return _bits_alone(op, state) if _is_of_bits(op) else _RULES[op.spec.name](op, state)


_ARITHMETIC = frozenset({"addi", "subi", "muli", "negi", "divi", "remi", "mini", "maxi", "shli", "shri", "cmpi"})
"""Ops whose rules take numbers. The one bit of an i1 is 0 or 1 in facts, and 0 or -1 where it is a signed number."""


def _is_of_bits(op: CudaTileOp) -> bool:
    """Whether the op is arithmetic on conditions, or makes one of a number."""
    if isinstance(op, OPS["trunci"]):
        return width_of(op.results[0]) == 1
    return op.spec.name in _ARITHMETIC and width_of(source_of(op)) == 1


def _bits_alone(op: CudaTileOp, state: State) -> Fact:
    """What is known of arithmetic on conditions: where the operands are the same, so is the result."""
    facts = [get(state, operand) for operand in op.operands]
    same = tuple(map(min, *(fact.constancy for fact in facts))) if len(facts) > 1 else facts[0].constancy
    return replace(Fact.unknown(len(same)), constancy=same)


def _exits(op: Operation, kind: type[CudaTileOp]) -> list[CudaTileOp]:
    """Ops of this class that leave `op` (not those of loops nested in it)."""
    found: list[CudaTileOp] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in ops_in(block):
                if isinstance(inner, kind):
                    found.append(inner)
                elif not isinstance(inner, (OPS["for"], OPS["loop"], OPS["reduce"], OPS["scan"])):
                    found += _exits(inner, kind)
    return found


def _fixpoint(
    op: Operation, block: Block, initial: list[Fact], first: int, state: State, counted: Ranges | None = None
) -> list[Fact]:
    """Facts of the loop-carried arguments, which start at block argument number `first`. Those that are counted have
    ranges that are known from elsewhere."""
    ranges = counted or {}
    current = _in_ranges(initial, ranges)
    for iteration in range(MAX_ITERATIONS):
        state.visits[block] += 1
        if state.visits[block] > MAX_VISITS:
            break
        for argument, fact in zip(block.args[first:], current):
            state[argument] = fact
        _visit_block(block, state)
        merged = list(current)
        for leave in _exits(op, OPS["continue"]):
            merged = [m.join(get(state, v)) for m, v in zip(merged, leave.operands)]
        if iteration >= 2:  # bounds that still move will go on moving
            merged = [
                replace(m, lower=m.lower if m.lower == c.lower else None, upper=m.upper if m.upper == c.upper else None)
                for m, c in zip(merged, current)
            ]
        merged = _in_ranges(merged, ranges)
        if merged == current:
            return current
        current = merged
    current = _in_ranges([Fact.unknown(len(fact.divisor)) for fact in current], ranges)
    for argument, fact in zip(block.args[first:], current):
        state[argument] = fact
    _visit_block(block, state)
    return current


def _in_ranges(facts: list[Fact], ranges: Ranges) -> list[Fact]:
    found = list(facts)
    for number, (lower, upper) in ranges.items():
        found[number] = replace(found[number], lower=lower, upper=upper)
    return found


def _visit_for(op: CudaTileOp, state: State) -> None:
    lower, upper, step = (get(state, v) for v in bounds_of(op))
    block = op.regions[0].blocks[0]
    start = f.add(lower, f.multiply(Fact.unknown(1), step))
    is_up = step.lower is not None and step.lower > 0
    if op.properties.get("unsignedCmp") is not None:
        # Bounds here are of signed numbers: they bound an unsigned loop where none of its numbers looks negative.
        is_up = is_up and lower.lower is not None and upper.lower is not None and min(lower.lower, upper.lower) >= 0
    start = replace(
        start,
        lower=lower.lower if is_up else None,
        upper=upper.upper - 1 if is_up and upper.upper is not None else None,
    )
    state[block.args[0]] = start
    carried = _fixpoint(op, block, [get(state, v) for v in op.operand_group("initValues")], 1, state)
    for result, fact in zip(op.results, carried):
        state[result] = fact


def _visit_loop(op: CudaTileOp, state: State) -> None:
    block = op.regions[0].blocks[0]
    _fixpoint(op, block, [get(state, v) for v in op.operands], 0, state, state.counted(op))
    leaves = _exits(op, OPS["break"])
    for i, result in enumerate(op.results):
        facts = [get(state, leave.operands[i]) for leave in leaves]
        if facts:
            joined = facts[0]
            for fact in facts[1:]:
                joined = joined.join(fact)
            state[result] = joined


def _visit_if(op: Operation, state: State) -> None:
    ends = []
    for region in op.regions:
        for block in region.blocks:
            _visit_block(block, state)
            if isinstance(block.last_op, OPS["yield"]):
                ends.append(block.last_op)
    for i, result in enumerate(op.results):
        facts = [get(state, end.operands[i]) for end in ends]
        if facts:
            state[result] = facts[0] if len(facts) == 1 else facts[0].join(facts[1])


def analyse(function: Operation) -> State:
    """The facts of a function's integer and pointer tiles. What is not in the result is unknown."""
    state = State()
    for region in function.regions:
        for block in region.blocks:
            _visit_block(block, state)
    return state


def tile_shape(type_: object) -> tuple[int, ...]:
    """The shape that facts of a value of this type have (one element for a scalar or anything that is no tile)."""
    return type_.shape if isinstance(type_, TileType) and type_.shape else (1,)


def pointee_bytes(type_: TileType) -> int:
    """The step, in bytes, of one element behind a pointer tile (1 for packed 4-bit elements)."""
    element = type_.element_type
    assert isinstance(element, PointerType)
    return STORAGE_BYTES[NUMBER_NAMES[element.pointee]]


class Facts:
    """Facts of every value of a function, computed when asked for the first time."""

    def __init__(self, function: Operation):
        self._facts = analyse(function)

    def of(self, value: SSAValue) -> Fact:
        """The fact of an SSA value; unknown for one that is no integer or pointer tile."""
        fact = self._facts.get(value)
        return fact if fact is not None else Fact.unknown(len(tile_shape(getattr(value, "type", None))))
