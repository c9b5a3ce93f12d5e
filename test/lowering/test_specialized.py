# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A producer agent that copies by TMA, and consumers that multiply by wgmma: by hand in nv_tileas, and by itself."""

import re

import ml_dtypes
import numpy as np
import pytest
from attention_kernels import attention
from specialized_kernels import Gemm, loops_of

import libtile
from libtile.backend.cubin import read_cubin
from libtile.backend.ptxas import assemble
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Options
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.ir.kernels import FromParameter
from libtile.lowering.discardable import NOT_SPECIALIZED
from libtile.lowering.tileas.agents.consumers import consumer_registers
from libtile.lowering.tileas.agents.promoted import Parts, parts_that_fit
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.passes.pipelines import SCHEDULES
from libtile.simulator import SimulationFault, run_ptx
from libtile.support.diagnostics import DiagnosticError, LoweringError
from libtile.support.errors import LibtileError
from libtile.support.remarks import Kind
from libtile.targets import target
from oracle.host_objects import Made, launch_arguments, require_host_code

# -- by hand ----------------------------------------------------------------------------------------------------------


def operands(m, n, k, transposed=False, dtype=np.float16, result=np.float32):
    rng = np.random.default_rng(m + n + k)
    if dtype is np.int8:
        a, b = rng.integers(-100, 100, (m, k)).astype(dtype), rng.integers(-100, 100, (k, n)).astype(dtype)
        wanted = a.astype(np.int32) @ b.astype(np.int32)
    else:
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        wanted = a.astype(np.float32) @ b.astype(np.float32)
    return a, np.ascontiguousarray(b.T) if transposed else b, np.full((m, n), 7, result), wanted


def check(kernel: Gemm, m: int, n: int, k: int, order=None, dtype=np.float16, result=np.float32) -> None:
    a, b, c, wanted = operands(m, n, k, kernel.transposed, dtype, result)
    grid = -(-m // kernel.rows), -(-n // kernel.columns), 1
    libtile.run(
        libtile.parse(kernel.text), "gemm", grid=grid, args=[a, b, c, m, n, k],
        backend="simulator", gpu_name="sm_90", check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


SMALL = Gemm(rows=64, columns=64, stages=2, groups=1, registers="[240, 24]")


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_product_by_hand_is_right_in_every_schedule(seed):
    check(SMALL, 64, 64, 64 * 5, seed)


def test_a_large_product_by_hand_is_right():
    check(Gemm(), 128, 256, 64 * 6)


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_a_copy_that_nobody_has_waited_for_at_the_end_is_a_fault(backend):
    loop = "%last = scf.for %i = %zero to %steps"
    more = f"%more_steps = arith.addi %steps, %one : index\n    {loop.replace('%steps', '%more_steps')}"
    assert SMALL.text.count(loop) == 1
    module = libtile.parse(SMALL.text.replace(loop, more))
    a, b, c, _ = operands(64, 64, 64)
    options = {"gpu_name": "sm_90"} if backend == "simulator" else {}
    with pytest.raises(LibtileError, match="nobody has waited for"):
        libtile.run(module, "gemm", args=[a, b, c, 64, 64, 64], backend=backend, check="full", **options)


@pytest.mark.parametrize(
    ("kernel", "m", "n", "k"),
    [
        (SMALL, 72, 120, 200),  # the last boxes lie partly outside of the tensors
        (Gemm(rows=128, columns=64, stages=3), 128, 64, 320),
        (Gemm(rows=256, columns=64, stages=2, overlapped=False), 256, 64, 64 * 3),
        (Gemm(rows=128, columns=64, stages=2, transposed=True), 128, 72, 192),
        (Gemm(rows=128, columns=32, depth=32, stages=4), 128, 32, 160),
        (Gemm(rows=128, columns=128, groups=1, registers="[240, 24]"), 128, 128, 128),
    ],
    ids=["ragged", "two-groups", "serial-256", "transposed", "narrow", "one-group"],
)
def test_shapes_and_arrangements_by_hand(kernel, m, n, k):
    check(kernel, m, n, k, order=3)


def test_bytes_are_multiplied():
    kernel = Gemm(
        rows=64, columns=64, depth=128, stages=2, groups=1, registers="[240, 24]",
        element="i8", accumulator="i32", types=("s8", "s8", "s32"), transposed=True,
    )  # fmt: skip
    check(kernel, 64, 64, 384, dtype=np.int8, result=np.int32)


def compiled(text: str, **options):
    return compile_module(libtile.parse(text).op, Options("sm_90", 3, launch_abi="simt", emit="ptx", **options))


def test_code_of_the_large_product():
    """Four products and nothing spilled in a loop of at most 45 instructions, which ptxas does not serialize."""
    made = assemble(compiled(Gemm().text).ptx, "sm_90a", options=["--enable-extended-smem=true"])
    report = made.kernels["gemm"]
    assert (report.registers, report.spill_stores, report.spill_loads, report.stack_frame) == (168, 0, 0, 0)
    assert "(C75" not in made.log
    loop = main_loop(made.cubin)
    assert sum("HGMMA.64x256x16.F32" in line for line in loop) == 4 and len(loop) <= 45


def main_loop(cubin: bytes, product: str = "GMMA") -> list[str]:
    """The instructions of the shortest loop with products, whose name has this in it."""
    return min((x for x in loops_of(cubin) if any(product in line for line in x)), key=len)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("wgmma.wait_group.sync.aligned 1;", "async"),
        ("wgmma.wait_group.sync.aligned 0;", "async"),
        ("wgmma.fence.sync.aligned;", "wgmma-fence"),
        ("fence.mbarrier_init.release.cluster;", None),
    ],
)
def test_what_is_left_out_is_found(what, kind):
    made = compiled(SMALL.text)
    assert what in made.ptx
    a, b, c, _ = operands(64, 64, 320)
    from libtile.runtime.tensor_maps import tensor_map
    from libtile.simulator import EncodedTensorMap

    args = [a, b, c, *(np.int32(n) for n in (64, 64, 320))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]

    def run(ptx):
        run_ptx(ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])

    run(made.ptx)
    if kind is None:  # a fence of the asynchronous proxy stands behind it as well
        return
    with pytest.raises(SimulationFault) as caught:
        run(made.ptx.replace(what, ""))
    assert caught.value.kind == kind


