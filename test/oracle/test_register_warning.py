# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that say where the reference assembler warns of high register usage, and that ours warns of the same ones.

The answers are those of version 13.5, which the slow test asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import libtile
from libtile.dialects.cuda_tile.ops import OPS
from libtile.lowering.register_warning import HELD, all_registers, tile_registers
from libtile.support.remarks import Kind
from libtile.targets import target
from oracle import run_tileiras
from patience import PATIENCE

SM_80, SM_90, SM_100, SM_120 = "sm_80", "sm_90", "sm_100", "sm_120"
STREAM = "tensor_view<4194304xf32, strides=[1]>"


@dataclass(frozen=True)
class Tiles:
    """Texts about tiles of so many KB of f32, whose first ones are loaded."""

    kilobytes: int

    @property
    def elements(self) -> int:
        return self.kilobytes * 256

    @property
    def type(self) -> str:
        return f"tile<{self.elements}xf32>"

    @property
    def view(self) -> str:
        return f"partition_view<tile=({self.elements}), {STREAM}>"

    def loaded(self, count: int) -> str:
        """%c0, %c1..., and the indices %j0... of their places."""
        made = f"%t = make_tensor_view %p, shape = [4194304], strides = [1] : {STREAM}\n"
        made += f"%v = make_partition_view %t : {self.view}\n"
        for i in range(count):
            made += f"%j{i} = constant <i32: {i}> : tile<i32>\n{self.load(f'%c{i}', f'%j{i}')}"
        return made

    def load(self, name: str, index: str) -> str:
        return f"{name}, {name}_t = load_view_tko weak %v[{index}] : {self.view}, tile<i32> -> {self.type}, token\n"

    def stored(self, values: list[str], tag: str = "s") -> str:
        return "".join(
            f"%{tag}{i} = store_view_tko weak {v}, %v[%j{i}] : {self.type}, {self.view}, tile<i32> -> token\n"
            for i, v in enumerate(values)
        )

    def add(self, name: str, a: str, b: str) -> str:
        return f"{name} = addf {a}, {b} : {self.type}\n"

    def loop(self, inits: list[str], body: str, given: list[str]) -> str:
        """Carries %x0, %x1...; gives %r#0, %r#1..., which are stored."""
        types = ", ".join([self.type] * len(inits))
        carried = ", ".join(f"%x{i} = {init}" for i, init in enumerate(inits))
        results = "%r" if len(inits) == 1 else f"%r:{len(inits)}"
        text = f"{results} = for %i in (%z to %n, step %one) : tile<i32> iter_values({carried}) -> ({types}) {{\n"
        text += f"{body}continue {', '.join(given)} : {types} }}\n"
        return text + self.stored(["%r"] if len(inits) == 1 else [f"%r#{i}" for i in range(len(inits))], "w")


def kernel(body: str, warps: int = 0) -> str:
    hint = f"optimization_hints=<sm_80 = {{num_worker_warps_per_cta = {warps}}}>" if warps else ""
    return f"""cuda_tile.module @m {{ entry @k(%n: tile<i32>, %p: tile<ptr<f32>>) {hint} {{
      %z = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      {body} return }} }}"""


def names(letter: str, count: int) -> list[str]:
    return [f"%{letter}{i}" for i in range(count)]


def doubled(kb: int, k: int, warps: int = 0) -> str:
    """k tiles are carried, and each is added to itself."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{i}") for i in range(k))
    return kernel(t.loaded(k) + t.loop(names("c", k), body, names("y", k)), warps)


def turned(kb: int, k: int) -> str:
    """Each tile is added to the one beside."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{(i + 1) % k}") for i in range(k))
    return kernel(t.loaded(k) + t.loop(names("c", k), body, names("y", k)))


def moved(kb: int, k: int) -> str:
    """Each tile becomes the next one, and one is computed."""
    t = Tiles(kb)
    given = ["%y", *names("x", k - 1)]
    return kernel(t.loaded(k) + t.loop(names("c", k), f"%y = exp %x0 : {t.type}\n", given))


