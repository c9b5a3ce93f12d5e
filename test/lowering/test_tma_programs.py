# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Barrier objects, copies of chosen rows, and descriptors that kernels of nv_tileas have themselves: right in the
simulator, refused with a reason where a target has no such thing, and found when something is missing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tma_programs import HANDED_ON, IN_LOOP, REPLACED, gathered

import libtile
from generators.check import TARGETS
from libtile.simulator import SimulationFault, run_ptx
from libtile.support.diagnostics import LoweringError


def run(text: str, args: list, **options) -> None:
    libtile.run(libtile.parse(text, filename="kernel.mlir"), args=args, **options)


def backends(gpus):
    simulated = [
        {"backend": "simulator", "gpu_name": gpu, "check": "full", "block_order": number or None}
        for number, gpu in enumerate(gpus)
    ]
    return [{"backend": "interpreter"}, *simulated]


def handed_on():
    given = np.arange(640, dtype=np.float32)
    return [given, np.zeros(640, np.float32)], 1, 2 * given


def replaced():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((36, 36), (7, 24), (8, 24)))
    want = np.zeros((48, 40), np.float32)
    want[0:16, 0:32], want[16:23, 0:20], want[32:39, 0:20] = a[:16, :32], b[:, :20], c[:7, :20]
    return [np.zeros(32, np.float32), a, b, c, 36, np.zeros((48, 40), np.float32)], 5, want


def in_loop():
    given, want = np.random.default_rng(0).standard_normal((20, 60)).astype(np.float32), np.zeros((20, 60), np.float32)
    want[:, :28] = given[:, 32:]
    return [given, 20, 60, 60, np.zeros_like(want)], 4, want


def check(text: str, case, options: dict) -> None:
    args, written, want = case()
    run(text, args, **options)
    np.testing.assert_array_equal(args[written], want)


@pytest.mark.parametrize("options", backends(TARGETS), ids=lambda o: o.get("gpu_name", "interpreter"))
def test_agents_meet_at_barrier_objects_of_the_program(options):
    check(HANDED_ON, handed_on, options)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("text", "case"), [(HANDED_ON, handed_on), (REPLACED, replaced), (IN_LOOP, in_loop)], ids=["on", "maps", "loop"]
)
def test_they_do_so_in_every_schedule(text, case, gpu_name):
    if text is not HANDED_ON and gpu_name == "sm_80":
        pytest.skip("sm_80 has no TMA")
    for seed in range(20):
        check(text, case, {"backend": "simulator", "gpu_name": gpu_name, "check": "full", "block_order": seed})


@pytest.mark.parametrize("options", backends(TARGETS[1:]), ids=lambda o: o.get("gpu_name", "interpreter"))
def test_a_descriptor_in_memory_is_changed_between_copies(options):
    check(REPLACED, replaced, options)


@pytest.mark.parametrize("options", backends(TARGETS[1:]), ids=lambda o: o.get("gpu_name", "interpreter"))
def test_a_barrier_object_is_made_again_in_each_iteration(options):
    """One that a pass makes for a load ends with the iteration, so that the next one may begin."""
    check(IN_LOOP, in_loop, options)


def chosen(rows: int):
    rng = np.random.default_rng(rows)
    given = rng.standard_normal((300, 64)).astype(np.float32)
    source = rng.integers(-3, 303, rows).astype(np.int32)
    target = rng.permutation(304)[:rows].astype(np.int32)
    want = np.zeros((300, 64), np.float32)
    for s, t in zip(source, target):
        if t < 300:
            want[t] = 2 * given[s] if 0 <= s < 300 else 0
    return [given, np.zeros_like(given), source, target, 300], 1, want


@pytest.mark.parametrize("rows", [8, 64, 256])
@pytest.mark.parametrize("options", backends(["sm_100"]), ids=lambda o: o.get("gpu_name", "interpreter"))
def test_rows_are_gathered_and_scattered_four_at_a_time(rows, options):
    """Numbers beyond the tensor give zeros, and what is stored there is not."""
    check(gathered(rows), lambda: chosen(rows), options)


def test_each_thread_asks_for_the_rows_whose_numbers_it_holds():
    ptx = libtile.compile(libtile.parse(gathered(256)), "sm_100", emit="ptx").ptx
    # Two panels of 32 columns; 32 lanes ask for four rows each, twice.
    assert ptx.count("tile::gather4") == ptx.count("tile::scatter4") == 4


