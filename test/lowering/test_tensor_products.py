# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose results lie in tensor memory (tcgen05): loops with one product on sm_100, parted by themselves."""

import re

import ml_dtypes
import numpy as np
import pytest
from test_specialized import main_loop, operands, specialized, tile_gemm

import libtile
from libtile.atoms import tcgen05
from libtile.atoms.cp_async import operand_shared_layout
from libtile.backend.ptxas import assemble
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
from libtile.support.diagnostics import DiagnosticError
from libtile.targets import target

SM_100 = target("sm_100")


def run(text, m, n, k, tile, order=None, dtype=np.float16, result=np.float32, transposed=False):
    a, b, c, wanted = operands(m, n, k, transposed, dtype, result)
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=[a, b, c, m, n, k],
        schedule="specialized", backend="simulator", gpu_name="sm_100", check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("m", "n", "k", "options"),
    [
        (130, 80, 208, {}),  # ragged edges and a tail along k
        (128, 64, 0, {}),  # no step at all
        (128, 256, 128, {"n": 256}),  # eight warps, of which the second four load the second half
        (256, 64, 128, {"m": 256}),  # two instructions, in columns that follow each other
        (72, 144, 80, {"m": 64, "n": 128, "transposed": True}),  # 16 rows in each quarter of the lanes, in four parts
    ],
)
def test_products_in_tensor_memory_give_what_numpy_gives(m, n, k, options):
    text = tile_gemm(**options)
    said = specialized(text, "sm_100")
    assert said[1] is None and "async.dot_into" in said[0]
    if k:
        run(text, m, n, k, (options.get("m", 128), options.get("n", 64)), transposed=options.get("transposed", False))
        return
    a, b, c = np.zeros((m, 1), np.float16), np.zeros((1, n), np.float16), np.full((m, n), 7, np.float32)
    libtile.run(libtile.parse(text), "gemm", grid=(1, 1, 1), args=[a, b, c, m, n, 0], schedule="specialized",
                backend="simulator", gpu_name="sm_100", check="full")  # fmt: skip
    assert not c.any()


@pytest.mark.parametrize(
    ("element", "dtype", "depth", "result"),
    [
        ("bf16", ml_dtypes.bfloat16, 64, np.float32),
        ("tf32", np.float32, 32, np.float32),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, 64, np.float32),
        ("f8E5M2", ml_dtypes.float8_e5m2, 64, np.float32),
        ("f16", np.float16, 64, np.float16),
    ],
)
def test_types_of_products_in_tensor_memory(element, dtype, depth, result):
    """Small integers, whose products and sums are exact in each type."""
    text = tile_gemm(64, 32, depth, element, "f16" if result is np.float16 else "f32", transposed=True)
    assert specialized(text, "sm_100")[1] is None
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((72, 144), (32, 144)))
    c = np.zeros((72, 32), result)
    libtile.run(libtile.parse(text), "gemm", grid=(2, 1, 1), args=[a, b, c, 72, 32, 144], schedule="specialized",
                backend="simulator", gpu_name="sm_100", check="full", block_order=1)  # fmt: skip
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(result))


@pytest.mark.parametrize("m", [64, 128])
def test_bytes_are_multiplied_in_tensor_memory(m):
    text = tile_gemm(m, k=128, element="i8", result="i32", transposed=True)
    assert f"mma_atom<tcgen05, {m}x64x32" in specialized(text, "sm_100")[0]
    run(text, 128, 64, 256, (m, 64), dtype=np.int8, result=np.int32, transposed=True)


@pytest.mark.slow  # a sum beyond 2**31 takes 260 steps
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_sums_of_bytes_wrap_on_every_target(gpu):
    text = tile_gemm(64, 16, 128, "i8", "i32", transposed=True).replace("signed signed", "unsigned unsigned")
    m, n, k = 64, 16, 260 * 128
    a, b, c = np.full((m, k), 255, np.uint8), np.full((n, k), 255, np.uint8), np.zeros((m, n), np.int32)
    a[::2] = 254
    libtile.run(libtile.parse(text), "gemm", grid=(1, 1, 1), args=[a, b, c, m, n, k], schedule="specialized",
                backend="simulator", gpu_name=gpu)  # fmt: skip
    np.testing.assert_array_equal(c, (a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int32))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_products_in_tensor_memory_in_other_schedules(seed):
    run(tile_gemm(), 128, 64, 256, (128, 64), order=seed)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"m": 32, "n": 32}, "tcgen05.mma does not multiply f16 and f16 into f32 in tiles of 32x32x64"),
        ({"div": 8}, "#A cannot be copied by TMA: its base address is not known to be a multiple of 16"),
    ],
)
def test_what_stays_as_it_is_says_why(options, reason):
    assert specialized(tile_gemm(**options), "sm_100")[1].startswith(reason)


