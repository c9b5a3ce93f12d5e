# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many registers of a thread a tile takes, and the check that refuses tiles which no thread could hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.codegen.limits import MAX_TILE_REGISTERS
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.cuda_tile.types import PointerType, TileType, bit_width, type_text
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.layout import linear_layout
from libtile.ir.places import ops_of
from libtile.layouts import REGISTER
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileaa.functions import number_of_warps
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target

WARP, WORD = 32, 32
REGISTER_FILE = 64 << 10
"""Registers that the threads of a block share, and the most that one of them can have."""
THREAD_REGISTERS = 256


def words_of(type_: Attribute) -> int:
    """32-bit words of a tile (0 for anything else); elements of less than 16 bits take as much as those of 16.

    Pointers count as the 32-bit offsets from a common base that they mostly are.
    """
    if not isinstance(type_, TileType):
        return 0
    return prod(type_.shape) * _bits(type_.element_type) // WORD


def tensor_words(type_: Attribute) -> int:
    """32-bit words of a tile of nv_tileaa, as `words_of` counts them; 0 for anything else."""
    return prod(type_.get_shape()) * _bits(type_.element_type) // WORD if isinstance(type_, TensorType) else 0


def _bits(element: Attribute) -> int:
    return WORD if isinstance(element, PointerType | PtrType | IndexType) else max(bit_width(element), 16)


def registers_of(type_: Attribute, warps: int) -> int:
    """Registers that a tile takes of each thread of `warps` warps."""
    return -(-words_of(type_) // (warps * WARP))


def thread_registers(warps: int) -> int:
    """Registers that each thread of `warps` warps can have."""
    return min(THREAD_REGISTERS, REGISTER_FILE // (warps * WARP))


def check_registers(
    module: Operation, gpu: Target, reasons: Mapping[Operation, str], limit: int = MAX_TILE_REGISTERS
) -> None:
    """LoweringError for the first op with a tile that takes more than `limit` registers of a thread.

    `reasons` says of ops why their tiles could not be worked through in pieces.
    """
    for entry in ops_of(module, OPS["entry"]):
        warps = number_of_warps(entry, gpu)
        known = {op: reason for op, reason in reasons.items() if entry.is_ancestor(op)}
        taken: dict[Attribute, int] = {}
        for op in ops_of(entry):
            values: Sequence[SSAValue] = op.results
            if op.regions:
                values = [*values, *(arg for region in op.regions for b in region.blocks for arg in b.args)]
            for value in values:
                needed = taken.get(value._type, -1)
                if needed < 0:
                    needed = taken[value._type] = registers_of(value.type, warps)
                if needed > limit:
                    raise _too_large(op, value.type, needed, limit, gpu, known)


def check_inner_registers(function: Operation, warps: int, gpu: Target, limit: int = MAX_TILE_REGISTERS) -> None:
    """LoweringError for the first op of a function of nv_tileaa or nv_tileas with a tile that takes more than `limit`
    registers of each thread of `warps` warps.

    Each warp may hold the whole of a tile, as operands of products are held, but no thread more than its part of that.
    """
    for op in ops_of(function):
        for value in (*op.results, *(arg for region in op.regions for b in region.blocks for arg in b.args)):
            type_ = value.type
            if not isinstance(type_, TensorType):
                continue
            bits = _bits(type_.element_type)
            shared = -(-prod(type_.get_shape()) * bits // (WORD * warps * WARP))
            layout = linear_layout(type_)
            held = (
                shared if layout is None or REGISTER not in layout.in_dims else layout.in_size(REGISTER) * bits // WORD
            )
            if shared > limit or held > limit * warps:
                most = limit if shared > limit else limit * warps
                needed = max(shared, held)
                raise unsupported(
                    op, f"has a tile that would take {needed} registers a thread, where {most} is the limit", gpu.name
                )


def _too_large(
    op: Operation, type_: Attribute, needed: int, limit: int, gpu: Target, reasons: Mapping[Operation, str]
) -> LoweringError:
    place = source_location(op.location)
    where = f"{place}: " if place is not None else ""
    why = f"; it is not worked through in pieces, as {_reason(op, reasons)}" if reasons else ""
    message = (
        f"'{op.name}' op has a {type_text(type_)} that would take {needed} registers a thread on {gpu.name}, "
        f"where {limit} is the limit{why}"
    )
    return LoweringError(f"{where}{message}", place, message)


def _reason(op: Operation, reasons: Mapping[Operation, str]) -> str:
    """Why a tile was not cut: what is known of its op, else of the first one nearby."""
    culprit = op if op in reasons else next(iter(reasons))
    place = source_location(culprit.location)
    at = "" if culprit is op else f" ('{culprit.name}' op" + (f" at {place})" if place is not None else ")")
    return f"{reasons[culprit]}{at}"
