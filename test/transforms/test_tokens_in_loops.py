# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens that loops carry: iterations that touch other memory have no order among themselves, at any depth, and loops
whose tokens only gather what was done may be exchanged. Random nests are run step by step: who waits for whom?"""

from __future__ import annotations

import operator
import random

import pytest
from xdsl.ir import Block, SSAValue

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks, statistics

TENSOR = "tensor_view<64x64xf32, strides=[64,1]>"
VIEW = f"partition_view<tile=(4x4), {TENSOR}>"
HEAD = f"""%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%two = constant <i32: 2> : tile<i32>
%three = constant <i32: 3> : tile<i32>
%six = constant <i32: 6> : tile<i32>
%some = constant <f32: 1.0> : tile<4x4xf32>
%t0 = make_token : token
%v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : {TENSOR}
%a = make_partition_view %v : {VIEW}
%first = store_view_tko weak %some, %a[%zero, %zero] token=%t0 : tile<4x4xf32>, {VIEW}, tile<i32> -> token"""


def load(name: str, at: str, token: str) -> str:
    return f"%v{name}, %{name} = load_view_tko weak %a[{at}] token=%{token} : {VIEW}, tile<i32> -> tile<4x4xf32>, token"


def store(name: str, at: str, token: str) -> str:
    return f"%{name} = store_view_tko weak %some, %a[{at}] token=%{token} : tile<4x4xf32>, {VIEW}, tile<i32> -> token"


def loop(
    name: str, counter: str, body: list[str], start: str, last: str, bound: str = "%three", step: str = "%one"
) -> str:
    lines = "\n".join(body)
    head = f"%{name} = for %{counter} in (%zero to {bound}, step {step}) : tile<i32> iter_values(%{name}_t = %{start})"
    return f"{head} -> (token) {{\n{lines}\ncontinue %{last} : token\n}}"


def uncounted(
    name: str,
    counter: str,
    body: list[str],
    start: str,
    last: str,
    bound: str = "%three",
    step: str = "%one",
    *,
    down: bool = False,
    leaving: tuple[str, str] = ("", ""),
    early: str = "",
    middle: tuple[int, str] = (0, ""),
) -> str:
    """The same with a `loop`: it may count down, access something before it leaves (`leaving`, and the token that it
    gives then), go on early with a token, and leave in the middle, behind so many lines."""
    kinds, access = "tile<i32>, token", f"{leaving[0]}\n" if leaving[0] else ""
    first, end, ask, move = "%zero", bound, "greater_than_or_equal", "addi"
    if down:
        first, end, ask, move = bound, "%zero", "less_than_or_equal", "subi"
    lines = list(body)
    same = f"%{name}_e = cmpi equal %{counter}, %one, signed : tile<i32> -> tile<i1>"
    if early:
        moved = f"%{name}_n = {move} %{counter}, {step} overflow<no_signed_wrap> : tile<i32>"
        lines.append(f"{same}\nif %{name}_e {{\n{moved}\ncontinue %{name}_n, %{early} : {kinds}\n}}")
    elif middle[1]:
        lines.insert(middle[0], f"{same}\nif %{name}_e {{\nbreak %{counter}, %{middle[1]} : {kinds}\n}}")
    text = "\n".join(lines)
    return f"""%{name}_c, %{name} = loop iter_values(%{counter} = {first}, %{name}_t = %{start}) : {kinds} -> {kinds} {{
    %{name}_s = cmpi {ask} %{counter}, {end}, signed : tile<i32> -> tile<i1>
    if %{name}_s {{
      {access}break %{counter}, %{leaving[1] or name + "_t"} : {kinds}
    }}
    {text}
    %{name}_m = {move} %{counter}, {step} : tile<i32>
    continue %{name}_m, %{last} : {kinds}
    }}"""


def kernel(*lines: str) -> str:
    body = "\n".join((HEAD, *lines))
    return f"cuda_tile.module @m {{ entry @kernel(%p: tile<ptr<f32>>) {{\n{body}\nreturn\n}} }}"


def behind(text: str, pipeline: str = "eliminate-redundant-tokens") -> tuple[libtile.Module, dict[str, int], list[str]]:
    """The module, what passes counted, and why they left what they did."""
    module = libtile.parse(text)
    libtile.verify(module)
    with remarks.collect() as said, statistics.collect() as counted:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    libtile.verify(module)
    return module, counted, [dict(r.arguments)["Reason"] for r in said if r.kind is remarks.Kind.MISSED]


# -- running it step by step ------------------------------------------------------------------------------------------

ASKED = {"equal": operator.eq, "less_than_or_equal": operator.le, "greater_than_or_equal": operator.ge}
Instance = tuple[int, tuple[int, ...]]
"""A run of an access: the number of its op, and the counters around it."""


class Trace:
    """Which runs of accesses come after which by tokens, and what each of them touches and writes."""

    def __init__(self, module: libtile.Module) -> None:
        self.after: dict[Instance, frozenset[Instance]] = {}
        self.touched: dict[Instance, tuple[tuple[int, int], bool]] = {}
        entry = next(op for op in module.op.walk() if op.name == "cuda_tile.entry")
        accesses = [op for op in entry.walk() if op.name.endswith("view_tko")]
        self._numbers = {op: number for number, op in enumerate(accesses)}
        self._run(entry.regions[0].block, {}, ())

    def _run(self, block: Block, known: dict[SSAValue, object], counters: tuple[int, ...]) -> tuple[str, list[object]]:
        """Run a block; returns the op that ends it, or an iteration or a loop around it, and what that hands on."""
        for op in block.ops:
            given = [known.get(operand) for operand in op.operands]
            match op.name.removeprefix("cuda_tile."):
                case "constant" if "i32" in str(op.results[0].type):
                    known[op.results[0]] = op.properties["value"].elements()[0]
                case "addi":
                    known[op.results[0]] = given[0] + given[1]
                case "subi":
                    known[op.results[0]] = given[0] - given[1]
                case "cmpi":
                    ask = str(op.attribute_value("comparison_predicate"))
                    known[op.results[0]] = ASKED[ask](given[0], given[1])
                case "make_token":
                    known[op.results[0]] = frozenset()
                case "join_tokens":
                    known[op.results[0]] = frozenset().union(*given)
                case "load_view_tko" | "store_view_tko" as name:
                    this = self._numbers[op], counters
                    token = op.optional_operand("token")
                    self.after[this] = known[token] if token is not None else frozenset()
                    index = tuple(known[value] for value in op.operand_group("index"))
                    self.touched[this] = index, name.startswith("store")
                    known[op.results[-1]] = self.after[this] | {this}
                case "for":
                    low, high, step, *carried = given
                    body = op.regions[0].block
                    for counter in range(low, high, step):
                        known[body.args[0]] = counter
                        known.update(zip(body.args[1:], carried))
                        _, carried = self._run(body, known, (*counters, counter))
                    known.update(zip(op.results, carried))
                case "loop":
                    body, ended, carried, turn = op.regions[0].block, "continue", given, 0
                    while ended == "continue":
                        known.update(zip(body.args, carried))
                        ended, carried = self._run(body, known, (*counters, turn))
                        turn += 1
                    known.update(zip(op.results, carried))
                case "if":
                    region = op.regions[0 if given[0] else 1]
                    ended, values = self._run(region.blocks[0], known, counters) if region.blocks else ("yield", [])
                    if ended in ("continue", "break"):
                        return ended, values
                    known.update(zip(op.results, values))
                case "continue" | "break" | "yield" as ended:
                    return ended, given
        return "return", []

    def ordered(self) -> set[tuple[Instance, Instance]]:
        """The pairs that come one after the other, and touch one place that one of them writes."""
        found = set()
        for this, before in self.after.items():
            index, writes = self.touched[this]
            for other in before:
                its, wrote = self.touched[other]
                if its == index and (writes or wrote):
                    found.add((other, this))
        return found


def nest(rng: random.Random) -> str:
    """Loops in one another, with accesses at places that follow from the counters, in one chain of tokens."""
    depth, count = rng.randint(1, 3), 0

    def access(level: int, token: str) -> tuple[str, str]:
        nonlocal count
        count += 1
        counters = [f"%i{n}" for n in range(level + 1)] + [f"%n{n}" for n in range(level)] + ["%zero", "%one"]
        at = ", ".join(rng.choice(counters[: level + 1] * 3 + counters) for _ in range(2))
        return rng.choice([load, load, store])(f"x{count}", at, token), f"x{count}"

    def body(level: int, token: str) -> tuple[list[str], str]:
        lines = [f"%n{level} = addi %i{level}, %one : tile<i32>"]
        for place in range(rng.randint(1, 3)):
            if level + 1 < depth and place == 0:
                lines.append(whole(level + 1, token, "%three"))
                token = f"l{level + 1}"
                continue
            line, token = access(level, token)
            lines.append(line)
        return lines, token

    def whole(level: int, start: str, bound: str) -> str:
        name = f"l{level}"
        lines, last = body(level, f"{name}_t")
        step = rng.choice(["%one", "%two"])
        if rng.random() < 0.5:
            return loop(name, f"i{level}", lines, start, last, bound, step)
        more: dict[str, object] = {"down": rng.random() < 0.3}
        if rng.random() < 0.3:
            more["leaving"] = access(level, f"{name}_t")
        if rng.random() < 0.3:
            more["early"] = rng.choice([last, f"{name}_t"])
        elif rng.random() < 0.5:
            more["middle"] = rng.choice([(len(lines), last), (0, f"{name}_t")])
        return uncounted(name, f"i{level}", lines, start, last, bound, step, **more)  # type: ignore[arg-type]

    return kernel(whole(0, "first", "%six"), load("end", "%zero, %one", "l0"), store("end2", "%two, %one", "end"))


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_what_touches_one_place_keeps_its_order_in_random_nests(seeds: range) -> None:
    changed = 0
    for seed in seeds:
        text = nest(random.Random(seed))
        before = Trace(libtile.parse(text))
        module, counted, _ = behind(text)
        after = Trace(module)
        assert before.touched == after.touched
        assert before.ordered() == after.ordered(), text
        changed += "accesses that wait for no other iteration" in counted
    assert changed > len(seeds) // 4


# -- which iterations have an order -----------------------------------------------------------------------------------


def in_two(*accesses: str, last: str = "x", step: str = "%one") -> str:
    inner = loop("r1", "j", ["%k = addi %j, %one : tile<i32>", *accesses], "r0_t", last, step=step)
    return kernel(
        loop("r0", "i", ["%h = addi %i, %one : tile<i32>", inner], "first", "r1"), load("z", "%two, %two", "r0")
    )


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        (in_two(load("l", "%i, %j", "r1_t"), store("x", "%i, %j", "l")), 2),
        (in_two(load("l", "%i, %k", "r1_t"), store("x", "%i, %j", "l"), step="%two"), 2),  # two places that move on
        (
            in_two(load("l", "%i, %k", "r1_t"), store("x", "%i, %j", "l")),
            1,
        ),  # the next iteration writes what this reads
        (in_two(store("x", "%i, %zero", "r1_t")), 1),  # the inner loop writes one place again and again
        (in_two(store("x", "%zero, %j", "r1_t")), 1),  # the outer one does
        (in_two(store("x", "%zero, %one", "r1_t")), 0),
        (in_two(load("l", "%j, %i", "r1_t"), store("x", "%i, %j", "l")), 0),
        (in_two(load("x", "%zero, %one", "r1_t")), 2),  # all read
    ],
)
def test_loops_around_accesses_of_other_memory_in_each_iteration_order_none(text: str, loops: int) -> None:
    before = Trace(libtile.parse(text))
    module, _, reasons = behind(text)
    assert before.ordered() == Trace(module).ordered()
    waits = [line for line in str(module).splitlines() if "token = %iterArg" in line]
    assert bool(waits) == (loops < 2), str(module)
    assert any("one iteration may touch what one of another" in reason for reason in reasons) == (loops < 2)


def test_it_is_said_why_accesses_wait() -> None:
    def reasons(*lines: str) -> list[str]:
        text = kernel(*lines).replace("(%p: tile<ptr<f32>>)", "(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %m: tile<i32>)")
        return behind(text)[2]

    scalar = "tile<ptr<f32>> -> tile<f32>, token"
    assert reasons(load("x", "%one, %zero", "first")) == []
    assert reasons(load("x", "%zero, %zero", "first")) == []  # what was stored
    (reason,) = reasons(f"%x, %t = load_ptr_tko weak %q token=%first : {scalar}")
    assert "pointers" in reason and "may be the same" in reason
    (reason,) = reasons(f"%x, %t = load_ptr_tko relaxed device %q token=%first : {scalar}")
    assert reason == "one of them is not weak"
    (reason,) = reasons("%mm = assume bounded<0, 3>, %m : tile<i32>", load("x", "%mm, %mm", "first"))
    assert reason == "one writes, and their places may be the same"


# -- exchanging them --------------------------------------------------------------------------------------------------

EXCHANGED = "eliminate-redundant-tokens,loop-interchange"


def test_loops_whose_tokens_only_gather_are_exchanged() -> None:
    text = in_two(load("l", "%j, %i", "r1_t"), store("x", "%j, %i", "l"))
    module, counted, _ = behind(text, EXCHANGED)
    assert counted["loops exchanged"] == 1
    touched = [sorted(at for at, _ in Trace(one).touched.values()) for one in (libtile.parse(text), module)]
    assert touched[0] == touched[1]
    last = [key for key in Trace(module).after if key[1] == ()][-1]
    assert len(Trace(module).after[last]) == len(Trace(module).after) - 1  # what is behind the loops waits for all


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (in_two(load("l", "%j, %zero", "r1_t"), store("x", "%j, %i", "l")), "tokens order the iterations"),
        (in_two(store("x", "%j, %one", "r1_t")), "tokens order the iterations"),
    ],
)
def test_loops_keep_their_order_where_tokens_say_so(text: str, reason: str) -> None:
    _, counted, reasons = behind(text, EXCHANGED)
    assert "loops exchanged" not in counted and reason in reasons