def mixed(kb: int, computed: int, passed: int) -> str:
    """Some are added to themselves, and others change places."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{i}") for i in range(computed))
    given = names("y", computed) + [f"%x{computed + (i + 1) % passed}" for i in range(passed)]
    return kernel(t.loaded(computed + passed) + t.loop(names("c", computed + passed), body, given))


def replaced(kb: int, k: int) -> str:
    """Each tile is loaded anew."""
    t = Tiles(kb)
    body = "".join(f"%u{i} = addi %i, %j{i} : tile<i32>\n" + t.load(f"%y{i}", f"%u{i}") for i in range(k))
    return kernel(t.loaded(k) + t.loop(names("c", k), body, names("y", k)))


def with_others(kb: int, k: int, others: int, first: bool = False) -> str:
    """Tiles from around the loop are added to the carried ones (`first`: all to the first one), and stored."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{i}") for i in range(k))
    body += "".join(t.add(f"%u{i}", f"%y{0 if first else i % k}", f"%c{k + i}") for i in range(others))
    return kernel(t.loaded(k + others) + t.loop(names("c", k), body + t.stored(names("u", others)), names("y", k)))


def read_again(kb: int, k: int) -> str:
    """A loop that carries nothing reads tiles from around it."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%c{i}", f"%c{i}") for i in range(k)) + t.stored(names("y", k))
    return kernel(t.loaded(k) + f"for %i in (%z to %n, step %one) : tile<i32> {{\n{body} continue }}\n")


def branch(kb: int, k: int, otherwise: str) -> str:
    """`if` gives sums, or what `otherwise` says; nothing with "": sums are stored there."""
    t = Tiles(kb)
    types = ", ".join([t.type] * k)
    sums = "".join(t.add(f"%y{i}", f"%c{i}", f"%c{i}") for i in range(k))
    condition = "%if = cmpi less_than %n, %one, signed : tile<i32> -> tile<i1>\n"
    if not otherwise:
        return kernel(t.loaded(k) + condition + f"if %if {{\n{sums}{t.stored(names('y', k))} }}\n")
    spread = f"%one_f = constant <f32: 1.0> : {t.type}\n"
    other = ["%one_f"] * k if otherwise == "constant" else names("c", k)
    text = f"%r:{k} = if %if -> ({types}) {{\n{sums} yield {', '.join(names('y', k))} : {types} }}\n"
    text += f"else {{ yield {', '.join(other)} : {types} }}\n"
    return kernel(t.loaded(k) + condition + spread + text + t.stored([f"%r#{i}" for i in range(k)], "w"))


def alike(kb: int, k: int, first: str = "%one_f") -> str:
    """Each begins as the same constant, or loaded tile, and is added to itself."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{i}") for i in range(k))
    spread = f"%one_f = constant <f32: 1.0> : {t.type}\n"
    return kernel(spread + t.loaded(k) + t.loop([first] * k, body, names("y", k)))


def alike_turned(kb: int, k: int, first: str = "%one_f") -> str:
    """Each begins as the same constant, or loaded tile, and is added to the one beside."""
    t = Tiles(kb)
    body = "".join(t.add(f"%y{i}", f"%x{i}", f"%x{(i + 1) % k}") for i in range(k))
    spread = f"%one_f = constant <f32: 1.0> : {t.type}\n"
    return kernel(spread + t.loaded(k) + t.loop([first] * k, body, names("y", k)))


def by_way_of(kb: int, wide: str, narrow: str) -> str:
    """A tile of a wide (f32) or narrow (f16) type is carried, and converted to the other and back."""
    n = kb * 1024 // (4 if wide == "f32" else 2)
    a, b = f"tile<{n}x{wide}>", f"tile<{n}x{narrow}>"
    view = f"tensor_view<4194304x{wide}, strides=[1]>"
    part = f"partition_view<tile=({n}), {view}>"
    return f"""cuda_tile.module @m {{ entry @k(%n: tile<i32>, %p: tile<ptr<{wide}>>) {{
      %z = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %c = constant <{wide}: 1.0> : {a}
      %r = for %i in (%z to %n, step %one) : tile<i32> iter_values(%x = %c) -> ({a}) {{
        %d = ftof %x rounding<nearest_even> : {a} -> {b}
        %y = ftof %d rounding<nearest_even> : {b} -> {a}
        continue %y : {a} }}
      %t = make_tensor_view %p, shape = [4194304], strides = [1] : {view}
      %v = make_partition_view %t : {part}
      %s = store_view_tko weak %r, %v[%z] : {a}, {part}, tile<i32> -> token
      return }} }}"""