CHOSEN_BY_HINT = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f16>>, %o: tile<ptr<f16>>, %from: tile<ptr<i32>>, %to: tile<ptr<i32>>, %n0: tile<i32>) {
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %b = assume div_by<16>, %o : tile<ptr<f16>>
    %n = assume bounded<0, 65536>, %n0 : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %width = constant <i32: 64> : tile<i32>
    %l = iota : tile<64xi32>
    %f1 = reshape %from : tile<ptr<i32>> -> tile<1xptr<i32>>
    %f2 = broadcast %f1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %f = offset %f2, %l : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %rows, %t0 = load_ptr_tko weak %f : tile<64xptr<i32>> -> tile<64xi32>, token
    %g1 = reshape %to : tile<ptr<i32>> -> tile<1xptr<i32>>
    %g2 = broadcast %g1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %g = offset %g2, %l : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %places, %t1 = load_ptr_tko weak %g : tile<64xptr<i32>> -> tile<64xi32>, token
    %va = make_tensor_view %a, shape = [%n, 128], strides = [128, 1] : tile<i32> -> TENSOR
    %vb = make_tensor_view %b, shape = [%n, 128], strides = [128, 1] : tile<i32> -> TENSOR
    %ga = make_gather_scatter_view %va : gather_scatter_view<tile=(64x64), padding_value = zero, TENSOR, sparse_dim=0>
    %gb = make_gather_scatter_view %vb : gather_scatter_view<tile=(64x64), padding_value = zero, TENSOR, sparse_dim=0>
    %start = make_token : token
    %end = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
      %c = muli %i, %width : tile<i32>
      %x, %t2 = load_view_tko weak %ga[%rows, %c] token = %t HINT : LOAD
      %y = addf %x, %x rounding<nearest_even> : tile<64x64xf16>
      %t3 = store_view_tko weak %y, %gb[%places, %c] token = %t2 HINT : STORE
      %again, %t4 = load_view_tko weak %gb[%places, %c] token = %t3 HINT : LOAD
      %z = addf %again, %x rounding<nearest_even> : tile<64x64xf16>
      %t5 = store_view_tko weak %z, %gb[%places, %c] token = %t4 HINT : STORE
      continue %t5 : token
    }
    return
  }
}
"""
for _name, _text in {
    "LOAD": "VIEW, tile<64xi32>, tile<i32> -> tile<64x64xf16>, token",
    "STORE": "tile<64x64xf16>, VIEW, tile<64xi32>, tile<i32> -> token",
    "VIEW": "gather_scatter_view<tile=(64x64), padding_value = zero, TENSOR, sparse_dim=0>",
    "TENSOR": "tensor_view<?x128xf16, strides=[128,1]>",
}.items():
    CHOSEN_BY_HINT = CHOSEN_BY_HINT.replace(_name, _text)
"""Rows that are gathered, scattered, gathered again and scattered once more, each behind the one before."""


def by_hint(gpu_name: str, hint: str = "allow_tma = true") -> str:
    return CHOSEN_BY_HINT.replace("HINT", f"optimization_hints = <{gpu_name} = {{{hint}}}>")


@pytest.mark.parametrize(
    ("gpu_name", "modes"), [("sm_100", ["gather4", "scatter4"]), ("sm_120", ["gather4"]), ("sm_90", [])]
)
def test_rows_are_copied_by_tma_where_a_hint_asks_for_it_and_the_target_can(gpu_name, modes):
    made = libtile.compile(libtile.parse(by_hint(gpu_name)), gpu_name, emit="ptx")
    assert [mode for mode in ("gather4", "scatter4") if f"tile::{mode}" in made.ptx] == modes
    said = {r.message for r in made.remarks if "OptimizationHint" in r.message}
    assert ("OptimizationHint used allow_tma" in said) == bool(modes)
    assert ("OptimizationHint ignored allow_tma" in said) == (len(modes) < 2)
    plain = libtile.compile(libtile.parse(by_hint(gpu_name, "latency = 2")), gpu_name, emit="ptx").ptx
    assert "gather4" not in plain and "scatter4" not in plain


def by_hint_case():
    rng = np.random.default_rng(7)
    given = rng.integers(-9, 9, (90, 128)).astype(np.float16)
    source, target = rng.integers(-3, 93, 64).astype(np.int32), rng.permutation(90)[:64].astype(np.int32)
    want = np.zeros_like(given)
    for s, t in zip(source, target):
        want[t] = 3 * given[s] if 0 <= s < 90 else 0
    return [given, np.zeros_like(given), source, target, 90], 1, want


@pytest.mark.parametrize(("gpu_name", "order"), [("sm_100", None), ("sm_100", 1), ("sm_120", 2)])
def test_rows_that_a_hint_has_copied_by_tma_are_right_in_a_loop(gpu_name, order):
    options = {"backend": "simulator", "gpu_name": gpu_name, "check": "full", "block_order": order}
    check(by_hint(gpu_name), by_hint_case, options)


@pytest.mark.slow
def test_rows_that_a_hint_has_copied_by_tma_are_right_in_every_schedule():
    for order in range(20):
        options = {"backend": "simulator", "gpu_name": "sm_100", "check": "full", "block_order": order}
        check(by_hint("sm_100"), by_hint_case, options)


def test_rows_whose_tensor_no_map_describes_are_moved_by_threads():
    """Of a tensor that is not known to be aligned."""
    text = by_hint("sm_100").replace("div_by<16>, %p", "div_by<2>, %p")
    made = libtile.compile(libtile.parse(text), "sm_100", emit="tileas").tileas
    assert 'not_tma = "it cannot be copied by TMA' in made and "gather_tma_load" in made


@pytest.mark.parametrize(
    ("text", "gpu_name", "words"),
    [
        (gathered(64), "sm_90", "copies rows by TMA's mode gather4, which is not there"),
        (gathered(64), "sm_120", "copies rows by TMA's mode scatter4, which is not there"),
        (HANDED_ON.replace("arrive %full :", "arrive %full {tx_count = 16} :"), "sm_80", "expects 16 bytes, which"),
        (HANDED_ON.replace("{arrivals = 1}", "{arrivals = 1048576}"), "sm_90", "counts 1048576 arrivals"),
        (REPLACED, "sm_80", "writes a descriptor on the device, by instructions that are not there"),
        (REPLACED.replace('"dim_size", ordinal = 1', '"dim_size", ordinal = 2'), "sm_90", "changes dimension 2 of a"),
    ],
    ids=["gather", "scatter", "bytes", "arrivals", "old", "dimension"],
)
def test_what_a_target_has_not_is_refused_with_the_reason(text, gpu_name, words):
    with pytest.raises(LoweringError, match=words) as caught:
        libtile.compile(libtile.parse(text, filename="kernel.mlir"), gpu_name, emit="ptx")
    assert re.search(r"kernel\.mlir:\d+:\d+: 'nv_tileas", str(caught.value))


BROKEN = {
    "a buffer is read without a wait": ("nv_tileas.mbarrier_wait %full, %i : !nv_tileas.mbarrier, i32\n", "\n"),
    "a buffer is written without a wait": ("mbarrier_wait %empty, %before", "mbarrier_wait %empty, %one"),
    "a buffer is never left": ("nv_tileas.mbarrier_arrive %empty : !nv_tileas.mbarrier\n", "\n"),
    "an arrival too many is counted": ("{arrivals = 1}", "{arrivals = 2}"),
    "the phases are mixed up": ("nv_tileas.mbarrier_wait %full, %i :", "nv_tileas.mbarrier_wait %full, %one :"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_barrier_objects_is_found(name):
    text = HANDED_ON.replace(*BROKEN[name])
    assert text != HANDED_ON
    with pytest.raises(SimulationFault) as caught:
        for seed in range(8):
            check(text, handed_on, {"backend": "simulator", "gpu_name": "sm_90", "check": "full", "block_order": seed})
    assert caught.value.kind in ("race", "deadlock", "uninitialized")


@pytest.mark.parametrize("kind", ["release", "acquire"])
def test_a_change_of_a_descriptor_without_its_fences_is_found(kind):
    ptx = libtile.compile(libtile.parse(REPLACED), "sm_90", emit="ptx", launch_abi="simt").ptx

    def launch(text: str) -> None:
        args = [np.int64(a) if isinstance(a, int) else a for a in replaced()[0]]
        run_ptx(text, "k", block=(128, 1, 1), args=args)

    launch(ptx)
    less = re.sub(rf"fence\.proxy\.tensormap::generic\.{kind}[^;]*;", "", ptx)
    assert less != ptx
    with pytest.raises(SimulationFault, match=rf"generic\.{kind}") as caught:
        launch(less)
    assert caught.value.kind == "proxy-fence"
