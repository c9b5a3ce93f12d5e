# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The work of the compiler grows with its input: counted, not timed (bench/growth.py has the times)."""

import gc
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.ir import Operation, SSAValue

import libtile
from generators import growing
from libtile.analysis.dataflow import MAX_VISITS, analyse
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.module_pass import ModulePass
from libtile.lowering.tileas.cleanup import RemoveLayoutConversionsPass
from libtile.lowering.tileas.memory import barriers
from libtile.lowering.tileas.memory.barriers import Accesses, BarrierAnalysis
from libtile.lowering.tileas.memory.shared_memory import Exchanges
from libtile.lowering.tileas.pipelines import schedule
from libtile.lowering.to_llvm.conversion import convert_module as to_llvm
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileas.accesses import AccessLayouts
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.lowering.to_tileas.demands import Demands
from libtile.lowering.to_tileas.origins import Origins
from libtile.lowering.to_tileas.products import Products
from libtile.targets import target

SM_90 = target("sm_90")


def tileaa(text: str) -> Operation:
    """The first kernel of a module, in nv_tileaa."""
    inner = to_tileaa(libtile.parse(text).tile_module, SM_90)
    return next(op for op in inner.body.block.ops if op.name == "nv_tileaa.func")


def tileas(text: str, *passes: type[ModulePass]) -> Operation:
    """The first kernel of a module, in nv_tileas, after the passes."""
    inner = to_tileaa(libtile.parse(text).tile_module, SM_90)
    to_tileas(inner)
    for pass_ in (RemoveLayoutConversionsPass, *passes):
        pass_().apply(Context(), inner)
    return next(op for op in inner.body.block.ops if op.name == "nv_tileaa.func")


def first_entry(text: str) -> Operation:
    """The first kernel of a module, as it is."""
    return next(op for op in libtile.parse(text).tile_module.regions[0].block.ops if op.name == "cuda_tile.entry")


def demand_visits(text: str) -> float:
    """How often the layouts' analysis visits an op, on average."""
    function = tileaa(text)
    accesses, products = AccessLayouts(function, 4), Products(SM_90, 4)
    visits = Demands(function.regions[0].block, accesses, products, Origins(accesses, products)).visits
    return visits / sum(1 for _ in function.walk())


@pytest.mark.parametrize("make", [growing.loop_nest, growing.tile_nest, growing.if_nest])
def test_wishes_for_layouts_take_a_few_visits_of_each_op_however_deep_it_is(make: Callable[[int], str]) -> None:
    assert demand_visits(make(60)) < 4


def test_forty_loops_in_one_another_compile() -> None:
    made = libtile.compile(libtile.parse(growing.loop_nest(40)), gpu_name="sm_90", emit="tileas", keep_text=True)
    assert made.tileas.count("scf.for") == 40


def test_facts_of_a_value_that_each_loop_around_changes_take_few_visits() -> None:
    body = list(growing.BOUNDS)
    for depth in range(40):
        start = f"%c{depth - 1}" if depth else "%big"
        body += [
            f"%v{depth} = for %i{depth} in (%zero to %n, step %one) : tile<i32> "
            f"iter_values(%c{depth} = {start}) -> (tile<i32>) {{"
        ]
    for depth in reversed(range(40)):
        body += [
            f"%h{depth} = divi %c{depth}, %two signed : tile<i32>",
            f"continue %h{depth} : tile<i32>",
            "}",
        ]
    constants = ["%big = constant <i32: 65536> : tile<i32>", "%two = constant <i32: 2> : tile<i32>"]
    function = first_entry(growing.module(growing.kernel([*constants, *body])))
    visits = analyse(function).visits
    assert len(visits) == 40
    assert sum(visits.values()) <= 40 * 40 * MAX_VISITS


@pytest.mark.parametrize("count", [50, 500])
def test_tokens_stand_for_a_few_accesses_however_many_there_are(count: int) -> None:
    function = tileas(growing.token_chain(count))
    analysis = BarrierAnalysis()
    analysis.block(function.regions[0].block, frozenset())
    assert analysis.kept <= 4 * count


def test_a_loop_s_shared_memory_is_found_without_looking_at_all_other_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    class Counted(Exchanges):
        def bytes(self, *args: Any) -> int:
            found = super().bytes(*args)
            looks.append(self.looks)
            return found

    monkeypatch.setattr(schedule, "Exchanges", Counted)
    tileas(growing.product_row(20), schedule.GenerateSchedulePass)
    assert len(looks) >= 20
    assert looks[-1] <= 6 * 20


