# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How fast the PTX simulator runs: warp instructions per second by kind of kernel, warps per CTA, CTAs and processes.

    python bench/simulator.py [--quick]

The kernels are PTX text in this file, so no compiler is needed. The first launch of each, which compiles units to
Python, is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.simulator import Module, parse_ptx, run_ptx

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
DECLARE = ".reg .pred %p<8>; .reg .b32 %r<128>; .reg .f32 %f<300>; .reg .b64 %rd<32>;"


def arithmetic(steps: int) -> str:
    """A loop of fused multiply-adds and integer operations; no memory but the last store."""
    return f"""{HEADER}.entry k(.param .u64 out) {{ {DECLARE}
    mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %f1, %r0; mov.f32 %f2, 0f3F000000; mov.u32 %r1, 0;
    L: fma.rn.f32 %f1, %f1, %f2, %f2; add.s32 %r2, %r1, %r0; xor.b32 %r3, %r2, %r1; fma.rn.f32 %f1, %f1, %f2, %f2;
    shl.b32 %r4, %r3, 2; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, {steps}; @%p1 bra L;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f1; ret; }}"""


def divergent(steps: int) -> str:
    """A loop whose trip count differs in every lane."""
    return f"""{HEADER}.entry k(.param .u64 out) {{ {DECLARE}
    mov.u32 %r0, %tid.x; and.b32 %r5, %r0, 31; mul.lo.u32 %r5, %r5, {max(1, steps // 32)}; mov.u32 %r1, 0;
    L: add.s32 %r2, %r1, %r0; xor.b32 %r3, %r2, %r1; and.b32 %r6, %r1, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra E;
    add.s32 %r3, %r3, 5; E: add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, %r5; @%p1 bra L;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r3; ret; }}"""


def shared_exchange(steps: int) -> str:
    """Write shared memory, barrier, read a neighbour's word, barrier."""
    return f"""{HEADER}.shared .align 4 .b8 s[4096]; .entry k(.param .u64 out) {{ {DECLARE}
    mov.u32 %r0, %tid.x; mov.u32 %r9, s; mad.lo.u32 %r8, %r0, 4, %r9; mov.u32 %r1, 0; mov.u32 %r2, %r0;
    xor.b32 %r7, %r0, 31; mad.lo.u32 %r7, %r7, 4, %r9;
    L: st.shared.u32 [%r8], %r2; bar.sync 0; ld.shared.u32 %r2, [%r7]; bar.sync 0;
    add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, {steps}; @%p1 bra L;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2; ret; }}"""


def tensor_core(steps: int) -> str:
    """The inner loop of a GEMM: a 64x64 tile per warp, 128 mma.m16n8k16 per step of k = 64."""
    acc = [f"%f{i}" for i in range(128)]
    lines = [f"mov.f32 {r}, 0f00000000;" for r in acc]
    body = []
    for i in range(4):
        for j in range(8):
            d = "{" + ",".join(acc[(i * 8 + j) * 4 : (i * 8 + j) * 4 + 4]) + "}"
            a = "{" + ",".join(f"%r{20 + 4 * i + x}" for x in range(4)) + "}"
            b = "{" + ",".join(f"%r{40 + 2 * j + x}" for x in range(2)) + "}"
            body.append(f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {d};")
    return f"""{HEADER}.entry k(.param .u64 out) {{ {DECLARE}
    mov.u32 %r0, %tid.x; mov.u32 %r1, 0; {" ".join(lines)}
    L: {" ".join(body)} add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, {steps}; @%p1 bra L;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f0; ret; }}"""


def measure(module: Module, *, repeat: int, **options: Any) -> tuple[float, float]:
    """(seconds of the best launch, warp instructions per second)."""
    options.setdefault("checks", "full")
    out = np.zeros(1024, dtype=np.uint32)
    best, count = float("inf"), 0
    for _ in range(repeat + 1):
        start = time.perf_counter()
        result = run_ptx(module, "k", args=[out], **options)
        elapsed = time.perf_counter() - start
        if _ > 0 or repeat == 0:
            best, count = min(best, elapsed), result.counters.warp_instructions
    return best, count / best


def row(name: str, figures: tuple[float, float]) -> None:
    print(f"{name:<44} {figures[0] * 1e3:10.1f} ms {figures[1]:14,.0f} warp instr/s")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter loops, one repetition")
    quick = parser.parse_args().quick
    repeat, steps = (1, 50) if quick else (3, 300)
    kernels: list[tuple[str, Callable[[int], str], int]] = [
        ("arithmetic", arithmetic, steps),
        ("divergent loop", divergent, steps),
        ("shared memory exchange", shared_exchange, steps),
        ("tensor core (k = 64, as 128x128x64 with 4 warps)", tensor_core, 4),
    ]
    for name, make, count in kernels:
        module = parse_ptx(make(count))
        print(f"\n{name}")
        for warps in (1, 4, 8, 32):
            row(f"  {warps} warps", measure(module, repeat=repeat, block=32 * warps))
        for ctas in (8, 64):
            row(f"  {ctas} CTAs of 4 warps", measure(module, repeat=repeat, block=128, grid=ctas))
        row("  4 warps, checks off", measure(module, repeat=repeat, block=128, checks="off"))
        row("  4 warps, random schedule", measure(module, repeat=1, block=128, order=1))
    print("\nprocesses (arithmetic, 256 CTAs of 8 warps)")
    module = parse_ptx(arithmetic(steps))
    for processes in (1, 2, 4):
        row(f"  {processes} processes", measure(module, repeat=1, block=256, grid=256, processes=processes))


if __name__ == "__main__":
    main()
