# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shortens the start of a tool's process, most of which is Python making the classes of xDSL and of libtile.

Three things are done, all for a process that is a tool, never for one that imports libtile:

- `dataclasses` writes the methods of each class as text and compiles it, every time. The compiled code is kept in
  `__pycache__`, as that of modules is, and by the same rules (`PYTHONDONTWRITEBYTECODE`, `PYTHONPYCACHEPREFIX`).
- A dataclass without a docstring gets one with its signature, which takes long to find out, and no tool shows it.
- xDSL parses the assembly format of every op of a dialect that is imported. A compilation prints and reads none of
  them, so each is parsed when it is first used.

None of them has to do with an input. Without them a tool does the same, more slowly.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import inspect
import marshal
import os
import sys
from collections.abc import Sequence
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.irdl import OpDef
    from xdsl.irdl.declarative_assembly_format import FormatProgram


_FORMATS = "xdsl.irdl.declarative_assembly_format"

MOST_KEPT = 10_000
"""A file with more texts, most of them of classes of older releases, is begun anew; all tools together need 2000."""


class GeneratedCode:
    """Compiled code by source text, kept in a file; `execute` is `exec` for texts that are worth keeping."""

    def __init__(self, path: str | None):
        self.path = path
        self.added = False
        self._compiled: dict[str, CodeType] = {}
        self._kept: dict[str, bytes] | None = None

    def execute(self, text: str, variables: dict[str, Any] | None = None, names: dict[str, Any] | None = None) -> None:
        """Execute a text as `exec` does."""
        code = self._compiled.get(text)
        if code is None:
            kept = self._load().get(text)
            if kept is not None:
                code = marshal.loads(kept)
            else:
                code = compile(text, "<string>", "exec", dont_inherit=True)
                self.added = True
            self._compiled[text] = code
        builtins.exec(code, variables, names)

    def _load(self) -> dict[str, bytes]:
        if self._kept is None:
            self._kept = {}
            if self.path is not None:
                # A file that is not there, or that something cut short, is as good as an empty one.
                with contextlib.suppress(OSError, ValueError, EOFError, TypeError), open(self.path, "rb") as file:
                    if file.read(len(MAGIC_NUMBER)) == MAGIC_NUMBER:
                        self._kept = dict(marshal.load(file))
        return self._kept

    def save(self) -> None:
        """Write the file when there is new code; a place that cannot be written to is left alone, as Python does."""
        if self.path is None or not self.added:
            return
        kept = {text: marshal.dumps(code) for text, code in self._compiled.items()}
        if len(self._load()) < MOST_KEPT:
            kept = {**self._load(), **kept}
        temporary = f"{self.path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(MAGIC_NUMBER + marshal.dumps(kept))
            os.replace(temporary, self.path)


def _place() -> str | None:
    """Where the code is kept: beside that of this module; nowhere when Python is told to write none."""
    if sys.dont_write_bytecode or sys.implementation.cache_tag is None:
        return None
    return cache_from_source(os.path.join(os.path.dirname(__file__), "generated_code.py")).removesuffix("pyc") + "bin"


class _NoSignatures:
    """Stands for the module `inspect` in `dataclasses`."""

    def signature(self, *_: Any, **__: Any) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)


class _FormatOnDemand:
    """An assembly format that is parsed when an op is first printed or read with it."""

    def __init__(self, text: str, definition: OpDef):
        self.text = text
        self.definition = definition

    @cached_property
    def program(self) -> FormatProgram:
        from xdsl.irdl.declarative_assembly_format_parser import FormatParser

        return FormatParser(self.text, self.definition).parse_format()

    def parse(self, *arguments: Any) -> Any:
        return self.program.parse(*arguments)

    def print(self, *arguments: Any) -> None:
        self.program.print(*arguments)


class _FormatsLoader(SourceFileLoader):
    """Loads xDSL's module of assembly formats, and has it parse them on demand."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.FormatProgram.from_str = staticmethod(_FormatOnDemand)


class _FormatsFinder:
    """Finds that module for `_FormatsLoader`, so that nothing of xDSL is imported before it is needed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _FORMATS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FormatsLoader(fullname, spec.loader.path)
        return spec


_generated: GeneratedCode | None = None


def install() -> None:
    """Called first in a tool's process."""
    global _generated
    _generated = GeneratedCode(_place())
    dataclasses.exec = _generated.execute  # type: ignore[attr-defined]  # stands before the builtin of that name
    dataclasses.inspect = _NoSignatures()  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _FormatsFinder())


def finish() -> None:
    """Called when the tool has done its work."""
    if _generated is not None:
        _generated.save()
