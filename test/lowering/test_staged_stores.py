# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles store each by TMA while the products of the next one are computed: here by
who computes them, where no other agent does it (`test_storing_agents`)."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_persistent import persistent
from test_specialized import operands
from test_tma_stores import stored

import libtile
from libtile.passes.pipelines import PIPELINES
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

BY_WHO_COMPUTES = PIPELINES["O3"].replace("tileas-hand-over-stores, ", "")


def compiled(text: str, gpu_name: str = "sm_90", emit: str = "ptx") -> libtile.Compiled:
    return libtile.compile(
        libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit=emit, pipeline=BY_WHO_COMPUTES
    )


def unordered(text: str) -> str:
    return persistent(text=text)


def in_order(text: str) -> str:
    """With a token that the loop over tiles carries: tiles are stored one behind the other."""
    made = persistent("%w : token", text=text)
    made = made.replace("    %nothing = constant <f32: 0.0> : tile<64x64xf32>\n", "    %nothing = make_token : token\n")
    made = made.replace(
        "iter_values(%sum = %nothing) -> (tile<64x64xf32>)", "iter_values(%before = %nothing) -> (token)"
    )
    return re.sub(
        r"(%w = store_view_tko weak %\w+, %vc\[%bx, %by\])( : [^\n]*tile<i32>)( -> token)",
        r"\1 token = %before\2, token\3",
        made,
    )


def run(text, m, n, k, blocks, order, result=np.float32):
    a, b, c, wanted = operands(m, n, k, result=result)
    libtile.run(libtile.parse(text), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k], backend="simulator",
                gpu_name="sm_90", check="full", block_order=order, pipeline=BY_WHO_COMPUTES)  # fmt: skip
    return c, wanted


IN_PARTS = {"m": 128, "n": 128, "k": 128}
"""A tile of f32 for which there is room beside three stages in parts only."""


@pytest.mark.parametrize(
    ("make", "options", "size", "staging"),
    [
        (unordered, {"m": 64}, (72, 80, 80), (1, "64x64xf32")),
        (in_order, {"m": 64, "result": "f16"}, (64, 144, 64), (1, "64x64xf16")),
        (in_order, {"m": 128, "result": "f16"}, (144, 144, 64), (1, "128x64xf16")),
        (in_order, IN_PARTS, (144, 128, 128), (2, "128x32xf32")),
    ],
    ids=["whole", "in-order", "warpgroups", "parts"],
)
def test_tiles_are_stored_while_the_next_one_is_computed(make, options, size, staging):
    text = make(stored(**options))
    made = compiled(text)
    assert "cp.async.bulk.tensor.2d.global" in made.ptx and "st.global" not in made.ptx
    assert made.ptx.count("cp.async.bulk.wait_group") > 1
    buffers = re.findall(r"alloc_tensor[^:]*: !nv_tileas.buffer<([^,]*),", compiled(text, emit="tileas").tileas)
    assert buffers == [staging[1]] * staging[0]
    result = np.float16 if options.get("result") == "f16" else np.float32
    c, wanted = run(text, *size, 1, 5, result)
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=1e-3 if result is np.float32 else 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"m": 64}, {"m": 128, "result": "f16"}, IN_PARTS], ids=["whole", "two", "parts"])
@pytest.mark.parametrize("order", range(20))
def test_tiles_are_stored_in_any_schedule(options, order):
    result = np.float16 if options.get("result") == "f16" else np.float32
    c, wanted = run(in_order(stored(**options)), 272, 144, 144, 2, order, result)
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=1e-3 if result is np.float32 else 0.1)


def test_what_comes_behind_a_store_waits_for_it():
    """Each tile is loaded again behind its store, and stored once more."""
    view, tile = "partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>", "tile<64x64xf32>"
    text = stored(m=64).replace(
        "    return\n",
        f"""    %e, %te = load_view_tko weak %vc[%bx, %by] token = %w : {view}, tile<i32>, token -> {tile}, token
    %s = addf %e, %r : {tile}
    %x = store_view_tko weak %s, %vc[%bx, %by] token = %te : {tile}, {view}, tile<i32>, token -> token
    return\n""",
        1,
    )
    c, wanted = run(unordered(text), 144, 80, 80, 1, 3)
    np.testing.assert_allclose(c, 2 * wanted, atol=1e-3)


