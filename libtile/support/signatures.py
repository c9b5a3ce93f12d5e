# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the library's functions take, checked when they are called: their annotations say it.

`@checked` stands on each function of the library's face. An argument of another type is a LibtileError that names the
function and the parameter; without it, it would be whatever error the first line that uses it happens to raise, or, as
for an option that a backend does not look at, none.
"""

from __future__ import annotations

import io
import operator
import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from libtile.support.errors import LibtileError
from libtile.support.limits import NUMBER_BITS

F = TypeVar("F", bound=Callable[..., Any])
Rule = tuple[str, Callable[[Any], bool]]


def _whole(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and isinstance(operator.index(value), int)
    except Exception:  # whatever a class of the caller's raises
        return False


def _truth(value: Any) -> bool:
    return isinstance(value, int) or type(value).__name__ == "bool"  # numpy's, too


def _string(value: Any) -> bool:
    return isinstance(value, str)


def _several(value: Any) -> bool:
    if not hasattr(type(value), "__iter__") or isinstance(value, str | bytes | bytearray | io.IOBase):
        return False
    return bool(getattr(value, "shape", True) != ())  # an array of no dimensions has no elements to go through


def _all_are(*kinds: type) -> Callable[[Any], bool]:
    """Several of these kinds; an iterator is not gone through, which would be at its end then."""
    return lambda value: _several(value) and (hasattr(value, "__next__") or all(isinstance(v, kinds) for v in value))


def _anything(value: Any) -> bool:
    return True


_FUNCTION: Rule = ("a function", callable)
RULES: dict[str, Rule] = {
    "Any": ("", _anything),
    "AnyPath": ("", _anything),
    "Bytes": ("", _anything),  # `file_bytes` says what is neither a path nor bytes
    "Callable": _FUNCTION,
    "Collection": ("a list", _several),
    "Grid": ("", _anything),
    "None": ("None", lambda value: value is None),
    "Observer": _FUNCTION,
    "Path": ("", _anything),
    "Predicate": _FUNCTION,
    "Progress": _FUNCTION,
    "Collection[str]": ("a list of strings", _all_are(str)),
    "Sequence": ("a list", _several),
    "Sequence[Path]": ("a list of paths", _all_are(str, os.PathLike)),
    "Sequence[str]": ("a list of strings", _all_are(str)),
    "Sequence[Instrument]": (
        "a list of instruments",
        lambda value: _several(value) and all(hasattr(v, "begin") for v in value),
    ),
    "Sequence[bytes]": ("a list of bytes", _all_are(bytes, bytearray, memoryview)),
    "TextIO": ("a stream", lambda value: hasattr(value, "write")),
    "Watcher": _FUNCTION,
    "bool": ("True or False", _truth),
    "float": ("a number", lambda value: _whole(value) or isinstance(value, float)),
    "int": ("a whole number", _whole),
    "int | Sequence[int]": ("", _anything),  # a grid, of which the launch says what is wrong
    "str": ("a string", _string),
    "tuple[str, str]": ("two strings", lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(_string, v))),
}
"""By a whole annotation, or by the name that it begins with. Another name is that of a class."""


def rule_of(annotation: str) -> tuple[Rule, ...]:
    """What an annotation asks for: a rule for each of its alternatives."""
    return tuple(_rule(text) for text in ((annotation,) if annotation in RULES else _alternatives(annotation)))


def _rule(text: str) -> Rule:
    name = text.partition("[")[0].rpartition(".")[2]
    said = f"an {name}" if name.startswith("O") else f"a {name}"
    return RULES.get(text) or RULES.get(name) or (said, lambda v: any(name == c.__name__ for c in type(v).__mro__))


def _alternatives(annotation: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, character in enumerate(annotation):
        depth += (character == "[") - (character == "]")
        if character == "|" and depth == 0:
            yield annotation[start:index].strip()
            start = index + 1
    yield annotation[start:].strip()


def checked(function: F) -> F:
    """The function, with arguments checked against its annotations, which are strings. LibtileError for what is none of
    a parameter's types."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    rules: dict[str, tuple[Rule, ...]] = {}

    def check(name: str, value: object) -> None:
        if name not in rules:
            annotation = function.__annotations__.get(name)
            rules[name] = rule_of(annotation) if annotation is not None else ()
        kinds = rules[name]
        if kinds and not any(fits(value) for _, fits in kinds):
            wanted = " or ".join(said for said, _ in kinds)
            raise LibtileError(f"{function.__name__}: {name} has to be {wanted}, not {type(value).__name__}")
        if isinstance(value, int) and value.bit_length() > NUMBER_BITS:
            raise LibtileError(f"{function.__name__}: {name} is a number of more than {NUMBER_BITS} bits")

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in zip(names, args, strict=False):
            check(name, value)
        for name, value in kwargs.items():
            check(name, value)
        return function(*args, **kwargs)

    return cast(F, call)
