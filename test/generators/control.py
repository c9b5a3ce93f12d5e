# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements with regions: conditionals, loops, early exits. Every structure carries the whole state."""

from __future__ import annotations

from dataclasses import replace

from generators.core import INDEX, Generator, Scope, statement
from generators.values import TOKEN, Type, Value

FLAG = Type("i1")
MAX_DEPTH = 4


def state_types(s: Scope) -> str:
    return ", ".join(TOKEN if not isinstance(v.type, Type) else str(v.type) for v in s.state)


def fresh_state(g: Generator, s: Scope) -> list[Value]:
    """Names for the state behind or inside of a structure: nothing is known of the values any more."""
    made = []
    for value in s.state:
        certain = not isinstance(value.type, Type) or not value.type.is_float
        made.append(Value(g.name(), value.type, bits=certain))
    return made


def condition(g: Generator, s: Scope) -> Value:
    """A scalar condition, rather one that is not constant."""
    if g.chance(0.3):
        return g.get(s, FLAG)
    if g.chance(0.15):
        found = g.known(s, FLAG)
        if found:
            true = g.constant(s, -1, FLAG)
            return g.let(s, f"xori {g.random.choice(found)}, {true} : {FLAG}", FLAG)
    type_ = Type(g.pick_element(("i32", "i32", "i64", "i8")))
    predicates = ["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]
    predicate, sign = g.random.choice(predicates), g.random.choice(["signed", "signed", "unsigned"])
    x, y = g.get(s, type_), g.get(s, type_)
    return g.let(s, f"cmpi {predicate} {x}, {y}, {sign} : {type_} -> {FLAG}", FLAG)


@statement("control", 5)
def update(g: Generator, s: Scope) -> None:
    """Part of the state becomes another value."""
    number = g.random.randrange(len(g.TOKENS), len(s.state))
    s.state[number] = replace(g.get(s, s.state[number].type), bounds=None)


def finish(g: Generator, s: Scope, exit_: str) -> None:
    """End a block: hand the state on, or leave with it."""
    if exit_ == "return":
        g.emit(s, "return")
        return
    values, types = ", ".join(map(str, s.state)), state_types(s)
    if exit_ == "continue" and s.loop == "loop":
        values, types = f"{values}, {s.counter}", f"{types}, {INDEX}"
    g.emit(s, f"{exit_} {values} : {types}")


def _exit(g: Generator, s: Scope) -> str:
    """Another end than `yield` for a branch here; there is no `return` from within a `for`."""
    exits = {"": ["return"], "for": ["continue"], "loop": ["continue", "break"]}[s.loop]
    return g.random.choice(exits + (["return"] if s.loop == "loop" and s.iv is None else []))


@statement("control", 6)
def branch(g: Generator, s: Scope, known: Value | None = None) -> None:
    if s.nest >= MAX_DEPTH:
        return
    test = known or condition(g, s)
    for _ in range(g.random.choice([1, 1, 2])):
        results = fresh_state(g, s)
        g.emit(s, f"{', '.join(map(str, results))} = if {test} -> ({state_types(s)}) {{")
        for index in range(2):
            inner = s.inner()
            if g.chance(0.7):
                g.write(inner, 3)
            finish(g, inner, _exit(g, s) if g.chance(0.15) else "yield")
            s.lines += inner.lines
            g.emit(s, "} else {" if index == 0 else "}")
        s.state = results


@statement("control", 4)
def branch_at_bound(g: Generator, s: Scope) -> None:
    """An `if` on which side of a bound the induction variable is."""
    if s.iv is None or s.loop != "for" or s.nest >= MAX_DEPTH:
        return
    predicate = g.random.choice(["less_than", "greater_than"]) + g.random.choice(["", "_or_equal"])
    left, right = g.random.sample([s.iv, g.random.choice(s.bounds)], 2)
    text = f"cmpi {predicate} {left}, {right}, {s.signedness} : {INDEX} -> {FLAG}"
    branch(g, s, g.let(s, text, FLAG, keep=g.chance(0.2)))


@statement("control", 3)
def exit_if(g: Generator, s: Scope) -> None:
    """`if c { exit }`, or the same within another `if`."""
    tests = [condition(g, s) for _ in range(g.random.choice([1, 1, 2]))]
    if not s.loop and g.chance(0.6):
        return  # most programs should reach their end
    for test in tests:
        g.emit(s, f"if {test} {{")
    inner = s.inner()
    finish(g, inner, _exit(g, s))
    s.lines += inner.lines
    for _ in tests:
        g.emit(s, "}")


def _wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


@statement("control", 5)
def counted(g: Generator, s: Scope) -> None:
    """A `for`, now and then at the ends of the number range."""
    if s.nest >= MAX_DEPTH:
        return
    unsigned = g.chance(0.3)
    base = g.random.choice([0, 0, 0, 2147483630, 4294967280 if unsigned else -2147483648])
    least = 0 if base == 0 and unsigned else -2 if base != -2147483648 else 0
    low, high = base + g.random.randint(least, 2), base + g.random.randint(0, 6)
    step = g.random.choice([1, 1, 2, 3])
    lower, upper, stride = (g.constant(s, _wrapped(v)) for v in (low, high, step))
    bounds = (low, max(low, high - 1)) if base == 0 else None
    if g.chance(0.3) and base == 0:
        upper = g.small(s, INDEX, 0, 7)
        bounds = (low, max(low, 6))
    ends = g.random.sample([base + 1, base + 3, base + 5, 2147483647, -2147483648, -1, 0], 3)
    limits = [g.constant(s, _wrapped(v)) for v in ends]
    results, arguments = fresh_state(g, s), fresh_state(g, s)
    iv = Value(g.name(), INDEX, bounds)
    carried = ", ".join(f"{a} = {v}" for a, v in zip(arguments, s.state))
    head = f"{', '.join(map(str, results))} = for {'unsigned ' if unsigned else ''}{iv} in ({lower} to {upper}, "
    g.emit(s, f"{head}step {stride}) : {INDEX} iter_values({carried}) -> ({state_types(s)}) {{")
    inner = s.inner()
    inner.loop, inner.state, inner.iv = "for", list(arguments), iv
    inner.signedness = "unsigned" if unsigned else "signed"
    inner.values += [iv, iv]
    inner.bounds = [*g.known(s, INDEX), *limits]
    g.write(inner, 4)
    finish(g, inner, "continue")
    s.lines += inner.lines
    g.emit(s, "}")
    s.state = results


@statement("control", 4)
def endless(g: Generator, s: Scope) -> None:
    """A `loop` that a counter ends at last."""
    if s.nest >= MAX_DEPTH:
        return
    start = g.constant(s, g.random.randint(1, 4))
    results, arguments, counter = fresh_state(g, s), fresh_state(g, s), g.name()
    carried = ", ".join(f"{a} = {v}" for a, v in zip([*arguments, counter], [*s.state, start]))
    types = state_types(s)
    g.emit(s, f"{', '.join(map(str, results))} = loop iter_values({carried}) : {types}, {INDEX} -> {types} {{")
    inner = s.inner()
    inner.loop, inner.state = "loop", list(arguments)
    one, zero = g.constant(inner, 1), g.constant(inner, 0)
    left = g.let(inner, f"subi {counter}, {one} : {INDEX}", INDEX, (-1, 3), keep=False)
    inner.counter = str(left)
    done = g.let(inner, f"cmpi less_than {left}, {zero}, signed : {INDEX} -> {FLAG}", FLAG, keep=False)
    g.emit(inner, f"if {done} {{")
    finish(g, inner, "break")
    g.emit(inner, "}")
    g.write(inner, 4)
    finish(g, inner, "continue")
    s.lines += inner.lines
    g.emit(s, "}")
    s.state = results
