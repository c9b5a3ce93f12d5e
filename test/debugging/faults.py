# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults of the compiler that a test switches on: what each breaks, and a random program on which it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

import libtile
from generators.check import Disagreement, Outcome, compare, run
from generators.core import Program
from generators.programs import program
from libtile.debugging.behaviour import at_most
from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.lowering.to_llvm.emitter import RULES
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.transforms import canonical_if, canonicalize, dce, effects, licm
from libtile.transforms.canonical_values import is_op, replace_op

MOST_OPS = 3_000
"""Ops of a run on the interpreter: candidates whose loops do not end are of no interest."""

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """A fault: how it is switched on, and the program (seed, profile) that shows it.

    With a `pipeline` the passes make a program do something else; without one, compiling it to LLVM IR fails.
    """

    name: str
    patch: Patch
    pipeline: str | None
    seed: int
    profile: str = "all"

    @property
    def program(self) -> Program:
        return program(self.seed, self.profile)

    def shows(self, made: Program, module: libtile.Module) -> bool:
        """Whether the fault, which is switched on, shows on a module with the program's entry."""
        if self.pipeline is None:
            try:
                libtile.compile(module, "sm_80", opt_level=0, emit="llvm")
            except SeededError:
                return True
            return False
        expected = _outcome(made, module)
        changed = libtile.Module(module.op.clone())
        try:
            PassManager(parse_pipeline(self.pipeline)).run(changed.op)
            compare(made, expected, _outcome(made, changed), exactly=True)
        except Disagreement:
            return True
        except InterpreterFault as fault:
            return fault.kind is not FaultKind.DEADLOCK
        except libtile.DiagnosticError as error:
            return "dominate" in str(error)
        return False


class SeededError(Exception):
    """What a rule of the lowering that is at fault raises: no error of the library's."""


def _outcome(made: Program, module: libtile.Module) -> Outcome:
    return run(module, made, trace=at_most(MOST_OPS))


# -- transforms -------------------------------------------------------------------------------------------------------


def _pattern(name: str, wrong: Callable[[Any], bool]) -> Patch:
    """Another canonical form in front of those of an op."""
    return lambda patch: patch.setitem(canonicalize.PATTERNS, name, (wrong, *canonicalize.PATTERNS.get(name, ())))  # type: ignore[arg-type]


def _operand(index: int) -> Callable[[Any], bool]:
    def wrong(op: Any) -> bool:
        replace_op(op, [op.operands[index]])
        return True

    return wrong


def _if_keeps_first_branch(op: Any) -> bool:
    if not (canonical_if._yields(op.regions[0]) and op.results) or not canonical_if._can_be_inlined(op, op.regions[0]):
        return False
    canonical_if._inline(op, op.regions[0])
    return True


def _stores_are_dead(patch: pytest.MonkeyPatch) -> None:
    """A store whose token nobody waits for is taken for dead when it is masked."""
    removable = effects.is_removable
    wrong = lambda op: (is_op(op, "store_ptr_tko") and len(op.operands) > 2) or removable(op)  # noqa: E731
    patch.setattr(dce, "is_removable", wrong)


def _carried_values_are_dead(patch: pytest.MonkeyPatch) -> None:
    """What a loop carries is dead where it is used in the loop only, also for a store."""
    patch.setattr(dce, "_live_values", lambda function, flow: set())


def _hoisted_counters(patch: pytest.MonkeyPatch) -> None:
    """Sums are invariant although an operand is not."""
    invariant = licm._is_invariant
    patch.setattr(licm, "_is_invariant", lambda op, loop: is_op(op, "addi") or invariant(op, loop))


# -- the lowering -----------------------------------------------------------------------------------------------------


def _fails(name: str, when: Callable[[Operation], bool] = lambda op: True) -> Patch:
    """The rule of an op fails, on some ops of this name."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        from libtile.lowering.to_llvm import conversion  # noqa: F401  (the rules are registered)

        RULES.load()
        cls, right = next((cls, rule) for cls, rule in RULES.items() if cls.name == name)

        def wrong(e: Any, op: Operation) -> None:
            if when(op):
                raise SeededError(name)
            right(e, op)

        patch.setitem(RULES, cls, wrong)

    return apply


def _along_1(op: Operation) -> bool:
    dim = op.properties["dim"]
    return isinstance(dim, IntegerAttr) and dim.value.data == 1


def _within(name: str) -> Callable[[Operation], bool]:
    def check(op: Operation) -> bool:
        parent = op.parent_op()
        while parent is not None and parent.name != name:
            parent = parent.parent_op()
        return parent is not None

    return check


FAULTS: tuple[Fault, ...] = (
    Fault("a sum is its first operand", _pattern("addi", _operand(0)), "canonicalize", 1, "control"),
    Fault("a product is its first factor", _pattern("muli", _operand(0)), "canonicalize", 1),
    Fault("exclusive or is its first operand", _pattern("xori", _operand(0)), "canonicalize", 0),
    Fault("a select is its first arm", _pattern("select", _operand(1)), "canonicalize", 1),
    Fault("the larger number is the second", _pattern("maxi", _operand(1)), "canonicalize", 58),
    Fault("a sum of floats is its first operand", _pattern("addf", _operand(0)), "canonicalize", 3),
    Fault("a negation is its operand", _pattern("negi", _operand(0)), "canonicalize", 3),
    Fault("a shifted number is the number", _pattern("shli", _operand(0)), "canonicalize", 8),
    Fault("bitwise and is its first operand", _pattern("andi", _operand(0)), "canonicalize", 0),
    Fault("a condition takes its first branch", _pattern("if", _if_keeps_first_branch), "canonicalize", 4, "control"),
    Fault("masked stores are dead", _stores_are_dead, "dce", 1),
    Fault("carried values are dead", _carried_values_are_dead, "dce", 2, "control"),
    Fault("changing sums are invariant", _hoisted_counters, "licm", 0, "control"),
    Fault("no comparisons in a loop", _fails("arith.cmpi", _within("scf.for")), None, 12),
    Fault("no reductions along dimension 1", _fails("nv_tileas.reduce", _along_1), None, 3),
    Fault("no permutations", _fails("nv_tileaa.permute"), None, 6),
    Fault("no conditions in loops", _fails("scf.if", _within("scf.while")), None, 0, "control"),
    Fault("no loops in loops", _fails("scf.for", _within("scf.for")), None, 0, "control"),
    Fault("no products", _fails("nv_tileas.dot"), None, 3),
    Fault("no scans", _fails("nv_tileas.scan"), None, 2),
)
