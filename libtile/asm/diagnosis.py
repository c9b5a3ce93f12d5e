# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong with an op, as the verifier says it, with the texts of ops that its diagnostics show."""

from __future__ import annotations

from libtile.asm.recursion import room_for_nesting
from libtile.dialects.cuda_tile.verify import verify
from libtile.support.diagnostics import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from libtile.ir.forms import Operation
    from libtile.spec import Version


def diagnose(
    op: Operation, *, warn_hints: bool = False, error_hints: bool = False, version: Version | None = None
) -> list[Diagnostic]:
    """Check an op and all below it; every diagnostic, in the order of the ops in the source.

    `warn_hints` reports optimization hints that no target knows (a warning), `error_hints` makes these errors too;
    `version` asks for the rules of an older version of the dialect.
    """
    with room_for_nesting():  # scopes that messages show may be deep
        return verify(op, generic_text, warn_hints=warn_hints, error_hints=error_hints, version=version)


def generic_text(op: Operation) -> str:
    """An op as diagnostics show it."""
    from libtile.asm.printer import print_op  # which a valid module does without

    return print_op(op, generic=True).strip()