def test_variables_are_converted_once_for_a_module_of_many_kernels() -> None:
    text = growing.module("  global @g <i32: 7> : tile<1xi32>\n", *(growing.kernel([], name=f"k{n}") for n in range(3)))
    inner = to_tileaa(libtile.parse(text).tile_module, SM_90)
    to_tileas(inner)
    llvm = to_llvm(inner, SM_90)
    assert [len(kernel.builder.globals) for kernel in llvm.kernels] == [1, 0, 0]
    assert llvm.text().count("@g = ") == 1


def test_reading_a_file_does_not_collect_garbage_over_and_over() -> None:
    """The collector walks all that has been read; it may do so where a phase of reading ends."""
    data = libtile.write(libtile.parse(growing.globals_(3000)), "13.3")
    phases: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        phases.append(phase)

    gc.callbacks.append(note)
    try:
        libtile.read(data)
    finally:
        gc.callbacks.remove(note)
    assert phases.count("start") <= 4


@pytest.mark.parametrize("depth", [20, 80])
def test_barriers_take_a_few_visits_of_each_op_however_deep_it_is(depth: int) -> None:
    visits = 0

    class Counted(BarrierAnalysis):
        def op(self, op: Operation, live: Accesses) -> Accesses:
            nonlocal visits
            visits += 1
            return super().op(op, live)

    function = tileas(growing.tile_nest(depth))
    Counted().block(function.regions[0].block, frozenset())
    assert visits <= 6 * sum(1 for _ in function.walk())


class EveryAccess(BarrierAnalysis):
    """The analysis as it is defined, with every access in every set."""

    def op(self, op: Operation, live: Accesses) -> Accesses:
        if op.name == "nv_tileas.barrier":
            return frozenset()
        if isinstance(op, barriers.LOOPS):
            return self.loop(op, live)
        if op.name == "scf.if":
            return self.branch(op, live)
        before = self.tokens([v for v in op.operands if isinstance(v.type, MemTokenType)])
        is_access = barriers.is_access(op)
        if is_access and any(barriers.needs_barrier(other, op) for other in before & live):
            self.places[op] = None
            live = frozenset()
        for result in op.results:
            if isinstance(result.type, MemTokenType):
                self.behind[result] = (before & live) | {op} if is_access else before
        return live | {op} if is_access else live


class AccessProgram:
    """A random kernel of loads and stores by a few tiles of pointers, behind random tokens."""

    POINTERS, TILE = "tile<512xptr<f32>>", "tile<512xf32>"

    def __init__(self, seed: int, around: int = 0):
        self.random = random.Random(seed)
        self.count = 0
        self.around = around
        """Loops in one another that are around all of it."""

    def text(self) -> str:
        body: list[str] = []
        self.nest(body, ["%t"], self.around)
        return self.kernel(body)

    @classmethod
    def kernel(cls, accesses: list[str]) -> str:
        """A kernel with four tiles of pointers %a0 .. %a3, a tile %x and a token %t for the accesses."""
        body = [*growing.BOUNDS, "%i = iota : tile<512xi32>", f"%x = constant <f32: 1.0> : {cls.TILE}"]
        for k in range(4):
            body += [
                f"%r{k} = reshape %p{k} : tile<ptr<f32>> -> tile<1xptr<f32>>",
                f"%b{k} = broadcast %r{k} : tile<1xptr<f32>> -> {cls.POINTERS}",
                f"%a{k} = offset %b{k}, %i : {cls.POINTERS}, tile<512xi32> -> {cls.POINTERS}",
            ]
        body += ["%c = cmpi less_than %zero, %n, signed : tile<i32> -> tile<i1>", "%t = make_token : token"]
        body += accesses
        parameters = ", ".join(f"%p{k}: tile<ptr<f32>>" for k in range(4))
        return growing.module(growing.kernel(body, parameters=f"{parameters}, %n: tile<i32>"))

    def nest(self, body: list[str], tokens: list[str], depth: int) -> None:
        if not depth:
            return self.accesses(body, tokens, 12)
        self.accesses(body, tokens, 1, 2)
        made = self.name()
        body.append(
            f"{made} = for %j{made[1:]} in (%zero to %n, step %one) : tile<i32> "
            f"iter_values(%d{made[1:]} = {tokens[-1]}) -> (token) {{"
        )
        inner = [*tokens, f"%d{made[1:]}"]
        self.nest(body, inner, depth - 1)
        body += [f"continue {inner[-1]} : token", "}"]
        tokens.append(made)
        self.accesses(body, tokens, 1, 2)

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def accesses(self, body: list[str], tokens: list[str], count: int, depth: int = 0) -> None:
        for _ in range(count):
            made, pointer, before = self.name(), f"%a{self.random.randrange(4)}", self.random.choice(tokens[-3:])
            match self.random.choices(["load", "store", "join", "if", "for"], [6, 3, 2, depth < 2, depth < 2])[0]:
                case "load":
                    body.append(
                        f"%v{made[1:]}, {made} = load_ptr_tko weak {pointer} token={before} "
                        f": {self.POINTERS} -> {self.TILE}, token"
                    )
                case "store":
                    body.append(
                        f"{made} = store_ptr_tko weak {pointer}, %x token={before} "
                        f": {self.POINTERS}, {self.TILE} -> token"
                    )
                case "join":
                    other = self.random.choice(tokens)
                    body.append(f"{made} = join_tokens {before}, {other} : token")
                case "if":
                    body.append(f"{made} = if %c -> (token) {{")
                    for end in ("} else {", "}"):
                        inner = list(tokens)
                        self.accesses(body, inner, 3, depth + 1)
                        body += [f"yield {inner[-1]} : token", end]
                case "for":
                    body.append(
                        f"{made} = for %j{made[1:]} in (%zero to %n, step %one) : tile<i32> "
                        f"iter_values(%d{made[1:]} = {before}) -> (token) {{"
                    )
                    inner = [*tokens, f"%d{made[1:]}"]
                    self.accesses(body, inner, 3, depth + 1)
                    body += [f"continue {inner[-1]} : token", "}"]
            tokens.append(made)


