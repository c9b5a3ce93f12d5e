# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass `strip-mine`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.lowering.tile_registers import WARP, check_registers, thread_registers, words_of
from libtile.lowering.to_tileaa.functions import DEFAULT_WARPS, PRODUCTS, entry_hint, number_of_warps
from libtile.support.records import dataclass
from libtile.targets import Target, target
from libtile.transforms.greedy import functions_in

PIECE_REGISTERS = 32
"""Registers of a thread that a piece of the largest tile takes: for loads that overlap, with room for others."""


@dataclass(frozen=True)
class StripMinePass(ModulePass):
    """Works through tiles that registers cannot hold in pieces.

    `max_words` is the number of 32-bit words above which a tile is cut (0: as many as half of the registers that the
    threads of the kernel can have), `piece_words` what a piece of the largest one may take (0: 32 registers of each
    thread), `gpu_name` the target whose hints count. What cannot be cut stays as it is, or is an error with
    `refuse_uncut` where no thread could hold it.
    """

    name = "strip-mine"

    gpu_name: str = "sm_90"
    max_words: int = 0
    piece_words: int = 0
    refuse_uncut: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gpu = target(self.gpu_name)
        reasons = strip_mine(op, gpu, self.max_words, self.piece_words)
        if self.refuse_uncut:
            check_registers(op, gpu, reasons)


def strip_mine(root: Operation, gpu: Target, max_words: int = 0, piece_words: int = 0) -> dict[Operation, str]:
    """Cut the large tiles of every entry in `root`; returns the ops that keep one from being cut, and why.

    For `max_words` and `piece_words` see StripMinePass.
    """
    reasons: dict[Operation, str] = {}
    for entry in functions_in(root):
        limit = max_words or words_to_hold(entry, gpu)
        if _has_larger(entry, limit):
            piece = piece_words or PIECE_REGISTERS * WARP * _warps_for_pieces(entry, gpu)
            from libtile.lowering.strip_mine.miner import Miner  # for tiles that few kernels have
            from libtile.lowering.strip_mine.product_results import beside_results

            Miner(limit, piece, reasons, beside_results(entry)).region_op(entry)
    return reasons


def words_to_hold(entry: CudaTileOp, gpu: Target) -> int:
    """32-bit words of the largest tile that is not cut: half of the registers of the entry's threads."""
    warps = number_of_warps(entry, gpu)
    return thread_registers(warps) // 2 * warps * WARP


def _has_larger(entry: Operation, words: int) -> bool:
    return any(words_of(type_) > words for type_ in {v._type for op in ops_of(entry) for v in op.results})


def _warps_for_pieces(entry: CudaTileOp, gpu: Target) -> int:
    """The warps of the kernel when its tiles are small."""
    fixed = entry_hint(entry, "num_worker_warps_per_cta", gpu) is not None
    fixed |= bool(ops_of(entry, *PRODUCTS))
    return number_of_warps(entry, gpu) if fixed else DEFAULT_WARPS


__all__ = ["StripMinePass", "strip_mine"]
