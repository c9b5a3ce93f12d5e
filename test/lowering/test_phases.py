# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in several loops, and in none, whose sums lie in tensor memory: one loop after the other."""

import numpy as np
import pytest
from phase_kernels import bytecode, run
from specialized_kernels import loops_of
from xdsl.dialects.builtin import IntegerAttr, i32

import libtile
from libtile.backend.ptxas import assemble
from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
from libtile.support.remarks import Category

SM_90, SM_100, SM_120 = "sm_90", "sm_100", "sm_120"
CASES = [
    ("layers", (128, 64, 64), (136, 64, 64), 1, 0),  # no loop, and a left operand that is computed
    ("adapter", (128, 64, 64), (136, 80, 208), 2, 0),  # two loops with tiles of other shapes, and a product behind them
    ("low_rank", (128, 128, 64), (128, 256, 256), None, 0),  # two sums of one loop, of which one is an operand
    ("sums", (64, 64, 64), (72, 80, 144, 80), 3, 0),  # a ring for both loops, whose sums are added
    ("scores", (128, 64, 64), (264, 64, 64), 1, 2),  # attention to one block of keys, tile by tile
]


@pytest.mark.parametrize(("name", "tile", "size", "order", "blocks"), CASES, ids=[case[0] for case in CASES])
def test_loops_one_after_the_other_give_what_numpy_gives(name, tile, size, order, blocks):
    code = libtile.compile(bytecode(name, tile, SM_100), gpu_name=SM_100, emit="tileas").tileas
    assert "not_specialized" not in code and "nv_tileas.dot " not in code
    assert code.count("async.dot_into") == (3 if name in ("adapter", "low_rank") else 2)
    run(name, tile, size, SM_100, order=order, blocks=blocks)


@pytest.mark.parametrize(
    ("name", "tile", "size", "order", "blocks"),
    [pytest.param(*case, id=case[0], marks=() if case[0] == "sums" else pytest.mark.slow) for case in CASES],
)
def test_loops_one_after_the_other_are_fed_where_products_read_registers(name, tile, size, order, blocks):
    """On sm_120, by TMA and rings that the loops share."""
    code = libtile.compile(bytecode(name, tile, SM_120), gpu_name=SM_120, emit="tileas").tileas
    assert "not_specialized" not in code and "tiled_tma_load" in code and "cp_async" not in code
    run(name, tile, size, SM_120, order=order, blocks=blocks)


IN_LOOPS = [
    ("adapter", (128, 64, 64), (136, 80, 208), 2, 0),
    ("sums", (128, 128, 64), (136, 200, 144, 208), 3, 0),
    ("sums", (64, 64, 64), (72, 80, 144, 80), 3, 0),  # no rows for a second warpgroup
    ("gates", (64, 64, 64), (72, 80, 144, 208), 1, 0),  # two sums of each loop, of four warps for eight
]


@pytest.mark.parametrize(("name", "tile", "size", "order", "blocks"), IN_LOOPS)
def test_loops_one_after_the_other_are_multiplied_by_warpgroups(name, tile, size, order, blocks):
    """On sm_90, whose warps wait for the tiles of one loop after the other; the product behind them has a loop, too."""
    code = libtile.compile(bytecode(name, tile, SM_90), gpu_name=SM_90, emit="tileas").tileas
    products = {"gates": 4, "adapter": 3, "sums": 2}[name]
    # The first step of a loop is taken apart from the others.
    assert code.count("async.dot ") == 2 * products and "nv_tileas.dot " not in code
    assert "tiled_tma_load" in code and "agent_elected = [0, 1]" in code
    run(name, tile, size, SM_90, order=order, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "size", "order", "blocks"), IN_LOOPS)
def test_loops_of_warpgroups_in_every_schedule(name, tile, size, order, blocks, seed):
    run(name, tile, size, SM_90, order=seed, blocks=blocks)


def test_loops_of_warpgroups_share_a_ring_or_have_their_own():
    texts = {
        name: libtile.compile(bytecode(name, (128, 64, 64), SM_90), gpu_name=SM_90, emit="tileas").tileas
        for name in ("sums", "adapter")
    }
    assert {name: text.count("create_pipeline") for name, text in texts.items()} == {"sums": 1, "adapter": 3}


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", [SM_100, SM_120])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "size", "order", "blocks"), CASES, ids=[case[0] for case in CASES])
def test_loops_in_every_schedule(name, tile, size, order, blocks, seed, gpu_name):
    run(name, tile, size, gpu_name, order=seed, blocks=blocks)


NESTS = [
    ("perceptron", (64, 64, 64), (72, 64, 80, 80), 1, 0),
    ("gated_perceptron", (64, 64, 64), (136, 64, 80, 80), 2, 2),  # and a loop around both
    ("perceptron", (128, 128, 64), (136, 200, 144, 208), 3, 0),
]


