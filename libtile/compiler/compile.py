# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module in, all that a compilation makes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from libtile.asm.module import Module, load
from libtile.asm.module import verify as verify_module
from libtile.backend.here import here
from libtile.backend.work import Backend
from libtile.compiler.entry import program_of
from libtile.compiler.options import Compiled, Observer, Options
from libtile.compiler.stages import lower
from libtile.support.collector import collector_paused
from libtile.support.files import Bytes, Path

if TYPE_CHECKING:
    from libtile.passes.manager import Instrument


@collector_paused()
def compile_module(
    module: Module | Operation | Path | Bytes,
    options: Options,
    *,
    verify: bool = True,
    owned: bool = False,
    observer: Observer | None = None,
    verify_each: bool | None = None,
    instruments: Sequence[Instrument] = (),
    backend: Backend = here,
) -> Compiled:
    """Compile a Module, a path, or the bytes of a file (bytecode or text), of Tile IR or of one of the inner dialects.

    A Module stays as it is, unless it is `owned`.

    For `observer`, `verify_each`, `instruments` and `backend` see `libtile.compiler.stages.lower`. Raises
    DiagnosticError for a module that breaks a rule of the dialect, OptionsError, UnknownTargetError, LoweringError for
    what the target cannot do, and PtxasError when ptxas fails.
    """
    options.check()
    op = load(module)
    if verify:
        verify_module(op)
    return lower(
        program_of(op),
        options,
        owned=owned or not isinstance(module, Module | Operation),
        observer=observer,
        verify_each=verify_each,
        instruments=instruments,
        backend=backend,
    )
