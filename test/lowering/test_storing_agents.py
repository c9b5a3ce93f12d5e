# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An agent of its own stores the tiles of a loop: who computes them meets nobody, and what may go wrong is found."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from test_specialized import operands
from test_staged_stores import IN_PARTS, PARTS, in_order, unordered
from test_tma_stores import stored

import libtile
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tma import TiledTmaStoreOp
from libtile.ir.places import ops_of
from libtile.lowering.agents import agent_of
from libtile.passes.pipelines import PIPELINES
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

TWO_GROUPS = {"m": 128, "n": 256, "k": 64, "result": "f16"}
"""A tile of two warpgroups, each of which has half of each part."""


def agents(text: str, gpu_name: str = "sm_90", **options: object) -> tuple[AgentSwitchOp, dict[int, int]]:
    """Where agents part, and how many stores by TMA each of them does, by its number."""
    made = libtile.compile(libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit="tileas", **options)
    (switch,) = (op for op in libtile.parse(made.tileas).op.walk() if isinstance(op, AgentSwitchOp))
    stores = [agent_of(op)[1] for op in ops_of(switch, TiledTmaStoreOp)]
    return switch, {number: stores.count(number) for number in stores}


@pytest.mark.parametrize(
    ("make", "options", "gpu_name", "warps", "stores"),
    [
        (unordered, {"m": 64}, "sm_90", [4, 3, 1], 1),
        (in_order, TWO_GROUPS, "sm_90", [8, 3, 1], 4),
        (in_order, IN_PARTS, "sm_90", [4, 3, 1], 4),
        (in_order, PARTS, "sm_100", [4, 1, 1, 1], 4),
        (unordered, {"m": 64}, "sm_120", [4, 1, 1], 1),
    ],
)
def test_an_agent_of_its_own_stores(make, options, gpu_name, warps, stores):
    """It takes a warp that had nothing to do, and all others neither store, nor wait for stores, nor meet for them."""
    text = make(stored(**options))
    switch, found = agents(text, gpu_name)
    assert switch.elected[-1] and switch.warps == warps and found == {len(warps) - 1: stores}
    made = libtile.compile(libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit="ptx")
    assert {*re.findall(r"bar\.sync\s+(\d+)", made.ptx)} == {"0"}  # where agents part, and come together


def run(text, m, n, k, blocks, order, gpu_name="sm_90", result=np.float32):
    a, b, c, wanted = operands(m, n, k, result=result)
    libtile.run(libtile.parse(text), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k], backend="simulator",
                gpu_name=gpu_name, check="full", block_order=order)  # fmt: skip
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=1e-3 if result is np.float32 else 0.1)


