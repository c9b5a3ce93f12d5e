# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What may be chosen when a kernel is compiled, and which choices go together."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from libtile.passes.pipelines import SCHEDULES
from libtile.spec import default_spec
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field
from libtile.targets import target

Constraint = str | Callable[[Mapping[str, Any]], Any]
"""What has to hold of the values by name: an expression such as `tm * tn <= 8192`, or a function."""


@dataclass(frozen=True)
class Configuration:
    """One choice of everything. `hints` are for the target that is tuned for, `constants` those of a `@ct.kernel`."""

    opt_level: int = 3
    schedule: str = ""
    hints: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """Everything by name, as constraints see it."""
        return {**self.constants, **self.hints, "opt_level": self.opt_level, "schedule": self.schedule}

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in (*self.constants.items(), *self.hints.items())]
        return " ".join([*parts, f"-O{self.opt_level}", *([self.schedule] if self.schedule else [])])


@dataclass(frozen=True)
class Space:
    """The values to choose from. A `schedule` is one of `SCHEDULES`, or empty for the level's own; an optimization hint
    is given to every op that takes it; `where` has constraints, all of which have to hold.
    """

    opt_levels: Sequence[int] = (3,)
    schedules: Sequence[str] = ("",)
    hints: Mapping[str, Sequence[int]] = field(default_factory=dict)
    constants: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    where: Sequence[Constraint] = ()

    def configurations(self, gpu_name: str) -> list[Configuration]:
        """All choices that the constraints allow. LibtileError for a value that the target does not take, for names
        that collide or that a constraint asks for and nobody gives, and when nothing is left."""
        self._check(gpu_name)
        tests = [expression(where) if isinstance(where, str) else where for where in self.where]
        found = []
        for level, schedule in product(self.opt_levels, self.schedules):
            for hints in product(*self.hints.values()):
                for constants in product(*self.constants.values()):
                    made = Configuration(
                        level, schedule, dict(zip(self.hints, hints)), dict(zip(self.constants, constants))
                    )
                    if all(test(made.values) for test in tests):
                        found.append(made)
        if not found:
            raise LibtileError("there is nothing to tune: no configuration is left")
        return found

    def _check(self, gpu_name: str) -> None:
        target(gpu_name)
        lists = {"opt_levels": self.opt_levels, "schedules": self.schedules, "where": self.where}
        for name, values in {**lists, **self.hints, **self.constants}.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise LibtileError(f"the space's {name} has to be a sequence of what to try, not {values!r}")
        known = default_spec().hints
        for name, values in self.hints.items():
            if name not in known:
                raise LibtileError(f"there is no hint '{name}': use one of {', '.join(known)}")
            for value in values:
                if not isinstance(value, int):
                    raise LibtileError(f"hint '{name}' = {value!r} on {gpu_name}: a whole number is expected")
                if problem := known[name].problem(gpu_name, value):
                    raise LibtileError(f"hint '{name}' = {value} on {gpu_name}: {problem}")
        for schedule in self.schedules:
            if schedule and schedule not in SCHEDULES:
                raise LibtileError(f"there is no schedule '{schedule}': use one of {', '.join(SCHEDULES)}")
        for level in self.opt_levels:
            if level not in range(4):
                raise LibtileError(f"there is no optimization level {level!r}: use 0 to 3")
        if twice := {*self.constants} & {*self.hints, "opt_level", "schedule"}:
            raise LibtileError(f"'{min(twice)}' is the name of a constant and of a choice of the compiler's")


_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max}


_LONGEST = 1000
"""Characters of an expression."""


def expression(text: str) -> Callable[[Mapping[str, Any]], Any]:
    """The function of named values that an expression stands for: arithmetic of whole numbers, comparisons, `and`,
    `or`, `not`, tuples, and the functions cdiv, min and max. LibtileError for anything else."""
    if len(text) > _LONGEST:
        raise LibtileError(f"'{text[:20]}...' has {len(text)} characters, and an expression has {_LONGEST} at most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise LibtileError(f"'{text}' is no expression: {error.msg}") from None
    except ValueError as error:  # a NUL
        raise LibtileError(f"'{text}' is no expression: {error}") from None
    except (RecursionError, MemoryError):  # what Python's parser says of it
        raise LibtileError(f"'{text}' is no expression: it is nested too deeply") from None

    def value(node: ast.expr, names: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=int() | str() as constant):
                return constant
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                raise LibtileError(f"'{text}': there is no '{name}' among {', '.join(names)}")
            case ast.Tuple(elts=parts):
                return tuple(value(part, names) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not value(inner, names)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner, names)
            case ast.BoolOp(op=kind, values=parts):
                test = all if isinstance(kind, ast.And) else any
                return test(value(part, names) for part in parts)
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _BINARY:
                return _BINARY[type(kind)](value(left, names), value(right, names))
            case ast.Compare(left=left, ops=kinds, comparators=rest) if all(type(kind) in _BINARY for kind in kinds):
                sides = [value(side, names) for side in (left, *rest)]
                return all(_BINARY[type(kind)](a, b) for kind, a, b in zip(kinds, sides, sides[1:]))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*(value(part, names) for part in parts))
        raise LibtileError(f"'{text}': '{ast.unparse(node)}' has no meaning here")

    def evaluated(names: Mapping[str, Any]) -> Any:
        try:
            return value(tree, names)
        except (ArithmeticError, TypeError) as error:
            raise LibtileError(f"'{text}': {error}") from None
        except RecursionError:
            raise LibtileError(f"'{text}' is nested too deeply") from None

    return evaluated
