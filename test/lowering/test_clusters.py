# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for clusters of two CTAs: tiles in halves, and copies by TMA that go to both."""

import re
from dataclasses import replace

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_persistent import persistent
from test_specialized import operands, tile_gemm

import libtile
from libtile.backend.cubin import read_cubin
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Options
from libtile.passes.pipelines import compile_pipeline
from libtile.runtime.simulator import Simulation
from libtile.simulator import SimulationFault, run_ptx
from libtile.support.remarks import Kind

CLUSTER = "num_cta_in_cga = 2"


def clustered(**options) -> str:
    return tile_gemm(hints=CLUSTER, **options)


def pipeline(stages):
    return compile_pipeline(3).replace("tileas-specialize", f"tileas-specialize{{num-stages={stages}}}")


def run(text, m, n, k, tile, order=None, transposed=False, gpu_name="sm_90", stages=None, **options):
    if stages is not None:
        options["pipeline"] = pipeline(stages)
    a, b, c, wanted = operands(m, n, k, transposed)
    done = libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=[a, b, c, m, n, k],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order, **options,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)
    assert not done.bank_conflicts


def stage(text, emit="tileas", **options):
    return getattr(
        libtile.compile(libtile.parse(text), gpu_name="sm_90", emit=emit, launch_abi="simt", **options), emit
    )


@pytest.mark.parametrize(
    ("m", "n", "transposed", "copies"),
    [
        (128, 64, False, "multicast"),  # rows; the other operand in two boxes of half as many rows
        (64, 64, False, "multicast"),  # columns, as a half would have fewer rows than a warpgroup multiplies
        (128, 64, True, "multicast"),
    ],
)
def test_halves_of_a_product(m, n, transposed, copies):
    """Tiles at the edges, halves beyond the tensor, more steps than stages."""
    text = clustered(m=m, n=n, transposed=transposed)
    assert copies in stage(text)
    run(text, m + 16, n + 16, 64 * 3 + 16, (m, n), order=1, transposed=transposed, stages=2)


def test_a_tile_that_one_cta_cannot_hold_is_for_two_unless_that_is_refused():
    """Accumulators of 256x256 are 256 registers of each thread of eight warps."""
    text = tile_gemm(m=256, n=256)
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90")
    assert made.kernels["gemm"].cluster == (2, 1, 1) and made.kernels["gemm"].spills == 0
    one = libtile.compile(libtile.parse(tile_gemm(m=256, n=256, hints="num_cta_in_cga = 1")), gpu_name="sm_90")
    assert one.kernels["gemm"].cluster == (1, 1, 1)
    assert "num_ctas=1" in stage(tile_gemm(m=128, n=256))


def test_what_one_cta_cannot_hold_and_two_cannot_share_has_one_and_no_remark():
    text = tile_gemm(m=256, n=256).replace("    return", '    print_tko "x" -> token\n    return')
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="tileas")
    assert "num_ctas=1" in made.tileas and not any(
        "num_cta_in_cga" in str(r) and "halves" not in str(r) for r in made.remarks
    )


@pytest.mark.slow
def test_a_tile_for_two_ctas_by_default_is_right():
    run(tile_gemm(m=256, n=256), 256 + 16, 256 + 16, 64 * 3 + 16, (256, 256), order=1, stages=2)


@pytest.mark.parametrize(("m", "n", "gpu_name"), [(192, 64, "sm_90"), (128, 192, "sm_100")])
def test_parts_of_a_tile_that_lie_outside_of_the_tensor(m, n, gpu_name):
    """Sizes that are multiples of the part's, and not of the tile's: the last half of rows, or part of columns."""
    text = clustered() if gpu_name == "sm_90" else tile_gemm(n=256)
    view = f"tensor_view<{m}x{n}xf32, strides=[{n},1]>"
    text = text.replace("tensor_view<?x?xf32, strides=[?,1]>", view)
    text = text.replace(
        "shape = [%m, %n], strides = [%n, 1] : tile<i32> ->", f"shape = [{m}, {n}], strides = [{n}, 1] :"
    )
    run(text, m, n, 128, (128, 256 if n == 192 else 64), gpu_name=gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("m", "n"), [(128, 128), (64, 64)])