def test_a_launch_is_told_how_to_make_the_tensor_maps():
    a, b = compiled(Gemm(transposed=True).text).kernels["gemm"].descriptors
    assert (a.base, a.element, a.sizes, a.strides) == (
        0,
        "f16",
        (FromParameter(5), FromParameter(3)),
        (FromParameter(5),),
    )
    assert (a.box, a.swizzle, b.base, b.box) == ((64, 128), "128B", 1, (64, 256))


def test_tensor_maps_of_tile_ir_kernels_are_made_by_their_host_code():
    """They are parameters that the cubin hides, and the simulator gets those that the cubin's own object encodes."""
    require_host_code()
    made = libtile.compile(libtile.parse(SMALL.text), gpu_name="sm_90")
    header = made.ptx[made.ptx.index(".entry") : made.ptx.index("{")]
    assert header.count(".hidden .param .align 64 .b8") == 2
    cubin = read_cubin(made.cubin)
    places = [(p.offset, p.size) for p in cubin.kernels["gemm"].parameters]
    assert places == [(0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4)]
    a, b, c, wanted = operands(64, 64, 128)
    given = [a, b, c, *(np.int32(n) for n in (64, 64, 128))]
    args = launch_arguments(Made(made.ptx, cubin.host_object), "gemm", given, "sm_90")
    assert len(args) == len(given) + 2
    run_ptx(made.ptx, "gemm", block=made.kernels["gemm"].block_dim, args=args)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("agent_warps = [4, 4]", "agent_warps = [4, 0]", "expects agents of at least one warp"),
        (
            "agent_registers = [240, 24]",
            "agent_registers = [240, 20]",
            "expects agent_registers that are a multiple of 8 from 24 to 256",
        ),
        ("agent_elected = [0, 1]", "agent_elected = [0]", "expects 2 entries in agent_elected"),
        (
            "mma_atom<wgmma, 64x64x16",
            "mma_atom<wgmma, 64x24x16",
            "expects an atom for the columns of a warpgroup, but got #nv_tileas.mma_atom<wgmma, 64x24x16",
        ),
        ("mma_atom<wgmma", "mma_atom<mma_sync", "expects an atom of kind wgmma"),
        (
            "atom = #nv_tileas.mma_atom<wgmma",
            "fenced, atom = #nv_tileas.mma_atom<wgmma",
            "expects the registers of a fenced product to be ahead of another one",
        ),
        ("pending = 1", "pending = 8", "expects pending to be from 0 to 7"),
    ],
)
def test_the_verifier_refuses(old, new, message):
    assert old in SMALL.text
    with pytest.raises(DiagnosticError, match=re.escape(message)):
        libtile.verify(libtile.parse(SMALL.text.replace(old, new)))


