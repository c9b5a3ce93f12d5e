# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one base of the library's exceptions."""

from __future__ import annotations


class LibtileError(Exception):
    """Anything that is wrong with what the library was given. A tool prints it and exits with a non-zero status."""
