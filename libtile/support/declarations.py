# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the package's declarations, which are TOML files, without parsing them every time.

A file is loaded as Python loads a module's source, which it becomes a literal in: what was parsed is kept beside it in
`__pycache__` by Python's own rules (of what is out of date, of `PYTHONDONTWRITEBYTECODE` and `PYTHONPYCACHEPREFIX`).
"""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from os import PathLike, fspath
from types import CodeType
from typing import Any


class _TomlLoader(SourceFileLoader):
    """A TOML file as the source of a module with one variable, `tables`."""

    def source_to_code(  # type: ignore[override]  # the base class takes syntax trees too
        self, data: bytes, path: str, *, _optimization: int = -1
    ) -> CodeType:
        code: CodeType = compile(
            f"tables = {parse(data.decode('utf-8'))!r}", path, "exec", dont_inherit=True, optimize=_optimization
        )
        return code


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    import tomllib  # seldom needed, thanks to the above

    return tomllib.loads(text)


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file of strings, numbers, booleans, arrays and tables; the caller's own, to be changed."""
    variables: dict[str, Any] = {}
    code = _TomlLoader("libtile declarations", fspath(path)).get_code("libtile declarations")
    assert code is not None  # None is for files that are packages
    exec(code, variables)
    tables: dict[str, Any] = variables["tables"]
    return tables
