# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of regular expressions come from the bundle: see `libtile_tools.startup`.

Python compiles a pattern to a list of numbers for its matcher, which takes as long as importing a small module, and
modules have some fifty of them. Those that a module makes while it is imported are kept, as they have nothing of an
input; what is compiled later is compiled as ever.
"""

from __future__ import annotations

# This comes before there is a bundle: what is imported here is builtin or frozen.
import marshal
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from libtile_tools.kept import Bundle

_DEBUG = 128
"""The flag by which a program is printed when it is compiled, as `re.DEBUG`."""


class KeptPatterns:
    """`compile` stands for that of `re._compiler`; `added` are the programs that had to be made, by their keys."""

    def __init__(self, kept: Bundle | None, compiler: ModuleType):
        self.kept = kept
        self.added: dict[str, Any] = {}
        self._compile = compiler.compile
        self._machine = compiler._sre
        self._made: tuple[Any, ...] | None = None
        compiler._sre = self  # type: ignore[attr-defined]
        compiler.compile = self.compile_pattern  # type: ignore[attr-defined]

    def compile_pattern(self, pattern: Any, flags: int = 0) -> Any:
        """What the compiler makes of a pattern."""
        if flags & _DEBUG or type(pattern) not in (str, bytes):
            return self._compile(pattern, flags)
        key = f"\0{int(flags)} {pattern!r}"  # begins as no code does
        program = None if self.kept is None else self.kept.text(key)
        if program is not None:
            return self._machine.compile(pattern, *program)
        self._made = None
        found = self._compile(pattern, flags)
        if self._made is not None and _importing():
            self._add(key, self._made)
        return found

    def _add(self, key: str, program: tuple[Any, ...]) -> None:
        # Its numbers are of a class of the compiler's own, with names.
        plain = tuple([int(n) for n in part] if isinstance(part, list) else part for part in program)
        try:
            marshal.dumps(plain)
        except ValueError:  # a Python whose programs are something else
            return
        self.added[key] = plain

    def compile(self, pattern: Any, *program: Any) -> Any:
        """What the compiler asks the matcher for: it has no other place that tells the program."""
        self._made = program
        return self._machine.compile(pattern, *program)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


def _importing() -> bool:
    """Whether this is on behalf of a module that is imported, and not of what a tool does."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals.get("__name__") != "__main__"