def test_halves_in_every_schedule(m, n, seed):
    run(clustered(m=m, n=n), m + 16, n, 64 * 4 + 16, (m, n), order=seed, stages=3)


@pytest.mark.parametrize("schedule", ["serial", "pipelined"])
def test_halves_without_agents(schedule):
    run(clustered(), 128, 80, 80, (128, 64), schedule=schedule)


def test_every_pass_keeps_what_both_ctas_do():
    def arguments():
        a, b, c, _ = operands(144, 80, 80)
        return [a, b, c, 144, 80, 80]

    assert check_passes(libtile.parse(clustered()).op, "gemm", (2, 2, 1), arguments) > 10


def test_a_kernel_of_a_cluster_says_so():
    """The grid counts clusters; the cubin says as much as the reference assembler's."""
    made = libtile.compile(libtile.parse(clustered()), gpu_name="sm_90")
    assert made.kernels["gemm"].cluster == (2, 1, 1)
    assert ".reqnctapercluster 2, 1, 1\n.blocksareclusters\n.language 7\n" in made.ptx
    assert read_cubin(made.cubin).kernels["gemm"].cluster == (2, 1, 1)


def test_code_of_a_step():
    """Each CTA copies a half of what both need, and tells both when it has left a stage; a step has 45 instructions."""
    made = libtile.compile(libtile.parse(clustered(m=128, n=128)), gpu_name="sm_90")
    loops = loops_of(made.cubin)
    copying = min((x for x in loops if any("UTMALDG" in line for line in x)), key=len)
    multiplying = min((x for x in loops if any("HGMMA" in line for line in x)), key=len)
    assert ["MULTICAST" in line for line in copying if "UTMALDG" in line] == [False, True]
    assert sum("SYNCS.ARRIVE" in line for line in multiplying) == 2 and len(multiplying) <= 45
    assert not any("MEMBAR" in line or "CCTL" in line for line in multiplying)


ROWS = "tile<16x32xf32>"


def rows_kernel(body: str, result: str = ROWS, hint: str = CLUSTER) -> str:
    """A kernel that loads x and stores what is computed of it to y."""
    shape = re.findall(r"\d+", result.partition("f32")[0])
    whole, tile = ", ".join(shape), "x".join(shape)
    strides = f"{shape[1]}, 1" if len(shape) == 2 else "1"
    y = f"tensor_view<{tile}xf32, strides=[{strides}]>"
    zeros = ", ".join(["%zero"] * len(shape))
    x = "partition_view<tile=(16x32), tensor_view<16x32xf32, strides=[32,1]>>"
    return f"""cuda_tile.module @m {{
  entry @rows(%x0: tile<ptr<f32>>, %y0: tile<ptr<f32>>) optimization_hints=<sm_90 = {{{hint}}}> {{
    %zero = constant <i32: 0> : tile<i32>
    %tx = make_tensor_view %x0, shape = [16, 32], strides = [32, 1] : tensor_view<16x32xf32, strides=[32,1]>
    %ty = make_tensor_view %y0, shape = [{whole}], strides = [{strides}] : {y}
    %vx = make_partition_view %tx : {x}
    %vy = make_partition_view %ty : partition_view<tile=({tile}), {y}>
    %x, %t = load_view_tko weak %vx[%zero, %zero] : {x}, tile<i32> -> {ROWS}, token
{body}
    %w = store_view_tko weak %r, %vy[{zeros}] : {result}, partition_view<tile=({tile}), {y}>, tile<i32> -> token
    return
  }}
}}"""