def test_results_that_are_taken_as_a_whole_have_to_fit_registers():
    text = tile_gemm(256, 256)
    assert specialized(text, "sm_100")[1] is None
    assert specialized(with_sums(text, 256), "sm_100")[1] == "results of 256x256 do not fit the registers of 8 warps"


def with_sums(text, columns):
    """Sums of rows in place of what is stored: nothing that goes part by part."""
    rows = re.search(rf"tile<(\d+)x{columns}xf32>", text)[1]
    whole, sums = f"tile<{rows}x{columns}xf32>", f"tile<{rows}x1xf32>"
    return text.replace(
        "%w = store_view_tko weak %r,",
        f"""%s = reduce %r dim=1 identities=[0.0 : f32] : {whole} -> tile<{rows}xf32>
    (%e: tile<f32>, %f: tile<f32>) {{ %g = addf %e, %f : tile<f32>
      yield %g : tile<f32> }}
    %s1 = reshape %s : tile<{rows}xf32> -> {sums}
    %u = broadcast %s1 : {sums} -> {whole}
    %w = store_view_tko weak %u,""",
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hints": "num_worker_warps_per_cta = 1"}, "1 warps are not one or two warpgroups"),
        ({"hints": "num_worker_warps_per_cta = 16"}, "16 warps are not one or two warpgroups"),
        (
            {"hints": "num_worker_warps_per_cta = 8", "n": 8},
            "8 warps do not share 8 columns of tensor memory",
        ),
        (
            {"n": 8, "element": "tf32"},
            "tcgen05.mma does not multiply tf32 and tf32 into f32 in tiles",
        ),
    ],
)
def test_warps_that_cannot_load_a_result_multiply_themselves(options, reason):
    made = libtile.compile(libtile.parse(tile_gemm(**options)), gpu_name="sm_100", emit="ptx")
    said = [r.arguments[0][1] for r in made.remarks if r.name == "RemarkTensorCoreSpecialization"]
    assert len(said) == 1 and said[0].startswith(reason)
    assert "mma.sync" in made.ptx and "tcgen05" not in made.ptx


def test_what_an_accumulator_starts_with_is_added_behind_the_loop():
    """In f32 and i32; f16 would be rounded once more."""
    text = tile_gemm().replace("%none = constant <f32: 0.0>", "%none = constant <f32: 1.0>")
    assert specialized(text, "sm_100")[1] is None
    a, b, c, wanted = operands(136, 64, 80)
    libtile.run(libtile.parse(text), "gemm", grid=(2, 1, 1), args=[a, b, c, 136, 64, 80], schedule="specialized",
                backend="simulator", gpu_name="sm_100", check="full")  # fmt: skip
    np.testing.assert_allclose(c, wanted + 1, atol=1e-3)
    half = tile_gemm(result="f16").replace("%none = constant <f16: 0.0>", "%none = constant <f16: 1.0>")
    assert specialized(half, "sm_100")[1] == "its accumulator does not start with zeros"


def test_code_of_a_large_product():
    """Four products in a loop of at most 42 instructions, results by LDTM part by part, nothing spilled."""
    made = libtile.compile(
        libtile.parse(tile_gemm(128, 256, 64)), gpu_name="sm_100", launch_abi="simt", schedule="specialized",
        emit="ptx",
    )  # fmt: skip
    done = assemble(made.ptx, SM_100.ptx_target)
    report = done.kernels["gemm"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    assert report.registers <= 96
    loop = main_loop(done.cubin, "UTCHMMA")
    assert sum("UTCHMMA" in line for line in loop) == 4 and len(loop) <= 42
    (said,) = (r.arguments for r in made.remarks if r.name == "RemarkTensorCoreMMA")
    assert said == (("Instruction", "Tensor-core SM100"), ("Shape", "[128, 256, 16]"), ("NumCTAs", "1"))


@pytest.fixture(scope="module")
def small():
    text = tile_gemm(128, 64, 64)
    return libtile.compile(
        libtile.parse(text), gpu_name="sm_100", launch_abi="simt", schedule="specialized", emit="ptx"
    )


@pytest.mark.parametrize(
    "what",
    [
        r"tcgen05\.wait::ld\.sync\.aligned;",
        r"tcgen05\.dealloc\.\S+ %r\d+, \d+;",
        r"tcgen05\.commit\.\S+ \[%r\d+\];",
    ],
)
def test_code_without_a_wait_or_an_end_is_a_fault(small, what):
    a, b, c, _ = operands(128, 64, 128)
    args = [a, b, c, *(np.int32(n) for n in (128, 64, 128))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in small.kernels["gemm"].descriptors]
    broken = re.sub(what, "", small.ptx)
    assert broken != small.ptx
    with pytest.raises(SimulationFault):
        run_ptx(broken, "gemm", block=small.kernels["gemm"].block_dim, args=[*args, *maps])


# -- the instructions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "descriptor"),
    [("f16", 0x08200010), ("bf16", 0x08200490), ("tf32", 0x08200910), ("e4m3", 0x08200010), ("e5m2", 0x08200490),
     ("s8", 0x082004A0), ("u8", 0x08200020)],
)  # fmt: skip
def test_instruction_descriptors(element, descriptor):
    """For 128 x 128 and operands that are contiguous along k (PTX ISA, "Instruction descriptor")."""
    result = "s32" if element in ("s8", "u8") else "f32"
    atom = tcgen05.find(SM_100, element, element, result, 128, 128, 128)
    assert tcgen05.instruction(tcgen05.kind(SM_100, atom), atom, (False, False)) == descriptor


