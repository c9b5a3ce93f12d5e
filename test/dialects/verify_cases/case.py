# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a case is. `Cases` collects those of a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute

from dialects.building import Body, kernel
from libtile.dialects.cuda_tile.ops import CudaTileOp

Fill = Callable[[Body], Any]


@dataclass(frozen=True)
class Case:
    """A module and the errors it has.

    `oracle` says how the reference disassembler takes its bytecode: `same` (accepts it, or has the same errors),
    `accepts`, `refuses` (in other words), or `absent` when no bytecode says what the module does.
    """

    name: str
    make: Callable[[], CudaTileOp]
    errors: tuple[str, ...] = ()
    oracle: str = "same"

    def __str__(self) -> str:
        return self.name


class Cases(list[Case]):
    """The cases of a family; `mnemonic` is the op of which an error without a quoted prefix is."""

    def good(self, name: str, fill: Fill, *parameters: Attribute, oracle: str = "same") -> None:
        self.append(Case(name, lambda: kernel(fill, *parameters), (), oracle))

    def bad(self, name: str, error: str, fill: Fill, *parameters: Attribute, oracle: str = "same") -> None:
        """A kernel with one error. `addf: message` is short for `'cuda_tile.addf' op message`."""
        self.append(Case(name, lambda: kernel(fill, *parameters), (expand(error),), oracle))

    def module(self, name: str, make: Callable[[], CudaTileOp], *errors: str, oracle: str = "same") -> None:
        self.append(Case(name, make, tuple(map(expand, errors)), oracle))


def expand(error: str) -> str:
    mnemonic, separator, message = error.partition(": ")
    if not separator or not mnemonic.replace("_", "").replace("$", "").isalnum():
        return error
    return f"'cuda_tile.{mnemonic}' op {message}"
