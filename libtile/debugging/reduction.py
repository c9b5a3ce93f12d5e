# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`reduce`: the smallest program found that still has a property, such as crashing a compiler.

Steps are tried until none of them helps: `edits` takes ops, regions, values and arguments out, many at a time at first
and then fewer; `simplify` makes shapes, types and attributes smaller. A step is kept when the outcome is lighter
(`weights`), verifies (if the first program did) and still has the property, of which the caller's predicate judges. So
no step has to be right, and a reduction can stop at any time with what it has.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from libtile.asm.module import Module, diagnose, load
from libtile.debugging.edits import EDITS, Edit
from libtile.debugging.simplify import ATTRIBUTE_EDITS, Change, attribute_places, type_changes, without_locations
from libtile.debugging.weights import Weight, count, weight
from libtile.support.diagnostics import has_errors
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path
from libtile.support.records import dataclass
from libtile.support.signatures import checked
from libtile.transforms.dce import eliminate_dead_code

MISFITS = (LibtileError, VerifyException, ValueError)
"""What a step raises on a program that it does not fit, of which there are many."""

Predicate = Callable[[Module], bool]
"""Whether a candidate still has the property. One that raises a LibtileError has it not."""


class NotInterestingError(LibtileError):
    """The program that was given does not have the property in the first place."""


@dataclass(frozen=True)
class Progress:
    """How far a reduction is: ops that the best program has, candidates tried, and the kind of step that helped."""

    ops: int
    tried: int
    step: str


@checked
def reduce(
    source: Module | Operation | Path | Bytes,
    predicate: Predicate,
    *,
    progress: Callable[[Progress, Module], None] | None = None,
) -> Module:
    """The smallest module found for which `predicate` holds, of any of the three dialects.

    `predicate` is called with candidates, which it must not change; it must hold for `source`
    (NotInterestingError otherwise), whose text, locations left out, is among the first candidates. Candidates verify if
    the source does. `progress` is called with each improvement and the module that it is. What interrupts the predicate
    (KeyboardInterrupt) interrupts the reduction; the last module that `progress` got is the best one so far.
    """
    given = load(source)
    version = source.version if isinstance(source, Module) else None
    reducer = _Reducer(Module(given, version), predicate, progress)
    reducer.run()
    return reducer.best


@dataclass
class _Reducer:
    best: Module
    predicate: Predicate
    progress: Callable[[Progress, Module], None] | None
    tried: int = 0
    verified: bool = True
    cleaned: bool = False
    """Whether dead code is taken out of every candidate: the fault does not need it."""
    weight: Weight = (0, 0, 0)

    def run(self) -> None:
        self.verified = not has_errors(diagnose(self.best.op))
        self.weight = weight(self.best.op)
        if not self.holds(Module(self.best.op.clone(), self.best.version)):
            raise NotInterestingError("the program does not have the property that it is to be reduced for")
        self.attempt("dead code", lambda op: None, clean=True)
        # Also where nothing was dead: what becomes dead later may go.
        self.cleaned = self.holds(self.candidate(lambda op: None, clean=True))
        self.attempt("locations", without_locations)
        self.until_nothing_helps()
        if self.cleaned:  # what is dead may be what matters, and what kept it alive may not
            self.cleaned = False
            self.until_nothing_helps()

    def until_nothing_helps(self) -> None:
        while True:
            before = self.weight
            for edit in EDITS:
                self.shrink(edit)
            self.simplify_types()
            self.simplify_attributes()
            if self.weight == before:
                return

    # -- candidates ---------------------------------------------------------------------------------------------------

    def holds(self, module: Module) -> bool:
        self.tried += 1
        try:
            return self.predicate(module)
        except LibtileError:
            return False

    def candidate(self, change: Change, clean: bool) -> Module:
        op = self.best.op.clone()
        change(op)
        if clean:
            eliminate_dead_code(op)
        return Module(op, self.best.version)

    def attempt(self, step: str, change: Change, clean: bool | None = None) -> bool:
        """Make a step, and keep it if the outcome is a lighter program that still has the property."""
        try:
            module = self.candidate(change, self.cleaned if clean is None else clean)
            new = weight(module.op)
            if new >= self.weight or (self.verified and has_errors(diagnose(module.op))):
                return False
        except MISFITS:
            return False
        if not self.holds(module):
            return False
        self.best, self.weight = module, new
        if self.progress is not None:
            self.progress(Progress(count(module.op), self.tried, step), module)
        return True

    # -- steps --------------------------------------------------------------------------------------------------------

    def shrink(self, edit: Edit) -> None:
        """Try a kind of edit at many places at a time, then at fewer, from the end: what nobody uses goes first."""
        total = len(edit.places(self.best.op))
        size = max(total // 2, 1) if edit.at_once else 1
        while total:
            end = total
            while end > 0:
                first = max(end - size, 0)
                if self.attempt(edit.name, _at(edit, first, end)):
                    total = len(edit.places(self.best.op))
                end = min(first, total)
            if size == 1:
                return
            size //= 2

    def simplify_types(self) -> None:
        for change in type_changes(self.best.op):
            self.attempt("types", change)

    def simplify_attributes(self) -> None:
        for edit in ATTRIBUTE_EDITS:
            total = len(attribute_places(self.best.op))
            size = total
            while total and size:
                end = total
                while end > 0:
                    first = max(end - size, 0)
                    if self.attempt("attributes", _on_attributes(edit, first, end)):
                        total = len(attribute_places(self.best.op))
                    end = min(first, total)
                size //= 2


def _at(edit: Edit, first: int, end: int) -> Change:
    def change(root: Operation) -> None:
        for op in reversed(edit.places(root)[first:end]):
            edit.make(op)

    return change


def _on_attributes(edit: Callable[[Operation, str], None], first: int, end: int) -> Change:
    def change(root: Operation) -> None:
        ops = list(root.walk())
        for number, name in attribute_places(root)[first:end]:
            edit(ops[number], name)

    return change
