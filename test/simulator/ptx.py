# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Short PTX kernels for unit tests: the module text around a body."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.simulator import RunResult, run_ptx

REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<32>;
    .reg .b32 %r<64>;
    .reg .f32 %f<64>;
    .reg .b64 %rd<32>;
    .reg .f64 %fd<16>;
"""

# Each thread's element of a 4-byte output array is at [%rd1] after this.
OUT = """
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd0, %rd1;
"""


def module(body: str, *, params: str = ".param .u64 out", prelude: str = "", directives: str = "") -> str:
    """A module with one entry `k`; its first body line is the line after the one with the registers' closing."""
    return (
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        f"{prelude}\n.visible .entry k({params}) {directives}\n{{{REGISTERS}{body}\n    ret;\n}}\n"
    )


def run(body: str, *args: Any, block: int | tuple[int, ...] = 32, prelude: str = "", **options: Any) -> RunResult:
    """Run a body over arguments; its parameters are named out, p1, p2, ... (arrays are pointers, ints .u32)."""
    kinds = [".u64" if isinstance(a, np.ndarray) or hasattr(a, "array") else ".u32" for a in args]
    names = ["out", *(f"p{i}" for i in range(1, len(args)))]
    params = ", ".join(f".param {kind} {name}" for kind, name in zip(kinds, names, strict=True))
    directives = options.pop("directives", "")
    text = module(body, params=params, prelude=prelude, directives=directives)
    return run_ptx(text, "k", block=block, args=list(args), **options)


def each_thread(
    body: str, result: str = "%r1", *, block: int = 32, dtype: Any = np.uint32, **options: Any
) -> np.ndarray:
    """Run a body and give the 32-bit register that each thread leaves in `result`."""
    out = np.zeros(block, dtype=dtype)
    run(f"{OUT}{body}\n    st.global.b32 [%rd1], {result};", out, block=block, **options)
    return out
