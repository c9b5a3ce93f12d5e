# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops of all dialects tell passes: effects, folding, where control and the values that it carries go."""

from __future__ import annotations

import random

from xdsl.traits import MemoryEffect

import libtile
from libtile.dialects.constants import constant_elements, integer_bits
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.folding import fold
from libtile.dialects.interfaces import Folds, edges
from libtile.spec import default_spec


def test_every_op_of_cuda_tile_declares_its_effects() -> None:
    silent = ("function", "symbol", "symbol_table", "terminator")
    for name, spec in default_spec().ops.items():
        effects = [trait for trait in OPS[name].traits if isinstance(trait, MemoryEffect)]
        if not any(map(spec.has_trait, silent)) and not default_spec().is_testing_op(spec):
            assert len(effects) + spec.has_trait("states_fact") == 1, name


# -- folding ----------------------------------------------------------------------------------------------------------

COUNT = 8
SIGNS = ("signed", "unsigned")
ROUNDINGS = [("signed", r) for r in ("zero", "negative_inf", "positive_inf")]
ROUNDINGS += [("unsigned", r) for r in ("zero", "positive_inf")]
PREDICATES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


def variants(bits: int) -> list[tuple[str, str, str]]:
    """Ops on a and b of a width: mnemonic with attributes, their second operand, and the type of their result."""
    tile, condition = f"tile<{COUNT}xi{bits}>", f"tile<{COUNT}xi1>"
    same = f": {tile}"
    found = [(f"{op} %a, %b {same}", "any", tile) for op in ("addi", "subi", "muli", "andi", "ori", "xori", "mulhii")]
    found += [(f"{op} %a {same}", "any", tile) for op in ("negi", "absi")]
    found += [(f"{op} %a, %b {sign} {same}", "any", tile) for op in ("mini", "maxi") for sign in SIGNS]
    found += [(f"cmpi {p}, %a, %b, {s} : {tile} -> {condition}".replace(",", "", 1), "any", condition)
              for p in PREDICATES for s in SIGNS]  # fmt: skip
    found += [(f"divi %a, %b {s} rounding<{r}> {same}", "divisor", tile) for s, r in ROUNDINGS]
    found += [(f"remi %a, %b {s} {same}", "divisor", tile) for s in SIGNS]
    found += [(f"shli %a, %b {same}", "amount", tile)]
    found += [(f"shri %a, %b {s} {same}", "amount", tile) for s in SIGNS]
    found += [(f"select %c, %a, %b : {condition}, {tile}", "any", tile)]
    found += [(f"exti %a {s} : {tile} -> tile<{COUNT}xi64>", "any", f"tile<{COUNT}xi64>") for s in SIGNS if bits < 64]
    found += [(f"trunci %a : {tile} -> tile<{COUNT}xi8>", "any", f"tile<{COUNT}xi8>")] * (bits > 8)
    return found