@pytest.mark.parametrize("make", [in_order, pytest.param(unordered, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("options", "gpu_name"),
    [({"m": 64}, "sm_90"), (TWO_GROUPS, "sm_90"), (IN_PARTS, "sm_90"), (PARTS, "sm_100"), ({"m": 64}, "sm_120")],
    ids=["whole", "two-groups", "parts", "tensor-memory", "registers"],
)
@pytest.mark.parametrize("order", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_several_tiles_of_a_block_are_stored_in_any_schedule(make, options, gpu_name, order):
    """Tiles at the edges among them."""
    result = np.float16 if options.get("result") == "f16" else np.float32
    run(make(stored(**options)), 136, 144 if options is not TWO_GROUPS else 272, 80, 1, order, gpu_name, result)


def in_one_place(text: str) -> str:
    """Each tile is stored where the one before was."""
    return re.sub(r"(store_view_tko weak %\w+, %vc)\[%bx, %by\]", r"\1[%zero, %zero]", in_order(text))


def _without(ptx: str, what: str) -> str:
    """A kernel without one of the steps by which agents hand tiles over."""
    wait = r"mbarrier\.try_wait\.parity\.shared\.b64\s+(%p\d+),[^;]*;"
    fence = r"fence\.proxy\.async\.shared::cta;"
    tail = re.search(r"mbarrier\.arrive\.shared\.b64[^;]*;(?!.*mbarrier\.arrive)", ptx, re.S)
    store = ptx.index("cp.async.bulk.tensor.2d.global")
    written = list(re.finditer(fence, ptx))[1]
    assert tail is not None and tail.start() > store
    there = {
        "wait for a buffer": list(re.finditer(wait, ptx[: written.start()]))[-1],
        "fence": written,
        "wait for a tile": list(re.finditer(wait, ptx[:store]))[-1],
        "wait for the copy": re.search(r"cp\.async\.bulk\.wait_group\.read\s+0;", ptx),
        "giving back": tail,
    }[what]
    assert there is not None
    instead = f"setp.eq.s32 {there[1]}, 0, 0;" if there.re.groups else ""
    return ptx[: there.start()] + instead + ptx[there.end() :]


@cache
def _compiled(text: str) -> libtile.Compiled:
    return libtile.compile(libtile.parse(text), gpu_name="sm_90", launch_abi="simt", emit="ptx")


def _run(made: libtile.Compiled, ptx: str, seed: int) -> np.ndarray:
    """What a kernel of tiles without steps, which follow each other at once, leaves of numbers that were there."""
    arrays = np.ones((256, 1), np.float16), np.ones((1, 64), np.float16), np.full((256, 64), 7, np.float32)
    args = [*arrays, *(np.int32(n) for n in (256, 64, 0))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    run_ptx(ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps], order=seed)
    return arrays[2]


@pytest.mark.parametrize("make", [unordered, in_one_place])
@pytest.mark.parametrize("what", ["wait for a buffer", "fence", "wait for a tile", "wait for the copy", "giving back"])
def test_a_step_that_is_left_out_is_found(make, what):
    made = _compiled(make(stored(m=64)))
    assert not _run(made, made.ptx, 0)[:64].any()
    broken = _without(made.ptx, what)
    with pytest.raises(SimulationFault):
        for seed in range(8):
            _run(made, broken, seed)


def test_a_tile_behind_another_one_waits_until_that_has_been_written():
    found = {order: _order_of_waits(make(stored(m=64))) for order, make in (("in", in_order), ("no", unordered))}
    assert found == {"in": ["", ".read"], "no": [".read"]}


def _order_of_waits(text: str) -> list[str]:
    return re.findall(r"cp\.async\.bulk\.wait_group(\S*)\s+0;", _compiled(text).ptx)


def test_who_computes_stores_where_something_comes_behind():
    """Each tile is loaded again behind its store."""
    view, tile = "partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>", "tile<64x64xf32>"
    text = stored(m=64).replace(
        "    return\n",
        f"""    %e, %te = load_view_tko weak %vc[%bx, %by] token = %w : {view}, tile<i32>, token -> {tile}, token
    %s = addf %e, %r : {tile}
    %x = store_view_tko weak %s, %vc[%bx, %by] token = %te : {tile}, {view}, tile<i32>, token -> token
    return\n""",
        1,
    )
    switch, found = agents(unordered(text))
    assert switch.warps == [4, 4] and set(found) <= {0}


def test_who_computes_stores_where_memory_says_in_which_place():
    """What was loaded may have been written again when the other agent comes to its turn."""
    text = unordered(stored(m=64))
    text = text.replace("%c0: tile<ptr<f32>>,", "%c0: tile<ptr<f32>>, %rows: tile<ptr<i32>>,", 1)
    said = "%bx, %seen = load_ptr_tko weak %rows : tile<ptr<i32>> -> tile<i32>, token"
    text = text.replace("%bx = divi %tile, %tiles#1 signed : tile<i32>", said)
    switch, found = agents(text)
    assert said in text and switch.warps == [4, 4] and set(found) == {0}


def test_who_computes_stores_where_no_warp_is_left():
    """More warps than there are would leave fewer registers to each of several blocks."""
    text = unordered(stored(m=64))
    hinted = re.sub(r"(entry @gemm\([^)]*\)) \{", r"\1 optimization_hints=<sm_100 = {occupancy = 2}> {", text)
    assert hinted != text
    switch, found = agents(hinted, "sm_100")
    assert set(found) == {0} and len(switch.warps) == 3
    assert set(agents(text, "sm_100")[1]) == {3}


def test_without_the_pass_who_computes_stores():
    passes = PIPELINES["O3"].replace("tileas-hand-over-stores, ", "")
    assert passes != PIPELINES["O3"]
    assert set(agents(unordered(stored(m=64)), pipeline=passes)[1]) == {0}
