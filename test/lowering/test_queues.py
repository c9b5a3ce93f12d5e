# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queues between agents: lowered pass by pass, compiled for every target class, run in random schedules, and broken."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from broken_turns import BROKEN as TURNS_BROKEN
from queue_kernels import KERNELS, Kernel
from queue_products import PRODUCTS
from shared_queues import KERNELS as SHARED
from test_documents import FOLDER, queue, turns

import libtile
from generators.check import TARGETS
from libtile.asm import print_op
from libtile.compiler.options import Compiled, Options
from libtile.compiler.stages import lower
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import CreateIteratorOp, CreatePipelineOp
from libtile.dialects.nv_tileas.types import PipelineIteratorType, PipelineType
from libtile.lowering.tileas.pipelines.iterators import propagate_iterators, retype
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
from libtile.support.diagnostics import DiagnosticError, LoweringError
from libtile.support.errors import LibtileError

PIPELINE = "nv_tileas.async.pipeline."
TURNS = (FOLDER / "turns.mlir").read_text()
ALL = {
    **KERNELS,
    **PRODUCTS,
    **SHARED,
    "queue": Kernel((FOLDER / "queue.mlir").read_text(), lambda: queue(np.random.default_rng(0))),
    "turns": Kernel(TURNS, lambda: turns(np.random.default_rng(0))),
}
WORKED = {"queue", "halves", "persistent", "nested"}
"""Those that test_worked_programs.py runs in every schedule, and breaks in every way on every target."""


def check(kernel: Kernel, text: str | None = None, **options) -> None:
    args, written, expected = kernel.case()
    libtile.run(libtile.parse(text or kernel.text), args=args, **options)
    assert np.array_equal(args[written].reshape(expected.shape), expected)


# -- right ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", [*KERNELS, *PRODUCTS])
def test_agents_hand_tiles_on(name, gpu_name):
    for seed in (None, 1) if gpu_name in ("sm_80", "sm_90") else (2,):
        check(ALL[name], backend="simulator", gpu_name=gpu_name, check="full", block_order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", sorted(ALL.keys() - WORKED))
def test_agents_hand_tiles_on_in_every_schedule(name, gpu_name):
    for seed in range(20):
        check(ALL[name], backend="simulator", gpu_name=gpu_name, check="full", block_order=seed)


SOME = [("queue", "sm_80"), ("product", "sm_90"), ("queue", "sm_100"), ("nested", "sm_90"), ("two-consumers", "sm_80")]


@pytest.mark.parametrize(
    ("name", "gpu_name"),
    [
        pytest.param(*case, marks=[] if case in SOME else pytest.mark.slow)
        for case in [*product(ALL, ["sm_80", "sm_90"]), *product([*PRODUCTS, "product", "queue"], ["sm_100"])]
    ],
)
def test_every_pass_leaves_the_same_memory(name, gpu_name):
    """What each pass makes of a module means what was before it, by the interpreter of the inner dialects."""
    seen = {ALL[name].text}
    check(ALL[name], backend="interpreter")

    def behind(pass_name: str, module) -> None:
        text = print_op(module)
        if text not in seen:
            seen.add(text)
            try:
                check(ALL[name], text, backend="interpreter")
            except (AssertionError, LibtileError) as problem:
                raise AssertionError(f"behind {pass_name}: {problem}") from problem

    lower(libtile.parse(ALL[name].text).op, Options(gpu_name, emit="tileas"), observer=behind, verify_each=True)
    assert len(seen) > 5


# -- what it becomes --------------------------------------------------------------------------------------------------


def compiled(text: str, gpu_name: str) -> Compiled:
    return libtile.compile(libtile.parse(text), gpu_name, launch_abi="simt", emit="ptx")


def launch(made: Compiled, ptx: str, kernel: Kernel, seed: int | None) -> None:
    """Run PTX in place of what was compiled of a kernel."""
    args, _, _ = kernel.case()
    ((name, facts),) = made.kernels.items()
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in facts.descriptors]
    given = [np.int64(value) if isinstance(value, int) else value for value in args]
    run_ptx(ptx, name, block=facts.block_dim, args=[*given, *maps], order=seed)


def test_copies_and_barrier_objects_are_what_the_target_has():
    """Rows of 32 and 64 bytes are copied without registers, and barrier objects are waited for as the target can."""
    old, new = (compiled(KERNELS["two-consumers"].text, gpu).ptx for gpu in ("sm_80", "sm_90"))
    for ptx in (old, new):
        assert "cp.async.mbarrier.arrive.noinc.shared.b64" in ptx and "cp.async.cg" in ptx
        # One producer warp: its 32 threads when their copies are done, and one of them; and six consumer warps.
        counts = re.findall(
            r"mov\.b32\s+(%r\d+), (\d+);\n(?:\s+mbarrier\.init.*\n)*\s+mbarrier\.init\.shared\.b64\s+\[[^]]*\], \1;",
            ptx,
        )
        assert {int(count) for _, count in counts} == {33, 6}
    assert "mbarrier.test_wait" in old and "mbarrier.try_wait" not in old and "elect.sync" not in old
    assert "mbarrier.try_wait" in new and "setmaxnreg" not in old
    # Four consumer warps by themselves; two more and the producer's share a warpgroup with one that does nothing.
    assert re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+);", new) == ["104", "104"]
    assert ".reqntid 256" in new and ".reqntid 224" in old


def test_stages_are_filled_by_tma_where_tensor_maps_describe_what_is_put_there():
    """One thread asks for all boxes of both tiles, and a kernel of which less is known copies with its threads."""
    known, less = (KERNELS[name].text for name in ("product", "two-consumers"))
    copies = r"cp\.async\.bulk\.tensor\.2d\.shared::cta\.global\.mbarrier"
    for gpu, text, bulk in (("sm_80", known, 0), ("sm_90", known, 2), ("sm_90", less, 0)):
        ptx = compiled(text, gpu).ptx
        assert len(re.findall(copies, ptx)) == bulk
        assert ("cp.async.cg" in ptx) == (not bulk)
    # Of the one row at whose end something else is put, all is copied by threads.
    other = known.replace("queue.yield %x, %y :", "queue.yield %x, %z :").replace(
        "        nv_tileaa.queue.yield %x,", "        %z = nv_tileaa.addf %y, %y : tile<64x32xf16>, tile<64x32xf16>"
        " -> tile<64x32xf16>\n        nv_tileaa.queue.yield %x,")  # fmt: skip
    assert len(re.findall(copies, compiled(other, "sm_90").ptx)) == 1


def test_a_warpgroup_multiplies_what_tma_has_put_into_its_stage():
    """By wgmma, from shared memory; other numbers of warps, and stages that threads fill, by mma.sync."""
    text = KERNELS["product"].text
    for gpu, other, asynchronous in (
        ("sm_90", text, True),
        ("sm_90", text.replace("[1, 4]", "[1, 2]"), False),
        ("sm_90", text.replace("divisibility = array<i64: 16>", "divisibility = array<i64: 8>"), False),
        ("sm_120", text, False),
    ):
        ptx = compiled(other, gpu).ptx
        found = ["wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16" in ptx, "mma.sync.aligned.m16n8k16" in ptx]
        assert found == [asynchronous, not asynchronous]


WAITS = r"wgmma\.wait_group\.sync\.aligned\s+(\d)"


@pytest.mark.parametrize("name", ["product", "queue", "halves", "tiles"])
def test_products_stay_under_way_from_one_turn_to_the_next(name):
    """Each turn waits for the products of the one before, and what is behind the loop for the last ones."""
    ptx = compiled(ALL[name].text, "sm_90").ptx
    consumers = 2 if name == "halves" else 1
    assert sorted(re.findall(WAITS, ptx)) == ["0"] * consumers + ["1"] * consumers


OWN_TURN = {
    "one place in the queue": (r"depth = \d", "depth = 1"),
    "a turn that does more": (
        r"nv_tileaa\.queue\.yield %d0 :",
        "%d1 = nv_tileaa.addf %d0, %d0 : tile<64x32xf32>, tile<64x32xf32> -> tile<64x32xf32>\n"
        "        nv_tileaa.queue.yield %d1 :",
    ),
    "a loop that does more": (
        r"scf\.yield %d : tensor<64x32xf32>",
        "%s = nv_tileaa.tiled_store %vc[%k, %1], %d : !vc, tile<64x32xf32>, index, index -> !nv_tileaa.mem_token\n"
        "      scf.yield %d : tensor<64x32xf32>",
    ),
}


@pytest.mark.parametrize("why", OWN_TURN)
def test_a_turn_waits_for_its_own_products_where_the_stage_before_cannot_be_kept(why):
    pattern, replacement = OWN_TURN[why]
    text, count = re.subn(pattern, replacement, KERNELS["product"].text)
    assert count
    ptx = compiled(text, "sm_90").ptx
    assert {*re.findall(WAITS, ptx)} == {"0"}
    if why == "one place in the queue":
        for seed in (None, 1):
            check(KERNELS["product"], text, backend="simulator", gpu_name="sm_90", check="full", block_order=seed)


UNDER_WAY = {
    "a turn does not wait for the one before": (rf"{WAITS[:-5]}1;", ""),
    "a turn waits for the one before that": (rf"{WAITS[:-5]}1;", "wgmma.wait_group.sync.aligned 2;"),
    "nobody waits for the last turn": (rf"{WAITS[:-5]}0;", ""),
}


@pytest.mark.parametrize("name", UNDER_WAY)
def test_products_that_are_not_waited_for_are_found(name):
    pattern, replacement = UNDER_WAY[name]
    made = compiled(KERNELS["product"].text, "sm_90")
    ptx, count = re.subn(pattern, replacement, made.ptx)
    assert count == 1
    seen = set()
    for seed in (None, 1, 2, 3):
        try:
            launch(made, ptx, KERNELS["product"], seed)
        except SimulationFault as fault:
            seen.add(fault.kind)
    assert seen and seen <= {"async", "race"}


WITHOUT = {
    "another number of warps": ("[1, 4]", "[1, 2]"),
    "less known of the tensors": ("divisibility = array<i64: 16>", "divisibility = array<i64: 8>"),
    "a sum that does not start with zeros": ("dense<0.0>", "dense<1.0>"),
    "a turn that does more than to multiply": (
        "nv_tileaa.queue.yield %d0 :",
        "%d1 = nv_tileaa.addf %d0, %d0 : tile<64x32xf32>, tile<64x32xf32> -> tile<64x32xf32>\n"
        "        nv_tileaa.queue.yield %d1 :",
    ),
    "a turn that is left out now and then": (
        "%d = nv_tileaa.queue.get",
        "%odd = arith.cmpi ne, %k, %1 : index\n"
        "      %d = scf.if %odd -> (tensor<64x32xf32>) {\n      %e = nv_tileaa.queue.get",
    ),
}
"""What a consumer that multiplies with its own registers has, of what the kernel `product` has not."""


@pytest.mark.parametrize("why", [None, *WITHOUT])
def test_one_thread_issues_the_products_of_a_queue_where_results_lie_in_tensor_memory(why):
    """On sm_100, where each turn does nothing but multiply what TMA puts there; elsewhere the consumer multiplies."""
    text = KERNELS["product"].text
    if why is not None:
        old, new = WITHOUT[why]
        assert old in text
        text = text.replace(old, new)
        if "scf.if" in new:
            end = "}) : !q -> tile<64x32xf32>\n"
            assert end in text
            given, kept = (f"scf.yield {value} : tensor<64x32xf32>\n" for value in ("%e", "%acc"))
            text = text.replace(end, f"{end}{given}      }} else {{\n{kept}      }}\n")
    ptx = compiled(text, "sm_100").ptx
    found = ["tcgen05.mma.cta_group::1.kind::f16" in ptx, "mma.sync.aligned.m16n8k16" in ptx]
    assert found == ([True, False] if why is None else [False, True])
    if why is None:
        assert ptx.count("tcgen05.alloc") == ptx.count("tcgen05.dealloc") == 1
        assert ".reqntid 192" in ptx  # four warps, one that copies, and one that multiplies


def test_each_consumer_has_its_products_issued_and_loops_around_them_are_gone_through_twice():
    for name, threads, count in (("halves", 384, 2), ("tiles", 192, 1)):
        ptx = compiled(PRODUCTS[name].text, "sm_100").ptx
        assert f".reqntid {threads}" in ptx and "mma.sync" not in ptx
        assert len(re.findall(r"tcgen05\.mma\.", ptx)) == count * (4 if name == "halves" else 2)
        assert len(re.findall(r"tcgen05\.commit", ptx)) == 2 * count  # behind each turn, and behind the last one


def test_registers_that_cannot_be_given_are_said_to_be_left_aside():
    for gpu, expected in (("sm_80", 1), ("sm_90", 0)):
        made = compiled(KERNELS["two-consumers"].text, gpu)
        assert sum(remark.name == "RemarkAgentRegisters" for remark in made.remarks) == expected


ITERATORS = """
!pipe = !nv_tileas.pipeline<2, (tile<64xf32>)>
!iter = !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<64xf32>)>>
nv_tileaa.func @k(%n: index, %c: i1) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %a = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !iter
  %b = scf.for %i = %0 to %n step %1 iter_args(%x = %a) -> (!iter) {
    %d = scf.if %c -> (!iter) {
      %e = nv_tileas.async.pipeline.inc_iter %x : !iter -> !iter
      scf.yield %e : !iter
    } else {
      scf.yield %x : !iter
    }
    scf.yield %d : !iter
  }
  %f:2 = scf.while (%x = %b, %i = %0) : (!iter, index) -> (index, !iter) {
    scf.condition(%c) %i, %x : index, !iter
  } do {
  ^bb0(%i: index, %x: !iter):
    %g = nv_tileas.async.pipeline.produce_one %p, %x ({
      %h = nv_tileas.async.pipeline.inc_iter %x : !iter -> !iter
      nv_tileas.async.pipeline.yield %h : !iter
    }) : !pipe, !iter -> !iter
    scf.yield %g, %i : !iter, index
  }
  nv_tileaa.return
}
"""


def iterators() -> tuple[FuncOp, CreatePipelineOp]:
    (function,) = libtile.parse(ITERATORS).op.body.block.ops
    return function, next(op for op in function.walk() if isinstance(op, CreatePipelineOp))


def test_a_pipelines_type_follows_its_iterators_through_control_flow():
    function, made = iterators()
    old, new = made.pipeline.type, PipelineType(4, made.pipeline.type.element_types, 1, "mbarrier")
    retype(made, new)
    values = [v for op in function.walk() for v in (*op.results, *(a for r in op.regions for a in r.block.args))]
    found = [v.type for v in values]
    assert found.count(PipelineIteratorType(new)) == 10 and new in found
    assert PipelineIteratorType(old) not in found and old not in found
    propagate_iterators(function)
    function.verify()


def test_paths_that_do_not_agree_are_refused():
    function, made = iterators()
    branch = next(op for op in function.walk() if isinstance(op, scf.IfOp))
    other = PipelineType(3, made.pipeline.type.element_types)
    at = branch.false_region.block.last_op
    pipe = CreatePipelineOp.make(results=[other])
    start = CreateIteratorOp.make(pipe.pipeline, results=[PipelineIteratorType(other)])
    branch.false_region.block.insert_ops_before([pipe, start], at)
    at.operands = [start.iterator]
    with pytest.raises(LoweringError, match=r"hands on .* where another path hands on .*"):
        propagate_iterators(function)


# -- broken -----------------------------------------------------------------------------------------------------------


def once(old: str, new: str, behind: str = ""):
    """A change of one place: the first one behind a text."""

    def change(text: str) -> str:
        start = text.index(behind)
        assert old in text[start:]
        return text[:start] + text[start:].replace(old, new, 1)

    return change


