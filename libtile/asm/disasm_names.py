# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of a module as `tileirdisasm` prints it: the module's ops side by side, without the module around them.

Values have the names that the dialect's ops suggest. The ops of `RENAMED` go by the name that release 13.5 of the
disassembler has for them, which the parser reads as well.
"""

from __future__ import annotations

from libtile.asm.aliases import Aliases
from libtile.asm.printer import LinePrinter
from libtile.ir.forms import Operation, StringAttr

RENAMED = {"pow": "fpowf"}
"""Ops that the disassembler calls otherwise than the open dialect does."""


def _body(module: Operation) -> list[Operation]:
    return [op for block in module.regions[0].blocks for op in block.ops]


class _BodyAliases(Aliases):
    """Aliases in the order of the module's ops; the module's own location counts only when it holds nothing."""

    def _collect(self, top: Operation) -> None:
        for op in _body(top) or [top]:
            super()._collect(op)


class Disassembler(LinePrinter):
    """Prints the body of a `cuda_tile.module`."""

    def __init__(self, module: Operation, debuginfo: bool = False) -> None:
        super().__init__(module, printed_names=RENAMED)
        self.debuginfo = debuginfo
        if debuginfo:
            self._aliases = _BodyAliases(module, self._arguments_printed, self._hidden_terminator)
            self.alias = self._aliases

    def text(self) -> str:
        producer = self._op.properties.get("producer")
        if isinstance(producer, StringAttr):
            self.write(f"// Producer: {producer.data}\n")
        self.default_dialects.append("cuda_tile")
        ops = _body(self._op)
        for op in ops:
            self.operation(op)
            self.write("\n")
        if not ops:
            self.write("\n")
        if self._aliases is not None:
            self.write(self._aliases.definitions(deferred=False))
            self.write(self._aliases.definitions(deferred=True))
        return "".join(self._parts)


def disassembly(module: Operation, debuginfo: bool = False) -> str:
    """What the disassembler prints for a `cuda_tile.module`; `debuginfo` is its option `-g`."""
    return Disassembler(module, debuginfo).text()
