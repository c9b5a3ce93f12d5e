# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module in memory, and what it is made of: a file's bytes in either form, or a text."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from libtile.asm.diagnosis import diagnose as diagnose
from libtile.dialects.cuda_tile.one_module import tile_module_in
from libtile.spec.model import BYTECODE_MAGIC
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import Diagnostic, DiagnosticError, has_errors
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path, file_bytes
from libtile.support.limits import TEXT_BYTES
from libtile.support.records import dataclass, field
from libtile.support.signatures import checked

if TYPE_CHECKING:
    from libtile.spec import Version


@dataclass(eq=False)
class Module:
    """A module in memory.

    `op` is the xDSL operation: the `cuda_tile.module`, or a `builtin.module` around what else the text held.
    `version` is the bytecode version that it was read from; `warnings` are oddities of the file that were accepted.
    """

    op: Operation
    version: Version | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def tile_module(self) -> Operation:
        """The one `cuda_tile.module`; DiagnosticError, with its place, when there is none, or more than one."""
        return tile_module_in(self.op)

    def __str__(self) -> str:
        return print_module(self)

    def _repr_html_(self) -> str:
        """The text, as notebooks show it: of a large module its first lines."""
        from libtile.support.html import SHOWN_LINES, preformatted

        lines = print_module(self).splitlines()
        return preformatted(lines[:SHOWN_LINES], len(lines) - SHOWN_LINES)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.op.name}" + (f", read from {self.version}>" if self.version else ">")


@checked
def read(source: Path | Bytes, preview: Collection[str] = ()) -> Module:
    """The module that a bytecode file holds; `source` is a path, or the file's bytes.

    Reads every version from 13.1 on, preview-tagged files included; `preview` names the preview features whose ops
    such a file may use (`simt`). Raises BytecodeError, with offset and section, for
    a bad file, and LibtileError for one that cannot be opened. The module is not verified: see `verify`.
    """
    from libtile import bytecode
    from libtile.dialects.cuda_tile.bridge import from_bytecode

    neutral = bytecode.read(file_bytes(source), preview=preview)
    return Module(from_bytecode(neutral), neutral.version, list(neutral.warnings))


def op_of(module: Module | Operation) -> Operation:
    """The xDSL operation of a module, which may be given as such; LibtileError for anything else."""
    if isinstance(module, Module):
        return module.op
    if isinstance(module, Operation):
        return module
    raise LibtileError(f"expected a Module or an Operation, but got {type(module).__name__}")


@checked
def parse(text: str, filename: str = "-") -> Module:
    """The module that a text holds, in the pretty, the generic or a mixed form.

    `filename` is what diagnostics and locations name. Raises DiagnosticError with the syntax errors. The module is not
    verified: see `verify`.
    """
    from libtile.asm import parse as parse_op

    with collector_paused():
        parsed = parse_op(text, filename)
        op = unwrapped(parsed)
        if op is not parsed:
            op.detach()
        return Module(op)


def unwrapped(op: Operation) -> Operation:
    """A `builtin.module` around nothing but one `cuda_tile.module` stands for the latter, if nothing is said of it."""
    if op.name == "builtin.module" and op.regions[0].blocks and not op.attributes and not op.properties:
        inner = list(op.regions[0].block.ops)
        if len(inner) == 1 and inner[0].name == "cuda_tile.module":
            return inner[0]
    return op


@checked
def print_module(module: Module | Operation, generic: bool = False, debuginfo: bool = False) -> str:
    """The module as text, ending with a newline.

    `generic` asks for MLIR's form without the dialect's syntax, `debuginfo` for locations after every op.
    """
    from libtile.asm import print_op

    text = print_op(op_of(module), generic=generic, debuginfo=debuginfo)
    return text if text.endswith("\n") else text + "\n"


def load(source: Module | Operation | Path | Bytes) -> Operation:
    """The xDSL module of a Module, of a path, or of bytes: bytecode or text.

    DiagnosticError for a text that is wrong, LibtileError for what is neither, an empty file among it.
    """
    if isinstance(source, Module | Operation):
        return op_of(source)
    data, name = file_bytes(source), "-" if isinstance(source, Bytes) else os.fspath(source)
    if data.startswith(BYTECODE_MAGIC):
        return read(data).op
    if len(data) > TEXT_BYTES:
        raise LibtileError(f"'{name}' has {len(data)} bytes, and a text of Tile IR has {TEXT_BYTES} at most")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise LibtileError(f"'{name}' is neither Tile IR bytecode nor text") from None
    if not any(word in text for word in ("module", "cuda_tile", "nv_tile")):
        raise LibtileError(f"'{name}' is {'no' if text.strip() else 'empty: no'} Tile IR, neither bytecode nor text")
    return parse(text, filename=name).op


@checked
def verify(module: Module | Operation) -> list[Diagnostic]:
    """Check the module against every rule of the dialect.

    Raises DiagnosticError carrying every diagnostic when one of them is an error; returns the others.
    """
    diagnostics = diagnose(op_of(module))
    if has_errors(diagnostics):
        raise DiagnosticError(diagnostics)
    return diagnostics