SUM = """    %s = reduce %x dim={dim} identities=[0.0 : f32] : tile<16x32xf32> -> tile<{left}xf32>
      (%e: tile<f32>, %f: tile<f32>) {{
        %g = addf %e, %f : tile<f32>
        yield %g : tile<f32>
      }}
"""
COLUMN_NUMBERS = """    %n = iota : tile<32xi32>
    %u = reshape %n : tile<32xi32> -> tile<1x32xi32>
    %v = broadcast %u : tile<1x32xi32> -> tile<16x32xi32>
"""
ROW_NUMBERS = """    %n = iota : tile<16xi32>
    %u = reshape %n : tile<16xi32> -> tile<16x1xi32>
    %v = broadcast %u : tile<16x1xi32> -> tile<16x32xi32>
"""
ADD = "    %f = itof %v signed : tile<16x32xi32> -> tile<16x32xf32>\n    %r = addf %x, %f : tile<16x32xf32>\n"
X = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) % 37

HALVED = {
    "elementwise": ("    %r = addf %x, %x : tile<16x32xf32>", ROWS, 2 * X),
    "rows are numbered": (ROW_NUMBERS + ADD, ROWS, X + np.arange(16)[:, None]),
    "columns are numbered": (COLUMN_NUMBERS + ADD, ROWS, X + np.arange(32)),
    "sums of rows": (SUM.format(dim=1, left=16).replace("%s =", "%r ="), "tile<16xf32>", X.sum(1)),
    "sums of columns": (SUM.format(dim=0, left=32).replace("%s =", "%r ="), "tile<32xf32>", X.sum(0)),
    "transposed": ("    %r = permute %x [1, 0] : tile<16x32xf32> -> tile<32x16xf32>", "tile<32x16xf32>", X.T),
}


@pytest.mark.parametrize("what", HALVED)
def test_tiles_without_products_in_halves(what):
    body, result, wanted = HALVED[what]
    y = np.full(wanted.shape, -1, np.float32)
    made = libtile.compile(libtile.parse(rows_kernel(body, result)), gpu_name="sm_90", emit="ptx")
    assert ".reqnctapercluster 2, 1, 1" in made.ptx
    libtile.run(libtile.parse(rows_kernel(body, result)), grid=1, args=[X.copy(), y], backend="simulator", check="full")
    np.testing.assert_array_equal(y, wanted)


PRINT = '    %r = addf %x, %x : tile<16x32xf32>\n    print_tko "here" -> token\n'
WHOLE = (
    SUM.format(dim=0, left=32) + "    %q = reshape %s : tile<32xf32> -> tile<1x32xf32>\n"
    "    %p = broadcast %q : tile<1x32xf32> -> tile<16x32xf32>\n"
    "    %o = permute %x [1, 0] : tile<16x32xf32> -> tile<32x16xf32>\n"
    "    %l = reshape %o : tile<32x16xf32> -> tile<16x32xf32>\n    %r = addf %p, %l : tile<16x32xf32>"
)
REASONS = {
    "a message": (rows_kernel(PRINT), "'nv_tileaa.print' would be done by each CTA"),
    "regrouped elements": (rows_kernel(WHOLE), "'nv_tileaa.view' does not go half by half"),
    "in place": (rows_kernel(HALVED["elementwise"][0]).replace("tensor_view %y0", "tensor_view %x0"),
                 "it loads and stores one tensor, of which one CTA may be ahead of the other"),
}  # fmt: skip


@pytest.mark.parametrize("what", REASONS)
def test_what_cannot_be_halved_is_for_one_cta(what):
    text, reason = REASONS[what]
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="ptx")
    (remark,) = [r for r in made.remarks if r.message.endswith("num_cta_in_cga")]
    assert (remark.kind, dict(remark.arguments)) == (Kind.MISSED, {"Reason": reason})
    assert ".reqnctapercluster" not in made.ptx and made.kernels["rows"].cluster == (1, 1, 1)


def test_larger_clusters_are_clusters_of_two():
    """A cluster of four is asked for: two CTAs share a tile block, and a remark says so."""
    made = libtile.compile(libtile.parse(tile_gemm(hints="num_cta_in_cga = 4")), gpu_name="sm_90", emit="ptx")
    two = libtile.compile(libtile.parse(clustered()), gpu_name="sm_90", emit="ptx")
    (remark,) = [r for r in made.remarks if r.message.endswith("num_cta_in_cga")]
    assert remark.kind == Kind.MISSED and "is for one of these in place of 4" in dict(remark.arguments)["Reason"]
    (name,) = made.kernels
    assert made.kernels[name].cluster == (2, 1, 1) and made.ptx == two.ptx


