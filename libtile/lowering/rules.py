# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of rules: what a stage does with an op, by the class of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation

Stage = TypeVar("Stage")
Op = TypeVar("Op", bound=Operation)


class Rules(dict[type[Operation], Callable[[Stage, Any], None]], Generic[Stage]):
    """A rule for each class of ops; `Stage` is what holds the state of the stage.

    `@rules.on(LoadOp)` registers a function that takes the stage and an op of the class, as what it is. `late` are
    modules of rules that are loaded with the ops they are for, by the module of these: one that is seldom needed and
    takes long to import.
    """

    def __init__(self, late: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.late = late or {}

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
        if op not in self and op.__module__ in self.late:
            import_module(self.late[op.__module__])
        return next((self[cls] for cls in op.__mro__ if cls in self), None)
