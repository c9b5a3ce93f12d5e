# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the builder puts instructions without effects: in front of loops that do not change their operands, and once
for all that its block dominates. And words that are taken apart are found again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from libtile.backend import nvptx
from libtile.codegen import control, conversions
from libtile.codegen.blocks import Block
from libtile.codegen.builder import Agent, KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, GLOBAL_POINTER, I16, I32, I64, VOID
from libtile.codegen.memory import Words, pack_words
from libtile.codegen.stored_bits import as_integer
from libtile.codegen.tile import linear_of_bits
from libtile.targets import target

ZERO, ONE = integer(I32, 0), integer(I32, 1)


def builder() -> tuple[KernelBuilder, Value]:
    b = KernelBuilder("k", target("sm_90"), 128)
    b.places = True
    return b, b.add_parameter(I32)


def blocks(b: KernelBuilder) -> dict[str, list[str]]:
    """The instructions of each block, by the block's hint; those of blocks with one hint come together."""
    found: dict[str, list[str]] = {}
    name = ""
    for text, _ in b.body():
        if text.endswith(":"):
            name = text[:-1].partition(".")[0]
        else:
            found.setdefault(name, []).append(text.strip())
    return found


def loop(b: KernelBuilder, count: Value, body: Callable[[Value], None]) -> None:
    def run(turn: Value, _: list[control.Carried]) -> list[control.Carried]:
        body(turn)
        return []

    control.for_loop(b, ZERO, count, ONE, [], run)


def use(b: KernelBuilder, value: Value) -> None:
    b.asm("// $0", "r", VOID, [value], side_effects=True)


def places(b: KernelBuilder, operation: str) -> list[str]:
    """The hints of the blocks in which an operation stands, once for each time."""
    return [name for name, lines in blocks(b).items() for line in lines if f"= {operation} " in line]


def test_what_a_loop_does_not_change_stands_in_front_of_it() -> None:
    b, n = builder()

    def body(turn: Value) -> None:
        use(b, b.or_(b.xor(b.mul(n, integer(I32, 3)), ONE), turn))

    loop(b, n, body)
    assert places(b, "mul") == places(b, "xor") == ["entry"]
    assert places(b, "or") == ["body"]
    assert blocks(b)["entry"][-1].startswith("br ")


def test_it_leaves_as_many_loops_as_it_can() -> None:
    b, n = builder()

    def inner(row: Value, column: Value) -> None:
        use(b, b.add(b.mul(n, n), b.add(b.xor(row, n), b.and_(column, n))))

    loop(b, n, lambda row: loop(b, n, lambda column: inner(row, column)))
    lines = blocks(b)
    assert places(b, "mul") == ["entry"]
    row = next(i for i, line in enumerate(lines["body"]) if "= xor " in line)
    assert row < next(i for i, line in enumerate(lines["body"]) if line.startswith("br label %for")), "before the inner"
    assert places(b, "and") == ["body"]


def test_division_stays_where_it_is_defined() -> None:
    """The loop may run no turn, and the divisor be zero then."""
    for operation in ("sdiv", "udiv", "srem", "urem"):
        b, n = builder()
        loop(b, n, lambda turn, b=b, n=n, operation=operation: use(b, b.add(b.binary(operation, n, n), turn)))
        assert places(b, operation) == ["body"]


def test_what_comes_out_of_inline_ptx_in_a_loop_stays_there() -> None:
    b, n = builder()
    loop(b, n, lambda _: use(b, b.mul(b.asm("mov.b32 $0, $1;", "=r,r", I32, [n]), n)))
    assert places(b, "mul") == ["body"]


def test_what_one_loop_computes_and_another_uses() -> None:
    """A value of a loop's last turn is used by a loop behind it: nothing moves in front of its definition."""
    b, n = builder()
    (last,) = control.for_loop(b, ZERO, n, ONE, [ZERO], lambda turn, carried: [b.add(carried[0], turn)])
    assert isinstance(last, Value)
    loop(b, n, lambda turn: use(b, b.add(b.mul(last, n), turn)))
    names = [name for name, lines in blocks(b).items() if any("= mul " in line for line in lines)]
    assert names in (["body"], ["done"])
    text = "\n".join(text for text, _ in b.body())
    assert text.index("= phi i32 [ 0, %entry ]") < text.index("= mul ")


