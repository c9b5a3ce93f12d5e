# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`nv_tileas.fence` alone is a fence and a meeting of all threads; beside an access, it is that one's qualifier."""

from __future__ import annotations

import re

import pytest

import libtile
from libtile.asm import parse
from libtile.lowering.to_llvm.conversion import convert_module
from libtile.targets import target

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
    llvm = convert_module(parse(text), target("sm_90"), None).text()
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