def ordered_stores() -> str:
    """A persistent product whose stores are ordered one behind the other, as frontends write them."""
    text = persistent(m=128, n=64, hints=CLUSTER)
    text = text.replace("    %nothing =", "    %begin = make_token : token\n    %nothing =")
    text = re.sub(r"(for %tile in \(.*?\) : tile<i32>) {", r"\1 iter_values(%before = %begin) -> (token) {", text)
    text = re.sub(r"(store_view_tko weak .*?\[%bx, %by\])", r"\1 token = %before", text)
    return text.replace("    for %tile", "    %after = for %tile").replace("continue \n", "continue %w : token\n")


@pytest.mark.parametrize(("m", "n", "blocks"), [(136, 80, 1), pytest.param(264, 144, 2, marks=pytest.mark.slow)])
def test_stores_that_are_ordered_behind_themselves_are_halved(m, n, blocks):
    """An element is in the same half of its tile each time, so that the order of one CTA's stores is all there is."""
    assert "multicast" in stage(ordered_stores())
    a, b, c, wanted = operands(m, n, 80)
    libtile.run(libtile.parse(ordered_stores()), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, 80],
                backend="simulator", gpu_name="sm_90", check="full", block_order=1)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


OVERLAPPING = {
    "rows": ("tensor_view<?x?xf32, strides=[?,1]>", "tensor_view<?x?xf32, strides=[1,1]>"),
    "tiles": ("partition_view<tile=(128x64), tensor_view<?x?xf32, strides=[?,1]>>",
              "strided_view<tile=(128x64), traversal_strides=[32,64], tensor_view<?x?xf32, strides=[?,1]>>"),
}  # fmt: skip


@pytest.mark.parametrize("what", OVERLAPPING)
def test_stores_that_may_meet_those_of_the_other_half_are_not(what):
    """Both CTAs write an element, and nothing orders one's behind the other's."""
    text = ordered_stores().replace(*OVERLAPPING[what])
    if what == "rows":
        text = text.replace("%tc = make_tensor_view %c0, shape = [%m, %n], strides = [%n, 1]",
                            "%tc = make_tensor_view %c0, shape = [%m, %n], strides = [1, 1]")  # fmt: skip
    else:
        text = text.replace("%vc = make_partition_view", "%vc = make_strided_view")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="ptx")
    (remark,) = [r for r in made.remarks if r.message.endswith("num_cta_in_cga")]
    reason = "tokens order accesses, and they do not order those of another CTA"
    assert (remark.kind, dict(remark.arguments)) == (Kind.MISSED, {"Reason": reason})


@pytest.mark.parametrize(("m", "n", "half"), [(256, 256, "128x256"), (128, 512, "128x256"), (128, 256, "64x256")])
def test_halves_are_those_for_which_a_cta_has_registers(m, n, half):
    text = stage(clustered(m=m, n=n))
    assert re.search(rf"async.dot .*-> .*tile<{half}xf32", text)


def test_the_hint_is_used():
    made = libtile.compile(libtile.parse(clustered()), gpu_name="sm_90", emit="ptx")
    assert [r.kind for r in made.remarks if r.message.endswith("num_cta_in_cga")] == [Kind.PASSED]


MEET = re.compile(r"\tbarrier\.cluster\.arrive[.\w]*;|\tbarrier\.cluster\.wait[.\w]*;")
REMOTE = "mbarrier.arrive.shared::cluster.b64"


def _without_barrier(number):
    def change(ptx):
        found = list(MEET.finditer(ptx))
        assert len(found) == 4
        for match in reversed(found[2 * number : 2 * number + 2]):
            ptx = ptx[: match.start()] + ptx[match.end() :]
        return ptx

    return change


def _mask(ptx):
    """Each CTA copies its share to the first one only."""
    changed = re.sub(r"(multicast::cluster[^;]*, )(%rs\d+);", r"\g<1>1;", ptx)
    assert changed != ptx
    return changed