def test_the_same_instruction_is_there_once() -> None:
    b, n = builder()
    assert b.add(n, ONE) is b.add(n, ONE)
    assert b.compare("slt", n, ONE) is b.compare("slt", n, ONE)
    first: list[Value] = []
    loop(b, n, lambda _: first.append(b.mul(n, n)))
    assert places(b, "mul") == ["entry"] and first[0].text in blocks(b)["entry"][-2]


def test_what_a_block_has_computed_its_branches_use() -> None:
    b, n = builder()
    first = b.mul(n, n)
    with b.when(b.compare("slt", n, ONE)):
        assert b.mul(n, n) is first
        with b.when(b.compare("eq", n, ONE)):
            assert b.mul(n, n) is first
    assert b.mul(n, n) is first
    loop(b, n, lambda turn: use(b, b.add(b.mul(n, n), turn)))
    assert places(b, "mul") == ["entry"]


def test_what_a_branch_computes_stays_in_it() -> None:
    b, n = builder()

    def arm() -> list[control.Carried]:
        return [b.mul(n, n)]

    control.if_else(b, b.compare("slt", n, ONE), arm, arm)
    use(b, b.mul(n, n))
    assert places(b, "mul") == ["then", "else", "endif"]


def test_nothing_is_held_through_a_loop_for_what_is_behind_it() -> None:
    b, n = builder()
    use(b, b.mul(n, n))
    loop(b, n, lambda turn: use(b, turn))
    use(b, b.mul(n, n))
    assert places(b, "mul") == ["entry", "done"]


def test_the_address_of_a_sum_moves_by_what_the_fewest_loops_change_first() -> None:
    b, n = builder()
    base, row = b.add_parameter(GLOBAL_POINTER), b.cast("zext", n, I64)

    def body(turn: Value) -> None:
        column = b.cast("zext", turn, I64)
        for total in (b.add(row, column), b.add(column, row)):
            b.line(f"store i8 0, {b.offset(base, total, I16).typed}")

    loop(b, n, body)
    assert places(b, "getelementptr") == ["entry", "body"]


def test_a_bit_that_moves_by_several_is_a_selection() -> None:
    b, n = builder()
    use(b, linear_of_bits(b, n, [3, 5, 8]))
    assert places(b, "mul") == [] and len(places(b, "select")) == 2
    b.places = False
    use(b, linear_of_bits(b, n, [3, 5, 8]))
    assert len(places(b, "mul")) == len(places(b, "select")) == 2


def test_numbers_of_threads_have_a_range() -> None:
    b, _ = builder()
    b.thread_id()
    with b.as_agent(Agent(1, 2, 1)):
        b.thread_id()
    registers = [line for line in blocks(b)["entry"] if "sreg.tid.x" in line]
    assert [line.partition("= call ")[2].partition(") ")[0] for line in registers] == [
        "range(i32 0, 128",
        "range(i32 32, 96",
    ]