def test_what_is_in_flight_is_waited_for():
    text = SMALL.text.replace("%view[%bx, %by], %result", "%view[%bx, %by], %end#1")
    with pytest.raises(
        DiagnosticError, match=r"expects a wait_dot before 'nv_tileas\.tiled_store' uses what is in flight"
    ):
        libtile.verify(libtile.parse(text))


@pytest.mark.parametrize(
    ("kernel", "old", "new", "message"),
    [
        (Gemm(), "agent_registers = [232, 40]", "agent_registers = [240, 40]", "of 64512, with which it is launched"),
    ],
)
def test_what_cannot_be_emitted_is_refused(kernel, old, new, message):
    with pytest.raises(LoweringError, match=re.escape(message)):
        compiled(kernel.text.replace(old, new))


# -- by itself --------------------------------------------------------------------------------------------------------


def tile_gemm(m=128, n=64, k=64, element="f16", result="f32", div=16, padding="", hints="", transposed=False):
    b_view = f"tile=({k}x{n}), {padding}tensor_view<?x?x{element}, strides=[?,1]>"
    if transposed:
        b_view += ", dim_map=[1, 0]"
    a_type = f"partition_view<tile=({m}x{k}), {padding}tensor_view<?x?x{element}, strides=[?,1]>>"
    b_type = f"partition_view<{b_view}>"
    c_type = f"partition_view<tile=({m}x{n}), tensor_view<?x?x{result}, strides=[?,1]>>"
    b_shape = "[%n, %k], strides = [%k, 1]" if transposed else "[%k, %n], strides = [%n, 1]"
    given = f" optimization_hints=<default = {{{hints}}}>" if hints else ""
    zero = "0" if result == "i32" else "0.0"
    mul = "mmai %x, %y, %acc signed signed" if result == "i32" else "mmaf %x, %y, %acc"
    return f"""cuda_tile.module @m {{
  entry @gemm(%a0: tile<ptr<{element}>>, %b0: tile<ptr<{element}>>, %c0: tile<ptr<{result}>>, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>){given} {{
    %a1 = assume div_by<{div}>, %a0 : tile<ptr<{element}>>
    %b1 = assume div_by<{div}>, %b0 : tile<ptr<{element}>>
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %k1 = assume bounded<0, ?>, %k0 : tile<i32>
    %n = assume div_by<16>, %n1 : tile<i32>
    %k = assume div_by<16>, %k1 : tile<i32>
    %ta = make_tensor_view %a1, shape = [%m, %k], strides = [%k, 1] : tile<i32> -> tensor_view<?x?x{element}, strides=[?,1]>
    %tb = make_tensor_view %b1, shape = {b_shape} : tile<i32> -> tensor_view<?x?x{element}, strides=[?,1]>
    %tc = make_tensor_view %c0, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?x{result}, strides=[?,1]>
    %va = make_partition_view %ta : {a_type}
    %vb = make_partition_view %tb : {b_type}
    %vc = make_partition_view %tc : {c_type}
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %dims:2 = get_index_space_shape %va : {a_type} -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <{result}: {zero}> : tile<{m}x{n}x{result}>
    %r = for %i in (%zero to %dims#1, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<{m}x{n}x{result}>) {{
      %x, %t0 = load_view_tko weak %va[%bx, %i] : {a_type}, tile<i32> -> tile<{m}x{k}x{element}>, token
      %y, %t1 = load_view_tko weak %vb[%i, %by] : {b_type}, tile<i32> -> tile<{k}x{n}x{element}>, token
      %d = {mul} : tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, tile<{m}x{n}x{result}>
      continue %d : tile<{m}x{n}x{result}>
    }}
    %w = store_view_tko weak %r, %vc[%bx, %by] : tile<{m}x{n}x{result}>, {c_type}, tile<i32> -> token
    return
  }}
}}
"""  # noqa: E501 - views and their types are long