def _number(ptx, instruction, change):
    """Another number in a register that the last such instruction reads."""
    register = re.findall(instruction + r"[^;]*, (%r\d+);", ptx)[-1]
    changed = re.sub(rf"(mov\.\w+\s+{register}, )(\d+);", lambda m: f"{m[1]}{change(int(m[2]))};", ptx)
    assert changed != ptx
    return changed


def _count(more):
    """Consumers that a stage waits for."""
    return lambda ptx: _number(ptx, r"mbarrier\.init\.shared\.b64", lambda n: n + more)


def _bytes(ptx):
    return _number(ptx, r"mbarrier\.arrive\.expect_tx", lambda n: n // 2)


def _own(ptx):
    """Consumers tell their own CTA twice, and the other one never."""
    changed = re.sub(r"(mapa\.shared::cluster\.u32 %r\d+, %r\d+, )%r\d+;", r"\g<1>%own;", ptx)
    assert changed != ptx
    return changed.replace("{\n\t.reg", "{\n\t.reg .b32 %own;\n\tmov.u32 %own, %cluster_ctarank;\n\t.reg", 1)


BROKEN = {
    "no barrier at the start": (_without_barrier(0), {"mbarrier-init", "illegal-instruction", "uninitialized"}),
    "no barrier at the end": (_without_barrier(1), {"out-of-bounds", "race"}),
    "wrong mask": (_mask, {"deadlock", "divergent-instruction", "illegal-instruction", "race", "async"}),
    "too few consumers": (_count(-4), {"illegal-instruction", "race", "async", "deadlock"}),
    "too many consumers": (_count(8), {"deadlock", "divergent-instruction"}),
    "half of the bytes": (_bytes, {"divergent-instruction", "async", "race", "deadlock", "uninitialized"}),
    "only its own consumers": (_own, {"async", "race", "deadlock", "illegal-instruction"}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_clusters_are_found(what):
    """In one of a few schedules."""
    change, kinds = BROKEN[what]
    options = Options("sm_90", 3, launch_abi="simt", emit="ptx", pipeline=pipeline(2))
    made = compile_module(libtile.parse(clustered(m=64)).op, options)
    broken = replace(made, ptx=change(made.ptx))
    a, b, c, _ = operands(64, 64, 64 * 6)
    numbers = [np.int32(n) for n in (64, 64, 64 * 6)]
    values = [0, 0, 0, *numbers]
    for order in (None, 1, 2, 3, 4, 5):
        simulation = Simulation(broken, "full", order)
        try:
            simulation.run("gemm", (1, 1, 1), [a, b, c, *(n.tobytes() for n in numbers)], values)
        except SimulationFault as fault:
            assert fault.kind in kinds, (fault.kind, str(fault))
            return
    pytest.fail("nobody noticed")


ARRIVE = """.version 9.2
.target sm_90a
.address_size 64
.visible .entry k() .reqnctapercluster 2, 1, 1 .reqntid 32
{
    .reg .b32 %r<4>;
    .reg .pred %p<3>;
    .shared .align 8 .b8 bar[8];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 0;
    @%p0 bra MEET;
    mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
MEET:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    or.pred %p2, %p0, %p1;
    @%p2 bra END;
    mov.u32 %r2, bar;
    mapa.shared::cluster.u32 %r3, %r2, 0;
    mbarrier.arrive.shared::cluster.b64 _, [%r3];
END:
    ENDING
    ret;
}"""


@pytest.mark.parametrize(
    ("ending", "found"),
    [("bar.sync 0; bar.sync 0;", True), ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", False)],
)
def test_the_simulator_finds_ctas_that_end_too_early(ending, found):
    """The arrival is in time here, and nothing says that it always is."""
    text = ARRIVE.replace("ENDING", ending)
    if not found:
        run_ptx(text, "k", grid=(2, 1, 1), block=(32, 1, 1))
        return
    with pytest.raises(SimulationFault) as caught:
        run_ptx(text, "k", grid=(2, 1, 1), block=(32, 1, 1))
    assert caught.value.kind in ("race", "out-of-bounds"), str(caught.value)
