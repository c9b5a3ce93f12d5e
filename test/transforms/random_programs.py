# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels over scalars with nested `if`, `for` and `loop`, early exits and token-ordered stores.

`program(seed)` is a module with the entry `@kernel(out, x, y)`: `out` has `SLOTS` elements of i32, x and y are i32
scalars. Every structure carries the same state, a token and two numbers, so that any program can be written down; no
program has undefined behaviour or runs for long.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

SLOTS = 8
STATE = "token, tile<i32>, tile<i32>"
_MAX_STATEMENTS = 40


@dataclass
class _Scope:
    """What can be used at a place: numbers, conditions, the state, and the exits that are allowed.

    `bounds` are what the induction variable `iv` (of a loop with this signedness) can be compared with.
    """

    numbers: list[str]
    conditions: list[str]
    state: list[str]
    depth: int = 0
    loop: str = ""
    counter: str = ""
    iv: str = ""
    signedness: str = ""
    bounds: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def inner(self) -> _Scope:
        return replace(
            self,
            numbers=[*self.numbers],
            conditions=[*self.conditions],
            state=[*self.state],
            depth=self.depth + 1,
            lines=[],
        )


class _Generator:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.count = 0
        self.left = _MAX_STATEMENTS

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, scope: _Scope, text: str) -> None:
        scope.lines.append("  " * scope.depth + text)

    def number(self, scope: _Scope) -> str:
        if self.random.random() < 0.25:
            return self.constant(scope, self.random.choice([0, 1, 2, 3, 7, -1, 2147483647, -2147483648]))
        return self.random.choice([*scope.numbers, *scope.state[1:]])

    def constant(self, scope: _Scope, value: int, width: int = 32) -> str:
        result = self.name()
        self.emit(scope, f"{result} = constant <i{width}: {value}> : tile<i{width}>")
        return result

    def condition(self, scope: _Scope) -> str:
        roll = self.random.random()
        if roll < 0.15:
            return self.constant(scope, self.random.randint(0, 1), 1)
        if roll < 0.45 and scope.conditions:
            return self.random.choice(scope.conditions)
        result = self.name()
        if roll < 0.6 and scope.conditions:
            true = self.constant(scope, 1, 1)
            self.emit(scope, f"{result} = xori {self.random.choice(scope.conditions)}, {true} : tile<i1>")
        else:
            predicates = ["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than"]
            predicate = self.random.choice([*predicates, "greater_than_or_equal"])
            sign = self.random.choice(["signed", "signed", "unsigned"])
            lhs, rhs = self.number(scope), self.number(scope)
            self.emit(scope, f"{result} = cmpi {predicate} {lhs}, {rhs}, {sign} : tile<i32> -> tile<i1>")
        scope.conditions.append(result)
        return result

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, scope: _Scope, limit: int) -> None:
        for _ in range(self.random.randint(1, limit)):
            if self.left <= 0:
                return
            self.left -= 1
            kinds = [self.arithmetic, self.arithmetic, self.select, self.store, self.update]
            if scope.depth < 4:
                kinds += [self.branch, self.branch, self.exit_if, self.counted, self.endless]
                kinds += [self.branch_at_bound] * (4 if scope.iv and scope.loop == "for" else 0)
            self.random.choice(kinds)(scope)

    def arithmetic(self, scope: _Scope) -> None:
        result, lhs = self.name(), self.number(scope)
        op = self.random.choice(["addi", "subi", "muli", "xori", "andi", "mini", "maxi", "divi", "remi"])
        if op in ("divi", "remi"):
            rhs, tail = self.constant(scope, self.random.choice([1, 3, 5])), " signed"
        else:
            rhs, tail = self.number(scope), " signed" if op in ("mini", "maxi") else ""
        self.emit(scope, f"{result} = {op} {lhs}, {rhs}{tail} : tile<i32>")
        if self.random.random() < 0.3:
            twin = self.name()
            self.emit(scope, f"{twin} = {op} {lhs}, {rhs}{tail} : tile<i32>")
            scope.numbers.append(twin)
        scope.numbers.append(result)

    def select(self, scope: _Scope) -> None:
        condition, result = self.condition(scope), self.name()
        if self.random.random() < 0.4:
            values = [self.constant(scope, v, 1) for v in self.random.sample([0, 1], 2)]
            self.emit(scope, f"{result} = select {condition}, {values[0]}, {values[1]} : tile<i1>, tile<i1>")
            scope.conditions.append(result)
            return
        if self.random.random() < 0.4:
            lhs, rhs = (self.constant(scope, v) for v in self.random.sample([0, 1], 2))
        else:
            lhs, rhs = self.number(scope), self.number(scope)
        self.emit(scope, f"{result} = select {condition}, {lhs}, {rhs} : tile<i1>, tile<i32>")
        scope.numbers.append(result)

    def update(self, scope: _Scope) -> None:
        scope.state[self.random.randint(1, 2)] = self.number(scope)

    def store(self, scope: _Scope, slot: int | None = None, value: str | None = None) -> None:
        chosen = self.random.randrange(4, SLOTS) if slot is None else slot
        place, pointer, token = self.constant(scope, chosen), self.name(), self.name()
        value = value or self.number(scope)
        self.emit(scope, f"{pointer} = offset %out, {place} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        self.emit(
            scope,
            f"{token} = store_ptr_tko weak {pointer}, {value} token = {scope.state[0]} "
            ": tile<ptr<i32>>, tile<i32> -> token",
        )
        scope.state[0] = token

    def finish(self, scope: _Scope, exit_: str) -> None:
        """End a block: hand the state on, or leave with it."""
        values, types = ", ".join(scope.state), STATE
        if exit_ == "return":
            self.store(scope, 2, scope.state[1])
            self.store(scope, 3, scope.state[2])
            self.emit(scope, "return")
            return
        if exit_ == "continue" and scope.loop == "loop":
            values, types = f"{values}, {scope.counter}", f"{types}, tile<i32>"
        self.emit(scope, f"{exit_} {values} : {types}")

    def exit_of(self, scope: _Scope) -> str:
        """Another end than `yield` for a branch here."""
        exits = {"": ["return"], "for": ["continue"], "loop": ["continue", "break"]}[scope.loop]
        # No `return` from within a `for`.
        return self.random.choice(exits + (["return"] if scope.loop == "loop" and not scope.iv else []))

    def branch_at_bound(self, scope: _Scope) -> None:
        """An `if` on which side of a bound the induction variable is."""
        result = self.name()
        predicate = self.random.choice(["less_than", "greater_than"]) + self.random.choice(["", "_or_equal"])
        lhs, rhs = self.random.sample([scope.iv, self.random.choice(scope.bounds)], 2)
        self.emit(scope, f"{result} = cmpi {predicate} {lhs}, {rhs}, {scope.signedness} : tile<i32> -> tile<i1>")
        if self.random.random() < 0.2:
            scope.conditions.append(result)
        self.branch(scope, result)

    def branch(self, scope: _Scope, condition: str = "") -> None:
        condition = condition or self.condition(scope)
        for _ in range(self.random.choice([1, 1, 2])):
            results = [self.name() for _ in range(3)]
            self.emit(scope, f"{', '.join(results)} = if {condition} -> ({STATE}) {{")
            for index in range(2):
                inner = scope.inner()
                if self.random.random() < 0.7:
                    self.block(inner, 3)
                self.finish(inner, self.exit_of(scope) if self.random.random() < 0.15 else "yield")
                scope.lines += inner.lines
                self.emit(scope, "} else {" if index == 0 else "}")
            scope.state = results

    def exit_if(self, scope: _Scope) -> None:
        """`if c { exit }`, or the same within another `if`."""
        conditions = [self.condition(scope) for _ in range(self.random.choice([1, 1, 2]))]
        for condition in conditions:
            self.emit(scope, f"if {condition} {{")
        inner = scope.inner()
        self.finish(inner, self.exit_of(scope))
        scope.lines += inner.lines
        for _ in conditions:
            self.emit(scope, "}")

    def counted(self, scope: _Scope) -> None:
        unsigned = self.random.random() < 0.3
        base = self.random.choice([0, 0, 0, 2147483630, 4294967280 if unsigned else -2147483648])
        low = 0 if base == 0 and unsigned else -2 if base != -2147483648 else 0
        numbers = [
            base + self.random.randint(low, 2),
            base + self.random.randint(0, 6),
            self.random.choice([1, 1, 2, 3]),
        ]
        lower, upper, stride = (self.constant(scope, (v + 2**31) % 2**32 - 2**31) for v in numbers)
        if self.random.random() < 0.3 and base == 0:
            masked, mask = self.name(), self.constant(scope, 7)
            self.emit(scope, f"{masked} = andi {self.number(scope)}, {mask} : tile<i32>")
            upper = masked
        extremes = [base + 1, base + 3, base + 5, 2147483647, -2147483648, -1, 0]
        bounds = [self.constant(scope, (v + 2**31) % 2**32 - 2**31) for v in self.random.sample(extremes, 3)]
        outs, args, iv = [self.name() for _ in range(3)], [self.name() for _ in range(3)], self.name()
        carried = ", ".join(f"{arg} = {value}" for arg, value in zip(args, scope.state))
        self.emit(
            scope,
            f"{', '.join(outs)} = for {'unsigned ' if unsigned else ''}{iv} in ({lower} to {upper}, step {stride}) "
            f": tile<i32> iter_values({carried}) -> ({STATE}) {{",
        )
        inner = scope.inner()
        inner.loop, inner.state = "for", list(args)
        inner.numbers += [iv, iv]
        inner.iv, inner.signedness = iv, "unsigned" if unsigned else "signed"
        inner.bounds = [*scope.numbers, *bounds]
        self.block(inner, 4)
        self.finish(inner, "continue")
        scope.lines += inner.lines
        self.emit(scope, "}")
        scope.state = outs

    def endless(self, scope: _Scope) -> None:
        start = self.constant(scope, self.random.randint(1, 4))
        outs, args, counter = [self.name() for _ in range(3)], [self.name() for _ in range(3)], self.name()
        carried = ", ".join(f"{arg} = {value}" for arg, value in zip([*args, counter], [*scope.state, start]))
        self.emit(
            scope,
            f"{', '.join(outs)} = loop iter_values({carried}) : {STATE}, tile<i32> -> {STATE} {{",
        )
        inner = scope.inner()
        inner.loop, inner.state = "loop", list(args)
        one, zero, inner.counter, done = self.constant(inner, 1), self.constant(inner, 0), self.name(), self.name()
        self.emit(inner, f"{inner.counter} = subi {counter}, {one} : tile<i32>")
        self.emit(inner, f"{done} = cmpi less_than {inner.counter}, {zero}, signed : tile<i32> -> tile<i1>")
        self.emit(inner, f"if {done} {{")
        self.finish(inner, "break")
        self.emit(inner, "}")
        self.block(inner, 4)
        self.finish(inner, "continue")
        scope.lines += inner.lines
        self.emit(scope, "}")
        scope.state = outs


def program(seed: int) -> str:
    """The text of a random module; the same for the same seed."""
    generator = _Generator(seed)
    scope = _Scope(["%x", "%y"], [], ["%start", "%x", "%y"], depth=2)
    generator.emit(scope, "%start = make_token : token")
    generator.block(scope, 10)
    generator.store(scope, 0, scope.state[1])
    generator.store(scope, 1, scope.state[2])
    generator.emit(scope, "return")
    head = "cuda_tile.module @m {\n  entry @kernel(%out: tile<ptr<i32>>, %x: tile<i32>, %y: tile<i32>) {\n"
    return head + "\n".join(scope.lines) + "\n  }\n}\n"