def run_tile(text, m, n, k, tile, transposed=False, order=None, dtype=np.float16, result=np.float32):
    a, b, c, wanted = operands(m, n, k, transposed, dtype, result)
    grid = -(-m // tile[0]), -(-n // tile[1]), 1
    libtile.run(
        libtile.parse(text), "gemm", grid=grid, args=[a, b, c, m, n, k], pipeline="specialized",
        backend="simulator", gpu_name="sm_90", check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


def specialized(text, gpu_name="sm_90"):
    """(text in nv_tileas, why it is not specialized or None)"""
    made = libtile.compile(
        libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit="tileas", pipeline="specialized"
    )
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made.tileas)
    assert ("async.dot" in made.tileas) == (said is None)
    return made.tileas, said[1] if said else None


@pytest.mark.parametrize(("step", "copied"), [(24, 2), (4, 1)])
def test_a_copy_by_tma_begins_at_whole_16_bytes_of_a_row(step, copied):
    """An H100 takes another one for an illegal instruction: threads copy such an operand."""
    text = tile_gemm(n=32, transposed=True)
    part = "partition_view<tile=(128x64)"
    assert part in text
    text = text.replace(part, f"strided_view<tile=(128x64), traversal_strides=[128,{step}]")
    text = text.replace("make_partition_view %ta", "make_strided_view %ta")
    made, reason = specialized(text)
    assert reason is None and made.count("async.tiled_tma_load") == copied
    assert ("contiguous striding not 16-byte aligned" in made) == (copied == 1)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_loop_with_a_product_is_parted(seed):
    assert specialized(tile_gemm())[1] is None
    run_tile(tile_gemm(), 128, 64, 64 * 5, (128, 64), order=seed)


@pytest.mark.parametrize(
    ("m", "n", "k", "options"),
    [
        (144, 80, 208, {}),  # ragged edges and a tail along k
        (128, 64, 0, {}),  # no step at all
        (128, 64, 64, {}),  # one step
        (130, 144, 128, {"n": 128}),
        (64, 64, 192, {"m": 64, "transposed": True}),
    ],
)
def test_parted_loops_give_what_numpy_gives(m, n, k, options):
    text = tile_gemm(**options)
    assert specialized(text)[1] is None
    tile = options.get("m", 128), options.get("n", 64)
    if k == 0:
        a, b, c = np.zeros((m, 1), np.float16), np.zeros((1, n), np.float16), np.full((m, n), 7, np.float32)
        libtile.run(libtile.parse(text), "gemm", grid=(1, 1, 1), args=[a, b, c, m, n, 0], pipeline="specialized",
                    backend="simulator", gpu_name="sm_90", check="full")  # fmt: skip
        assert not c.any()
        return
    run_tile(text, m, n, k, tile, options.get("transposed", False))


def test_consumers_exchange_tiles_behind_the_loop():
    """A transposed result, and a sum of its rows: exchanges and reductions are among the consumers' threads only."""
    square = "tile<64x64xf32>"
    text = tile_gemm(m=64).replace(
        "%w = store_view_tko weak %r,",
        f"""%t = permute %r [1, 0] : {square} -> {square}
    %s = reduce %t dim=1 identities=[0.0 : f32] : {square} -> tile<64xf32>
    (%e: tile<f32>, %f: tile<f32>) {{ %g = addf %e, %f : tile<f32>
      yield %g : tile<f32> }}
    %s1 = reshape %s : tile<64xf32> -> tile<64x1xf32>
    %s2 = broadcast %s1 : tile<64x1xf32> -> {square}
    %u = addf %t, %s2 : {square}
    %w = store_view_tko weak %u,""",
    )
    assert specialized(text)[1] is None
    a, b, c, wanted = operands(64, 64, 192)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[a, b, c, 64, 64, 192], backend="simulator",
                gpu_name="sm_90", check="full", schedule="specialized", block_order=1)  # fmt: skip
    np.testing.assert_allclose(c, wanted.T + wanted.T.sum(1, keepdims=True), atol=1e-2)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("level", [0, 3])
def test_every_schedule_gives_the_same(schedule, level):
    a, b, c, wanted = operands(128, 64, 192)
    libtile.run(libtile.parse(tile_gemm()), grid=(1, 1, 1), args=[a, b, c, 128, 64, 192], backend="simulator",
                gpu_name="sm_90", opt_level=level, schedule=schedule)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)
    with pytest.raises(LibtileError, match="the interpreter takes none"):
        libtile.run(libtile.parse(tile_gemm()), grid=(1, 1, 1), args=[a, b, c, 128, 64, 192], schedule=schedule)


