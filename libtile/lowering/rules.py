# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of rules: what a stage does with an op, by the class of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation

Stage = TypeVar("Stage")
Op = TypeVar("Op", bound=Operation)


class Rules(dict[type[Operation], Callable[[Stage, Any], None]], Generic[Stage]):
    """A rule for each class of ops; `Stage` is what holds the state of the stage.

    `@rules.on(LoadOp)` registers a function that takes the stage and an op of the class, as what it is. `late` are
    modules of rules that are loaded when an op is there that they may be for, by the module of the op's class, in the
    order in which they are looked through: a kernel has few kinds of ops, and to import all takes longer than to
    compile a small one.
    """

    def __init__(self, late: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__()
        self.late = late or {}
        self._found: dict[type[Operation], type[Operation] | None] = {}
        """The base of a class that has the rule for it, where it was looked for, as long as no rule has come."""

    def __setitem__(self, cls: type[Operation], rule: Callable[[Stage, Any], None]) -> None:
        super().__setitem__(cls, rule)
        self._found.clear()

    def load(self) -> None:
        """Load all rules, for what goes through the table."""
        for modules in self.late.values():
            for module in modules:
                import_module(module)

    def on(self, *classes: type[Op]) -> Callable[[Callable[[Stage, Op], None]], Callable[[Stage, Op], None]]:
        """Register the rule of ops of one or more classes."""

        def register(function: Callable[[Stage, Op], None]) -> Callable[[Stage, Op], None]:
            for cls in classes:
                self[cls] = function
            return function

        return register

    def of(self, op: Operation) -> Callable[[Stage, Any], None] | None:
        """The rule of an op: of its class, or of the nearest base that has one; None where there is none."""
        return self.of_class(type(op))

    def of_class(self, op: type[Operation]) -> Callable[[Stage, Any], None] | None:
        """The rule of ops of a class, as `of` finds it."""
        if op in self._found:
            base = self._found[op]
            if base is None or base in self:
                return None if base is None else self[base]
        for module in self.late.get(op.__module__, ()):
            if op in self:
                break
            import_module(module)
        base = self._found[op] = next((cls for cls in op.__mro__ if cls in self), None)
        return None if base is None else self[base]
