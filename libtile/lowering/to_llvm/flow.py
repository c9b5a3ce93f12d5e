# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values along the edges of control flow. Tokens flow along in the IR but are nothing at run time.

Tiles of narrow elements flow through the code of agents in words, as their products read them: registers of their own
would be put together again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, SSAValue

from libtile.codegen import globals
from libtile.codegen.builder import Value
from libtile.codegen.control import Carried
from libtile.codegen.tile import Tile
from libtile.codegen.words import BYTES, fills_words, of_words, words_of
from libtile.lowering.to_llvm.emitter import Emitter, Held
from libtile.lowering.to_llvm.storage import BulkToken, Place, Turn
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import replace


def _parts(e: Emitter, held: Held) -> list[Carried]:
    """What a value is at run time."""
    match held:
        case None | BulkToken():
            return []
        case Place():
            return [held.stage, held.phase]
        case Turn(stage=stage) if stage is not None:
            return [stage]
        case Tile() if _in_words(e, held):
            return [*words_of(e.b, held)]
    assert isinstance(held, Tile | Value)
    return [held]


def _in_words(e: Emitter, tile: Tile) -> bool:
    return e.b.agent is not None and fills_words(tile)


def _again(e: Emitter, like: Held, rest: Iterator[Carried]) -> Held:
    """A value of the kind of another one, of the next parts."""
    match like:
        case None | BulkToken():
            return like
        case Place():
            return Place(_value(next(rest)), _value(next(rest)))
        case Turn():
            return replace(like, stage=_value(next(rest)))
        case Tile() if _in_words(e, like):
            count = len(like.registers) * STORAGE_BYTES[like.element] // BYTES
            return of_words(e.b, like, [_value(next(rest)) for _ in range(count)])
    return next(rest)


def _value(part: Carried) -> Value:
    assert isinstance(part, Value)
    return part


def carried_values(e: Emitter, values: Sequence[SSAValue]) -> list[Carried]:
    """What the values are at run time; tokens are left out."""
    return [part for value in values for part in _parts(e, e.held[value])]


def bind_carried(e: Emitter, values: Sequence[SSAValue], carried: Sequence[Carried], like: Sequence[SSAValue]) -> None:
    """Bind values, of which tokens are nothing, to what an edge carries; `like` are bound to values of their kinds."""
    rest = iter(carried)
    for value, other in zip(values, like, strict=True):
        e.bind(value, _again(e, e.held[other], rest))


def emit_arm(e: Emitter, block: Block, *, own: bool = False) -> list[Carried]:
    """Emit a block, an agent's own if that is said (`Emitter.emit_block`); returns what its terminator hands on.

    What the block allocated is given back at its end.
    """
    kept, e.allocations = e.allocations, []
    given = carried_values(e, e.emit_block(block, own=own))
    for allocation in reversed(e.allocations):
        globals.free(e.b, allocation)
    e.allocations = kept
    return given
