# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-insert-fences`: what acquires or releases is a qualifier, or a fence, and the block meets; each once.

`nv_tileas.fence` alone is a fence and a meeting of all threads; beside an access, it is that one's qualifier.
"""

from __future__ import annotations

import re

import pytest

import libtile
from libtile.asm import parse

ALONE = """
module attributes {{nv_tileaa.target_spec = #nv_tileaa.target_spec<compute_capability=sm_90>}} {{
  nv_tileaa.func @k() attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, target=sm_90>}} {{
    nv_tileas.fence {{mem_semantic = #nv_tileaa.mem_semantic<{}>, mem_scope = #nv_tileaa.mem_scope<{}>}}
    nv_tileaa.return
  }}
}}
"""


def instructions(text: str) -> list[str]:
    """Fences and barriers of a module of nv_tileas, in their order."""
    llvm = libtile.compile(parse(text), gpu_name="sm_90", emit="llvm").llvm_ir
    body = llvm[llvm.index("define") :]
    found = re.findall(r"fence\.acq_rel\.\w+|barrier", body[: body.index("\n}")])
    return [word for word in found if word]


@pytest.mark.parametrize(
    ("semantic", "scope", "expected"),
    [
        ("release", "gpu", ["barrier", "fence.acq_rel.gpu"]),
        ("acquire", "sys", ["fence.acq_rel.sys", "barrier"]),
        ("acq_rel", "gpu", ["barrier", "fence.acq_rel.gpu", "barrier"]),
    ],
)
def test_a_fence_alone_is_a_fence_and_a_meeting(semantic: str, scope: str, expected: list[str]) -> None:
    assert instructions(ALONE.format(semantic, scope)) == expected


BESIDE = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>
    %x, %t = load_view_tko acquire device %w[%zero]
      : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<32xi32>, token
    %u = store_view_tko release sys %x, %w[%zero] token = %t
      : tile<32xi32>, partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""


def test_a_single_access_carries_the_order_of_the_fence_beside_it() -> None:
    text = libtile.compile(libtile.parse(BESIDE), gpu_name="sm_90", emit="ptx").ptx
    assert "ld.acquire.gpu" in text and "st.release.sys" in text
    assert "fence." not in text


SEVERAL = """cuda_tile.module @m {
  entry @pointers(%p: tile<ptr<i32>>) {
    %i = iota : tile<1024xi32>
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %q = offset %pb, %i : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %x, %t = load_ptr_tko acquire device %q : tile<1024xptr<i32>> -> tile<1024xi32>, token
    %u = store_ptr_tko release sys %q, %x token = %t : tile<1024xptr<i32>>, tile<1024xi32> -> token
    return
  }
  entry @views(%p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xi32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(1024), tensor_view<1024xi32, strides=[1]>>
    %x, %t = load_view_tko acquire device %w[%zero]
      : partition_view<tile=(1024), tensor_view<1024xi32, strides=[1]>>, tile<i32> -> tile<1024xi32>, token
    %u = store_view_tko release sys %x, %w[%zero] token = %t
      : tile<1024xi32>, partition_view<tile=(1024), tensor_view<1024xi32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @atomics(%p: tile<ptr<i32>>) {
    %i = iota : tile<1024xi32>
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %q = offset %pb, %i : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %x, %t = atomic_rmw_tko acq_rel sys %q, add, %i : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xi32>, token
    return
  }
}
"""

IN_ORDER = {
    "pointers": ["ld.relaxed.gpu", "fence.acq_rel.gpu", "barrier", "fence.acq_rel.sys", "st.relaxed.sys"],
    "views": ["ld.relaxed.gpu", "fence.acq_rel.gpu", "barrier", "fence.acq_rel.sys", "st.relaxed.sys"],
    "atomics": ["barrier", "fence.acq_rel.sys", "atom.relaxed.sys", "fence.acq_rel.sys", "barrier"],
}


def test_several_instructions_are_relaxed_and_share_a_fence() -> None:
    llvm = libtile.compile(libtile.parse(SEVERAL), gpu_name="sm_90", emit="llvm").llvm_ir
    for name, expected in IN_ORDER.items():
        start = llvm.index(f"@{name}(")
        body = llvm[start : llvm.index("\n}", start)]
        found = re.findall(r"(?:fence|ld|st|atom)\.(?:acq_rel|relaxed|acquire|release)\.\w+|barrier", body)
        assert found.count(expected[0]) >= 1
        # Instructions of one access stand next to each other.
        assert [word for before, word in zip([None, *found], found) if word != before or word == "barrier"] == expected


def test_a_module_that_has_its_fences_gets_no_more() -> None:
    once = libtile.compile(libtile.parse(SEVERAL), gpu_name="sm_90", emit="tileas").tileas
    twice = libtile.compile(parse(once), gpu_name="sm_90", emit="tileas").tileas
    assert once.count("instruction_semantic") == twice.count("instruction_semantic") > 6
    assert once.count("nv_tileas.fence ") == twice.count("nv_tileas.fence ")
    assert once.count("nv_tileas.barrier") == twice.count("nv_tileas.barrier")
