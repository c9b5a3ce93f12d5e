# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements that compute element by element: integers, floats, comparisons, conversions, and promises about values."""

from __future__ import annotations

from generators.core import Comparison, Generator, Scope, statement
from generators.values import (
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    WIDE_INTEGERS,
    Bounds,
    Type,
    Value,
    signed_range,
    width,
)

IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
PREDICATES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


def wrap_promise(g: Generator, exact: Bounds | None, element: str, unsigned: bool) -> str:
    """` overflow<...>`, as far as it is true: `exact` holds the results before wrapping, `unsigned` tells whether
    the operands are the same numbers when they are read as unsigned."""
    if exact is None or not g.has("promises"):
        return ""
    low, high = signed_range(element)
    promises = []
    if low <= exact[0] and exact[1] <= high:
        promises.append("no_signed_wrap")
    if unsigned and exact[0] >= 0 and exact[1] < 1 << width(element):
        promises.append("no_unsigned_wrap")
    if len(promises) == 2:
        promises.append("no_wrap")
    return f" overflow<{g.random.choice(promises)}>" if promises and g.chance(0.7) else ""


def combined(op: str, x: Value, y: Value) -> Bounds | None:
    """Bounds of a sum, a difference or a product, before it wraps or is rounded."""
    if x.bounds is None or y.bounds is None:
        return None
    (a, b), (c, d) = x.bounds, y.bounds
    if op == "add":
        return a + c, b + d
    if op == "sub":
        return a - d, b - c
    products = (a * c, a * d, b * c, b * d)
    return min(products), max(products)


def operands(g: Generator, s: Scope, type_: Type, count: int, bits: bool = False) -> list[Value]:
    """Values of a type; small whole numbers at times, so that facts about the result are known."""
    if type_.element not in ("i1", *NARROW_FLOATS) and g.chance(0.3):
        return [g.small(s, type_, g.random.choice([0, 0, -7]), g.random.choice([7, 15])) for _ in range(count)]
    return [g.get(s, type_, bits) for _ in range(count)]


# -- integers ---------------------------------------------------------------------------------------------------------


