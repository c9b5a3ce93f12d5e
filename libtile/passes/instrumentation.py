# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be seen of a pass manager at work, and asked of it: the same in every tool that runs passes.

watch = Watch(WatchOptions(print_after_all=True), print)
PassManager(items, instruments=watch.instruments).run(module)
watch.finish()
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from libtile.ir.places import ops_of
from libtile.passes.manager import Instrument, PassRun
from libtile.passes.reproducer import Reproducer
from libtile.support import statistics
from libtile.support.errors import LibtileError, reason
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from xdsl.ir import Operation

Say = Callable[[str], None]
"""Prints a text that ends without a newline."""
Printer = Callable[["Operation"], str]


class WatchError(LibtileError):
    """What is asked for cannot be: a pass that did not run, or a file that cannot be written."""


@dataclass(frozen=True)
class WatchOptions:
    """What to print, count and write down while passes run.

    `print_before` and `print_after` name passes, `*_all` stand for every pass; `print_after_change` prints behind those
    only that changed something (alone: any pass), `print_after_failure` only behind one that failed. With `tree_dir`
    what is printed goes into files of that folder. `bisect_limit` is the number of optional passes that run (-1: all,
    and their numbers are printed). `reproducer` is the file that a failure is written to: the module from the start and
    the whole pipeline, or, with `local_reproducer`, the module before the pass that failed and that pass.
    """

    print_before: Collection[str] = ()
    print_after: Collection[str] = ()
    print_before_all: bool = False
    print_after_all: bool = False
    print_after_change: bool = False
    print_after_failure: bool = False
    tree_dir: str = ""
    bisect_limit: int | None = None
    statistics: bool = False
    reproducer: str = ""
    local_reproducer: bool = False

    @property
    def prints(self) -> bool:
        """Whether IR is printed."""
        every = self.print_before_all or self.print_after_all or self.print_after_change or self.print_after_failure
        return every or bool(self.print_before) or bool(self.print_after)


class Watch:
    """The instruments that options ask for. `say` prints their lines, `text_of` gives an op's text."""

    def __init__(self, options: WatchOptions, say: Say, text_of: Printer | None = None, verify_each: bool = False):
        text_of = text_of or _text
        self.options = options
        self.say = say
        self.instruments: list[Instrument] = []
        self._printer = IrPrinter(options, say, text_of)
        self._statistics = Statistics()
        if options.bisect_limit is not None:
            self.instruments.append(Bisection(options.bisect_limit, say))
        if options.reproducer:
            self.instruments.append(Reproducer(options.reproducer, options.local_reproducer, verify_each, say))
        if options.statistics:
            self.instruments.append(self._statistics)
        if options.prints:
            self.instruments.append(self._printer)

    def report(self) -> None:
        """Print the tables that were asked for, also behind a pass that failed."""
        if self.options.statistics:
            self.say(self._statistics.table())

    def check(self) -> None:
        """WatchError for a pass whose IR was asked for and that did not run."""
        for name in (*self.options.print_before, *self.options.print_after):
            if name not in self._printer.seen:
                passes = ", ".join(dict.fromkeys(self._printer.seen))
                raise WatchError(f"no pass '{name}' was run; there were {passes}")


def _text(op: Operation) -> str:
    from libtile.asm import print_op

    return print_op(op)


# -- printing ---------------------------------------------------------------------------------------------------------


