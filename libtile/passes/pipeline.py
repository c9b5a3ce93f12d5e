# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pass pipelines: their text, and running them.

    builtin.module(cuda_tile.module(cuda_tile.entry(loop-split{split-threshold=4}, canonicalize)))

A name with parentheses nests: what is inside runs on each op of that name directly below. A name alone, or with options
in braces, is a pass. A list without an op around it runs on the op that the pipeline is given.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from libtile.passes.registry import PASSES, WORKS_ON, pass_class
from libtile.support.diagnostics import DiagnosticError, error, has_errors, warning
from libtile.support.errors import LibtileError

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.passes import ModulePass

    from libtile.support.diagnostics import Diagnostic

_MAX_NESTING = 64


class PipelineError(LibtileError):
    """A pipeline's text is malformed, or names a pass or an option that there is not."""


@dataclass(frozen=True)
class PassItem:
    """One pass with its options, as written."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Nest:
    """Passes for every op of a name directly below the current one; `any` is every op."""

    anchor: str
    items: tuple[PassItem | Nest, ...]


Item = PassItem | Nest


# -- text -----------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"\s*([\w.$-]+)\s*", re.ASCII)
_OPTION = re.compile(
    r"""\s*([\w.$-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|[^\s{}]*))?\s*""", re.ASCII
)


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.position = 0

    def error(self, message: str) -> PipelineError:
        return PipelineError(f"MLIR Textual PassPipeline Parser:1:{self.position + 1}: error: {message}")

    def peek(self) -> str:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def items(self, depth: int = 0) -> tuple[Item, ...]:
        if depth > _MAX_NESTING:
            raise self.error(f"nesting is deeper than the limit of {_MAX_NESTING}")
        found: list[Item] = []
        if self.peek() in ("", ")"):
            return ()
        while True:
            found.append(self.item(depth))
            if self.peek() != ",":
                return tuple(found)
            self.position += 1

    def item(self, depth: int) -> Item:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise self.error("expected the name of a pass or of an op")
        name, start = match[1], match.start(1)
        self.position = match.end()
        if self.peek() == "(":
            self.position += 1
            inner = self.items(depth + 1)
            if self.peek() != ")":
                raise self.error("expected a closing parenthesis ')' for the pass pipeline")
            self.position += 1
            return Nest(name, inner)
        if name not in PASSES:
            self.position = start
            raise self.error(f"'{name}' does not refer to a registered pass or pass pipeline")
        if self.peek() != "{":
            return PassItem(name)
        end = self._closing_brace()
        options = parse_options(self.text[self.position + 1 : end], name)
        self.position = end + 1
        return PassItem(name, options)

    def _closing_brace(self) -> int:
        depth = 0
        for index in range(self.position, len(self.text)):
            depth += (self.text[index] == "{") - (self.text[index] == "}")
            if depth == 0:
                return index
        raise self.error("missing closing '}' while processing pass options")


def parse_pipeline(text: str) -> tuple[Item, ...]:
    """The items of a pipeline. PipelineError when it is malformed or names an unknown pass."""
    reader = _Reader(text)
    items = reader.items()
    if reader.peek():
        raise reader.error(f"unexpected {reader.peek()!r}")
    return items


def parse_options(text: str, name: str) -> tuple[tuple[str, str], ...]:
    """`a=b c="d e" flag`: names and values; a name alone means `true`."""
    options: list[tuple[str, str]] = []
    position = 0
    while position < len(text) and text[position:].strip():
        match = _OPTION.match(text, position)
        if match is None or match.end() == position:
            raise PipelineError(f"options of pass '{name}': cannot read {text[position:]!r}")
        value = match[2]
        if value is None:
            value = "true"
        elif len(value) > 1 and value[0] in "\"'{[" and value[-1] in "\"'}]":
            value = value[1:-1]
        options.append((match[1], value))
        position = match.end()
    return tuple(options)


# -- passes from their options ----------------------------------------------------------------------------------------


def make_pass(item: PassItem) -> ModulePass:
    """The pass that an item asks for. PipelineError for an unknown option or a value of the wrong kind."""
    cls = pass_class(item.name)
    hints = typing.get_type_hints(cls)
    fields: dict[str, Any] = {
        f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init and not f.name.startswith("_")
    }
    values: dict[str, Any] = {}
    for option, text in item.options:
        field = option.replace("-", "_")
        if field not in fields:
            known = ", ".join(f.replace("_", "-") for f in fields) or "none"
            raise PipelineError(f"no such option '{option}' in pass '{item.name}'; its options are: {known}")
        try:
            values[field] = _convert(text, fields[field])
        except ValueError:
            raise PipelineError(f"'{text}' is no value for option '{option}' of pass '{item.name}'") from None
    for f in dataclasses.fields(cls):
        no_default = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if f.init and no_default and f.name not in values:
            raise PipelineError(f"pass '{item.name}' needs option '{f.name.replace('_', '-')}'")
    return cls(**values)


def _convert(text: str, kind: Any) -> Any:
    """A value of a field's type: bool, int, float, str, an optional one, or a tuple of them."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _convert(text, next(a for a in typing.get_args(kind) if a is not type(None)))
    if origin is typing.Literal:
        if text not in typing.get_args(kind):
            raise ValueError(text)
        return text
    if origin in (tuple, list):
        inner = typing.get_args(kind)[0]
        return origin(_convert(part.strip(), inner) for part in text.split(",") if part.strip())
    if kind is bool:
        lowered = text.lower()
        if lowered not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return lowered in ("true", "1")
    if kind is int:
        return int(text, 0)
    return kind(text)


