# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong with a text that is to be PTX."""

from __future__ import annotations

from libtile.support.errors import LibtileError


class PtxFormatError(LibtileError):
    """A text is not of the form that PTX has; `offset` is where, in characters."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset
