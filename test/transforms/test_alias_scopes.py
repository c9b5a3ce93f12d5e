# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Alias scopes of memrefs decide what may be reordered: with them an op moves, without them, or with the same scope
twice, it stays; and the interpreter finds a claim that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import libtile
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.transforms.canonicalize_tileaa import CanonicalizeTileaaPass
from libtile.transforms.cse import CsePass
from libtile.transforms.licm import LicmPass

OTHER, SAME, NONE, ONE = (
    ("alias_scope = 1", "alias_scope = 2"),
    ("alias_scope = 1",) * 2,
    ("", ""),
    ("alias_scope = 1", ""),
)
STAYS = [SAME, NONE, ONE, ONE[::-1]]

KERNEL = """
!m = !nv_tileaa.memref<?xf32, strides=[1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?xf32, strides=[1], 1>, 512>
!t = !nv_tileaa.mem_token
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32, 1>, %q: !nv_tileaa.ptr<f32, 1>, %n: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %512 = arith.constant 512 : index
  %size = arith.muli %n, %512 : index
  %a = nv_tileaa.make_memref %p, %size FIRST : !nv_tileaa.ptr<f32, 1>, index -> !m
  %b = nv_tileaa.make_memref %q, %size SECOND : !nv_tileaa.ptr<f32, 1>, index -> !m
  %va = nv_tileaa.block_tile %a {tileSizes = array<i64: 512>, dimGroups = [array<i64: 0>]} : !m -> !v
  %vb = nv_tileaa.block_tile %b {tileSizes = array<i64: 512>, dimGroups = [array<i64: 0>]} : !m -> !v
  %start = nv_tileaa.create_mem_token : !t
BODY
  nv_tileaa.return
}
"""
HINT = "{{hints = {{latency = 4 : i64}}}}"
LOAD = f"nv_tileaa.tiled_load %{{view}}[{{index}}], {{token}} {HINT} : !v, index, !t -> tile<512xf32>, !t"
STORE = "nv_tileaa.tiled_store %vb[{index}], {value}, {token} : !v, tile<512xf32>, index, !t -> !t"


def text(scopes: tuple[str, str], body: str) -> str:
    first, second = (f"{{divisibility = array<i64: 16>{', ' * bool(s)}{s}}}" for s in scopes)
    return KERNEL.replace("FIRST", first).replace("SECOND", second).replace("BODY", body)


def module_of(scopes: tuple[str, str], body: str) -> ModuleOp:
    module = libtile.parse(text(scopes, body)).op
    assert isinstance(module, ModuleOp)
    return module


def loads(module: Operation) -> list[TiledLoadOp]:
    return [op for op in module.walk() if isinstance(op, TiledLoadOp)]


COPY = f"""
  %end = scf.for %i = %0 to %n step %1 iter_args(%t = %start) -> (!t) {{
    %x, %t1 = {LOAD.format(view="va", index="%i", token="%t")}
    %y = nv_tileaa.addf %x, %x : tile<512xf32>, tile<512xf32> -> tile<512xf32>
    %t2 = {STORE.format(index="%i", value="%y", token="%t1")}
    scf.yield %t2 : !t
  }}
"""
"""Each iteration's load waits for the store of the one before."""


def check_copy(scopes: tuple[str, str], n: int = 5, **options) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(-99, 99, 512 * n).astype(np.float32), np.zeros(512 * n, np.float32)
    libtile.run(libtile.parse(text(scopes, COPY)), args=[source, target, n], **options)
    assert np.array_equal(target, 2 * source)


def test_a_load_does_not_wait_for_stores_of_another_scope_in_iterations_before():
    for scopes, waits in ((OTHER, False), *((scopes, True) for scopes in STAYS)):
        module = module_of(scopes, COPY)
        CanonicalizeTileaaPass().apply(Context(), module)
        module.verify()
        (load,) = loads(module)
        (token,) = load.group("token")
        assert isinstance(token.owner, CreateMemTokenOp) != waits
        (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
        behind = loop.body.block.last_op.operands[0].owner
        assert waits or behind.name == "nv_tileaa.join_mem_token"  # the loop still stands for its load, and its store


def test_copies_run_ahead_over_stores_of_another_scope():
    for scopes, ahead in ((OTHER, True), *((scopes, False) for scopes in STAYS)):
        ptx = libtile.compile(libtile.parse(text(scopes, COPY)), "sm_80", launch_abi="simt", emit="ptx").ptx
        assert ("cp.async" in ptx) == ahead
    check_copy(OTHER)
    for gpu in ("sm_80", "sm_100"):
        for seed in (None, 1):
            check_copy(OTHER, backend="simulator", gpu_name=gpu, check="full", block_order=seed)


AGAIN = f"""
  %end = scf.for %i = %0 to %4 step %1 iter_args(%t = %start) -> (!t) {{
    %x, %t1 = {LOAD.format(view="va", index="%0", token="%start")}
    %t2 = {STORE.format(index="%i", value="%x", token="%t")}
    scf.yield %t2 : !t
  }}
"""


def test_a_load_leaves_a_loop_that_stores_to_another_scope_only():
    for scopes, moves in ((OTHER, True), *((scopes, False) for scopes in STAYS)):
        module = module_of(scopes, AGAIN)
        LicmPass().apply(Context(), module)
        module.verify()
        (load,) = loads(module)
        assert isinstance(load.parent_op(), scf.ForOp) != moves
    never = AGAIN.replace("to %4", "to %n")  # perhaps no iteration, and nothing to be read
    module = module_of(OTHER, never)
    LicmPass().apply(Context(), module)
    assert isinstance(loads(module)[0].parent_op(), scf.ForOp)


TWICE = f"""
  %x, %t1 = {LOAD.format(view="va", index="%0", token="%start")}
  %t2 = {STORE.format(index="%0", value="%x", token="%start")}
  %y, %t3 = {LOAD.format(view="va", index="%0", token="%start")}
  %t4 = {STORE.format(index="%1", value="%y", token="%start")}
"""


def test_a_load_is_merged_over_stores_to_another_scope_only():
    for scopes, count in ((OTHER, 1), *((scopes, 2) for scopes in STAYS)):
        module = module_of(scopes, TWICE)
        CsePass().apply(Context(), module)
        module.verify()
        assert len(loads(module)) == count
    ordered = TWICE.replace("%start : !v, tile", "%t1 : !v, tile").replace('["%0"], %start', '["%0"], %t2')
    module = module_of(OTHER, ordered)
    CsePass().apply(Context(), module)
    assert len(loads(module)) == 1


QUEUE = """
  %queue = nv_tileaa.create_queue {depth = 2} : !nv_tileaa.queue<(tile<512xf32>)>
"""
GET = """
  nv_tileaa.queue.get %queue ({
  ^bb0(%z: tensor<512xf32>):
    nv_tileaa.queue.yield
  }) : !nv_tileaa.queue<(tile<512xf32>)>
"""


def test_a_load_stays_behind_what_waits_for_another_agent():
    """Which may have written what is loaded: a turn of a queue has a region, and orders memory itself."""
    load = LOAD.format(view="va", index="%0", token="%start")
    body = f"{QUEUE}  %x, %t1 = {load}{GET}  %y, %t2 = {load}\n"
    module = module_of(OTHER, body)
    CsePass().apply(Context(), module)
    assert len(loads(module)) == 2
    loop = f"{QUEUE}  scf.for %i = %0 to %4 step %1 {{{GET}  %x, %t1 = {load}\n  }}\n"
    module = module_of(OTHER, loop)
    LicmPass().apply(Context(), module)
    assert isinstance(loads(module)[0].parent_op(), scf.ForOp)


SHIFTED = f"""
  %t1 = {STORE.format(index="%0", value="%x", token="%start")}
  %y, %t2 = {LOAD.format(view="va", index="%0", token="%t1")}
  %t3 = {STORE.format(index="%1", value="%y", token="%t2")}
"""


@pytest.mark.parametrize("scopes", [OTHER, *STAYS])
def test_a_wrong_claim_is_found_by_the_interpreter(scopes):
    """Both memrefs are one array, one of them a bit further on: what a thread stores, one of another warp loads."""
    ones = "%x = nv_tileaa.constant {value = dense<1.0> : !cuda_tile.tile<512xf32>} : tile<512xf32>"
    further = (
        "%128 = arith.constant 128 : index\n"
        "  %p1 = nv_tileaa.addptr %q, %128 : !nv_tileaa.ptr<f32, 1>, index -> !nv_tileaa.ptr<f32, 1>\n  "
    )
    source = text(scopes, f"  {ones}{SHIFTED}").replace("%size = ", f"{further}%size = ")
    source = source.replace("make_memref %p,", "make_memref %p1,")
    target = np.zeros(4096, np.float32)

    def run(**options) -> None:
        libtile.run(libtile.parse(source), args=[np.zeros(8, np.float32), target, 2], check="full", **options)

    if scopes is OTHER:
        said = "is accessed through alias scope 1, and was by one through alias scope 2"
        with pytest.raises(InterpreterFault, match=said) as caught:
            run(backend="interpreter")
        assert caught.value.kind is FaultKind.ASSUMPTION
        return
    for backend in ({"backend": "interpreter"}, {"backend": "simulator", "gpu_name": "sm_90", "block_order": 1}):
        target[:] = 0
        run(**backend)
        expected = np.ones(512, np.float32)
        expected[384:] = 0
        assert np.array_equal(target[512:1024], expected)


BY_ELEMENTS = {
    "store": "%t1 = nv_tileaa.store %b[%r], %x, %start : !m, tile<512xf32>, tile<512xi32>, !t -> !t",
    "atomic": """%old, %t1 = nv_tileaa.atomic_rmw %b[%r], %x, %start {rmw_mode = #nv_tileaa.rmw_mode<addf>,
      mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : !m, tile<512xf32>, tile<512xi32>, !t -> tile<512xf32>, !t""",
    "releasing atomic": """%old, %t1 = nv_tileaa.atomic_rmw %b[%r], %x, %start {rmw_mode = #nv_tileaa.rmw_mode<addf>,
      mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : !m, tile<512xf32>, tile<512xi32>, !t -> tile<512xf32>, !t""",
}
"""What writes elements of the second memref, through pointers once it is expanded."""


def by_elements(scopes: tuple[str, str], kind: str, token: str = "%t1") -> str:
    return text(scopes, f"""
  %r = nv_tileaa.make_range : tile<512xi32>
  %last = nv_tileaa.constant {{value = dense<511> : !cuda_tile.tile<512xi32>}} : tile<512xi32>
  %back = arith.subi %last, %r : tile<512xi32>
  %x = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<512xf32>}} : tile<512xf32>
  {BY_ELEMENTS[kind]}
  %y, %t2 = nv_tileaa.load %a[%back], {token} : !m, tile<512xi32>, !t -> tile<512xf32>, !t
  %t3 = nv_tileaa.store %a[%r], %y, %t2 : !m, tile<512xf32>, tile<512xi32>, !t -> !t
""")  # fmt: skip


def waits_for_a_write(module: ModuleOp) -> bool:
    """Whether the load that the program has of elements waits for anything."""
    (load,) = (op for op in module.walk() if op.name == "nv_tileaa.load")
    (token,) = load.group("token")
    return not isinstance(token.owner, CreateMemTokenOp)


@pytest.mark.parametrize("kind", BY_ELEMENTS)
def test_elements_and_atomics_of_another_scope_are_not_waited_for_unless_they_order_others(kind):
    for scopes in (OTHER, *STAYS):
        module = libtile.parse(by_elements(scopes, kind)).op
        assert isinstance(module, ModuleOp)
        CanonicalizeTileaaPass().apply(Context(), module)
        module.verify()
        assert waits_for_a_write(module) == (scopes is not OTHER or kind == "releasing atomic")


@pytest.mark.parametrize("kind", ["store", "atomic"])
def test_pointers_that_are_made_of_memrefs_keep_their_scopes(kind):
    """Without canonicalization the token stays, and it is the barrier that is not needed."""
    found = {}
    for scopes in (OTHER, NONE):
        ptx = libtile.compile(libtile.parse(by_elements(scopes, kind)), "sm_80", 0, emit="ptx").ptx
        found[scopes] = sum("bar" in line and "sync" in line for line in ptx.splitlines())
    assert found[OTHER] + 1 == found[NONE]


@pytest.mark.parametrize("kind", ["store", "atomic"])
def test_elements_of_different_scopes_are_what_they_were(kind):
    rng = np.random.default_rng(1)
    values = rng.integers(-9, 9, 512).astype(np.float32)
    for options in ({}, {"backend": "simulator", "gpu_name": "sm_80", "block_order": 3}):
        source, target = values.copy(), np.zeros(512, np.float32)
        libtile.run(libtile.parse(by_elements(OTHER, kind)), args=[source, target, 1], check="full", **options)
        np.testing.assert_array_equal(source, values[::-1])
        np.testing.assert_array_equal(target, 1)


@pytest.mark.parametrize("kind", ["store", "atomic"])
def test_a_wrong_claim_of_elements_is_found_by_the_interpreter(kind):
    shared = np.zeros(512, np.float32)
    source = by_elements(OTHER, kind).replace("make_memref %p,", "make_memref %q,")
    with pytest.raises(
        InterpreterFault, match="is accessed through alias scope 1, and was by one through alias scope 2"
    ):
        libtile.run(libtile.parse(source), args=[np.zeros(8, np.float32), shared, 1], check="full")


LOADED_AGAIN = """
  %r = nv_tileaa.make_range : tile<512xi32>
  scf.for %i = %0 to %4 step %1 {
    %x, %t1 = nv_tileaa.tiled_load %va[%0], %start : !v, index, !t -> tile<512xf32>, !t
    %old = nv_tileaa.atomic_rmw %b[%r], %x {rmw_mode = #nv_tileaa.rmw_mode<addf>,
      mem_semantic = #nv_tileaa.mem_semantic<ORDER>, mem_scope = #nv_tileaa.mem_scope<gpu>}
      : !m, tile<512xf32>, tile<512xi32> -> tile<512xf32>
  }
"""


@pytest.mark.parametrize(("order", "moves"), [("relaxed", True), ("acquire", False)])
def test_a_load_leaves_a_loop_with_atomics_of_another_scope_that_order_nothing(order, moves):
    for scopes in (OTHER, *STAYS):
        module = module_of(scopes, LOADED_AGAIN.replace("ORDER", order))
        LicmPass().apply(Context(), module)
        (load,) = loads(module)
        assert isinstance(load.parent_op(), scf.ForOp) != (moves and scopes is OTHER)


def test_what_pointers_name_is_said_on_the_access():
    """Which has no memref to say it."""
    said = "{alias_scope = 2 : i64}"
    body = f"""
  %x, %t1 = {LOAD.format(view="va", index="%0", token="%start")}
  %s = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<f32>}} : tile<f32>
  %t2 = nv_tileaa.store %q, %s, %start SAID : !nv_tileaa.ptr<f32, 1>, tile<f32>, !t -> !t
  %y, %t3 = {LOAD.format(view="va", index="%0", token="%t2")}
"""
    for given, waits in ((said, False), ("", True), ("{alias_scope = 1 : i64}", True)):
        module = module_of(OTHER, body.replace("SAID", given) + "  %t4 = nv_tileaa.tiled_store %vb[%0], %y, %t3 "
                           ": !v, tile<512xf32>, index, !t -> !t\n")  # fmt: skip
        CanonicalizeTileaaPass().apply(Context(), module)
        token = loads(module)[-1].group("token")[0]
        assert isinstance(token.owner, CreateMemTokenOp) != waits
