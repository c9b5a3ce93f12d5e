# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one base of the library's exceptions."""

from __future__ import annotations


class LibtileError(Exception):
    """Anything that is wrong with what the library was given. A tool prints it and exits with a non-zero status."""

    several_lines = False
    """Whether the text has lines of its own, in which names are `visible` already; others are shown on one line."""


class Stopped(BaseException):
    """The process was asked to end. Not an Exception: nothing but the way out handles it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class HintsDroppedWarning(UserWarning):
    """Optimization hints that the version asked for cannot hold were left out, as the caller had asked for."""


class AttributesDroppedWarning(UserWarning):
    """Attributes that ops do not declare were left out of bytecode, which has no place for them."""


def visible(text: str, keep: str = "") -> str:
    r"""A text with what would break a line, or cannot be shown, in escapes: names in a file can be any bytes.

    Bytes that are no UTF-8 (held as surrogates) become `\x80` to `\xff`. The characters of `keep` stay as they are. A
    text that was made visible stays the same.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def reason(error: OSError | ValueError | ImportError) -> str:
    """Why a file could not be opened, or something else was refused, in the system's words where it has any."""
    of_system = error.strerror if isinstance(error, OSError) else None
    return of_system or " ".join(str(error).split()) or type(error).__name__
