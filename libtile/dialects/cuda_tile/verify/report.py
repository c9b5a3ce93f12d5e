# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a rule is, how it fails, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NoReturn, TypeVar

from libtile.dialects.cuda_tile.forms import CudaTileOp
from libtile.dialects.cuda_tile.source_location import source_location
from libtile.dialects.cuda_tile.type_forms import quoted as quoted
from libtile.ir.forms import Attribute, Operation, UnregisteredOp
from libtile.spec import Version, default_spec
from libtile.support.diagnostics import Diagnostic, error, warning
from libtile.support.records import dataclass, field


class Violation(Exception):
    """A broken rule. `preceding` holds errors that are reported in front of it for the same op."""

    def __init__(self, op: Operation, message: str, notes: Iterable[tuple[Operation, str]] = ()):
        super().__init__(message)
        self.op = op
        self.message = message
        self.notes = tuple(notes)
        self.preceding: list[Diagnostic] = []


@dataclass(slots=True)
class Report:
    """What a run of the verifier has found, and what it was asked to look for.

    Rules that a later version dropped hold up to `version`. `position` is the number of the op that is being checked,
    in the order of the source. `text_of` gives an op's generic form.
    """

    text_of: Callable[[Operation], str]
    warn_hints: bool = False
    error_hints: bool = False
    version: Version = field(default_factory=lambda: default_spec().current)
    position: int = 0
    errors: int = 0
    found: list[tuple[int, Diagnostic]] = field(default_factory=list)

    def warn(self, op: Operation, message: str) -> None:
        """Report a warning at the op; it does not make the op invalid."""
        self.found.append((self.position, warning(source_location(op.location), message)))

    def record(self, violation: Violation) -> None:
        """Report what is wrong with the op that is being checked."""
        self.errors += 1
        diagnostic = error(source_location(violation.op.location), violation.message)
        for op, note in violation.notes:
            diagnostic.note(source_location(op.location), note)
        self.found += [(self.position, d) for d in (*violation.preceding, diagnostic)]

    def diagnostics(self) -> list[Diagnostic]:
        """Everything found, in the order of the ops in the source."""
        return [diagnostic for _, diagnostic in sorted(self.found, key=lambda pair: pair[0])]


Rule = Callable[[CudaTileOp, Report], None]
"""A check of one op; raises Violation."""

RULES: dict[str, Rule] = {}
"""An op's own rule, by mnemonic; runs when everything that its declaration says holds."""

REGION_RULES: dict[str, Rule] = {}
"""An op's own rule about its regions; runs when the ops in these are valid."""

_LATE = {
    "aggregates": ("reduce", "scan"),
    "conversions": ("bitcast", "exti", "ftof", "ftoi", "itof", "trunci"),
    "mma": ("mmaf", "mmaf_scaled", "mmai"),
    "multimem": ("multimem_load_reduce_view_tko", "multimem_reduce_view_tko", "multimem_store_view_tko"),
    "printing": ("print_tko",),
}
"""Families of rules that are loaded with the first of their ops, and all their ops; a test looks for others."""

_FAMILY = {mnemonic: f"{__package__}.{family}" for family, mnemonics in _LATE.items() for mnemonic in mnemonics}

R = TypeVar("R", bound=Rule)


def rule(*mnemonics: str) -> Callable[[R], R]:
    """Register a function as the rule of these ops."""
    return _register(RULES, mnemonics)


def region_rule(*mnemonics: str) -> Callable[[R], R]:
    """Register a function as the region rule of these ops."""
    return _register(REGION_RULES, mnemonics)


def rule_of(mnemonic: str) -> Rule | None:
    """An op's own rule; None where it has none."""
    if mnemonic in _FAMILY and mnemonic not in RULES:
        import_module(_FAMILY[mnemonic])
    return RULES.get(mnemonic)


def load_rules() -> None:
    """Load all rules, for what goes through the tables."""
    for module in _FAMILY.values():
        import_module(module)


def _register(table: dict[str, Rule], mnemonics: tuple[str, ...]) -> Callable[[R], R]:
    def decorate(function: R) -> R:
        for mnemonic in mnemonics:
            if mnemonic in table:
                raise ValueError(f"two rules for {mnemonic!r}")
            table[mnemonic] = function
        return function

    return decorate


def op_name(op: Operation) -> str:
    """The op's full name, that of an unregistered op included."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def fail(op: Operation, message: str, *notes: tuple[Operation, str]) -> NoReturn:
    """Raise a violation whose message starts with the op's name, as MLIR's `emitOpError` does."""
    raise Violation(op, f"'{op_name(op)}' op {message}", notes)


def fail_plain(op: Operation, message: str, *notes: tuple[Operation, str]) -> NoReturn:
    """Raise a violation with just this message, as MLIR's `emitError` does."""
    raise Violation(op, message, notes)


def quoted_list(types: Iterable[Attribute]) -> str:
    return ", ".join(map(quoted, types))


def dims(values: Iterable[int]) -> str:
    """A shape as diagnostics spell it: `4, 8`."""
    return ", ".join(map(str, values))