def numbers(rng: random.Random, bits: int, kind: str) -> list[int]:
    """Operands as signed numbers, corners among them; divisors are neither 0 nor -1, amounts below the width."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if kind == "amount":
        return [rng.randrange(min(bits, high + 1) if bits > 1 else 1) for _ in range(COUNT)]
    drawn = [low, high, 0, -1, *(rng.randint(low, high) for _ in range(COUNT - 4))]
    return drawn if kind == "any" else [v if v not in (0, -1) else max(low, -3) if bits > 1 else -1 for v in drawn]


def test_ops_fold_to_what_the_interpreter_computes() -> None:
    rng = random.Random(7)
    lines: list[str] = []
    for bits in (1, 8, 16, 32, 64):
        for text, kind, result in variants(bits):
            if bits == 1 and text.startswith(("divi", "remi")):
                continue  # the only divisor is -1
            n = len(lines)
            for name in ("a", "b"):
                values = ", ".join(map(str, numbers(rng, bits, kind if name == "b" else "any")))
                if bits == 1:
                    values = values.replace("-1", "true").replace("0", "false")
                lines.append(f"%{name}{n} = constant <i{bits}: [{values}]> : tile<{COUNT}xi{bits}>")
            bools = ", ".join(rng.choice(("true", "false")) for _ in range(COUNT))
            lines.append(f"%c{n} = constant <i1: [{bools}]> : tile<{COUNT}xi1>")
            for name in "abc":
                text = text.replace(f"%{name},", f"%{name}{n},").replace(f"%{name} ", f"%{name}{n} ")
            lines.append(f"%r{n} = {text}")
            wide = f"%r{n}"
            if result != f"tile<{COUNT}xi64>":
                wide = f"%w{n}"
                lines.append(f"{wide} = exti %r{n} unsigned : {result} -> tile<{COUNT}xi64>")
            lines.append(f'%t{n} = print_tko "{n} %ld\\n", {wide} : tile<{COUNT}xi64> -> token')
    module = libtile.parse("cuda_tile.module @m { entry @k() {\n" + "\n".join(lines) + "\nreturn } }")
    libtile.verify(module)
    output = libtile.run(module, "k", grid=(1, 1, 1), args=[], check="full").output
    printed: dict[int, list[int]] = {}
    for line in output.splitlines():
        number, _, values = line.partition(" ")
        printed[int(number)] = [int(v) for v in values.replace("[", " ").replace("]", " ").replace(",", " ").split()]
    checked = set()
    ops = [op for op in module.op.walk() if op.get_trait(Folds) is not None and op.results[0].name_hint]
    for op in ops:
        hint = str(op.results[0].name_hint)
        if not hint.startswith("r"):
            continue
        got = fold(op, [constant_elements(value) for value in op.operands])
        bits = integer_bits(op.results[0].type)
        assert got is not None and bits is not None, op
        want = [value % (1 << bits) for value in printed[int(hint[1:])]]
        assert list(got) * (COUNT // len(got)) == want, op
        checked.add(op.name)
    declared = {name for name, spec in default_spec().ops.items() if spec.has_trait("folds")}
    assert {f"cuda_tile.{name}" for name in declared} - checked == {
        f"cuda_tile.{name}" for name in ("assume", "broadcast", "permute", "reshape")
    }


# -- control flow -----------------------------------------------------------------------------------------------------

LOOPS = """
cuda_tile.module @m {
  entry @k(%n: tile<i32>, %c: tile<i1>) {
    %r = loop iter_values(%a = %n) : tile<i32> -> tile<i32> {
      if %c {
        break %n : tile<i32>
      }
      %f = for %i in (%n to %n, step %n) : tile<i32> iter_values(%b = %a) -> (tile<i32>) {
        continue %i : tile<i32>
      }
      %s = if %c -> (tile<i32>) {
        continue %f : tile<i32>
      } else {
        yield %a : tile<i32>
      }
      continue %s : tile<i32>
    }
    print_tko "%d", %r : tile<i32> -> token
    return
  }
}"""

INNER_LOOPS = """
nv_tileaa.func @k(%n: i32, %c: i1) {
  %r = scf.while (%a = %n) : (i32) -> i32 {
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%p: i32):
    %f = scf.for %i = %n to %n step %n iter_args(%b = %p) -> (i32) : i32 {
      scf.yield %i : i32
    }
    %s = scf.if %c -> (i32) {
      scf.yield %f : i32
    } else {
      scf.yield %p : i32
    }
    scf.yield %s : i32
  }
  nv_tileaa.print %r {format = "%d"} : i32
  nv_tileaa.return
}"""


def carried(text: str) -> list[str]:
    """Each operand that becomes another value: the op that has it, its name, and the other's."""
    module = libtile.parse(text)
    libtile.verify(module)
    return [
        f"{op.name.partition('.')[2]} {op.operands[number].name_hint} -> {value.name_hint}"
        for op in module.op.walk()
        for number, value in edges(op)
    ]


def test_values_go_where_control_goes() -> None:
    assert carried(LOOPS) == [
        "loop n -> a",
        "break n -> r",
        "for a -> b",
        "for a -> f",
        "continue i -> b",
        "continue i -> f",
        "continue f -> a",
        "yield a -> s",
        "continue s -> a",
    ]


def test_values_go_where_control_goes_in_the_inner_dialects() -> None:
    assert carried(INNER_LOOPS) == [
        "while n -> a",
        "condition a -> p",
        "condition a -> r",
        "for p -> b",
        "for p -> f",
        "yield i -> b",
        "yield i -> f",
        "yield f -> s",
        "yield p -> s",
        "yield s -> a",
    ]
