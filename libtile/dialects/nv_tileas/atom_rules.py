# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an atom, a shuffle and a delayed wait have to fit: layouts, warps, and the uses of a buffer."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.element_types import bit_width
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.tile_form import TileOp, element_of, layout_of, type_text
from libtile.layouts import REGISTER, WARP

BY_THREADS = ("ldg", "stg", "ldgsts", "lds", "sts")
"""Atoms whose bits are what one thread moves."""


def check_atom_width(atom: CopyAtomAttr | None, type_: Attribute) -> None:
    """A thread moves no more by one instruction than the layout gives it of the tile; VerifyException."""
    layout = layout_of(type_)
    if atom is None or atom.kind not in BY_THREADS or not atom.bits or not isinstance(layout, LayoutAttr):
        return
    held = (layout.layout.in_size(REGISTER) if REGISTER in dict(layout.layout.bases) else 1) * bit_width(
        element_of(type_)
    )
    if atom.bits > held:
        raise VerifyException(
            f"expects an atom of at most {held} bits, which a thread has of {type_text(type_)}, but got {atom.bits}"
        )


def check_same_warps(source: Attribute, result: Attribute) -> None:
    """Every element stays in its warp; VerifyException."""
    layouts = [layout_of(source), layout_of(result)]
    warps = [dict(lay.layout.bases).get(WARP, ()) for lay in layouts if isinstance(lay, LayoutAttr)]
    if len(warps) == 2 and warps[0] != warps[1]:
        raise VerifyException("expects layouts whose elements stay in their warps")


WRITES = ("nv_tileas.copy", "nv_tileas.async.load", "nv_tileas.async.tiled_load", "nv_tileas.async.tiled_tma_load",
          "nv_tileas.async.gather_tma_load", "nv_tileas.insert_slice")  # fmt: skip


def check_delayed_wait(op: TileOp, buffer: SSAValue, token: SSAValue) -> None:
    """Between a store out of a buffer and the wait for it, nothing writes the buffer; VerifyException."""
    ends = _waits(token)
    at = op.next_op
    while at is not None and at not in ends:
        if at.name in WRITES and _writes(at, buffer):
            raise VerifyException(f"expects a wait before '{at.name}' writes the buffer that is stored")
        at = at.next_op


def _waits(token: SSAValue) -> set[Operation]:
    """The waits for a copy, or for the groups that it is in."""
    found: set[Operation] = set()
    for use in token.uses:
        if use.operation.name == "nv_tileas.async.wait":
            found.add(use.operation)
        elif use.operation.name == "nv_tileas.async.commit_group":
            found |= _waits(use.operation.results[0])
    return found


def _writes(op: Operation, buffer: SSAValue) -> bool:
    source_first = op.name == "nv_tileas.copy"
    return any(v is buffer for v in (op.operands[1:] if source_first else op.operands))