def pass_options(name: str) -> Mapping[str, str]:
    """The options of a pass with their defaults, for help texts."""
    cls = pass_class(name)
    return {
        f.name.replace("_", "-"): "" if f.default is dataclasses.MISSING else str(f.default)
        for f in dataclasses.fields(cls)
        if f.init
    }


# -- running ----------------------------------------------------------------------------------------------------------

Hook = Callable[["str", "Operation"], None]


@dataclass
class Timing:
    """Seconds spent, by pass and in the verifier, in the order of the first run."""

    seconds: dict[str, float]

    def add(self, name: str, start: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def report(self) -> str:
        total = sum(self.seconds.values()) or 1e-9
        lines = ["===-- Execution time report --===", f"  Total: {total:.4f} seconds"]
        lines += [f"  {t:8.4f} ({100 * t / total:5.1f}%)  {name}" for name, t in self.seconds.items()]
        return "\n".join(lines) + "\n"


class PassManager:
    """Runs a pipeline on an op, and verifies what each pass leaves behind.

    `after` is called behind each pass with its name and the op that it ran on.
    """

    def __init__(
        self,
        items: Sequence[Item],
        *,
        verify_each: bool = True,
        after: Hook | None = None,
        timing: Timing | None = None,
        verifier: Callable[[Operation], Sequence[Any]] | None = None,
    ):
        self.items = list(items)
        self.verify_each = verify_each
        self.after = after
        self.timing = timing
        self._verifier = verifier
        self.warnings: list[Diagnostic] = []
        """What passes did not do, in the order of their runs."""
        self._made: dict[PassItem, ModulePass] = {}
        for item in _passes(self.items):
            self._made[item] = make_pass(item)

    def run(self, op: Operation) -> None:
        """Run everything; DiagnosticError when a pass fails, or leaves IR that does not verify."""
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
            for inner in list(_below(op)):
                if item.anchor in (inner.name, "any"):
                    self._run_items(item.items, inner)

    def _run_pass(self, item: PassItem, op: Operation) -> None:
        from xdsl.context import Context

        self.warnings += _left_alone(item.name, op)
        start = perf_counter()
        self._made[item].apply(Context(), op)  # type: ignore[arg-type]  # our passes take any op
        if self.timing is not None:
            self.timing.add(item.name, start)
        if self.verify_each:
            self._verify(op)
        if self.after is not None:
            self.after(item.name, op)

    def _verify(self, op: Operation) -> None:

        from libtile.asm.module import diagnose

        start = perf_counter()
        found = (self._verifier or diagnose)(op)
        if self.timing is not None:
            self.timing.add("(verifier)", start)
        if has_errors(found):
            raise DiagnosticError(found)


def _left_alone(name: str, op: Operation) -> list[Diagnostic]:
    """A warning for the first function of each dialect that a pass does not work on."""
    from libtile.dialects.cuda_tile.locations import source_location

    works_on = WORKS_ON.get(name)
    found: dict[str, Operation] = {}
    if works_on is not None:
        for function in _functions(op):
            found.setdefault(function.name.partition(".")[0], function)
    return [
        warning(
            source_location(function.location),
            f"pass '{name}' leaves functions of {dialect} as they are: it works on those of {' and '.join(works_on)}",
        )
        for dialect, function in found.items()
        if works_on is not None and dialect not in works_on
    ]


def _functions(op: Operation) -> Iterator[Operation]:
    """The functions in an op, or the op itself when it is one."""
    if op.name in _FUNCTIONS:
        yield op
    elif op.name in _MODULES:
        for inner in _below(op):
            yield from _functions(inner)


_FUNCTIONS = ("cuda_tile.entry", "nv_tileaa.func")
_MODULES = ("builtin.module", "cuda_tile.module")


def _passes(items: Sequence[Item]) -> Iterator[PassItem]:
    for item in items:
        if isinstance(item, PassItem):
            yield item
        else:
            yield from _passes(item.items)


def _below(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.ops