@pytest.mark.parametrize("schedule, said", [("serial", "the schedule is 'serial'"), ("specialized", None)])
def test_hints_of_latency_bound_the_stages(schedule, said):
    hint = " optimization_hints = <default = {latency = 3}>"
    text = tile_gemm().replace("%va[%bx, %i]", f"%va[%bx, %i]{hint}").replace("%vb[%i, %by]", f"%vb[%i, %by]{hint}")
    made = libtile.compile(libtile.parse(text), launch_abi="simt", emit="llvm", keep_text=True, schedule=schedule)
    stages = re.findall(r"!nv_tileas\.pipeline<(\d+)", made.tileas)
    assert set(stages) == ({"3"} if schedule == "specialized" else set())
    reasons = [dict(r.arguments)["Reason"] for r in made.remarks if r.name == "RemarkHintIgnored"]
    assert set(reasons) == ({said} if said else set())


def test_a_hint_forbids_copies_by_tma():
    hint = " optimization_hints = <default = {allow_tma = false}>"
    text = tile_gemm().replace("%vb[%i, %by]", f"%vb[%i, %by]{hint}")
    assert specialized(text)[1] == "#B may not be copied by TMA, as a hint says"


@pytest.mark.parametrize(("level", "gpu", "used"), [(3, "sm_90", True), (1, "sm_90", False), (3, "sm_80", False)])
def test_a_hint_that_allows_tma_is_used_where_producers_copy(level, gpu, used):
    hint = " optimization_hints = <default = {allow_tma = true}>"
    text = tile_gemm().replace("%vb[%i, %by]", f"%vb[%i, %by]{hint}")
    made = libtile.compile(libtile.parse(text), gpu, opt_level=level, emit="llvm")
    said = [r for r in made.remarks if r.name.startswith("RemarkHint") and "allow_tma" in r.message]
    assert [r.name for r in said] == ["RemarkHintDefault" if used else "RemarkHintIgnored"]
    assert ("wgmma" in made.llvm_ir) == used


def test_bytes_are_multiplied_where_both_lie_along_k():
    text = tile_gemm(n=64, k=128, element="i8", result="i32", transposed=True)
    assert specialized(text)[1] is None
    run_tile(text, 128, 64, 256, (128, 64), True, dtype=np.int8, result=np.int32)


@pytest.mark.parametrize(
    ("tile", "warps", "parts"),
    [
        ((256, 128), 8, Parts(2, 1)),
        ((128, 256), 8, Parts(1, 2)),
        ((256, 64), 4, Parts(2, 1)),
        ((128, 128), 8, Parts(1, 1)),
    ],
)
def test_sums_are_divided_by_rows_first(tile, warps, parts):
    """Rows beyond those of an instruction, whose products are as wide as they were."""
    registers = tile[0] * tile[1] // (32 * warps)
    assert parts_that_fit(registers, 64, tile, warps) == parts
    begins = [parts.first(number, tile) for number in range(parts.count)]
    assert len(set(begins)) == parts.count and begins[0] == (0, 0)


def test_parts_of_rows_mean_the_same_in_every_dialect():
    inner, reason = specialized(tile_gemm(256, 128, 64, element="f8E4M3FN", transposed=True))
    assert reason is None and inner.count("first_row") == 2
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (lines, 96)).astype(ml_dtypes.float8_e4m3fn) for lines in (240, 128))
    c = np.full((240, 128), 7, np.float32)
    libtile.run(libtile.parse(inner), "gemm", grid=(1, 1, 1), args=[a, b, c, 240, 128, 96], backend="interpreter")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(
    ("m", "n", "k", "tile", "fast", "parts"),
    [
        (80, 48, 208, (64, 32, 128), False, 1),  # ragged edges and a tail along k
        (128, 256, 128, (128, 256, 64), False, 2),
        pytest.param(272, 128, 96, (256, 128, 64), False, 2, marks=pytest.mark.slow),  # parts of rows
        (64, 64, 320, (64, 64, 64), True, 0),
    ],
)
def test_sums_of_8_bit_floats_are_promoted_in_each_step(m, n, k, tile, fast, parts):
    dtype = ml_dtypes.float8_e4m3fn
    text = tile_gemm(*tile, element="f8E4M3FN", transposed=True)
    if fast:
        text = text.replace("%x, %y, %acc :", "%x, %y, %acc fast_acc :")
    inner, reason = specialized(text)
    divided = "first_row" if tile[0] > 128 else "first_column"
    assert (reason, inner.count(divided), inner.count("nv_tileaa.addf")) == (None, parts if parts > 1 else 0, parts)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((n, k)).astype(dtype)
    c = np.full((m, n), 7, np.float32)
    libtile.run(libtile.parse(text), grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=[a, b, c, m, n, k],
                backend="simulator", gpu_name="sm_90", check="full", block_order=2)  # fmt: skip
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)


