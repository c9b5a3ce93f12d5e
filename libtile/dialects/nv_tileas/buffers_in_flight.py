# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A buffer that an asynchronous copy reads or writes stays as it is until the copy has been waited for."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.dialects import scf
from libtile.dialects.effect_traits import NOTHING, effects_of
from libtile.dialects.interfaces import first_name, other_names, renamed
from libtile.ir.tile_form import TileOp

WAIT, COMMIT = "nv_tileas.async.wait", "nv_tileas.async.commit_group"
WRITES = ("nv_tileas.copy", "nv_tileas.async.load", "nv_tileas.async.tiled_load", "nv_tileas.async.tiled_tma_load",
          "nv_tileas.async.gather_tma_load", "nv_tileas.insert_slice")  # fmt: skip


def check_delayed_wait(op: TileOp, buffer: SSAValue, token: SSAValue) -> None:
    """Between a store out of a buffer and the wait for it, nothing writes the buffer, nor does the next turn of a loop
    that the store is in before it waits for any; VerifyException."""
    names, ends = other_names(first_name(buffer, parts=False)), _waits(token)
    for at in [*_until(op, ends), *_next_turn(op, ends)]:
        if at.name in WRITES and _writes(at, names):
            raise VerifyException(f"expects a wait before '{at.name}' writes the buffer that is stored")


def check_awaited(op: TileOp, buffer: SSAValue, token: SSAValue) -> None:
    """Between a load into a buffer and a wait for it that there is, nothing uses the buffer; VerifyException."""
    names, ends = other_names(first_name(buffer, parts=False)), _waits(token)
    for at in _until(op, ends) if ends else ():
        if not _only_renames(at) and not names.isdisjoint(at.operands):
            raise VerifyException(f"expects a wait before '{at.name}' uses the buffer that is loaded")


def _until(op: Operation, ends: set[Operation]) -> Iterator[Operation]:
    """The ops behind an op, those within them included, up to one of the ends or the end of the block."""
    at = op.next_op
    while at is not None:
        for inner in at.walk():
            if inner in ends:
                return
            yield inner
        at = at.next_op


def _next_turn(op: Operation, ends: set[Operation]) -> Iterator[Operation]:
    """The ops that stand in front of an op in a loop's body, up to a wait, where none of the ends is in the body."""
    block = op.parent
    if block is None or not isinstance(block.parent_op(), scf.ForOp | scf.WhileOp):
        return
    if any(end.parent is block for end in ends):
        return
    for at in block.ops:
        for inner in at.walk():
            if inner is op or inner.name == WAIT:
                return
            yield inner


def _only_renames(op: Operation) -> bool:
    """Whether an op does nothing but give memory, or a part of it, another name."""
    return bool(op.results) and renamed(op.results[0]) is not None and effects_of(op) == NOTHING


def _waits(token: SSAValue, behind: Operation | None = None) -> set[Operation]:
    """The waits for a copy, or for the groups that it is in (closed by `behind`), which leave no such group."""
    found: set[Operation] = set()
    for use in token.uses:
        user = use.operation
        if user.name == WAIT and not _leaves(user, behind):
            found.add(user)
        elif user.name == COMMIT:
            found |= _waits(user.results[0], user)
    return found


def _leaves(wait: Operation, group: Operation | None) -> bool:
    """Whether a wait in the group's block lets it go on: fewer groups are closed between them than may be pending."""
    pending = wait.properties.get("pending")
    if group is None or group.parent is not wait.parent or not isinstance(pending, IntegerAttr):
        return False
    later, at = 0, group.next_op
    while at is not None and at is not wait:
        later += at.name == COMMIT
        at = at.next_op
    return at is wait and later < pending.value.data


def _writes(op: Operation, names: set[SSAValue]) -> bool:
    source_first = op.name == "nv_tileas.copy"
    return not names.isdisjoint(op.operands[1:] if source_first else op.operands)
