# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages that kernels print."""

from __future__ import annotations

from libtile.codegen import limits, messages
from libtile.dialects.nv_tileaa.tokens import AssertOp, PrintOp
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import LoweringError

# -- messages ----------------------------------------------------------------------------------------------------------


@rule(PrintOp)
def _print(e: Emitter, op: PrintOp) -> None:
    tiles = [e.tile(v) for v in op.values]
    try:
        messages.print_tile(e.b, op.format.data, tiles)
    except LoweringError as problem:  # code generation knows of no places
        raise unsupported(op, f"cannot be compiled: {problem}", e.b.target.name) from None


@rule(AssertOp)
def _assert(e: Emitter, op: AssertOp) -> None:
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(op.location)
    file, line = (place.filename, place.line) if place is not None else (limits.UNKNOWN_FILE, 0)
    messages.assert_(e.b, e.tile(op.condition), op.message.data, file=file, line=line)