class Program:
    """A random program of structured control flow, which computes with what there is at each place."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.b, first = builder()
        self.seen: list[Value] = [first, self.b.add_parameter(I32), ONE]
        self.started = [self.b.block]
        start = self.b.start

        def recorded(block: Block) -> None:
            self.started.append(block)
            start(block)

        self.b.start = recorded  # type: ignore[method-assign]
        self.body(3)
        self.b.return_()

    def scoped(self, depth: int, *more: control.Carried) -> Value:
        """A body of its own, behind which its values are not there any more."""
        kept = self.seen
        self.seen = [*kept, *(value for value in more if isinstance(value, Value))]
        last = self.body(depth)
        self.seen = kept
        return last

    def number(self) -> Value:
        return self.random.choice(self.seen[-6:] + self.seen[:3])

    def computed(self) -> Value:
        operation = self.random.choice(["add", "mul", "xor", "sdiv"])
        value = self.b.binary(operation, self.number(), self.number())
        self.seen = [*self.seen, value]
        use(self.b, value)
        return value

    def condition(self) -> Value:
        return self.b.compare("slt", self.number(), self.number())

    def body(self, depth: int) -> Value:
        b = self.b
        for _ in range(self.random.randint(2, 6)):
            self.computed()
            kind = self.random.randrange(8) if depth else 7
            if kind == 0:
                self.see(lambda: control.for_loop(
                    b, ZERO, self.number(), ONE, [self.number()], lambda turn, c: [self.scoped(depth - 1, turn, *c)],
                ))  # fmt: skip
            elif kind == 1:
                self.see(lambda: control.while_loop(
                    b, [self.number()], lambda c: (self.condition(), c), lambda c: [self.scoped(depth - 1, *c)]
                ))  # fmt: skip
            elif kind == 2:
                self.see(lambda: control.breaking_loop(b, [self.number()], [ONE], self.leaving(depth)))
            elif kind == 3:
                with b.when(self.condition()):
                    self.scoped(depth - 1)
            elif kind in (4, 5):
                self.see(lambda: control.if_else(
                    b, self.condition(), lambda: [self.scoped(depth - 1)], lambda: [self.scoped(depth - 1)]
                ))  # fmt: skip
        return self.computed()

    def see(self, make: Callable[[], list[control.Carried]]) -> None:
        """What a loop or a conditional gives is there behind it."""
        given = make()
        self.seen = [*self.seen, *(value for value in given if isinstance(value, Value))]

    def leaving(self, depth: int) -> Callable[[list[control.Carried], control.LoopExit], None]:
        def body(carried: list[control.Carried], ways: control.LoopExit) -> None:
            kept = self.seen
            self.seen = [*kept, *(value for value in carried if isinstance(value, Value))]

            def leave() -> list[control.Carried]:
                ways.break_([self.scoped(depth - 1)])
                return []

            def go_on() -> list[control.Carried]:
                ways.continue_([self.scoped(depth - 1)])
                return []

            control.if_else(self.b, self.condition(), leave, go_on)
            self.seen = kept

        return body


def dominators(b: KernelBuilder) -> dict[str, set[str]]:
    """For each block that a way leads to, those that all ways to it lead through, itself among them."""
    followed: dict[str, list[str]] = {}
    for text, _ in b.body():
        if text.endswith(":"):
            followed[name := text[:-1]] = []
        elif text.startswith("  br "):
            followed[name] += re.findall(r"label %([\w.]+)", text)
    found = {"entry": {"entry"}}
    before: dict[str, set[str]] = {}
    while before != found:
        before = {name: set(known) for name, known in found.items()}
        for name in before:
            for following in followed[name]:
                found[following] = {following} | (found.get(following, found[name]) & found[name])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_dominators_are_those_of_the_program(seed: int) -> None:
    program = Program(seed)
    expected = dominators(program.b)
    assert {block.name for block in program.started} == expected.keys()
    for block in program.started:
        assert {other.name for other in program.started if other.dominates(block)} == expected[block.name]
        assert block.level == len(expected[block.name]) - 1


@pytest.mark.parametrize("seed", range(20))
def test_every_value_is_there_where_it_is_used(seed: int) -> None:
    """LLVM's verifier says so of every use."""
    text = Program(seed).b.module_text()
    llvm = nvptx.load_llvm()
    llvm.parse_assembly(text, llvm.create_context()).verify()


def test_where_llvm_chooses_places_all_stays() -> None:
    b, n = builder()
    b.places = False
    loop(b, n, lambda turn: use(b, b.add(b.mul(n, n), turn)))
    assert places(b, "mul") == ["body"]
    assert b.add(n, ONE) is not b.add(n, ONE)


def test_halves_that_were_rounded_in_a_pair_are_a_word() -> None:
    b, n = builder()
    floats = [b.cast("bitcast", b.add(n, integer(I32, i)), FLOAT) for i in range(4)]
    bits = [as_integer(b, half) for half in conversions.ftof_all(b, floats, "f32", "f16")]
    words = pack_words(b, bits, Words(64, 1))
    assert [word.type.bits for word in words] == [64]
    text = "\n".join(text for text, _ in b.body())
    assert text.count("fptrunc <2 x float>") == 2
    assert "zext" not in text and "insertelement <4 x i16>" not in text
    assert b.as_word(bits[:2]) is not None and b.as_word([bits[1], bits[0]]) is None
    assert b.as_word([bits[1], bits[2]]) is None
    assert b.as_word([integer(I16, 1), integer(I16, 2)]) == integer(I32, 1 | 2 << 16)
