# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pass pipelines: their text, and the passes that it asks for. `libtile.passes.manager` runs them.

    builtin.module(cuda_tile.module(cuda_tile.entry(loop-split{split-threshold=4}, canonicalize)))

A name with parentheses nests: what is inside runs on each op of that name directly below. A name alone, or with options
in braces, is a pass; `O0` to `O3` stand for what a compilation runs at that level. A list without an op around it runs
on the op that the pipeline is given.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from libtile.passes.pipelines import PIPELINES
from libtile.passes.registry import PASSES, pass_class
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, replace

if TYPE_CHECKING:
    from libtile.ir.module_pass import ModulePass

_MAX_NESTING = 64


class PipelineError(LibtileError):
    """A pipeline's text is malformed, or names a pass or an option that there is not."""


@dataclass(frozen=True)
class PassItem:
    """One pass with its options, as written."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}{{{' '.join(f'{name}={_quoted(value)}' for name, value in self.options)}}}"


@dataclass(frozen=True)
class Nest:
    """Passes for every op of a name directly below the current one; `any` is every op."""

    anchor: str
    items: tuple[PassItem | Nest, ...]

    def __str__(self) -> str:
        return f"{self.anchor}({pipeline_text(self.items)})"


Item = PassItem | Nest
MODULE = "builtin.module"
"""What a pipeline is for, when it is given a whole module."""


# -- text -----------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"\s*([\w.$-]+)\s*", re.ASCII)
_OPTION = r"""(?a)\s*([\w.$-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|[^\s{}]*))?\s*"""


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
            found += self.item(depth)
            if self.peek() != ",":
                return tuple(found)
            self.position += 1

    def item(self, depth: int) -> tuple[Item, ...]:
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
            return (Nest(name, inner),)
        if name in PIPELINES:
            return parse_pipeline(PIPELINES[name])
        if name not in PASSES:
            self.position = start
            raise self.error(f"'{name}' does not refer to a registered pass or pass pipeline")
        if self.peek() != "{":
            return (PassItem(name),)
        end = self._closing_brace()
        options = parse_options(self.text[self.position + 1 : end], name)
        self.position = end + 1
        return (PassItem(name, options),)

    def _closing_brace(self) -> int:
        depth = 0
        for index in range(self.position, len(self.text)):
            depth += (self.text[index] == "{") - (self.text[index] == "}")
            if depth == 0:
                return index
        raise self.error("missing closing '}' while processing pass options")


@lru_cache(maxsize=64)
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
        match = re.compile(_OPTION).match(text, position)
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


def pipeline_text(items: Sequence[Item]) -> str:
    """The text of a pipeline, which `parse_pipeline` reads."""
    return ",".join(map(str, items))


def _quoted(value: str) -> str:
    """A value as `parse_options` reads it."""
    if value and not re.search(r"[\s{}\"']", value):
        return value
    return f'"{value}"' if '"' not in value else f"'{value}'"


def passes_in(items: Sequence[Item]) -> Iterator[PassItem]:
    """All passes of a pipeline, in order."""
    for item in items:
        if isinstance(item, PassItem):
            yield item
        else:
            yield from passes_in(item.items)


def unwrapped(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items for a module: those inside of `builtin.module(...)`, if the pipeline is nothing but that."""
    if len(items) == 1 and isinstance(items[0], Nest) and items[0].anchor == MODULE:
        return items[0].items
    return tuple(items)


def before_pass(items: Sequence[Item], name: str) -> tuple[Item, ...]:
    """The items for a module that come before the pass of this name; all when there is none."""
    found = _position(items, name)
    return tuple(items) if found is None else tuple(items[:found])


def after_pass(items: Sequence[Item], name: str) -> tuple[Item, ...]:
    """The items for a module that come behind the pass of this name; all when there is none."""
    found = _position(items, name)
    return tuple(items) if found is None else tuple(items[found + 1 :])


def _position(items: Sequence[Item], name: str) -> int | None:
    return next((n for n, item in enumerate(items) if isinstance(item, PassItem) and item.name == name), None)


# -- passes from their options ----------------------------------------------------------------------------------------


def make_pass(item: PassItem) -> ModulePass:
    """The pass that an item asks for. PipelineError for an unknown option or a value of the wrong kind."""
    cls = pass_class(item.name)
    fields = _option_types(cls) if item.options else {}
    values: dict[str, Any] = {}
    for option, text in item.options:
        field = option.replace("-", "_")
        if field not in fields:
            known = ", ".join(f.replace("_", "-") for f in fields) or "none"
            raise PipelineError(f"no such option '{option}' in pass '{item.name}'; its options are: {known}")
        try:
            values[field] = value = _convert(text, fields[field])
        except ValueError:
            raise PipelineError(f"'{text}' is no value for option '{option}' of pass '{item.name}'") from None
        # Numbers of passes are counts; -1 is none at all where a pass says so.
        if isinstance(value, int) and value < -(field in getattr(cls, UNBOUNDED, ())):
            raise PipelineError(f"option '{option}' of pass '{item.name}' is {value}, and cannot be negative")
    try:
        return cls(**values)
    except TypeError:  # asked for its fields only now, as that takes longer than making the pass
        for f in dataclasses.fields(cls):
            no_default = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            if f.init and no_default and f.name not in values:
                raise PipelineError(f"pass '{item.name}' needs option '{f.name.replace('_', '-')}'") from None
        raise


UNBOUNDED = "unbounded"
"""What a pass calls the names of its options for which -1 stands for no bound."""


@cache
def _option_types(cls: type[ModulePass]) -> dict[str, Any]:
    """The types of a pass's options, by the names of its fields."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init and not f.name.startswith("_")}


TARGET_OPTION = "gpu-name"


def for_target(items: Sequence[Item], gpu_name: str) -> tuple[Item, ...]:
    """The pipeline with the target's name as an option of each pass that takes one.

    PipelineError when a pass asks for another target.
    """

    def bound(item: Item) -> Item:
        if isinstance(item, Nest):
            return replace(item, items=tuple(map(bound, item.items)))
        if not PASSES[item.name].for_target:
            return item
        given = dict(item.options).get(TARGET_OPTION)
        if given is None:
            return replace(item, options=((TARGET_OPTION, gpu_name), *item.options))
        if given != gpu_name:
            raise PipelineError(f"pass '{item.name}' is for {given}, and the compilation for {gpu_name}")
        return item

    return tuple(map(bound, items))


def is_plain(item: PassItem) -> bool:
    """Whether a pass has no option but its target, so that nothing can be wrong with them."""
    return all(name == TARGET_OPTION for name, _ in item.options)


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