class IrPrinter(Instrument):
    """Prints the op that passes run on, before and behind them."""

    def __init__(self, options: WatchOptions, say: Say, text_of: Printer):
        self.options = options
        self.say = say
        self.text_of = text_of
        self.seen: list[str] = []
        self._before = ""
        self._counts: dict[str, int] = {}

    def before(self, run: PassRun, op: Operation) -> None:
        given = self.options
        self.seen.append(run.name)
        if given.print_after_change:
            self._before = self.text_of(op)
        if given.print_before_all or run.name in given.print_before:
            self._print("Before", run, op)

    def after(self, run: PassRun, op: Operation) -> None:
        given = self.options
        if given.print_after_failure:
            return  # only behind a pass that failed, whichever are named
        named = given.print_after_all or run.name in given.print_after
        if given.print_after_change:
            if (named or not given.print_after) and self.text_of(op) != self._before:
                self._print("After", run, op)
        elif named:
            self._print("After", run, op)

    def failed(self, run: PassRun, op: Operation, failure: Exception) -> None:
        given = self.options
        if given.print_after_failure or given.print_after_all or run.name in given.print_after:
            self._print("After", run, op, failed=True)

    def _print(self, when: str, run: PassRun, op: Operation, failed: bool = False) -> None:
        title = f"IR Dump {when} {run.name}{' Failed' if failed else ''}{_within(op)}"
        text = f"// -----// {title} //----- //\n{self.text_of(op)}"
        if not self.options.tree_dir:
            self.say(text)
            return
        path = Path(self.options.tree_dir, *_folders(op)) / self._name(run, op, when)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise WatchError(f"cannot write '{path}': {reason(error)}") from None

    def _name(self, run: PassRun, op: Operation, when: str) -> str:
        """`N_M_PASS.mlir`, `_before` where it is not what a pass made.

        As in MLIR the last number counts the files of the op, and those before it say how many there were by then of
        the ops around it.
        """
        folders = _folders(op)
        folder = "/".join(folders)
        self._counts[folder] = self._counts.get(folder, -1) + 1
        numbers = [self._counts.setdefault("/".join(folders[:n]), 0) for n in range(1, len(folders) + 1)]
        return f"{'_'.join(map(str, numbers))}_{run.name}{'_before' if when == 'Before' else ''}.mlir"


def _within(op: Operation) -> str:
    """Which op it is, where it is not the whole module."""
    name = symbol_name(op)
    return "" if op.parent is None else f" ('{op.name}' operation{f': @{name}' if name else ''})"


def _folders(op: Operation) -> list[str]:
    """Folders of an op's IR: one for it and for each op around it, by name and symbol."""
    found: list[str] = []
    inner: Operation | None = op
    while inner is not None:
        symbol = "".join(c if c.isalnum() or c in "_-." else "_" for c in symbol_name(inner) or "no-symbol-name")
        found.append(f"{inner.name.replace('.', '_')}_{symbol[:100]}")
        inner = inner.parent_op()
    return found[::-1]


def symbol_name(op: Operation) -> str:
    """The symbol that an op defines; nothing for an op that defines none."""
    return str(getattr(op.properties.get("sym_name") or op.attributes.get("sym_name"), "data", ""))


# -- leaving out ------------------------------------------------------------------------------------------------------


class Bisection(Instrument):
    """Runs the first passes only, of those that a compilation can do without, and says which."""

    def __init__(self, limit: int, say: Say):
        self.limit = limit
        self.say = say
        self.number = 0

    def skips(self, run: PassRun, op: Operation) -> bool:
        if run.required:
            return False
        self.number += 1
        left_out = 0 <= self.limit < self.number
        name = symbol_name(op)
        where = f"'{op.name}'{f' @{name}' if name else ''}"
        self.say(f"BISECT: {'NOT ' if left_out else ''}running pass ({self.number}) {run.name} on {where}")
        return left_out


# -- counting ---------------------------------------------------------------------------------------------------------


class Statistics(Instrument):
    """What each pass counted, and the ops that it took and left."""

    def __init__(self) -> None:
        self.counters: dict[tuple[str, str], int] = {}
        self._collecting: AbstractContextManager[dict[str, int]] | None = None
        self._now: dict[str, int] = {}

    def before(self, run: PassRun, op: Operation) -> None:
        self._add(run.name, "ops before", sum(1 for _ in ops_of(op)))
        self._collecting = statistics.collect()
        self._now = self._collecting.__enter__()

    def after(self, run: PassRun, op: Operation) -> None:
        self._end(run.name)
        self._add(run.name, "ops behind", sum(1 for _ in ops_of(op)))

    def failed(self, run: PassRun, op: Operation, failure: Exception) -> None:
        self._end(run.name)

    def _end(self, name: str) -> None:
        if self._collecting is not None:
            self._collecting.__exit__(None, None, None)
            self._collecting = None
        for what, number in self._now.items():
            self._add(name, what, number)

    def _add(self, name: str, what: str, number: int) -> None:
        self.counters[name, what] = self.counters.get((name, what), 0) + number

    def table(self) -> str:
        """Counts by pass, those of all runs of a pass together."""
        rows = [f"{number:10}  {name}: {what}" for (name, what), number in self.counters.items()]
        return "\n".join([f"{'count':>10}  pass: statistic", *rows])


__all__ = ["Bisection", "IrPrinter", "Statistics", "Watch", "WatchError", "WatchOptions"]
