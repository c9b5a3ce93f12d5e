# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated PTX: it is parsed, and each entry runs for a while, or there is one error of the simulator."""

from __future__ import annotations

import random
from functools import cache, cached_property
from typing import Any

import numpy as np

import libtile
from fuzz.framework import Fuzzer
from fuzz.mutate import NUMBERS, damaged_text
from generators.programs import program
from libtile.simulator import Module, SimulatorError, parse_ptx, run_ptx
from simulator.ptx import OUT, module

BODIES = (
    "mov.u32 %r1, %laneid; shl.b32 %r1, %r1, 2; add.u32 %r2, %r1, %r0; mul.lo.u32 %r3, %r2, %r1;"
    " setp.lt.u32 %p1, %r0, 7; @%p1 add.u32 %r3, %r3, 1; st.global.u32 [%rd1], %r3;",
    "cvt.rn.f32.u32 %f1, %r0; fma.rn.f32 %f2, %f1, 0f40490FDB, %f1; ex2.approx.f32 %f3, %f2; rcp.rn.f32 %f4, %f1;"
    " cvt.rn.f16.f32 %h1, %f3; cvt.f32.f16 %f5, %h1; cvt.rzi.s32.f32 %r1, %f5; st.global.f32 [%rd1], %f4;",
    "mov.u32 %r1, 0;\nLOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r0; @%p1 bra LOOP; st.global.u32 [%rd1], %r1;",
    ".shared .align 8 .b8 buffer[256]; mov.u32 %r1, buffer; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;"
    " st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd1], %r4;",
    "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; vote.sync.ballot.b32 %r2, %p1, -1; activemask.b32 %r3; popc.b32 %r4, %r2;"
    " prmt.b32 %r5, %r1, %r2, 0x3210; lop3.b32 %r6, %r1, %r2, %r3, 0x96; st.global.u32 [%rd1], %r6;",
    "atom.global.add.u32 %r1, [%rd0], 1; red.global.max.s32 [%rd0+4], %r0; ld.global.v2.u32 {%r2, %r3}, [%rd0];"
    " div.s32 %r4, %r2, 3; rem.u32 %r5, %r3, 5; bfe.u32 %r6, %r4, 3, 5; st.global.u32 [%rd1], %r6;",
    ".local .align 4 .b8 stack[64]; mov.u64 %rd3, stack; cvta.local.u64 %rd4, %rd3; st.u32 [%rd4+4], %r0;"
    " ld.local.u32 %r1, [%rd3+4]; selp.u32 %r2, %r1, 3, %p1; st.global.u32 [%rd1], %r2;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6},"
    " {%f1,%f2,%f3,%f4}; st.global.f32 [%rd1], %f1;",
    ".shared .align 8 .b64 bar; mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 32; bar.sync 0;"
    " mbarrier.arrive.shared.b64 %rd3, [%r1]; mbarrier.test_wait.shared.b64 %p1, [%r1], %rd3; fence.proxy.async;",
    ".shared .align 16 .b8 to[512]; mov.u32 %r1, to; cp.async.cg.shared.global [%r1], [%rd0], 16;"
    " cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;"
    " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2,%r3,%r4,%r5}, [%r1];",
    "@%p1 exit; trap; brkpt; nanosleep.u32 20; membar.gl; ld.volatile.global.u8 %r1, [%rd0+3]; ret;",
)
"""Bodies over the registers and the parameter of `simulator.ptx.module`."""

PIECES = (
    *"{}()[];:,.@%<>|-!+", *NUMBERS, "%p1", "%r1", "%rd1", "%f1", "%h1", "%tid.x", ".u32", ".f32", ".b64", ".v4",
    ".pred", ".shared", ".global", ".local", ".param", ".reg", ".entry", ".func", "bra", "call", "ret;", "bar.sync 0;",
    "LOOP", "st.global.u32", "ld.shared.b8", ".align 3", ".b8 a[99999999999]", "0f7FC00000", "0d7FF0000000000000",
    "0xFFFFFFFF",
    ".loc 1 2 3", ".maxntid 0", ".reqntid 1025", ".version 99.9", ".target sm_999", "//", "/*", "\x00", "é", "_", "-1",
)  # fmt: skip

SIZE = 4096
"""Bytes behind each pointer."""


@cache
def seeds() -> list[str]:
    """Short kernels by hand, and what the compiler makes of some random programs."""
    texts = [module(OUT + body) for body in BODIES]
    for seed in range(6):
        given = libtile.parse(program(seed, "straight").text)
        texts.append(libtile.compile(given, ("sm_80", "sm_90")[seed % 2], 1 + seed % 3, emit="ptx").ptx)
    return texts


class PtxFuzzer(Fuzzer):
    """An input is a text."""

    name = "ptx"
    seconds = 20.0

    @cached_property
    def seeds(self) -> list[str]:
        return seeds()

    def make(self, rng: random.Random) -> str:
        return damaged_text(rng, rng.choice(self.seeds), rng.choice(self.seeds), PIECES)

    def show(self, given: str) -> bytes:
        return given.encode("utf-8", "surrogateescape")

    def check(self, text: str) -> str:
        try:
            parsed = parse_ptx(text, "f.ptx")
            for name, function in list(parsed.functions.items()):
                if function.entry:
                    launch(parsed, name)
        except SimulatorError as error:
            assert str(error).isprintable(), f"not a line: {error!r}"
            return type(error).__name__
        return "ran"


def launch(parsed: Module, name: str) -> None:
    """Run an entry with the block that it asks for and some argument of each parameter's type, for a while."""
    function = parsed.functions[name]
    args: list[Any] = []
    for parameter in function.params:
        if parameter.array:
            args.append(bytes(parameter.size))
        elif parameter.size == 8:
            args.append(np.zeros(SIZE // 4, np.uint32))
        else:
            args.append(3)
    block = function.directives.get("reqntid") or (32,)
    run_ptx(parsed, name, block=(*block, 1, 1)[:3], args=args, max_instructions=2000)
