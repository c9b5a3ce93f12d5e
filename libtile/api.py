# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions of `import libtile`. Each loads the parts that it needs when it is called."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from libtile.collector import collector_paused
from libtile.errors import HintsDroppedWarning, LibtileError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.diagnostics import Diagnostic
    from libtile.lowering.compile import Compiled
    from libtile.spec import Version

Bytes = bytes | bytearray | memoryview
Path = str | os.PathLike[str]


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
        """The one `cuda_tile.module`; LibtileError when there is none, or more than one."""
        from libtile.dialects.cuda_tile.ops import CudaTileOp

        op = self.op
        if op.name == "builtin.module":
            inner = list(op.regions[0].block.ops)
            if len(inner) != 1 or inner[0].name != "cuda_tile.module":
                raise LibtileError("expected a single CUDA Tile IR module in the MLIR module")
            op = inner[0]
        if not isinstance(op, CudaTileOp) or op.name != "cuda_tile.module":
            raise LibtileError(f"expected a CUDA Tile IR module, but got a {op.name}")
        return op

    def __str__(self) -> str:
        return print_module(self)


def _load(source: Path | Bytes) -> bytes:
    if isinstance(source, Bytes):
        return bytes(source)
    try:
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise LibtileError(f"cannot open input file '{os.fspath(source)}': {error.strerror}") from None


def read(source: Path | Bytes, preview: Collection[str] = ()) -> Module:
    """The module that a bytecode file holds; `source` is a path, or the file's bytes.

    Reads every version from 13.1 on, preview-tagged files included; `preview` names the preview features whose ops
    such a file may use (`simt`). Raises BytecodeError, with offset and section, for
    a bad file, and LibtileError for one that cannot be opened. The module is not verified: see `verify`.
    """
    from libtile import bytecode
    from libtile.dialects.cuda_tile.bridge import from_bytecode

    neutral = bytecode.read(_load(source), preview=preview)
    return Module(from_bytecode(neutral), neutral.version, list(neutral.warnings))


def parse(text: str, filename: str = "-") -> Module:
    """The module that a text holds, in the pretty, the generic or a mixed form.

    `filename` is what diagnostics and locations name. Raises DiagnosticError with the syntax errors. The module is not
    verified: see `verify`.
    """
    from libtile import asm

    with collector_paused():
        return Module(_unwrapped(asm.parse(text, filename)))


def _unwrapped(op: Operation) -> Operation:
    """A `builtin.module` around nothing but one `cuda_tile.module` stands for the latter."""
    if op.name == "builtin.module" and op.regions[0].blocks:
        inner = list(op.regions[0].block.ops)
        if len(inner) == 1 and inner[0].name == "cuda_tile.module":
            inner[0].detach()
            return inner[0]
    return op


def write(module: Module, version: str | Version | None = None) -> bytes:
    """The module as bytecode.

    `version` is one of "13.1" to "13.5"; None stands for the version that the module was read from, or else for the
    oldest one that can hold it. Raises MigrationError, naming op, feature and version needed, when the version asked
    for cannot hold it, and DiagnosticError for what no version holds.
    """
    from libtile.dialects.cuda_tile.bridge import write_bytecode

    return write_bytecode(module.tile_module, version if version is not None else module.version)


def print_module(module: Module, generic: bool = False, debuginfo: bool = False) -> str:
    """The module as text, ending with a newline.

    `generic` asks for MLIR's form without the dialect's syntax, `debuginfo` for locations after every op.
    """
    from libtile import asm

    text = asm.print_op(module.op, generic=generic, debuginfo=debuginfo)
    return text if text.endswith("\n") else text + "\n"


def migrate(data: Path | Bytes, to: str | Version, *, for_target: str | None = None, drop_hints: bool = False) -> bytes:
    """A bytecode file in another version.

    Upgrading always works. Downgrading drops what has its default, and raises MigrationError, naming op, feature and
    version needed, for anything else. Raises BytecodeError for a bad file.

    Optimization hints, which change no program, are what most files are refused for: 13.1 and 13.2 have none for
    `default`. `for_target` ("sm_90", ...) writes these for one target: a key that the file has for that target itself
    wins, and a value that the target does not take is left out. `drop_hints` leaves out the hints that the version
    cannot hold (those for `default` where no target is given, and newer keys), with a HintsDroppedWarning for each
    kind of them.
    """
    import warnings

    from libtile import bytecode

    dropped: list[str] = []
    result = bytecode.migrate(_load(data), to, for_target=for_target, drop_hints=drop_hints, warnings=dropped)
    for message in dropped:
        warnings.warn(message, HintsDroppedWarning, stacklevel=2)
    return result


def verify(module: Module) -> list[Diagnostic]:
    """Check the module against every rule of the dialect.

    Raises DiagnosticError carrying every diagnostic when one of them is an error; returns the others.
    """
    from libtile.diagnostics import DiagnosticError, has_errors
    from libtile.dialects.cuda_tile.verify import verify as verify_op

    diagnostics = verify_op(module.op)
    if has_errors(diagnostics):
        raise DiagnosticError(diagnostics)
    return diagnostics


def compile(module: Module | Path | Bytes, gpu_name: str = "sm_90", opt_level: int = 3, **options: Any) -> Compiled:
    """Compile a Module, a path, or the bytes of a file for a target such as "sm_90".

    `opt_level` is 0 to 3; for the other options and what is raised see `libtile.lowering.compile.compile_module`. The
    result has `cubin`, `ptx`, `llvm_ir`, `remarks`, and `kernels["name"]`: params, block_dim, cluster, smem, registers.
    """
    from libtile.lowering.compile import compile_module

    with collector_paused():
        return compile_module(module, gpu_name, opt_level, **options)