@pytest.mark.parametrize(
    ("name", "gpu_name", "products"),
    [
        ("perceptron", SM_90, 4),
        ("perceptron", SM_100, 2),
        ("perceptron", SM_120, 0),
        ("gated_perceptron", SM_90, 6),
        ("gated_perceptron", SM_100, 3),
    ],
)
def test_a_product_beside_a_loop_in_another_one_is_fed_as_well(name, gpu_name, products):
    """Its tiles come at the turns of the loop around both, in the order of the program."""
    code = libtile.compile(bytecode(name, (128, 128, 64), gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "not_specialized" not in code and "tiled_tma_load" in code and "cp_async" not in code
    assert code.count("async.dot") == products
    assert ("nv_tileas.dot " in code) == (gpu_name == SM_120)


@pytest.mark.parametrize("gpu_name", [SM_90, SM_100])
def test_a_hidden_layer_made_tile_by_tile_gives_what_numpy_gives(gpu_name):
    name, tile, size, order, blocks = NESTS[0]
    run(name, tile, size, gpu_name, order=order, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", [SM_90, SM_100, SM_120])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "size", "order", "blocks"), NESTS)
def test_hidden_layers_in_every_schedule(name, tile, size, order, blocks, seed, gpu_name):
    run(name, tile, size, gpu_name, order=seed, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", [SM_90, SM_100, SM_120])
@pytest.mark.parametrize("size", [(64, 64, 0, 64), (64, 64, 64, 0)])
def test_a_hidden_layer_of_nothing_adds_nothing(size, gpu_name):
    run("perceptron", (64, 64, 64), size, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapter", "sums"])
@pytest.mark.parametrize("gpu_name", [SM_90, SM_100])
def test_a_loop_of_no_step_adds_nothing(name, gpu_name):
    run(name, (128, 64, 64), (128, 64, 0, 64), gpu_name)


def test_loops_with_tiles_of_the_same_shapes_share_a_ring():
    rings = {
        name: libtile.compile(bytecode(name, (128, 64, 64), SM_100), gpu_name=SM_100, emit="tileas").tileas.count(
            "drained"
        )
        for name in ("sums", "adapter")
    }
    assert rings == {"sums": 1, "adapter": 3}


def test_what_is_brought_without_its_fence_is_found():
    """The computed operand is written by threads, and read by products."""
    name, tile = "layers", (64, 64, 64)
    made = libtile.compile(bytecode(name, tile, SM_100), gpu_name=SM_100, launch_abi="simt", emit="ptx", keep_text=True)
    # The last one; those of barrier objects come first, and the result is stored by threads.
    before, found, behind = made.ptx.rpartition("fence.proxy.async.shared::cta;")
    assert found
    broken = before + behind
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(3)]
    arrays.append(np.zeros((64, 64), np.float32))
    args = [np.int32(v) if isinstance(v, int) else v for x in arrays for v in (x, 64, 64, 64, 1)]
    kernel = made.kernels[name]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in kernel.descriptors]
    with pytest.raises(SimulationFault):
        run_ptx(broken, name, block=kernel.block_dim, args=[*args, *maps])


def test_code_of_a_hidden_layer_by_warpgroups():
    """Nothing is spilled, ptxas takes no product out of its place, and the left operand comes from registers."""
    made = libtile.compile(
        bytecode("perceptron", (128, 128, 64), SM_90), gpu_name=SM_90, launch_abi="simt", emit="ptx", keep_text=True
    )
    built = assemble(made.ptx, "sm_90a", options=["--enable-extended-smem=true"])
    report = built.kernels["perceptron"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    assert "(C75" not in built.log
    loops = [x for x in loops_of(built.cubin) if any("HGMMA" in line for line in x)]
    assert min(map(len, loops)) <= 44


@pytest.mark.parametrize(("name", "loop"), [("adapter", 44), ("sums", 44)])
def test_code_of_loops_one_after_the_other(name, loop):
    """Nothing is spilled, and each loop of products is as short as a lone one."""
    made = libtile.compile(
        bytecode(name, (128, 128, 64), SM_100), gpu_name=SM_100, launch_abi="simt", emit="ptx", keep_text=True
    )
    built = assemble(made.ptx, "sm_100a", options=["--enable-extended-smem=true"])
    report = built.kernels[name]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    loops = [x for x in loops_of(built.cubin) if any("UTCHMMA" in line for line in x)]
    assert sorted(map(len, loops))[1] <= loop


@pytest.mark.parametrize(("asked", "said"), [(8, "ignored"), (4, "used")])
def test_a_hint_for_more_warps_than_rows_are_for_is_said_not_to_be_followed(asked, said):
    """A second warpgroup would have no rows of tiles of 64."""
    module = libtile.read(bytecode("gates", (64, 64, 64), SM_90))
    (entry,) = (op for op in module.op.walk() if op.name == "cuda_tile.entry")
    hints = {SM_90: {"num_worker_warps_per_cta": IntegerAttr(asked, i32)}}
    entry.properties["optimization_hints"] = OptimizationHintsAttr(hints)
    remarks = libtile.compile(module, gpu_name=SM_90, emit="ptx").remarks
    (message,) = (r.message for r in remarks if r.category is Category.HINTS)
    assert message == f"OptimizationHint {said} num_worker_warps_per_cta"
