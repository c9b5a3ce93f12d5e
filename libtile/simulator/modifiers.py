# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modifiers that instructions of open-ended families have here. Others, which later versions of the PTX ISA add, may
change what an instruction does, so that one that is not listed is refused by name and not passed over."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SCOPES = "cta cluster gpu sys"
_SHARED = "shared shared::cta shared::cluster"
_HINTS = "L2::evict_first L2::evict_last L2::evict_normal L2::cache_hint L2::64B L2::128B L2::256B"

_FAMILIES = {
    "cp": f"""
        async ca cg bulk tensor reduce prefetch {_SHARED} global {_HINTS} L2 commit_group wait_group wait_all read
        mbarrier arrive noinc b64 mbarrier::complete_tx::bytes bulk_group multicast::cluster cta_group::1 cta_group::2
        cp_mask 1d 2d 3d 4d 5d tile tile::gather4 tile::scatter4 im2col im2col_no_offs im2col::w im2col::w::128
        im2col_no_offs::w add min max inc dec and or xor noftz f16 bf16 f32 f64 b32 s32 s64 u32 u64""",
    "mbarrier": f"""
        init inval arrive arrive_drop expect_tx complete_tx noComplete test_wait try_wait pending_count parity
        release acquire relaxed cta cluster {_SHARED} b64""",
    "fence": f"""
        sc acq_rel acquire release {_SCOPES} proxy alias async async.global async.shared::cta async::generic global
        {_SHARED} tensormap::generic generic mbarrier_init sync_restrict::shared::cta sync_restrict::shared::cluster""",
    "fma": "rn rz rm rp ftz sat relu f16 f16x2 bf16 bf16x2 f32 f32x2 f64",
    "clusterlaunchcontrol": """
        try_cancel query_cancel async mbarrier::complete_tx::bytes multicast::cluster::all b128 pred b32 v4 is_canceled
        get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z shared::cta""",
    "tcgen05": r"""
        alloc dealloc relinquish_alloc_permit cta_group::1 cta_group::2 sync aligned shared::cta shared::cluster b32 b64
        ld st red min max abs NaN u32 s32 f32 wait::ld wait::st fence::before_thread_sync fence::after_thread_sync
        32x32b 16x64b 16x128b 16x256b 16x32bx2 x\d+ pack::16b unpack::16b mma sp ws ashift kind::\w+ block_scale
        scale_vec::[124]X block16 block32 collector::\w+::\w+ commit
        mbarrier::arrive::one multicast::cluster cp 128x256b 4x256b 128x128b 64x128b 32x128b warpx4 warpx2::02_13
        warpx2::01_23 b8x16 b6x16_p32 b4x16_p64 shift down up""",
}  # fmt: skip
_KNOWN = {name: re.compile("|".join(words.split())) for name, words in _FAMILIES.items()}


def unknown_modifier(opcode: str, modifiers: Sequence[str]) -> str | None:
    """The first modifier of an instruction that it does not have here; None where all are known. What an instruction
    of tcgen05 is called is not looked at."""
    known = _KNOWN.get(opcode)
    rest = modifiers[1:] if opcode == "tcgen05" else modifiers
    return None if known is None else next((m for m in rest if not known.fullmatch(m)), None)