def test_promoted_sums_have_two_warpgroups_where_one_has_no_registers_for_them():
    text = tile_gemm(128, 128, 128, element="f8E4M3FN", transposed=True)
    for given, threads in ((text, 384), (text.replace("%x, %y, %acc :", "%x, %y, %acc fast_acc :"), 256)):
        kernel = libtile.compile(libtile.parse(given), gpu_name="sm_90").kernels["gemm"]
        assert (kernel.spills, kernel.block_dim[0], kernel.registers > 0) == (0, threads, True)


def test_code_of_promoted_sums():
    """Eight products and nothing spilled in a loop of at most 190 instructions, 128 of which add."""
    text = tile_gemm(128, 256, 128, element="f8E4M3FN", transposed=True)
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90")
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
    loop = main_loop(made.cubin)
    assert sum("QGMMA.64x128x32.F32" in line for line in loop) == 8 and len(loop) <= 190
    assert sum("FADD" in line for line in loop) == 128


def test_a_value_that_is_there_before_is_added_to_promoted_sums():
    text = tile_gemm(64, 64, 128, element="f8E4M3FN", transposed=True).replace("<f32: 0.0>", "<f32: 3.5>")
    a, b = (np.ones((64, 128), ml_dtypes.float8_e4m3fn) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    libtile.run(libtile.parse(text), args=[a, b, c, 64, 64, 128], backend="simulator", gpu_name="sm_90")
    assert (c == 131.5).all()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"k": 256}, "for more than 128 of them"),
        ({"result": "f16"}, "and its accumulator is no f32"),
        ({"m": 128, "n": 128, "hints": "num_worker_warps_per_cta = 4"},
         "and 87 registers beside the accumulators do not hold sums of their own"),
    ],
)  # fmt: skip
def test_why_sums_are_not_promoted(options, reason):
    text = tile_gemm(**{"m": 64, "n": 64, "k": 128, "element": "f8E4M3FN", "transposed": True, **options})
    said = specialized(text)[1]
    assert said == f"wgmma sums products of 8-bit floats with fewer bits, which 'fast_acc' does not allow, {reason}"


@pytest.mark.parametrize("n", [64, 128])
def test_blocks_that_share_a_multiprocessor_have_fewer_stages(n):
    text = tile_gemm(128, n, hints="occupancy = 2")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", keep_text=True, schedule="specialized")
    kernel = made.kernels["gemm"]
    assert "async.dot" in made.tileas and "(C75" not in made.log
    assert (kernel.spills, kernel.smem * 2 <= target("sm_90").shared_per_sm) == (0, True)


@pytest.mark.parametrize("gpu", ["sm_80"])
def test_other_targets_keep_their_loops(gpu):
    made = libtile.compile(libtile.parse(tile_gemm()), gpu_name=gpu, emit="tileas", pipeline="O3")
    other = libtile.compile(libtile.parse(tile_gemm()), gpu_name=gpu, emit="tileas", schedule="pipelined")
    assert made.tileas == other.tileas


def test_addresses_of_copies_are_added_to_what_stays_the_same():
    """Where threads copy, no register goes from turn to turn with the address of a copy of its own."""
    made = libtile.compile(libtile.parse(tile_gemm(64, 32)), gpu_name="sm_80", launch_abi="simt", emit="ptx").ptx
    assert made.count("cp.async.c") > 8 and not re.findall(r"add\.s64\s+(%rd\d+), \1, ", made)


def test_layouts_are_those_of_warpgroups_only_where_loops_are_parted():
    """A loop that stays as it is has the layouts that mma.sync reads least with."""
    text = tile_gemm(div=4)
    made = libtile.compile(libtile.parse(text), emit="ptx", schedule="specialized")
    assert made.ptx == libtile.compile(libtile.parse(text), emit="ptx", schedule="pipelined").ptx