@statement("integers", 10)
def arithmetic(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    op = g.random.choice(["add", "sub", "mul"])
    x, y = operands(g, s, type_, 2)
    exact = combined(op, x, y)
    positive = bool(x.bounds and y.bounds and min(x.bounds[0], y.bounds[0]) >= 0)
    promise = wrap_promise(g, exact, type_.element, positive)
    result = g.let(s, f"{op}i {x}, {y}{promise} : {type_}", type_, exact)
    if g.chance(0.2):  # a twin, for elimination of common subexpressions
        s.values.append(g.let(s, f"{op}i {x}, {y}{promise} : {type_}", type_, result.bounds))


@statement("integers", 6)
def bitwise(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    x, y = operands(g, s, type_, 2)
    g.let(s, f"{g.random.choice(['andi', 'ori', 'xori', 'mulhii'])} {x}, {y} : {type_}", type_)


@statement("integers", 5)
def extremum(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    x, y = operands(g, s, type_, 2)
    sign = g.random.choice(["signed", "unsigned"])
    op = g.random.choice(["mini", "maxi"])
    bounds = None
    if x.bounds and y.bounds and sign == "signed":
        choose = min if op == "mini" else max
        bounds = (choose(x.bounds[0], y.bounds[0]), choose(x.bounds[1], y.bounds[1]))
    g.let(s, f"{op} {x}, {y} {sign} : {type_}", type_, bounds)


@statement("integers", 3)
def negation(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    (x,) = operands(g, s, type_, 1)
    op = g.random.choice(["negi", "absi"])
    if op == "absi":
        low = signed_range(type_.element)[0]
        known = x.bounds if x.bounds and x.bounds[0] > low else None
        g.let(s, f"absi {x} : {type_}", type_, known and (0, max(map(abs, known))))
        return
    exact = x.bounds and (-x.bounds[1], -x.bounds[0])
    g.let(s, f"negi {x}{wrap_promise(g, exact, type_.element, False)} : {type_}", type_, exact)


@statement("integers", 5)
def shift(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(WIDE_INTEGERS)
    (x,) = operands(g, s, type_, 1)
    amount = g.small(s, type_, 0, g.random.choice([1, 3, width(type_.element) - 1]))
    if g.chance(0.5):
        exact = None
        if x.bounds and amount.bounds:
            ends = [v << n for v in x.bounds for n in amount.bounds]
            exact = min(ends), max(ends)
        promise = wrap_promise(g, exact, type_.element, bool(x.bounds and x.bounds[0] >= 0))
        g.let(s, f"shli {x}, {amount}{promise} : {type_}", type_, exact)
        return
    sign = g.random.choice(["signed", "unsigned"])
    bounds = (min(0, x.bounds[0]), max(0, x.bounds[1])) if x.bounds else None
    if sign == "unsigned" and bounds and bounds[0] < 0:
        bounds = None
    g.let(s, f"shri {x}, {amount} {sign} : {type_}", type_, bounds)


@statement("integers", 5)
def division(g: Generator, s: Scope) -> None:
    """By what is neither zero nor, as the quotient of the smallest number overflows, minus one."""
    type_ = g.pick_type(WIDE_INTEGERS)
    (x,) = operands(g, s, type_, 1)
    if g.chance(0.5):
        divisor = g.constant(s, g.random.choice([1, 2, 3, 5, 7, 16, 100, -3, -8]), type_)
    else:
        divisor = g.small(s, type_, 1, g.random.choice([1, 4, 64]))
    sign = g.random.choice(["signed", "unsigned"])
    if g.chance(0.4):
        g.let(s, f"remi {x}, {divisor} {sign} : {type_}", type_)
        return
    modes = ["zero", "positive_inf", *(["negative_inf"] if sign == "signed" else [])]
    rounding = g.random.choice(["", *(f" rounding<{m}>" for m in modes)])
    g.let(s, f"divi {x}, {divisor} {sign}{rounding} : {type_}", type_)


@statement("integers", 4)
def comparison(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    x, y = operands(g, s, type_, 2)
    predicate, sign = g.random.choice(PREDICATES), g.random.choice(["signed", "unsigned"])
    result = type_.of("i1")
    g.let(s, f"cmpi {predicate} {x}, {y}, {sign} : {type_} -> {result}", result)


@statement("select", 6)
def select(g: Generator, s: Scope) -> None:
    type_ = g.pick_type([e for e in g.profile.elements if e != "f4E2M1FN"])
    condition = g.get(s, type_.of("i1"))
    x, y = g.get(s, type_), g.get(s, type_)
    bounds = None
    if x.bounds and y.bounds:
        bounds = min(x.bounds[0], y.bounds[0]), max(x.bounds[1], y.bounds[1])
    text = f"select {condition}, {x}, {y} : {condition.type}, {type_}"
    g.let(s, text, type_, bounds, x.bits and y.bits)


# -- floats -----------------------------------------------------------------------------------------------------------


def modifiers(g: Generator, type_: Type, modes: tuple[str, ...] = IEEE) -> tuple[str, bool]:
    """Rounding and flushing, and whether whole numbers stay what they are."""
    text = g.random.choice(["", "", *(f" rounding<{m}>" for m in modes)]) if modes else ""
    flush = type_.element == "f32" and g.chance(0.25)
    return text + (" flush_to_zero" if flush else ""), True


def whole(op: str, x: Value, y: Value) -> Bounds | None:
    return combined({"addf": "add", "subf": "sub", "mulf": "mul"}[op], x, y)


@statement("floats", 10)
def float_arithmetic(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    op = g.random.choice(["addf", "subf", "mulf", "divf"])
    x, y = operands(g, s, type_, 2)
    text, _ = modifiers(g, type_)
    if op in ("addf", "subf") and g.chance(0.3):  # a product that nothing else has can be fused
        (factor,) = operands(g, s, type_, 1)
        x = g.let(s, f"mulf {x}, {factor}{text} : {type_}", type_, whole("mulf", x, factor), keep=False)
    bounds = whole(op, x, y) if op != "divf" else None
    result = f"{op} {x}, {y}{text} : {type_}"
    value = g.let(s, result, type_, bounds, keep=False)
    s.values.append(Value(value.name, type_, value.bounds, bits=value.bounds is not None))


def keep_float(s: Scope, value: Value) -> Value:
    """The value as one whose NaNs have no certain bits."""
    kept = Value(value.name, value.type, value.bounds, bits=value.bounds is not None)
    s.values.append(kept)
    return kept


@statement("floats", 4)
def fused(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    x, y, z = operands(g, s, type_, 3)
    text, _ = modifiers(g, type_)
    product = combined("mul", x, y)
    bounds = (product[0] + z.bounds[0], product[1] + z.bounds[1]) if product and z.bounds else None
    keep_float(s, g.let(s, f"fma {x}, {y}, {z}{text} : {type_}", type_, bounds, keep=False))


@statement("floats", 5)
def float_extremum(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    x, y = operands(g, s, type_, 2)
    text = " flush_to_zero" if type_.element == "f32" and g.chance(0.25) else ""
    text += " propagate_nan" if g.chance(0.4) else ""
    bounds = None
    if x.bounds and y.bounds:
        bounds = min(x.bounds[0], y.bounds[0]), max(x.bounds[1], y.bounds[1])
    op = g.random.choice(["minf", "maxf"])
    keep_float(s, g.let(s, f"{op} {x}, {y}{text} : {type_}", type_, bounds, keep=False))


@statement("floats", 4)
def float_unary(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    (x,) = operands(g, s, type_, 1)
    op = g.random.choice(["absf", "negf", "ceil", "floor"])
    bounds = x.bounds
    if bounds and op == "negf":
        bounds = -bounds[1], -bounds[0]
    if bounds and op == "absf":
        bounds = 0, max(map(abs, bounds))
    keep_float(s, g.let(s, f"{op} {x} : {type_}", type_, bounds, keep=False))


@statement("floats", 3)
def root_or_remainder(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    x, y = operands(g, s, type_, 2)
    if g.chance(0.5):
        keep_float(s, g.let(s, f"remf {x}, {y} : {type_}", type_, keep=False))
        return
    text, _ = modifiers(g, type_)
    keep_float(s, g.let(s, f"sqrt {x}{text} : {type_}", type_, keep=False))


@statement("floats", 4)
def float_comparison(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(FLOATS)
    x, y = operands(g, s, type_, 2)
    predicate, ordering = g.random.choice(PREDICATES), g.random.choice(["ordered", "unordered"])
    result = type_.of("i1")
    g.let(s, f"cmpf {predicate} {ordering} {x}, {y} : {type_} -> {result}", result)


# -- functions whose results are only nearly the same -----------------------------------------------------------------

_ULPS = {"exp": 2, "exp2": 2, "log": 2, "log2": 2, "sin": 3, "cos": 3, "tan": 4, "sinh": 3, "cosh": 2, "tanh": 2,
         "rsqrt": 2, "pow": 4, "atan2": 3, "fpowi": 4}  # fmt: skip
"""How far f32 and f64 results may be apart; those of f16 and bf16 are rounded ones of f32."""


@statement("functions", 8)
def function(g: Generator, s: Scope) -> None:
    """An elementary function, whose result goes to memory, perhaps after it was moved: nothing else depends on it."""
    from generators import memory, shapes

    type_ = g.pick_type(FLOATS)
    op = g.random.choice(list(_ULPS))
    x, y = operands(g, s, type_, 2)
    text, ulps, relative, types = "", _ULPS[op], 0.0, str(type_)
    arguments = f"{x}"
    if op in ("pow", "atan2"):
        arguments = f"{x}, {y}"
    elif op == "fpowi":
        exponent = g.small(s, type_.of(g.pick_element(("i8", "i16", "i32"))), -5, 7)
        arguments, types = f"{x}, {exponent}", f"{type_}, {exponent.type}"
    elif op in ("exp", "tanh") and g.chance(0.3):
        approx = type_.element == "f32" and g.chance(0.5)
        text = " rounding<approx>" if approx else " rounding<full>"
        if approx:
            ulps, relative = (256, 0.0) if op == "exp" else (0, 2.0**-10.9)
    elif op in ("exp2", "rsqrt") and type_.element == "f32" and g.chance(0.3):
        text = " flush_to_zero"
    if not relative:
        ulps = {"f16": 1, "bf16": 1}.get(type_.element, ulps)
    value = g.let(s, f"{op} {arguments}{text} : {types}", type_, keep=False, bits=False)
    if g.chance(0.4):
        value = shapes.moved(g, s, value)
    memory.store_result(g, s, value, Comparison(ulps, relative))


@statement("functions", 2)
def approximation(g: Generator, s: Scope) -> None:
    """Quotients and roots that need not be rounded correctly."""
    from generators import memory

    type_ = Type("f32", g.pick_shape())
    x, y = operands(g, s, type_, 2)
    if g.chance(0.4):
        text = f"sqrt {x} rounding<approx>"
    else:
        magnitude = g.let(s, f"absf {y} : {type_}", type_, keep=False)
        one = g.constant(s, 1, type_)
        y = g.let(s, f"maxf {magnitude}, {one} propagate_nan : {type_}", type_, keep=False)
        text = f"divf {x}, {y} rounding<{g.random.choice(['approx', 'full'])}>"
    memory.store_result(g, s, g.let(s, f"{text} : {type_}", type_, keep=False, bits=False), Comparison(4))


# -- conversions ------------------------------------------------------------------------------------------------------


@statement("conversions", 5)
def integer_width(g: Generator, s: Scope) -> None:
    source = g.any(s, lambda v: v.type.element in (*INTEGERS, "i4")) or g.get(s, g.pick_type(INTEGERS))
    here = width(source.type.element)
    others = [e for e in (*INTEGERS, "i4") if width(e) != here and (e in g.profile.elements or e == "i4")]
    if not others:
        return
    target = source.type.of(g.random.choice(others))
    types = f"{source.type} -> {target}"
    if width(target.element) > here:
        sign = g.random.choice(["signed", "unsigned"])
        keeps = sign == "signed" or (source.bounds and source.bounds[0] >= 0)
        g.let(s, f"exti {source} {sign} : {types}", target, source.bounds if keeps else None)
        return
    low, high = signed_range(target.element)
    fits = source.bounds and low <= source.bounds[0] and source.bounds[1] <= high
    promise = wrap_promise(g, source.bounds, target.element, bool(source.bounds and source.bounds[0] >= 0))
    g.let(s, f"trunci {source}{promise} : {types}", target, source.bounds if fits else None)


@statement("conversions", 4)
def integer_to_float(g: Generator, s: Scope) -> None:
    source = g.get(s, g.pick_type(INTEGERS))
    target = source.type.of(g.pick_element([e for e in (*FLOATS, *NARROW_FLOATS) if e != "f8E8M0FNU"]))
    if target.element == "f4E2M1FN" and target.size == 1:
        return
    sign = g.random.choice(["signed", "unsigned"])
    bounds = source.bounds if sign == "signed" or (source.bounds and source.bounds[0] >= 0) else None
    keep_float(s, g.let(s, f"itof {source} {sign} : {source.type} -> {target}", target, bounds, keep=False))


@statement("conversions", 4)
def float_to_integer(g: Generator, s: Scope) -> None:
    source = g.get(s, g.pick_type((*FLOATS, *NARROW_FLOATS)))
    target = source.type.of(g.pick_element(WIDE_INTEGERS))
    sign = g.random.choice(["signed", "unsigned"])
    low, high = signed_range(target.element)
    known = source.bounds
    fits = known and low <= known[0] and known[1] <= high and (sign == "signed" or known[0] >= 0)
    saturating = "" if fits and g.chance(0.7) else " saturating"
    bounds = known if fits else None
    g.let(s, f"ftoi {source} {sign}{saturating} : {source.type} -> {target}", target, bounds)


@statement("conversions", 6)
def float_to_float(g: Generator, s: Scope) -> None:
    source = g.get(s, g.pick_type((*FLOATS, *NARROW_FLOATS)))
    element = g.pick_element([e for e in (*FLOATS, *NARROW_FLOATS) if e != source.type.element])
    target = source.type.of(element)
    if element == "f4E2M1FN" and target.size == 1:
        return
    here = source.type.element
    modes: tuple[str, ...] = ("nearest_even",)
    if element == "f8E8M0FNU":
        modes = ("zero", "positive_inf")
    elif element in FLOATS and here in FLOATS and width(here) > width(element):
        modes = IEEE if (here, element) == ("f64", "f32") else ("nearest_even", "zero")
    elif (here, element) == ("f32", "tf32"):
        modes = ("nearest_even", "zero", "nearest_away")
    elif here in ("f16", "bf16", "f8E4M3FN", "f8E5M2") and element in ("f32", "f64"):
        modes = (*IEEE, "nearest_away")  # nothing is rounded
    rounding = g.random.choice(modes)
    bounds = source.bounds
    if element == "f8E8M0FNU":
        bounds = (1, 1) if bounds == (1, 1) else None
    text = f"ftof {source} rounding<{rounding}> : {source.type} -> {target}"
    keep_float(s, g.let(s, text, target, bounds, keep=False))


@statement("conversions", 3)
def reinterpretation(g: Generator, s: Scope) -> None:
    groups = [("i8", "f8E4M3FN", "f8E5M2", "f8E8M0FNU"), ("i16", "f16", "bf16"), ("i32", "f32"), ("i64", "f64")]
    group = [e for e in g.random.choice(groups) if e in g.profile.elements]
    if len(group) < 2:
        return
    source = g.get(s, g.pick_type(group), bits=True)
    target = source.type.of(g.random.choice([e for e in group if e != source.type.element]))
    g.let(s, f"bitcast {source} : {source.type} -> {target}", target)


# -- promises ---------------------------------------------------------------------------------------------------------


@statement("promises", 4)
def bounded(g: Generator, s: Scope) -> None:
    source = g.any(s, lambda v: v.type.element in WIDE_INTEGERS and v.bounds is not None)
    if source is None or source.bounds is None:
        source = g.small(s, g.pick_type(WIDE_INTEGERS), 0, 15)
    low, high = source.bounds or signed_range(source.type.element)
    ends = [g.random.choice([str(low), "?"]), g.random.choice([str(high), "?"])]
    g.let(s, f"assume bounded<{ends[0]}, {ends[1]}>, {source} : {source.type}", source.type, source.bounds)


@statement("promises", 3)
def divisible(g: Generator, s: Scope) -> None:
    """A multiple of a power of two, and its users that may rely on that."""
    type_ = g.pick_type(WIDE_INTEGERS)
    power = g.random.choice([1, 2, 4, 5])
    source = g.small(s, type_, 0, 3) if g.chance(0.6) else g.get(s, type_)
    amount = g.constant(s, power, type_)
    bounds = source.bounds and (source.bounds[0] << power, source.bounds[1] << power)
    value = g.let(s, f"shli {source}, {amount} : {type_}", type_, bounds, keep=False)
    g.let(s, f"assume div_by<{1 << power}>, {value} : {type_}", type_, value.bounds)


@statement("promises", 2)
def equal_elements(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(INTEGERS)
    if not type_.shape:
        return
    groups = tuple(n if g.chance(0.5) else 1 for n in type_.shape)
    ones = tuple(1 if k == n else n for k, n in zip(groups, type_.shape))
    value = g.spread(s, g.get(s, type_.shaped(ones)), type_.shape, keep=False)
    g.let(s, f"assume same_elements<{list(groups)}>, {value} : {type_}", type_, value.bounds)


@statement("checks", 2)
def true_assertion(g: Generator, s: Scope) -> None:
    type_ = g.pick_type(WIDE_INTEGERS)
    x, y = g.get(s, type_), g.get(s, type_)
    either = g.let(s, f"ori {x}, {y} : {type_}", type_, keep=False)
    both = g.let(s, f"andi {x}, {y} : {type_}", type_, keep=False)
    flag = type_.of("i1")
    value = g.let(s, f"cmpi less_than_or_equal {both}, {either}, unsigned : {type_} -> {flag}", flag, keep=False)
    g.emit(s, f'assert {value}, "a part is larger than the whole" : {flag}')
