# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environment variables that are libtile's own, or the reference's: each is declared here once, with what it may be.

A variable that is empty is as one that is not set. A value that is none of a variable's own is a SettingError, which
names the variable and the value, wherever it is asked for. Those of the system (`HOME`, `TMPDIR`, `XDG_CACHE_HOME`,
`PATH`) and CUDA's (`CUDA_HOME`, `CUDA_PATH`) are read as their own documents say.
"""

from __future__ import annotations

import os

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

_ON = ("1", "on", "true", "yes")
_OFF = ("0", "off", "false", "no")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MOST_DIGITS = 18
_MOST_SECONDS = 9
"""Digits of a number of seconds."""
_SHOWN = 100
"""Characters of a value that an error shows."""


class SettingError(LibtileError):
    """An environment variable has a value that it cannot have."""

    def __init__(self, name: str, value: str, wanted: str) -> None:
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        super().__init__(f"environment variable {name} is '{shown}', and must be {wanted}")


@dataclass(frozen=True)
class Variable:
    """A variable of the environment, and what it says."""

    name: str
    means: str

    def text(self) -> str:
        """Its value; empty where it is not set."""
        return os.environ.get(self.name, "")


@dataclass(frozen=True)
class Switch(Variable):
    """A variable that is on or off; `enters_key` is whether the result of a compilation may depend on it."""

    default: bool = False
    enters_key: bool = False

    wanted = f"{', '.join(_ON)} or {', '.join(_OFF)}"

    def on(self) -> bool:
        """Whether it is on. SettingError for what is neither on nor off."""
        value = self.text().lower()
        if value in _ON:
            return True
        if value in _OFF:
            return False
        if value:
            raise SettingError(self.name, self.text(), self.wanted)
        return self.default


@dataclass(frozen=True)
class Size(Variable):
    """A variable that is a number of bytes."""

    default: int = 0

    wanted = "a number of bytes, or a number with K, M or G"

    def bytes(self) -> int:
        """The number of bytes out of `4096`, `64K`, `512M`, `2G`. SettingError for anything else."""
        text = self.text()
        if not text:
            return self.default
        unit = _UNITS.get(text[-1:].upper(), 0)
        number = text[:-1] if unit else text
        if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
            raise SettingError(self.name, text, self.wanted)
        return int(number) * (unit or 1)


@dataclass(frozen=True)
class Duration(Variable):
    """A variable that is a number of seconds."""

    default: int = 0

    wanted = "a number of seconds"

    def seconds(self) -> int:
        """The number. SettingError for anything else."""
        text = self.text()
        if not text:
            return self.default
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_SECONDS):
            raise SettingError(self.name, text, self.wanted)
        return int(text)


@dataclass(frozen=True)
class Place(Variable):
    """A variable that is the path of a file or folder."""

    wanted = "a path"


CACHE = Switch("LIBTILE_CACHE", "whether compilations are cached", default=True)
CACHE_FOLDER = Place(
    "LIBTILE_CACHE_DIR", "where the cache is; without it `$XDG_CACHE_HOME/libtile`, or `~/.cache/libtile`"
)
CACHE_SIZE = Size("LIBTILE_CACHE_SIZE", "the limit of the cache; 1G without it", default=1 << 30)
VERIFY_EACH = Switch("LIBTILE_VERIFY_EACH", "whether the verifier runs behind each pass", enters_key=True)
PREFER_TMA = Switch(
    "TILEIR_PREFER_TMA_FOR_LOAD_STORE", "whether accesses need not allow TMA to be made copies by it", enters_key=True
)
DELAY_WAIT = Switch(
    "TILEIR_DELAY_TMA_STORE_WAIT", "whether the wait for a store by TMA stands behind the next barrier", enters_key=True
)
CUDA_DRIVER = Place("LIBTILE_CUDA_DRIVER", "the library of the CUDA driver, in place of `libcuda.so.1`")
TRACEBACK = Switch("LIBTILE_TRACEBACK", "whether an internal error shows its traceback")

SERVER = Switch("LIBTILE_SERVER", "whether a [compile server](server.md) does the work of a tool, where there is one")
SERVER_FOLDER = Place(
    "LIBTILE_SERVER_DIR", "where its socket is; without it `$XDG_RUNTIME_DIR/libtile`, or `/tmp/libtile-UID`"
)
SERVER_IDLE = Duration(
    "LIBTILE_SERVER_IDLE", "after how many seconds without work it ends; 600 without it", default=600
)

VARIABLES = (
    *(CACHE, CACHE_FOLDER, CACHE_SIZE, VERIFY_EACH, PREFER_TMA, DELAY_WAIT, CUDA_DRIVER, TRACEBACK),
    *(SERVER, SERVER_FOLDER, SERVER_IDLE),
)
"""All of them, but the one that a process of `libtile.cutile` gives to those that it starts."""


def settings() -> dict[str, bool]:
    """What is set of all that the result of a compilation may depend on. SettingError for a value that is none."""
    return {v.name: v.on() for v in VARIABLES if isinstance(v, Switch) and v.enters_key}