def test_a_loop_of_one_turn_is_parted():
    assert specialized(tile_gemm().replace("to %dims#1, step", "to %one, step"))[1] is None


def test_a_product_with_batches_is_not_parted():
    tile = "tile<2x64x64xf16>"
    text = f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %n: tile<i32>) {{
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<2x64x64xf32>
    %view = make_tensor_view %p, shape = [%n, 64, 64], strides = [4096, 64, 1] : tile<i32> -> tensor_view<?x64x64xf16, strides=[4096,64,1]>
    %blocks = make_partition_view %view : partition_view<tile=(2x64x64), tensor_view<?x64x64xf16, strides=[4096,64,1]>>
    %r = for %i in (%0 to %n, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<2x64x64xf32>) {{
      %x, %t = load_view_tko weak %blocks[%i, %0, %0] : partition_view<tile=(2x64x64), tensor_view<?x64x64xf16, strides=[4096,64,1]>>, tile<i32> -> {tile}, token
      %d = mmaf %x, %x, %acc : {tile}, {tile}, tile<2x64x64xf32>
      continue %d : tile<2x64x64xf32>
    }}
    %h = ftof %r : tile<2x64x64xf32> -> {tile}
    %w = store_view_tko weak %h, %blocks[%0, %0, %0] : {tile}, partition_view<tile=(2x64x64), tensor_view<?x64x64xf16, strides=[4096,64,1]>>, tile<i32> -> token
    return
  }}
}}
"""  # noqa: E501 - views and their types are long
    assert specialized(text)[1] == "it has batches"


def test_remarks_say_what_parted_loops_became():
    made = libtile.compile(libtile.parse(tile_gemm(n=256)), launch_abi="simt", emit="llvm", pipeline="specialized")
    said = [(r.name, *(value for _, value in r.arguments)) for r in made.remarks]
    assert said.count(("RemarkTensorCoreMMA", "Tensor-core SM90", "[64, 256, 16]")) == 1
    loads = [s[1:] for s in said if s[0] == "RemarkMemoryLoadInstructionSelected"]
    assert loads == [("TMA Load instruction", "[64, 128]"), ("TMA Load instruction", "[64, 64]")]
    assert not [s for s in said if s[0] == "RemarkTensorCoreSpecialization"]


def test_remarks_say_why_loops_are_not_parted():
    made = libtile.compile(libtile.parse(tile_gemm(m=32, n=32)), launch_abi="simt", emit="llvm", pipeline="specialized")
    (found,) = [r for r in made.remarks if r.name == "RemarkTensorCoreSpecialization"]
    reason = "wgmma does not multiply f16 and f16 into f32 in tiles of 32x32x64"
    assert (found.kind.value, found.category.value, found.arguments) == ("missed", "Tensor-core", (("Reason", reason),))


def looped(wrap):
    """A product in a loop, within other ops as `wrap` has it."""
    tile = "tile<64x64xf16>"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %n: tile<i32>) {{
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %x = constant <f16: 1.0> : {tile}
    %none = constant <f32: 0.0> : tile<64x64xf32>
    {wrap}
    %h = ftof %r : tile<64x64xf32> -> {tile}
    print_tko "%f", %h : {tile} -> token
    return
  }}
}}
"""


DOT = "%d = mmaf %x, %x, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>"
FOR = "for %i in (%0 to %n, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>)"


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (DOT.replace("%acc", "%none").replace("%d", "%r"), "it is in no loop"),
        (
            f"""%r = {FOR} {{
      %b = cmpi less_than %n, %1, signed : tile<i32> -> tile<i1>
      %e = if %b -> (tile<64x64xf32>) {{ {DOT}
        yield %d : tile<64x64xf32> }} else {{ yield %acc : tile<64x64xf32> }}
      continue %e : tile<64x64xf32> }}""",
            "it is computed under a condition",
        ),
        (
            f"""%r = loop iter_values(%acc = %none) : tile<64x64xf32> -> tile<64x64xf32> {{ {DOT}
      %b = cmpi less_than %n, %1, signed : tile<i32> -> tile<i1>
      if %b {{ break %d : tile<64x64xf32> }}
      continue %d : tile<64x64xf32> }}""",
            "its loop does not count",
        ),
        (f"%r = {FOR} {{ {DOT}\n continue %d : tile<64x64xf32> }}", None),  # by the kernel's warps as the only agent
    ],
)
def test_where_products_are_not_parted(wrap, reason):
    assert specialized(looped(wrap))[1] == reason