def test_operand_descriptors():
    """K-major and MN-major operands with a swizzle of 128 bytes (PTX ISA, "Shared memory descriptor")."""
    atom = tcgen05.find(SM_100, "f16", "f16", "f32", 128, 256, 64)
    along_k = tcgen05.shared_operand(operand_shared_layout((128, 64), "f16"), "a", atom, 2, (16,))
    along_n = tcgen05.shared_operand(operand_shared_layout((64, 256), "f16"), "b", atom, 2, (16,))
    assert tcgen05.fields(along_k) == 2 << 61 | 1 << 46 | 1024 // 16 << 32 | 16 // 16 << 16
    assert tcgen05.fields(along_n) == 2 << 61 | 1 << 46 | 1024 // 16 << 32 | 64 * 128 // 16 << 16


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "mma_atom<tcgen05, 128x64x16",
            "mma_atom<tcgen05, 128x32x16",
            "expects an atom of sm_100 for a product of this shape",
        ),
        ("mma_atom<tcgen05", "mma_atom<wgmma", "expects an atom of kind tcgen05"),
        ("copy_atom<tcgen05_ld", "copy_atom<lds", "expects an atom that is tcgen05_ld"),
    ],
)
def test_the_verifier_refuses(old, new, message):
    text = specialized(tile_gemm(), "sm_100")[0]
    assert old in text
    with pytest.raises(DiagnosticError, match=message):
        libtile.verify(libtile.parse(text.replace(old, new)))


# -- products in no loop ----------------------------------------------------------------------------------------------


def lone(m=128, n=128, k=64, start="0.0", more=""):
    """c = a @ b, in one tile; tokens order the store behind both loads."""
    view = "partition_view<tile=({0}x{1}), tensor_view<{0}x{1}x{2}, strides=[{1},1]>>".format
    a, b, c = view(m, k, "f16"), view(k, n, "f16"), view(m, n, "f32")
    tensors = "\n".join(
        f"""    %{x}1 = assume div_by<16>, %{x}0 : tile<ptr<{e}>>
    %t{x} = make_tensor_view %{x}1, shape = [{r}, {s}], strides = [{s}, 1] : tensor_view<{r}x{s}x{e}, strides=[{s},1]>
    %v{x} = make_partition_view %t{x} : {t}"""
        for x, e, r, s, t in (("a", "f16", m, k, a), ("b", "f16", k, n, b), ("c", "f32", m, n, c))
    )
    return f"""cuda_tile.module @m {{
  entry @gemm(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c0: tile<ptr<f32>>) {{
{tensors}
    %i = constant <i32: 0> : tile<i32>
    %none = constant <f32: {start}> : tile<{m}x{n}xf32>
    %x, %t = load_view_tko weak %va[%i, %i] : {a}, tile<i32> -> tile<{m}x{k}xf16>, token
    %y, %u = load_view_tko weak %vb[%i, %i] : {b}, tile<i32> -> tile<{k}x{n}xf16>, token
    {more}
    %z = mmaf %x, %y, %none : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>
    %j = join_tokens %t, %u : token
    %w = store_view_tko weak %z, %vc[%i, %i] token=%j : tile<{m}x{n}xf32>, {c}, tile<i32> -> token
    return
  }}
}}"""


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (64, 32, 16), (256, 64, 256)])
def test_a_product_in_no_loop_is_issued_by_one_thread(m, n, k):
    text = lone(m, n, k)
    assert specialized(text, "sm_100")[1] is None
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), 7, np.float32)
    libtile.run(libtile.parse(text), "gemm", grid=(1, 1, 1), args=[a, b, c], schedule="specialized",
                backend="simulator", gpu_name="sm_100", check="full", block_order=k)  # fmt: skip
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


