# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches that cuTile refuses, with errors of the classes that `ct.launch` raises, which are libtile's as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from libtile.support.errors import LibtileError


class RefusedType(LibtileError, TypeError):
    """An argument, or a grid, of a kind that a launch does not take."""


class RefusedValue(LibtileError, ValueError):
    """An argument, or a grid, that a launch does not take, of a kind that it does."""


class RefusedNumber(LibtileError, OverflowError):
    """A number that a parameter of a kernel cannot hold."""


class KernelRefused(LibtileError):
    """A kernel that cuTile cannot compile; the error is of cuTile's own class as well."""

    several_lines = True


_both: dict[type[Exception], type[Exception]] = {}
"""Classes of cuTile's errors, and those that are libtile's, too."""


@contextmanager
def refused_kernels() -> Iterator[None]:
    """Within, an error of cuTile's compiler is made a KernelRefused, and stays what it is otherwise."""
    from cuda.tile import TileError

    try:
        yield
    except TileError as error:
        kind = type(error)
        if not isinstance(error, LibtileError):
            if kind not in _both:
                _both[kind] = type(kind.__name__, (kind, KernelRefused), {"__module__": kind.__module__})
            error.__class__ = _both[kind]
        raise