def test_tensor_memory_is_given_by_one_thread_what_views_load():
    text = looped(f"%r = {FOR} {{ {DOT}\n continue %d : tile<64x64xf32> }}")
    assert specialized(text, "sm_100")[1] == "#A is not loaded by a view as it is, in the loop"


@pytest.mark.parametrize(
    ("options", "gpu", "reason"),
    [
        ({"m": 32, "n": 32}, "sm_90", "wgmma does not multiply f16 and f16 into f32 in tiles of 32x32x64"),
        ({"div": 4}, "sm_90", "#A cannot be copied by TMA: its base address is not known to be a multiple of 16 bytes"),
        ({"padding": "padding_value = nan, "}, "sm_90",
         "#A cannot be copied by TMA: tensor copies pad with zeros, not with nan"),
        ({"m": 256, "n": 256, "hints": "num_cta_in_cga = 1"}, "sm_90",
         "accumulators of 256x256 do not fit the registers of 8 warps: num_cta_in_cga = 2 halves them"),
    ],
)  # fmt: skip
def test_why_a_loop_is_not_parted(options, gpu, reason):
    assert specialized(tile_gemm(**options), gpu)[1] == reason


def test_consumers_registers_are_for_as_many_blocks_as_the_kernel_asks_for():
    with pytest.raises(Unfit, match="2 blocks do not fit a multiprocessor with 232 registers for each consumer"):
        consumer_registers(KernelSpecAttr(True, 8, 1, 2, "sm_90"), target("sm_90"), (232, 40))


@pytest.mark.parametrize(("m", "n", "asked"), [(128, 256, 2), (256, 128, 3), (256, 64, 4)])
def test_an_occupancy_that_leaves_no_registers_for_results_is_not_kept(m, n, asked):
    compiled = libtile.compile(libtile.parse(tile_gemm(m, n, hints=f"occupancy = {asked}")), gpu_name="sm_90")
    assert "wgmma" in compiled.ptx
    (remark,) = [r for r in compiled.remarks if "occupancy" in r.message]
    warps = 4 if m * n < 128 * 256 else 8
    taken, left = m * n // (32 * warps), 65536 // asked // (32 * warps)
    assert (remark.kind, remark.name) == (Kind.MISSED, "RemarkHintIgnored")
    reason = f"results of products take {taken} registers of a thread, of {left} that so many blocks leave"
    assert dict(remark.arguments)["Reason"] == reason


@pytest.mark.parametrize(("asked", "kept"), [(5, False), (2, True)])
def test_an_occupancy_that_leaves_nothing_beside_results_is_not_kept(asked, kept):
    """Scores and sums of 64x64 fit the 102 registers of a thread, but what the loop computes of them does not, too."""
    text = attention().replace(") {\n    %q1", f") optimization_hints=<default = {{occupancy = {asked}}}> {{\n    %q1")
    compiled = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="ptx")
    assert "wgmma" in compiled.ptx
    (remark,) = [r for r in compiled.remarks if "occupancy" in r.message]
    why = "results of products take 64 registers of a thread, of 102 that so many blocks leave"
    reason = {} if kept else {"Reason": why}
    assert (remark.kind, dict(remark.arguments)) == (Kind.PASSED if kept else Kind.MISSED, reason)


def test_an_occupancy_that_leaves_no_room_for_tiles_is_not_kept_where_products_go_to_tensor_memory():
    """Steps of 192 KiB are too much for three blocks, and mma.sync nothing that comes near on such a target."""
    text = tile_gemm(128, 64, k=512, hints="occupancy = 3")
    compiled = libtile.compile(libtile.parse(text), gpu_name="sm_100", emit="tileas")
    reason = "tiles that products read in a step take 196608 bytes, of 76800 that so many blocks leave"
    assert "async.dot_into" in compiled.tileas and f'fewer_blocks = "{reason}"' in compiled.tileas


def test_an_occupancy_that_leaves_enough_is_kept():
    compiled = libtile.compile(libtile.parse(tile_gemm(128, 64, hints="occupancy = 2")), gpu_name="sm_90")
    assert "wgmma" in compiled.ptx
    assert [r.kind for r in compiled.remarks if "occupancy" in r.message] == [Kind.PASSED]
