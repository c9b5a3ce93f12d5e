# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with several products, parted into a producer that copies and consumers that multiply: attention and more."""

import re

import numpy as np
import pytest
from attention_kernels import attention
from specialized_kernels import loops_of

import libtile
from libtile.backend.cubin import read_cubin
from libtile.passes.pipelines import compile_pipeline
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

TURNED = compile_pipeline(3).replace("tileas-specialize", "tileas-specialize{run-ahead=false}")
"""The passes without the schedule that issues the first products of the next turn early."""


def run(
    text: str, m: int, n: int, d: int, rows: int, columns: int,
    causal=False, heads=1, order=None, gpu_name="sm_90", added=0, **options
):  # fmt: skip
    """Compare attention in the simulator with numpy's; `added` is what columns' scores begin with."""
    rng = np.random.default_rng(rows + columns)
    q = rng.standard_normal((heads, rows, d)).astype(np.float16)
    k, v = (rng.standard_normal((heads, columns, d)).astype(np.float16) for _ in range(2))
    o = np.full((heads, rows, d), 7, np.float16)
    libtile.run(
        libtile.parse(text), grid=(-(-rows // m), heads, 1),
        args=[q, k, v, o, heads, rows, columns, rows * d, columns * d],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
        **({} if "pipeline" in options else {"schedule": "specialized"}), **options,
    )  # fmt: skip
    # Columns beyond the end are zeros, which the kernel takes for columns like others.
    more = -columns % n
    k, v = (np.concatenate([x.astype(np.float64), np.zeros((heads, more, d))], axis=1) for x in (k, v))
    s = (np.einsum("hqd,hkd->hqk", q.astype(np.float64), k) + added) / d**0.5
    if causal:
        s = np.where(np.arange(rows)[:, None] >= np.arange(columns + more), s, -np.inf)
    p = np.exp(s - s.max(axis=2, keepdims=True))
    np.testing.assert_allclose(o, p @ v / p.sum(axis=2, keepdims=True), atol=4e-3)


def with_more_scores(m, n, d):
    """Attention whose scores are those of keys and of half of each value: q @ k.T + v[:, :d/2] @ v[:, :d/2].T."""
    text, half = attention(m, n, d), d // 2
    tensor = f"tensor_view<?x?x{d}xf16, strides=[?,{d},1]>"
    left = f"partition_view<tile=(1x{m}x{half}), padding_value = zero, {tensor}>"
    right = f"partition_view<tile=(1x{half}x{n}), padding_value = zero, {tensor}, dim_map=[0, 2, 1]>"
    types = f"tile<{m}x{half}xf16>, tile<{half}x{n}xf16>, tile<{m}x{n}xf32>"
    text = text.replace(
        "    %sizes:3 =",
        f"""    %vl = make_partition_view %tv : {left}
    %vr = make_partition_view %tv : {right}
    %l4, %tok5 = load_view_tko weak %vl[%by, %bx, %0] : {left}, tile<i32> -> tile<1x{m}x{half}xf16>, token
    %l5 = reshape %l4 : tile<1x{m}x{half}xf16> -> tile<{m}x{half}xf16>
    %sizes:3 =""",
        1,
    )
    scores = re.search(r"%s0 = mmaf.*", text)[0]
    return text.replace(
        scores,
        f"""{scores.replace("%s0 =", "%s1 =")}
      %r4, %tok6 = load_view_tko weak %vr[%by, %0, %j] : {right}, tile<i32> -> tile<1x{half}x{n}xf16>, token
      %r5 = reshape %r4 : tile<1x{half}x{n}xf16> -> tile<{half}x{n}xf16>
      %s0 = mmaf %l5, %r5, %s1 : {types}""",
    )


@pytest.mark.slow
def test_the_last_product_has_one_stage_where_two_do_not_fit():
    made = compiled(with_more_scores(128, 128, 128))
    assert "wgmma" in made.ptx and "mma.sync" not in made.ptx
    stages = re.findall(r"create_pipeline .*?!nv_tileas.pipeline<(\d)", made.tileas)
    assert sorted(map(int, stages)) == [1, 1, 1, 2, 2]
    run_with_more_scores(128, 100, 200)


def run_with_more_scores(m: int, rows: int, columns: int, order=None, gpu_name="sm_90") -> None:
    """That with a head of 128 and tiles of 128 columns."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, n, 128)).astype(np.float16) for n in (rows, columns, columns))
    o = np.full((1, rows, 128), 7, np.float16)
    libtile.run(
        libtile.parse(with_more_scores(m, 128, 128)), grid=(-(-rows // m), 1, 1),
        args=[q, k, v, o, 1, rows, columns, rows * 128, columns * 128], backend="simulator", gpu_name=gpu_name,
        check="full", block_order=order,
    )  # fmt: skip
    more = np.zeros((-columns % 128, 128))  # zeros are columns, too
    k, v = (np.concatenate([x[0].astype(np.float64), more]) for x in (k, v))
    s = (q[0].astype(np.float64) @ k.T + v[:rows, :64] @ v[:, :64].T) / 128**0.5
    p = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(o[0], p @ v / p.sum(axis=1, keepdims=True), atol=4e-3)


def compiled(text: str, **options):
    return libtile.compile(
        libtile.parse(text), gpu_name="sm_90", launch_abi="simt", keep_text=True,
        **({} if "pipeline" in options else {"schedule": "specialized"}), **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "options"),
    [
        ((64, 32, 32), 64, 32 * 4, {}),
        ((64, 32, 32), 72, 32 * 2 + 8, {"order": 3, "heads": 2}),  # the last boxes lie partly outside of the tensors
        ((64, 32, 32), 64, 32, {"order": 5}),  # one iteration
        ((64, 32, 32), 128, 128, {"causal": True, "order": 1}),
        ((128, 32, 64), 136, 32 * 3 + 16, {"order": 2}),
        ((128, 64, 128), 128, 64 * 2 + 16, {"order": 2}),  # two warpgroups
        ((128, 64, 128), 128, 64 * 2 + 16, {"order": 2, "pipeline": TURNED}),  # which take turns
        ((128, 64, 128), 128, 64 * 2, {"order": 4}),  # two iterations
        ((128, 64, 128), 136, 64, {"order": 5}),  # one
    ],
)
def test_attention_is_parted_and_right(shape, rows, columns, options):
    text = attention(*shape, causal=options.get("causal", False))
    run(text, *shape, rows, columns, **options)
    if not options:
        made = compiled(text, emit="tileas").tileas
        assert made.count("nv_tileas.async.dot") == 4 and "nv_tileas.dot " not in made
        # ptxas is given the loop turned around, and no other.
        loops = re.findall(r"scf\.for .*?\n\s*\} \{(.*?)\}\n", made, re.S)
        assert made.count("rotated") == 1 and any("rotated" in said for said in loops)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_attention_is_right_in_every_schedule(seed, causal):
    run(attention(128, 64, 64, causal), 128, 64, 64, 200, 64 * 4 + 24, causal=causal, order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("shape", "causal"), [((128, 64, 128), True), ((128, 128, 64), False)])
@pytest.mark.parametrize("pipeline", [compile_pipeline(3), TURNED], ids=["ahead", "turned"])
def test_two_warpgroups_in_every_schedule(shape, causal, pipeline, seed):
    run(attention(*shape, causal), *shape, 200, shape[1] * 3 + 24, causal=causal, order=seed, pipeline=pipeline)


@pytest.fixture(scope="module")
def two_groups():
    return compiled(attention(128, 64, 128), emit="ptx", pipeline=TURNED)


@pytest.mark.parametrize(
    ("what", "which", "of", "instead"),
    [
        (r"bar\.arrive\s+%r\d+, 256;", 0, 2, ""),  # nobody has the first turn
        (r"bar\.arrive\s+%r\d+, 256;", 1, 2, ""),  # a turn is never handed on
        (r"bar\.arrive\s+%r\d+, 256;", 1, 2, "bar.arrive 3, 256;"),  # it is always the first one's
        (r"bar\.sync\s+3, 256;", 0, 1, "bar.sync 4, 256;"),  # the turn at the end is nobody's
    ],
)
def test_broken_turns_of_warpgroups_are_a_fault(two_groups, what, which, of, instead):
    rows, columns, d = 128, 64 * 3, 128
    q, k, v = (np.ones((1, n, d), np.float16) for n in (rows, columns, columns))
    args = [q, k, v, np.zeros_like(q), *(np.int32(n) for n in (1, rows, columns, rows * d, columns * d))]
    kernel = two_groups.kernels["attention"]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in kernel.descriptors]
    found = list(re.finditer(what, two_groups.ptx))
    assert len(found) == of
    broken = two_groups.ptx[: found[which].start()] + instead + two_groups.ptx[found[which].end() :]
    with pytest.raises(SimulationFault, match=r"[Dd]eadlock|bar\.|barrier"):
        run_ptx(broken, "attention", block=kernel.block_dim, args=[*args, *maps], checks="full")


def test_no_iteration_gives_what_the_loop_begins_with():
    text = attention(64, 32, 32).replace("%ends#0, %l3", "%ends#0, %o3_").replace(
        "%o3 = divf", "%o3_ = constant <f32: 1.0> : tile<64x32xf32>\n    %o3 = divf"
    )  # fmt: skip
    q, empty, o = np.ones((1, 64, 32), np.float16), np.zeros((1, 1, 32), np.float16), np.ones((1, 64, 32), np.float16)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[q, empty, empty, o, 1, 64, 0, 64 * 32, 32],
                backend="simulator", gpu_name="sm_90", check="full", schedule="specialized")  # fmt: skip
    assert not o.any()


@pytest.mark.parametrize(("causal", "most"), [(False, 480), (True, 600)])
def test_code_of_attention(causal, most):
    """Both products are under way while exponentials are computed, P stays in registers, and nothing is spilled."""
    made = compiled(attention(128, 128, 128, causal))
    kernel = made.kernels["attention"]
    assert "(C75" not in made.log and kernel.spills == 0
    loop = min((x for x in loops_of(made.cubin) if any("HGMMA" in line for line in x)), key=len)
    waits = [i for i, line in enumerate(loop) if "WARPGROUP.DEPBAR" in line]
    assert (len(waits), len(loop) <= most) == (2, True), len(loop)
    assert sum("HGMMA" in line for line in loop[: waits[0]]) == 16
    assert sum("MUFU.EX2" in line for line in loop[waits[0] : waits[1]]) >= 60
    # One warpgroup issues its products at a time, and computes under those of the other.
    turns = [i for i, line in enumerate(loop) if re.search(r"\bBAR\.(SYNC|ARV)\b", line)]
    products = [i for i, line in enumerate(loop) if "HGMMA" in line]
    assert ["BAR.ARV" in loop[i] for i in turns] == [False, True]
    assert turns[0] < products[0] and products[-1] < turns[1] < waits[0]
    # What stands for a store of words is never taken, and no other store is in the loop.
    assert all(line.startswith("@") for line in loop if re.search(r"\bSTS|\bSTL|\bLDL", line))


@pytest.mark.parametrize(
    ("shape", "causal", "most"),
    [((128, 128, 64), False, 420), ((128, 128, 64), True, 560), ((128, 64, 128), True, 380)],
)
def test_first_products_of_the_next_turn_are_issued_early(shape, causal, most):
    """Where registers suffice for two turns' scores, exponentials wait for no product of their own turn."""
    made = compiled(attention(*shape, causal))
    kernel = made.kernels["attention"]
    assert "(C75" not in made.log and kernel.spills == 0
    loop = min((x for x in loops_of(made.cubin) if any("HGMMA" in line for line in x)), key=len)
    assert len(loop) <= most
    # What gives a new tile of scores is the one product of a turn that begins with zeros.
    products = [i for i, line in enumerate(loop) if "HGMMA" in line]
    scores = next(i for i in products if "RZ" in loop[i])
    exponentials = [i for i, line in enumerate(loop) if "MUFU.EX2" in line]
    (last,) = [i for i, line in enumerate(loop) if re.search(r"WARPGROUP.DEPBAR.LE gsb0, 0x0", line)]
    assert products[0] < scores < products[-1] < exponentials[0] and exponentials[-1] < last
    # Nobody takes turns, and no store is made.
    assert not any(re.search(r"\bBAR\b", line) for line in loop)
    assert all(line.startswith("@") for line in loop if re.search(r"\bSTS|\bSTL|\bLDL", line))


def test_an_effect_in_the_loop_keeps_iterations_in_their_order():
    """Products are waited for where they stand, and the consumers print in each iteration."""
    shape = (64, 32, 32)
    text = attention(*shape, last='print_tko "%i", %j : tile<i32> -> token')
    made = compiled(text, emit="tileas").tileas
    assert made.count("nv_tileas.async.dot") == 2 and made.count("pending = 0") == 2
    run(text, *shape, 64, 64)


CHAIN = """cuda_tile.module @m {
  entry @chain(%x0: tile<ptr<f16>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %y: tile<ptr<f32>>, %n0: tile<i32>) {
    %x1 = assume div_by<16>, %x0 : tile<ptr<f16>>
    %a1 = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b1 = assume div_by<16>, %b0 : tile<ptr<f16>>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %n = assume div_by<16>, %n1 : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %first = constant <f32: 0.5> : tile<64x32xf32>
    %tx = make_tensor_view %x1, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf16, strides=[32,1]>
    %ta = make_tensor_view %a1, shape = [32, %n], strides = [%n, 1] : tile<i32> -> tensor_view<32x?xf16, strides=[?,1]>
    %tb = make_tensor_view %b1, shape = [%n, 32], strides = [32, 1] : tile<i32> -> tensor_view<?x32xf16, strides=[32,1]>
    %ty = make_tensor_view %y, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %vx = make_partition_view %tx : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>
    %va = make_partition_view %ta : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x32xf16, strides=[32,1]>>
    %vy = make_partition_view %ty : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %dims:2 = get_index_space_shape %va : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>> -> tile<i32>
    %x, %tx0 = load_view_tko weak %vx[%0, %0] : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>, tile<i32> -> tile<64x32xf16>, token
    %x2 = addf %x, %x : tile<64x32xf16>
    %r = for %i in (%0 to %dims#1, step %1) : tile<i32> iter_values(%acc = %first) -> (tile<64x32xf32>) {
      %a, %t0 = load_view_tko weak %va[%0, %i] : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %b, %t1 = load_view_tko weak %vb[%i, %0] : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x32xf16, strides=[32,1]>>, tile<i32> -> tile<64x32xf16>, token
      %h = mmaf %x2, %a, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %z = maxf %h, %none : tile<64x64xf32>
      %w = ftof %z : tile<64x64xf32> -> tile<64x64xf16>
      %d = mmaf %w, %b, %acc : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32>
      continue %d : tile<64x32xf32>
    }
    %s = store_view_tko weak %r, %vy[%0, %0] : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501 - views and their types are long


@pytest.mark.parametrize("n", [64 * 3, 80])
def test_two_layers_with_a_left_operand_in_registers(n):
    """relu(2 X A) B: the doubled X is computed, and stays in registers. Of such small integers all sums are exact."""
    rng = np.random.default_rng(n)
    x, a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 32), (32, n), (n, 32)))
    y = np.zeros((64, 32), np.float32)
    libtile.run(libtile.parse(CHAIN), grid=(1, 1, 1), args=[x, a, b, y, n], backend="simulator", gpu_name="sm_90",
                check="full", schedule="specialized")  # fmt: skip
    hidden = np.maximum((x + x).astype(np.float32) @ a.astype(np.float32), 0).astype(np.float16)
    np.testing.assert_array_equal(y, 0.5 + hidden.astype(np.float32) @ b.astype(np.float32))
    if n == 80:
        made = compiled(CHAIN, emit="tileas").tileas
        assert made.count("nv_tileas.async.dot") == 4 and made.count("create_pipeline") == 2


def test_a_left_operand_in_registers_may_have_some_that_are_always_zero():
    """Above the diagonal: of rows up to 55 all columns from 56 on, which is a register of every thread. What says that
    sums begin with this product is a zero as well, and is none of the registers that a product reads."""
    text = CHAIN.replace(
        "%none = ",
        """%line = iota : tile<64xi32>
    %tall = reshape %line : tile<64xi32> -> tile<64x1xi32>
    %wide = reshape %line : tile<64xi32> -> tile<1x64xi32>
    %row = broadcast %tall : tile<64x1xi32> -> tile<64x64xi32>
    %column = broadcast %wide : tile<1x64xi32> -> tile<64x64xi32>
    %below = cmpi greater_than_or_equal %row, %column, signed : tile<64x64xi32> -> tile<64x64xi1>
    %nothing = constant <f32: 0.0> : tile<64x32xf32>
    %none = """,
    )
    text = text.replace(
        "%z = maxf %h, %none : tile<64x64xf32>", "%z = select %below, %h, %none : tile<64x64xi1>, tile<64x64xf32>"
    )
    text = text.replace("%d = mmaf %w, %b, %acc", "%p = mmaf %w, %b, %nothing")
    text = text.replace("continue %d", "%d = addf %p, %acc : tile<64x32xf32>\n      continue %d")
    rng = np.random.default_rng(2)
    x, a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 32), (32, 64), (64, 32)))
    y = np.zeros((64, 32), np.float32)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[x, a, b, y, 64], backend="simulator", gpu_name="sm_90",
                check="full", schedule="specialized")  # fmt: skip
    hidden = np.tril((x + x).astype(np.float32) @ a.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(y, 0.5 + hidden.astype(np.float32) @ b.astype(np.float32))


def test_what_tma_does_not_copy_consumers_load_themselves():
    """The second matrix may begin anywhere, and the first operand is there before the loop: both are brought by
    consumers to where products read them."""
    text = CHAIN.replace("%b1 = assume div_by<16>", "%b1 = assume div_by<4>")
    rng = np.random.default_rng(1)
    x, a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 32), (32, 80), (80, 32)))
    y = np.zeros((64, 32), np.float32)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[x, a, b, y, 80], backend="simulator", gpu_name="sm_90",
                check="full", schedule="specialized")  # fmt: skip
    hidden = np.maximum((x + x).astype(np.float32) @ a.astype(np.float32), 0).astype(np.float16)
    np.testing.assert_array_equal(y, 0.5 + hidden.astype(np.float32) @ b.astype(np.float32))
    made = compiled(text, emit="tileas").tileas
    assert "async.dot" in made and made.count("tiled_tma_load") == 1


def test_a_chain_of_one_turn_is_products_in_no_loop():
    """Each has a loop of one turn then, of which the second one has its left operand in registers."""
    text = CHAIN.replace("(%0 to %dims#1,", "(%0 to %1,")
    made = compiled(text, emit="llvm")
    assert "async.dot" in made.tileas and made.tileas.count("tiled_tma_load") == 2
    rng = np.random.default_rng(1)
    x, a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 32), (32, 64), (64, 32)))
    y = np.zeros((64, 32), np.float32)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[x, a, b, y, 64], backend="simulator", gpu_name="sm_90",
                check="full", schedule="specialized")  # fmt: skip
    hidden = np.maximum((x + x).astype(np.float32) @ a.astype(np.float32), 0).astype(np.float16)
    np.testing.assert_array_equal(y, 0.5 + hidden.astype(np.float32) @ b.astype(np.float32))


def test_why_a_chain_is_not_parted():
    made = compiled(CHAIN.replace("(%0 to %dims#1,", "(%1 to %1,"), emit="llvm", opt_level=1)
    assert "async.dot" not in made.tileas
    said = {dict(r.arguments)["Reason"] for r in made.remarks if r.name == "RemarkTensorCoreSpecialization"}
    assert said == {"its loop has fewer than two turns"}


@pytest.mark.parametrize("options", ["{run-ahead=false}", "{run-ahead=false take-turns=false}", ""])
def test_an_option_says_whether_warpgroups_take_turns(options):
    """The first one has the first turn, and takes the last one that is handed on."""
    passes = compile_pipeline(3).replace("tileas-specialize", f"tileas-specialize{options}")
    made = libtile.compile(
        libtile.parse(attention(128, 64, 128)), gpu_name="sm_90", emit="tileas", pipeline=passes
    ).tileas
    turns = re.findall(r"nv_tileas\.(take_turn|hand_on_turn) \{([^}]*)\}", made)
    assert bool(re.search(r"\bheld\b", made)) == (not options)
    assert turns == ([] if options != "{run-ahead=false}" else [
        ("hand_on_turn", "first, groups = 2, id = 3"),
        ("take_turn", "groups = 2, id = 3"),
        ("hand_on_turn", "groups = 2, id = 3"),
        ("take_turn", "groups = 2, id = 3, last"),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("gpu_name", "tile", "most"),
    [
        ("sm_80", (128, 32, 128), 325),
        ("sm_120", (128, 32, 128), 300),
        pytest.param("sm_80", (64, 64, 256), 580, marks=pytest.mark.slow),
        pytest.param("sm_120", (64, 64, 256), 575, marks=pytest.mark.slow),
    ],
)
def test_accumulators_of_160_registers_beside_operands_have_eight_warps(gpu_name, tile, most):
    """Four warps spill 24 to 80 bytes of all but the first, whose loop has 567 instructions."""
    made = libtile.compile(libtile.parse(attention(*tile)), gpu_name=gpu_name)
    assert read_cubin(made.cubin).kernels["attention"].frame == 0
    products = min((x for x in loops_of(made.cubin) if any("HMMA" in line for line in x)), key=len)
    assert len(products) <= most


def summed_apart(shape, blocks) -> str:
    """Attention whose loop adds its second product to the sums itself, for so many blocks of a multiprocessor."""
    m, _, d = shape
    wide, text = f"tile<{m}x{d}xf32>", attention(*shape)
    text = text.replace(") {\n    %q1", f") optimization_hints=<default = {{occupancy = {blocks}}}> {{\n    %q1")
    text = text.replace("%o2 = mmaf %ph, %v, %o1", "%o9 = mmaf %ph, %v, %o_first")
    return text.replace("      continue %o2", f"      %o2 = addf %o1, %o9 : {wide}\n      continue %o2")


@pytest.mark.parametrize(
    ("shape", "blocks", "registers", "stages"),
    [((64, 64, 64), 3, (136, 24), 2), pytest.param((64, 128, 128), 2, (232, 24), 1, marks=pytest.mark.slow)],
)
def test_one_warpgroup_has_what_its_producer_gives_away(shape, blocks, registers, stages):
    """Where several blocks share a multiprocessor; a stage of each operand is enough then, if no more fit."""
    text = summed_apart(shape, blocks)
    made = compiled(text, emit="ptx")
    assert tuple(int(n) for n in re.findall(r"setmaxnreg.*?(\d+);", made.ptx)) == registers
    found = re.findall(r"create_pipeline .*?pipeline<(\d+)", made.tileas)
    assert [int(n) for n in found] == [1, stages, stages]  # that of the queries comes first
    run(text, *shape, 40, shape[1] + 24)
