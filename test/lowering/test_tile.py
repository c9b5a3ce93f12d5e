# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices of a thread's registers, computed by generated code in the simulator, are those of the layout."""

import itertools

import numpy as np
import pytest

from libtile.backend import nvptx, ptx
from libtile.codegen.builder import KernelBuilder, integer
from libtile.codegen.llvm_types import GLOBAL_POINTER, I1, I32
from libtile.codegen.tile import index, owner_predicate
from libtile.layouts import builders
from libtile.layouts.linear import LinearLayout
from libtile.simulator import run_ptx
from libtile.targets import target

T = target("sm_80")

LAYOUTS = {
    "blocked": builders.blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0)),
    "column": builders.blocked((32, 32), (4, 1), (8, 4), (1, 4), (0, 1)),
    "mma": builders.mma_result((32, 32), (2, 2)),
    "small": builders.blocked((8,), (1,), (32,), (4,), (0,)),
    "xor": LinearLayout.of(
        {"register": [(1, 0)], "lane": [(0, 1), (0, 2), (2, 4), (4, 8), (8, 8 ^ 16)], "warp": [(1, 1), (0, 2)]},
        {"dim0": 16, "dim1": 32},
    ),
    "two lanes, one bit": LinearLayout.of(
        {"register": [(2, 0)], "lane": [(1, 1), (0, 2), (0, 1), (0, 0), (4, 0)], "warp": [(0, 0), (0, 0)]},
        {"dim0": 8, "dim1": 4},
    ),
}


def run(builder: KernelBuilder, *arrays):
    builder.return_()
    text = nvptx.to_ptx(builder.module_text(), T)
    finished = ptx.finish(text, T, {builder.name: ptx.EntryDirectives(builder.threads, language=None)})
    run_ptx(finished, builder.name, grid=(1, 1, 1), block=(builder.threads, 1, 1), args=list(arrays))


@pytest.mark.parametrize("name", LAYOUTS)
def test_indices_are_the_layouts(name):
    layout = LAYOUTS[name]
    registers, rank = layout.in_size("register"), len(layout.out_dims)
    b = KernelBuilder("k", T, 128)
    out = b.add_parameter(GLOBAL_POINTER)
    for register, dim in itertools.product(range(registers), range(rank)):
        slot = b.add(b.mul(b.thread_id(), integer(I32, registers * rank)), integer(I32, register * rank + dim))
        where = b.emit(out.type, f"getelementptr i32, {out.typed}, {slot.typed}")
        b.line(f"store {index(b, layout, register, dim).typed}, {where.typed}, align 4")
    result = np.full((128, registers, rank), -1, np.int32)
    run(b, result)
    for thread, register in itertools.product(range(128), range(registers)):
        expected = tuple(layout(register=register, lane=thread % 32, warp=thread // 32).values())
        assert tuple(result[thread, register]) == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_exactly_one_thread_owns_each_element(name):
    layout = LAYOUTS[name]
    b = KernelBuilder("k", T, 128)
    out = b.add_parameter(GLOBAL_POINTER)
    owner = owner_predicate(b, layout) or integer(I1, 1)
    where = b.emit(out.type, f"getelementptr i32, {out.typed}, {b.thread_id().typed}")
    b.line(f"store {b.cast('zext', owner, I32).typed}, {where.typed}, align 4")
    owns = np.full(128, -1, np.int32)
    run(b, owns)
    places = [
        tuple(layout(register=r, lane=t % 32, warp=t // 32).values())
        for t in range(128)
        if owns[t]
        for r in range(layout.in_size("register"))
    ]
    assert len(places) == len(set(places))
    assert len(places) == np.prod(layout.shape) or not layout.is_surjective