def test_products_in_no_loop_that_stay_as_they_are():
    """`it is in no loop` is what is said of them, as on other targets."""
    assert specialized(lone(m=32, n=32), "sm_100")[1] == "it is in no loop"  # no instruction has so few rows


def test_a_tile_that_something_else_uses_is_brought_by_threads():
    more = "%f = ftof %x : tile<128x64xf16> -> tile<128x64xf32>"
    printed = f'{more}\n    print_tko "%f", %f : tile<128x64xf32> -> token'
    code, reason = specialized(lone(more=printed), "sm_100")
    assert reason is None and code.count("async.dot_into") == 1 and code.count("tiled_tma_load ") == 1


def test_a_loop_of_no_step_gives_what_it_begins_with():
    text = tile_gemm().replace("%none = constant <f32: 0.0>", "%none = constant <f32: -0.0>")
    a, b, c = np.zeros((128, 0), np.float16), np.zeros((0, 64), np.float16), np.full((128, 64), 7, np.float32)
    libtile.run(
        libtile.parse(text), "gemm", args=[a, b, c, 128, 64, 0],
        backend="simulator", gpu_name="sm_100", check="full",
    )  # fmt: skip
    assert (c == 0).all() and np.signbit(c).all()


def test_a_number_of_warps_that_shares_no_tensor_memory_is_refused_where_it_is():
    text = libtile.compile(libtile.parse(tile_gemm()), gpu_name="sm_100", emit="tileas").tileas
    (given,) = re.findall(r"agent_warps = \[4, [^]]*\]", text)
    wrong = text.replace(given, given.replace("4", "5", 1)).encode()
    with pytest.raises(libtile.LibtileError, match=r"^-:\d+:\d+: 'nv_tileas.copy' op has no tile that 5 warps have"):
        libtile.compile(wrong, "sm_100", emit="llvm")


def test_tiles_that_are_all_there_before_a_loop_are_not_fed_to_it():
    """Nothing is left for a producer, which a loop over tiles around it would be parted for."""
    a, b, c = "?x64xbf16, strides=[64,1]", "64x32xbf16, strides=[32,1]", "?x32xf32, strides=[32,1]"
    module = libtile.parse(f"""
cuda_tile.module @m {{
  entry @k(%a0: tile<ptr<bf16>>, %b0: tile<ptr<bf16>>, %c0: tile<ptr<f32>>, %n: tile<i32>, %turns: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x32xf32>
    %rows = constant <i32: 64> : tile<i32>
    %pa = assume div_by<16>, %a0 : tile<ptr<bf16>>
    %pb = assume div_by<16>, %b0 : tile<ptr<bf16>>
    %length = muli %n, %rows : tile<i32>
    %ta = make_tensor_view %pa, shape = [%length, 64], strides = [64, 1] : tile<i32> -> tensor_view<{a}>
    %tb = make_tensor_view %pb, shape = [64, 32], strides = [32, 1] : tensor_view<{b}>
    %tc = make_tensor_view %c0, shape = [%length, 32], strides = [32, 1] : tile<i32> -> tensor_view<{c}>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<{a}>>
    %vb = make_partition_view %tb : partition_view<tile=(64x32), tensor_view<{b}>>
    %vc = make_partition_view %tc : partition_view<tile=(64x32), tensor_view<{c}>>
    for %i in (%zero to %n, step %one) : tile<i32> {{
      %x, %t0 = load_view_tko weak %va[%i, %zero]
        : partition_view<tile=(64x64), tensor_view<{a}>>, tile<i32> -> tile<64x64xbf16>, token
      %y, %t1 = load_view_tko weak %vb[%zero, %zero]
        : partition_view<tile=(64x32), tensor_view<{b}>>, tile<i32> -> tile<64x32xbf16>, token
      %r = for %j in (%zero to %turns, step %one) : tile<i32> iter_values(%s = %none) -> (tile<64x32xf32>) {{
        %d = mmaf %x, %y, %s : tile<64x64xbf16>, tile<64x32xbf16>, tile<64x32xf32>
        continue %d : tile<64x32xf32>
      }}
      %w = store_view_tko weak %r, %vc[%i, %zero]
        : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<{c}>>, tile<i32> -> token
      continue
    }}
    return
  }}
}}
""")
    random = np.random.default_rng(2)
    x, y = (random.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((128, 64), (64, 32)))
    found = np.zeros((128, 32), np.float32)
    libtile.run(module, "k", args=[x, y, found, 2, 2], backend="simulator", gpu_name="sm_100", check="full")
    np.testing.assert_array_equal(found, 2 * (x.astype(np.float32) @ y.astype(np.float32)))
