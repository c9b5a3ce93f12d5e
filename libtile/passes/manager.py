# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass manager: runs a pipeline on an op, times it, verifies what each pass leaves, and tells who watches.

    manager = PassManager(parse_pipeline("canonicalize, cse"))
    manager.run(module)

What is printed, counted, left out or written down on the way are instruments: see `Instrument`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from libtile.ir.made_ops import listening
from libtile.ir.places import inner_ops, ops_of
from libtile.passes.pipeline import Item, Nest, PassItem, is_plain, make_pass, passes_in
from libtile.passes.registry import PASSES
from libtile.support import timing
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import DiagnosticError, error, has_errors, warning
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.ir.module_pass import ModulePass
    from libtile.ir.snapshot import Snapshot
    from libtile.support.diagnostics import Diagnostic

Hook = Callable[["str", "Operation"], None]


@dataclass(frozen=True)
class PassRun:
    """One run of a pass on an op. Runs are counted from 1 in the order of the manager's work."""

    item: PassItem
    number: int

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def required(self) -> bool:
        """Whether a compilation cannot do without the pass."""
        return PASSES[self.name].required


class Instrument:
    """What watches a pass manager at work, or has a say in it. This one does nothing."""

    def begin(self, items: Sequence[Item], op: Operation) -> None:
        """Before anything runs on `op`."""

    def skips(self, run: PassRun, op: Operation) -> bool:
        """Whether the pass is left out. All are asked, in order, until one says so."""
        return False

    def before(self, run: PassRun, op: Operation) -> None:
        """Before a pass."""

    def after(self, run: PassRun, op: Operation) -> None:
        """Behind a pass that succeeded, and the verifier."""

    def failed(self, run: PassRun, op: Operation, failure: Exception) -> None:
        """Behind a pass that failed, or left IR that does not verify; the exception goes on."""


class _Calls(Instrument):
    """Calls a function with the name of each pass and the op behind it."""

    def __init__(self, hook: Hook):
        self.hook = hook

    def after(self, run: PassRun, op: Operation) -> None:
        self.hook(run.name, op)


class InvalidIrError(DiagnosticError):
    """A pass left IR that does not verify."""

    def __init__(self, name: str, diagnostics: Sequence[Diagnostic]):
        super().__init__(diagnostics)
        self.name = name