def scoped(function: Operation) -> Callable[[Operation], int | None]:
    """An alias scope for each access, by its pointers: two have one of their own, the others none."""
    numbers: dict[SSAValue, int] = {}
    for op in function.walk():
        if barriers.is_access(op):
            numbers.setdefault(op.operands[0], len(numbers))
    return lambda op: (1, 2, None)[min(numbers[op.operands[0]], 2)]


@pytest.mark.parametrize("scopes", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_barriers_are_where_sets_of_every_access_would_put_them(
    seed: int, scopes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = tileas(AccessProgram(seed).text())
    if scopes:
        of = scoped(function)
        monkeypatch.setattr(barriers, "scope_of", of)
        monkeypatch.setattr(
            barriers, "are_of_different_scopes", lambda a, b: of(a) != of(b) and None not in (of(a), of(b))
        )
    found, expected = BarrierAnalysis(), EveryAccess()
    for analysis in (found, expected):
        analysis.block(function.regions[0].block, frozenset())
    order = {op: number for number, op in enumerate(function.walk())}
    assert sorted(order[op] for op in found.places) == sorted(order[op] for op in expected.places)


@pytest.mark.parametrize("seed", range(10))
def test_barriers_of_deep_loops_are_enough(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each loop goes round until nothing grows, and every access counts, no barrier is missing."""
    function = tileas(AccessProgram(seed, around=7).text())
    inserted = barriers.insert_barriers(function)
    monkeypatch.setattr(barriers, "EXACT_LOOPS", 100)
    again = EveryAccess()
    again.block(function.regions[0].block, frozenset())
    assert inserted
    assert not again.places


def test_a_deep_loop_goes_round_until_what_it_carries_from_turn_to_turn_has_arrived() -> None:
    """The load is behind the store of ten turns before."""
    names = [f"%u{n}" for n in range(10)]
    tokens = ", ".join(["token"] * len(names))
    body = [f"for %j{depth} in (%zero to %n, step %one) : tile<i32> {{" for depth in range(6)]
    pointers, tile = AccessProgram.POINTERS, AccessProgram.TILE
    body += [
        f"{', '.join(f'%e{n}' for n in range(10))} = for %j in (%zero to %n, step %one) : tile<i32> "
        f"iter_values({', '.join(f'{name} = %t' for name in names)}) -> ({tokens}) {{",
        f"%v, %l = load_ptr_tko weak %a1 token=%u0 : {pointers} -> {tile}, token",
        f"%s = store_ptr_tko weak %a0, %x token=%t : {pointers}, {tile} -> token",
        f"continue {', '.join(names[1:])}, %s : {tokens}",
        "}",
        *("continue", "}") * 6,
    ]
    function = tileas(AccessProgram.kernel(body))
    assert barriers.insert_barriers(function) == 1


def calls(work: Callable[[], Any]) -> int:
    """How often functions are entered or resumed: the work done, whatever the machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [growing.loop_nest, growing.tile_nest, growing.if_nest])
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda m: libtile.optimize(m, verify=False), id="optimize"),
        pytest.param(lambda m: to_tileaa(m.tile_module, SM_90), id="to tileaa"),
    ],
)
def test_three_times_as_deep_a_nest_is_three_times_the_work(
    make: Callable[[int], str], work: Callable[[libtile.Module], Any]
) -> None:
    shallow, deep = (libtile.parse(make(depth)) for depth in (20, 60))
    work(libtile.parse(make(3)))  # what is done once for a process
    assert calls(lambda: work(deep)) <= 3.4 * calls(lambda: work(shallow))