PARTS = {"m": 128, "n": 128, "k": 64, "result": "f16"}
"""A tile that comes from tensor memory in parts, each of which is stored."""


@pytest.mark.parametrize(
    ("make", "waits"),
    [
        (in_order, [("", "0")]),  # once a tile, for all that was stored of the one before
        (unordered, [(".read", "3")] * 4),  # until the buffer has been read, behind which three groups began
    ],
)
def test_parts_of_a_tile_do_not_wait_for_each_other(make, waits):
    made = compiled(make(stored(**PARTS)), "sm_100")
    found = re.findall(r"cp\.async\.bulk\.wait_group(\S*)\s+(\d+);", made.ptx)
    assert found == [*waits, *[(".read", "0")] * 4]  # the last four are at the end
    assert "fence.proxy.async;" not in made.ptx


@pytest.mark.parametrize("make", [in_order, unordered])
@pytest.mark.parametrize("order", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_parts_of_a_tile_are_stored_in_any_schedule(make, order):
    a, b, c, wanted = operands(136, 272, 64, result=np.float16)
    libtile.run(libtile.parse(make(stored(**PARTS))), "gemm", grid=(1, 1, 1), args=[a, b, c, 136, 272, 64],
                backend="simulator", gpu_name="sm_100", check="full", block_order=order,
                pipeline=BY_WHO_COMPUTES)  # fmt: skip
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=0.1)


@pytest.mark.parametrize(
    ("make", "wait", "instead"),
    [(in_order, r"wait_group\s+0;", "wait_group 1;"), (unordered, r"wait_group\.read\s+3;", "wait_group.read 4;")],
)
def test_a_part_that_waits_for_too_few_groups_is_found(make, wait, instead):
    made = compiled(make(stored(**PARTS)), "sm_100")
    arrays = np.zeros((384, 1), np.float16), np.zeros((1, 128), np.float16), np.zeros((384, 128), np.float16)
    args = [*arrays, *(np.int32(n) for n in (384, 128, 0))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    broken, places = re.subn(wait, instead, made.ptx)
    assert places
    run_ptx(made.ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])
    with pytest.raises(SimulationFault):
        for seed in range(8):
            run_ptx(broken, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps], order=seed)


@pytest.mark.parametrize("what", ["wait", "barrier behind the wait", "fence", "barrier behind the fence", "last wait"])
def test_what_a_store_in_a_loop_leaves_out_is_found(what):
    made = compiled(unordered(stored(m=64)))
    head, tail = _parted(made.ptx)
    broken = head + _without(tail, what)
    # Tiles without steps follow each other at once.
    arrays = np.zeros((256, 1), np.float16), np.zeros((1, 64), np.float16), np.zeros((256, 64), np.float32)
    args = [*arrays, *(np.int32(n) for n in (256, 64, 0))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    run_ptx(made.ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])
    with pytest.raises(SimulationFault):
        for seed in range(4):
            run_ptx(broken, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps], order=seed)


def _parted(ptx: str) -> tuple[str, str]:
    """PTX in front of the wait of a store, and from there on."""
    at = ptx.index("cp.async.bulk.wait_group")
    return ptx[:at], ptx[at:]


def _without(text: str, what: str) -> str:
    """The store of a tile, and what follows, without one of its steps."""
    wait = r"cp\.async\.bulk\.wait_group\S*\s+0;"
    barrier, fence = r"bar\.sync[^;]*;", r"fence\.proxy\.async\.shared::cta;"
    pattern, number = {
        "wait": (wait, 0),
        "barrier behind the wait": (barrier, 0),
        "fence": (fence, 0),
        "barrier behind the fence": (barrier, 1),
        "last wait": (wait, 1),
    }[what]
    found = list(re.finditer(pattern, text))[number]
    return text[: found.start()] + text[found.end() :]