class PassManager:
    """Runs a pipeline on an op, and verifies what each pass leaves behind.

    `after` is called behind each pass with its name and the op that it ran on; `instruments` see more, in their order.
    """

    def __init__(
        self,
        items: Sequence[Item],
        *,
        verify_each: bool = True,
        after: Hook | None = None,
        instruments: Sequence[Instrument] = (),
    ):
        self.items = tuple(items)
        self.verify_each = verify_each
        self.instruments = [*instruments, *([_Calls(after)] if after is not None else [])]
        self.warnings: list[Diagnostic] = []
        """What passes did not do, in the order of their runs."""
        self._runs = 0
        self._verified: tuple[Operation, Snapshot] | None = None
        """The op that was verified last, and its parts at that time."""
        self._made: dict[PassItem, ModulePass] = {}
        for item in passes_in(self.items):
            if item.name not in PASSES or not PASSES[item.name].about or not is_plain(item):
                self._pass(item)  # PipelineError for what is wrong with its options, now
        self._names: tuple[Operation, frozenset[str]] | None = None
        """An op, and the names of the ops that were in it at some time, with those that passes have made since."""

    @collector_paused()
    def run(self, op: Operation) -> None:
        """Run everything; DiagnosticError when a pass fails, InvalidIrError when it leaves IR that does not verify."""
        for instrument in self.instruments:
            instrument.begin(self.items, op)
        for item in self.items:
            if isinstance(item, Nest):
                if item.anchor not in (op.name, "any"):
                    raise DiagnosticError([error(None, f"can't run '{item.anchor}' pass manager on '{op.name}' op")])
                self._run_items(item.items, op)
            else:
                self._run_pass(item, op)

    def _run_items(self, items: Sequence[Item], op: Operation) -> None:
        for item in items:
            if isinstance(item, PassItem):
                self._run_pass(item, op)
                continue
            for inner in inner_ops(op):
                if item.anchor in (inner.name, "any"):
                    self._run_items(item.items, inner)

    def _run_pass(self, item: PassItem, op: Operation) -> None:
        from xdsl.context import Context

        self._runs += 1
        run = PassRun(item, self._runs)
        if any(instrument.skips(run, op) for instrument in self.instruments):
            return
        for instrument in self.instruments:
            instrument.before(run, op)
        self.warnings += self._left_alone(item.name, op)
        try:
            with timing.stage(item.name):
                if self._has_work(item, op):
                    with listening() as made:
                        self._pass(item).apply(Context(), op)  # type: ignore[arg-type]  # our passes take any op
                    self._heard(item, made)
            if self.verify_each:
                self._verify(item.name, op)
        except Exception as failure:
            for instrument in self.instruments:
                instrument.failed(run, op, failure)
            raise
        for instrument in self.instruments:
            instrument.after(run, op)

    def _pass(self, item: PassItem) -> ModulePass:
        made = self._made.get(item)
        if made is None:
            made = self._made[item] = make_pass(item)
        return made

    def _has_work(self, item: PassItem, op: Operation) -> bool:
        """Whether an op that the pass is about is there."""
        about = PASSES[item.name].about
        return not about or not self._names_in(op).isdisjoint(about)

    def _names_in(self, op: Operation) -> frozenset[str]:
        """The names of the ops in an op, as far as passes are about them, and maybe of some that are gone."""
        if self._names is None or self._names[0] is not op:
            self._names = op, _names_in(op)
        return self._names[1]

    def _heard(self, item: PassItem, made: set[type[Operation]]) -> None:
        """A pass has made ops of these classes, to which other threads may still add theirs. One between two stages
        leaves few of those that were there."""
        if self._names is not None and made:
            op, names = self._names
            self._names = None if PASSES[item.name].required else (op, names.union([cls.name for cls in made.copy()]))

    def _left_alone(self, name: str, op: Operation) -> list[Diagnostic]:
        """A warning for the first function of each dialect that a pass does not work on."""
        works_on = PASSES[name].works_on
        if not works_on or all(f.partition(".")[0] in works_on for f in self._names_in(op).intersection(_FUNCTIONS)):
            return []
        return _left_alone(name, op)

    def _verify(self, name: str, op: Operation) -> None:
        """Verify what a pass left behind, unless it is what was verified last."""
        from libtile.asm.diagnosis import diagnose
        from libtile.ir.snapshot import Snapshot

        with timing.stage("verify"):
            now = Snapshot(op)
            if self._verified is not None and self._verified[0] is op and self._verified[1].same_as(now):
                return
            found = diagnose(op)
        if has_errors(found):
            raise InvalidIrError(name, found)
        self._verified = (op, now)


def _names_in(root: Operation) -> frozenset[str]:
    """The names of an op and of those in it."""
    classes: set[type[Operation]] = set(map(type, ops_of(root)))
    return frozenset([cls.name for cls in classes])


def _left_alone(name: str, op: Operation) -> list[Diagnostic]:
    """A warning for the first function in an op of each dialect that a pass does not work on."""
    from libtile.dialects.cuda_tile.locations import source_location

    works_on = PASSES[name].works_on
    found: dict[str, Operation] = {}
    for function in _functions(op):
        found.setdefault(function.name.partition(".")[0], function)
    return [
        warning(
            source_location(function.location),
            f"pass '{name}' leaves functions of {dialect} as they are: it works on those of {' and '.join(works_on)}",
        )
        for dialect, function in found.items()
        if dialect not in works_on
    ]


def _functions(op: Operation) -> list[Operation]:
    """The functions in an op, or the op itself when it is one."""
    if op.name in _FUNCTIONS:
        return [op]
    found: list[Operation] = []
    for inner in inner_ops(op) if op.name in _MODULES else ():
        if inner.name in _FUNCTIONS:
            found.append(inner)
        elif inner.name in _MODULES:
            found += _functions(inner)
    return found


_FUNCTIONS = ("cuda_tile.entry", "nv_tileaa.func")
_MODULES = ("builtin.module", "cuda_tile.module")