def straight(kb: int) -> str:
    t = Tiles(kb)
    return kernel(t.loaded(1) + f"%y = exp %c0 : {t.type}\n" + t.stored(["%y"]))


def product(m: int, n: int, after: str = "") -> str:
    """A product in a loop, without a word about sizes; `after` makes %o of its result %r."""
    a, b, c = "4096x4096xf16, strides=[4096,1]", "4096x4096xf16, strides=[4096,1]", "4096x4096xf32, strides=[4096,1]"
    va, vb, vc = (
        f"partition_view<tile=({shape}), tensor_view<{of}>>"
        for shape, of in ((f"{m}x32", a), (f"32x{n}", b), (f"{m}x{n}", c))
    )
    acc, out = f"tile<{m}x{n}xf32>", "%o" if after else "%r"
    return f"""cuda_tile.module @m {{ entry @k(%n: tile<i32>, %p: tile<ptr<f32>>, %q: tile<ptr<f16>>) {{
      %z = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %zero = constant <f32: 0.0> : {acc}
      %ta = make_tensor_view %q, shape = [4096, 4096], strides = [4096, 1] : tensor_view<{a}>
      %tc = make_tensor_view %p, shape = [4096, 4096], strides = [4096, 1] : tensor_view<{c}>
      %va = make_partition_view %ta : {va}
      %vb = make_partition_view %ta : {vb}
      %vc = make_partition_view %tc : {vc}
      %r = for %i in (%z to %n, step %one) : tile<i32> iter_values(%acc = %zero) -> ({acc}) {{
        %a, %s = load_view_tko weak %va[%z, %i] : {va}, tile<i32> -> tile<{m}x32xf16>, token
        %b, %u = load_view_tko weak %vb[%i, %z] : {vb}, tile<i32> -> tile<32x{n}xf16>, token
        %d = mmaf %a, %b, %acc : tile<{m}x32xf16>, tile<32x{n}xf16>, {acc}
        continue %d : {acc} }}
      {after.format(type=acc)}
      %w = store_view_tko weak {out}, %vc[%z, %z] : {acc}, {vc}, tile<i32> -> token
      return }} }}"""


Program = tuple[Callable[..., str], tuple[object, ...]]
ANSWERS: dict[str, tuple[list[Program], list[Program]]] = {
    SM_80: (
        [  # warned of
            (doubled, (32, 8)), (doubled, (64, 4)), (doubled, (128, 2)), (doubled, (256, 1)),
            (doubled, (64, 8, 8)), (doubled, (64, 2, 2)), (turned, (32, 8)), (moved, (32, 16)), (moved, (32, 24)),
            (mixed, (32, 1, 14)), (mixed, (32, 2, 12)), (mixed, (32, 4, 8)), (mixed, (32, 6, 4)),
            (replaced, (32, 16)), (with_others, (64, 1, 6)), (with_others, (64, 2, 5)), (with_others, (64, 3, 4)),
            (read_again, (64, 8)), (branch, (64, 4, "same")), (branch, (64, 4, "constant")), (branch, (64, 8, "")),
            (by_way_of, (256, "f32", "f16")), (product, (256, 512)),
            (alike_turned, (32, 16)), (alike_turned, (32, 15)), (alike_turned, (32, 15, "%c0")),
            (with_others, (64, 4, 1)), (with_others, (64, 2, 6)),
            (with_others, (64, 3, 3, True)), (with_others, (64, 3, 4, True)),
            (with_others, (64, 2, 4, True)), (with_others, (64, 3, 2, True)),
        ],
        [  # not warned of
            (doubled, (32, 7)), (doubled, (64, 3)), (doubled, (128, 1)), (doubled, (64, 4, 8)), (turned, (32, 7)),
            (moved, (32, 15)), (mixed, (32, 1, 13)), (mixed, (32, 2, 10)), (mixed, (32, 4, 6)), (mixed, (32, 6, 2)),
            (replaced, (32, 15)), (with_others, (64, 1, 5)), (with_others, (64, 2, 3)),
            (with_others, (64, 2, 4)), (with_others, (64, 3, 2)), (with_others, (64, 3, 3)), (with_others, (64, 3, 1)),
            (read_again, (64, 7)), (branch, (64, 3, "same")), (branch, (64, 3, "constant")), (branch, (64, 7, "")),
            (by_way_of, (128, "f16", "f32")), (alike, (32, 8)), (alike, (32, 16)), (alike, (32, 24)),
            (alike, (32, 16, "%c0")),
            (alike_turned, (32, 8)), (alike_turned, (32, 14)), (alike_turned, (32, 8, "%c0")), (straight, (1024,)),
            (product, (128, 256)), (product, (256, 256)), (product, (256, 256, "%o = exp %r : {type}")),
        ],
    ),
    SM_90: (
        [(doubled, (256, 1)), (doubled, (128, 3)), (doubled, (64, 7)), (doubled, (64, 8)), (alike_turned, (64, 8))],
        [(doubled, (128, 2)), (doubled, (64, 4)), (doubled, (64, 6)), (alike, (64, 8))],
    ),
    SM_100: ([(doubled, (64, 8)), (alike_turned, (64, 7))], [(doubled, (64, 4)), (doubled, (64, 6))]),
    SM_120: ([(doubled, (64, 8))], [(doubled, (64, 4)), (doubled, (64, 6))]),
}  # fmt: skip
"""For each target the programs that the reference warns of, and those that it does not."""

