# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values along the edges of control flow. Tokens flow along in the IR but are nothing at run time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from libtile.codegen import globals
from libtile.codegen.builder import Value
from libtile.codegen.control import Carried
from libtile.codegen.tile import Tile
from libtile.lowering.to_llvm.emitter import Emitter


def carried_values(e: Emitter, values: Sequence[SSAValue]) -> list[Carried]:
    """What the values are at run time; tokens are left out."""
    found = []
    for value in values:
        held = e.held[value]
        if held is not None:
            assert isinstance(held, Tile | Value)
            found.append(held)
    return found


def bind_carried(e: Emitter, values: Sequence[SSAValue], carried: Sequence[Carried]) -> None:
    """Bind values, of which tokens are nothing, to what an edge carries."""
    rest = iter(carried)
    for value in values:
        e.bind(value, None if e.is_token(value) else next(rest))


def emit_arm(e: Emitter, block: Block) -> list[Carried]:
    """Emit a block; returns what its terminator hands on.

    What the block allocated is given back at its end.
    """
    kept, e.allocations = e.allocations, []
    given = carried_values(e, e.emit_block(block))
    for allocation in reversed(e.allocations):
        globals.free(e.b, allocation)
    e.allocations = kept
    return given