RELEASE, COMMIT = f"{PIPELINE}consumer_release %t1 : !ready\n", f"{PIPELINE}producer_commit %t1 : !written\n"
WRITE_AGAIN = f"""%again = {PIPELINE}producer_write %t1, %it ({{
        ^bb0(%b: !stage):
          {PIPELINE}yield
        }}) : !written, !iter -> !written
"""
READ, CONSUMER = f"%t1 = {PIPELINE}consumer_read", "}, {"
LATE = f"%second = {PIPELINE}inc_iter %first : !iter -> !iter\n    %last = scf"
BROKEN = {
    "missing release": ([once(RELEASE, "")], "deadlock"),
    "missing commit": ([once(COMMIT, "")], "expects the turn to be committed, but its token goes to no commit"),
    "write twice": ([once(COMMIT, WRITE_AGAIN + COMMIT)], "expects a turn to be written once, but it is 2 times"),
    "release unread": ([once(RELEASE, RELEASE.replace("%t1", "%t0")),
                        lambda text: re.sub(r"%t1 = \S+consumer_read .*?-> !ready\n", "", text, flags=re.DOTALL)],
                       "expects the token of a stage that was read, but it was only waited for"),
    "commit twice": ([once(COMMIT, COMMIT * 2)], "expects a turn to be committed once, but it is 2 times"),
    "release twice": ([once(RELEASE, RELEASE * 2)], "expects a turn to be released once, but it is 2 times"),
    "commit before write": ([once("commit %t1", "commit %t0")], "expects the token of a stage that was written"),
    "early release": ([once(RELEASE, ""), once(READ, RELEASE.replace("%t1", "%t0") + READ)], "race"),
    "producer stays": ([once("scf.yield %next", "scf.yield %it")], "deadlock"),
    "consumer stays": ([once("scf.yield %next", "scf.yield %it", CONSUMER)], "deadlock"),
    "one turn too many": ([once("%0 to %items", "%0 to %n", CONSUMER),
                           once("%last", "%n = arith.addi %items, %1 : index\n    %last", CONSUMER)], "deadlock"),
    "wrong phase": ([once("(%it = %first)", "(%it = %second)", CONSUMER), once("%last = scf", LATE, CONSUMER)],
                    "deadlock"),
    "another iterator": ([once("read %t0, %it", "read %t0, %first")], "expects the iterator by which the stage was"),
    "wrong consumer": ([once("%it : !pipe, !iter -> !ready", "%it {consumer_idx = 1} : !pipe, !iter -> !ready")],
                       "expects consumer_idx to identify a consumer in a group of 1, but got 1"),
    "missing consumer": ([lambda text: re.sub(r"(3, \(!nv_tileas\.buffer\S+ shared>\))", r"\1, consumers=2", text)],
                         "is never read by its consumer 1"),
}  # fmt: skip
"""Ways to break the documents' turns: changes, and the kind of the simulator's fault or what is said before."""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_turns_are_found(name, gpu_name):
    changes, expected = BROKEN[name]
    text = TURNS
    for change in changes:
        text = change(text)
    with pytest.raises((SimulationFault, DiagnosticError, LoweringError)) as caught:
        check(ALL["turns"], text, backend="simulator", gpu_name=gpu_name, check="full")
    fault = caught.value
    assert fault.kind == expected if isinstance(fault, SimulationFault) else expected in str(fault)


def with_pipelines(text: str, gpu_name: str):
    """The module with the pipelines that queues become, whose stages hold tiles without layouts."""
    found = []

    def keep(name: str, module) -> None:
        if name == "lower-tileaa-queues":
            found.append(print_op(module))

    lower(libtile.parse(text).op, Options(gpu_name, emit="tileas"), observer=keep)
    return libtile.parse(found[0]).op


@pytest.mark.parametrize(
    ("name", "gpu_name"), [("queue", gpu) for gpu in TARGETS] + [("nested", "sm_90"), ("workers", "sm_80")]
)
def test_turns_of_tiles_are_compiled_as_they_are_written(name, gpu_name):
    """Agents, pipelines and turns of nv_tileas around tiles of nv_tileaa, by hand: layouts come behind them."""
    text = print_op(with_pipelines(ALL[name].text, gpu_name))
    assert "nv_tileaa.queue" not in text and "#nv_tileas.layout" not in text and "producer_commit" in text
    check(ALL[name], text, backend="interpreter")
    check(ALL[name], text, backend="simulator", gpu_name=gpu_name, check="full", block_order=1)


def waits_in_one_thread(text: str, gpu_name: str) -> bool:
    """Whether one thread of a warp waits in an agent that the compiler makes: one that issues its products, or one that
    draws turns where several agents put."""
    passed = [""]
    lower(libtile.parse(text).op, Options(gpu_name, emit="tileas"), observer=lambda _, op: passed.append(print_op(op)))
    return "async.dot_into" in passed[-1] or "{drawn}" in passed[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["product", "two-consumers", "agents-in-loops", "two-producers"])