CASES = [
    pytest.param(gpu, program, answer, id=f"{gpu} {program[0].__name__} {' '.join(map(str, program[1]))}")
    for gpu, answers in ANSWERS.items()
    for answer, programs in zip((True, False), answers, strict=True)
    for program in programs
]


@pytest.mark.parametrize(("gpu", "program", "answer"), CASES)
def test_the_rule_gives_the_answer_of_the_reference(gpu: str, program: Program, answer: bool) -> None:
    write, arguments = program
    (entry,) = (op for op in libtile.parse(write(*arguments)).tile_module.walk() if isinstance(op, OPS["entry"]))
    assert (tile_registers(entry, target(gpu)) >= HELD) == answer
    assert all_registers(entry, target(gpu)) >= tile_registers(entry, target(gpu))  # so that few need no analysis


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "program", "answer"), CASES)
def test_the_answers_are_those_of_the_reference(gpu: str, program: Program, answer: bool) -> None:
    write, arguments = program
    done = run_tileiras(libtile.write(libtile.parse(write(*arguments)), version="13.4"), gpu, timeout=PATIENCE)
    assert (done.rc, done.stderr.startswith("    warning[]: High register usage\n")) == (0, answer)


@pytest.mark.parametrize(("k", "warned"), [(8, True), (6, False)])
def test_a_compilation_warns_once_and_whatever_is_made_of_the_tiles(k: int, warned: bool) -> None:
    for level in (0, 3):
        made = libtile.compile(libtile.parse(doubled(32, k)), gpu_name=SM_80, opt_level=level, emit="llvm").remarks
        assert [r.name for r in made if r.kind is Kind.WARNING] == ["RegisterPressure"] * warned


def test_tiles_that_are_alike_in_an_order_and_in_another_around_it_are_found_once() -> None:
    t = Tiles(32)
    inner = "%a:2 = for %j in (%z to %n, step %one) : tile<i32> iter_values(%g = %x0, %h = %x0) -> "
    inner += f"({t.type}, {t.type}) {{\n{t.add('%b', '%g', '%g')}{t.add('%d', '%h', '%h')}"
    inner += f"continue %b, %d : {t.type}, {t.type} }}\n"
    text = kernel(t.loaded(2) + t.loop(["%c0", "%c0"], inner, ["%a#1", "%a#0"]))
    (entry,) = (op for op in libtile.parse(text).tile_module.walk() if isinstance(op, OPS["entry"]))
    assert 0 < tile_registers(entry, target(SM_80)) < HELD