def test_turns_that_are_broken_in_any_way_are_found(name):
    """In the modules with pipelines that the compiler makes of queues; on a target of each class in turn."""
    for number, (what, (change, expected)) in enumerate(TURNS_BROKEN.items()):
        gpu_name = TARGETS[(number + len(name)) % len(TARGETS)]
        module = with_pipelines(ALL[name].text, gpu_name)
        # One thread may wait for ever while the others of its warp are at a barrier.
        elected = waits_in_one_thread(ALL[name].text, gpu_name)
        change(module)
        for seed in (None, 1):
            with pytest.raises((SimulationFault, DiagnosticError, LoweringError)) as caught:
                check(ALL[name], print_op(module), backend="simulator", gpu_name=gpu_name, check="full",
                      block_order=seed)  # fmt: skip
            fault = caught.value
            if isinstance(expected, str):
                assert expected in str(fault), (what, gpu_name, str(fault))
            else:
                kinds = expected | {"divergent-barrier"} if elected else expected
                assert isinstance(fault, SimulationFault) and fault.kind in kinds, (what, gpu_name, str(fault))


ARRIVAL = r"mbarrier\.arrive\.shared\.b64\s+%rd\d+, \[[^]]*\](, %r\d+)?;"
WAIT = r"mbarrier\.(try|test)_wait\.parity\.shared\.b64[^;]*;\s+not\.pred[^;]*;\s+@%p\d+ bra[^;]*;"
LEFT_OUT = {
    "arrival of the producer": (ARRIVAL, 0, "", ["deadlock"]),
    "arrival of the consumer": (ARRIVAL, 1, "", ["deadlock"]),
    "wait for a free stage": (WAIT, 0, "", ["race", "deadlock"]),
    "wait for a full stage": (WAIT, 1, "", ["uninitialized", "race"]),
    "barrier behind the initialisation": (r"bar\.sync\s+0;", 0, "", ["illegal-instruction", "mbarrier-init"]),
    "one arrival too many": (r"mov\.b32\s+(%r\d+), 4;", 0, r"mov.b32 \1, 5;", ["deadlock"]),
    "one arrival too few": (r"mov\.b32\s+(%r\d+), 4;", 0, r"mov.b32 \1, 3;", ["race", "uninitialized", "deadlock"]),
}
"""Ways to break the code of the documents' turns: what is changed, which one of them, into what, and the faults that
schedules meet, of which some schedule meets the first."""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_broken_code_of_turns_is_found(name, gpu_name):
    pattern, number, replacement, kinds = LEFT_OUT[name]
    made = compiled(TURNS, gpu_name)
    found = list(re.finditer(pattern, made.ptx))[number]
    ptx = made.ptx[: found.start()] + found.expand(replacement) + made.ptx[found.end() :]
    seen = set()
    for seed in (None, 1, 2, 3):
        try:
            launch(made, ptx, ALL["turns"], seed)
        except SimulationFault as fault:
            seen.add(fault.kind)
    assert kinds[0] in seen and seen <= {*kinds}


def test_what_stands_outside_of_agents_is_done_once_however_many_warps_there_are():
    """Nine warps come by, of which the first four hold the tile."""
    text = """
!m = !nv_tileaa.memref<?xi32, strides=[1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?xi32, strides=[1], 1>, 128>
nv_tileaa.func @k(%c: !m) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %0 = arith.constant 0 : index
  %one = nv_tileaa.constant {value = dense<1> : !cuda_tile.tile<128xi32>} : tile<128xi32>
  %v = nv_tileaa.block_tile %c {tileSizes = array<i64: 128>, dimGroups = [array<i64: 0>]} : !m -> !v
  %o, %t = nv_tileaa.tiled_atomic_rmw %v[%0], %one {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>, rmw_mode = #nv_tileaa.rmw_mode<add>} : !v, tile<128xi32>, index -> tile<128xi32>, !nv_tileaa.mem_token
  nv_tileaa.execute {agent_warps = [4, 4, 1]} ({
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}
"""  # noqa: E501 - the attributes of an atomic op are long
    c = np.zeros(128, np.int32)
    libtile.run(libtile.parse(text), args=[c, 128], backend="simulator", gpu_name="sm_80", check="full")
    assert (c == 1).all()
