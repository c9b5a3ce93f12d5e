# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that are worked through in pieces give what they give whole; what cannot be cut is refused, and says why."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from strip_mine_kernels import CUT, Kernel

import libtile
from generators.check import failure_in_pieces
from generators.programs import program
from libtile.lowering.strip_mine.strip_mine import strip_mine
from libtile.support.diagnostics import LoweringError
from libtile.targets import target

HELD, PIECE = 64, 32
"""Words of a tile that is not cut, and of a piece."""


def mined(text: str, words: int = HELD, piece: int = PIECE) -> tuple[libtile.Module, dict]:
    """The module, verified, with what is larger cut; and what kept an op from being cut."""
    module = libtile.parse(text)
    libtile.verify(module)
    reasons = strip_mine(module.op, target("sm_90"), words, piece)
    libtile.verify(module)
    return module, reasons


def loops(module: libtile.Module) -> int:
    return len(re.findall(r"\bfor %\w+ in ", str(module)))


def close(kernel: Kernel, got: list, want: list) -> None:
    for x, y in zip(got, want, strict=True):
        if isinstance(y, np.ndarray):
            np.testing.assert_allclose(
                x.astype(np.float64), y.astype(np.float64), rtol=kernel.relative, atol=kernel.relative
            )


@pytest.mark.parametrize("kernel", CUT, ids=lambda k: k.name)
def test_pieces_give_what_the_tile_gives(kernel):
    module = libtile.parse(kernel.text)
    libtile.verify(module)
    want = kernel.arguments(np.random.default_rng(1))
    given = [copy.deepcopy(want) for _ in range(2)]
    libtile.run(module, "k", grid=1, args=want, check="full")
    cut, reasons = mined(kernel.text)
    assert not reasons
    assert loops(cut) == loops(module) + kernel.loops
    libtile.run(cut, "k", grid=1, args=given[0], check="full")
    close(kernel, given[0], want)
    libtile.run(cut, "k", grid=1, args=given[1], backend="simulator", gpu_name="sm_90", check="full")
    close(kernel, given[1], want)


@pytest.mark.parametrize("seed", range(10))
def test_a_random_program_does_in_pieces_what_it_did(seed):
    """`python -m generators 0:300 --pieces`, in `test/`, runs more of them."""
    assert failure_in_pieces(program(seed, "straight"), "sm_90") is None


@pytest.mark.slow
def test_many_random_programs_are_cut():
    texts = [(str(mined(made.text, 8, 4)[0]), made.text) for made in (program(seed) for seed in range(12))]
    assert sum(cut != str(libtile.parse(text)) for cut, text in texts) >= 4


# -- at full size -----------------------------------------------------------------------------------------------------

BIG = 1 << 16


def big_text(shape: str, body: str) -> str:
    memory = f"tensor_view<{shape}xf32, strides=[1]>"
    tiles = f"partition_view<tile=({shape}), {memory}>"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %m = make_tensor_view %p, shape = [{shape}], strides = [1] : {memory}
    %v = make_partition_view %m : {tiles}
    %x, %t = load_view_tko weak %v[%zero] : {tiles}, tile<i32> -> tile<{shape}xf32>, token
{body.replace("TILES", tiles).replace("SIZE", shape)}    return
  }}
}}
"""


CHAIN = """    %y = addf %x, %x : tile<SIZExf32>
    %z = tanh %y : tile<SIZExf32>
    %u = store_view_tko weak %z, %v[%zero] token = %t : tile<SIZExf32>, TILES, tile<i32> -> token
"""
SUM = """    %s = reduce %x dim=0 identities=[0.0 : f32] : tile<SIZExf32> -> tile<f32>
    (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }
    %u = store_ptr_tko weak %q, %s : tile<ptr<f32>>, tile<f32> -> token
"""


@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_tile_of_65536_elements_is_computed(opt_level):
    x = np.linspace(-1, 1, BIG, dtype=np.float32)
    given, total = x.copy(), np.zeros(1, np.float32)
    libtile.run(
        libtile.parse(big_text(str(BIG), CHAIN)),
        "k",
        grid=1,
        args=[given, total],
        backend="simulator",
        opt_level=opt_level,
    )
    np.testing.assert_allclose(given, np.tanh(2 * x), rtol=1e-5, atol=1e-6)
    libtile.run(
        libtile.parse(big_text(str(BIG), SUM)), "k", grid=1, args=[x, total], backend="simulator", opt_level=opt_level
    )
    np.testing.assert_allclose(total, [x.sum(dtype=np.float64)], atol=1e-2)


@pytest.mark.parametrize("body", [CHAIN, SUM], ids=["chain", "sum"])
def test_code_does_not_grow_with_the_tile(body):
    sizes = [len(libtile.compile(libtile.parse(big_text(str(1 << e), body)), emit="ptx").ptx) for e in (18, 24)]
    assert sizes[1] < 1.02 * sizes[0]


@pytest.mark.parametrize("opt_level", [0, 3])
def test_ptxas_takes_the_largest_tile(opt_level):
    made = libtile.compile(libtile.parse(big_text(str(1 << 24), CHAIN)), opt_level=opt_level)
    assert made.kernels["k"].spills == 0


# -- what is not cut --------------------------------------------------------------------------------------------------

CARRIED = """    %one = constant <i32: 1> : tile<i32>
    %r = for %i in (%zero to %one, step %one) : tile<i32> iter_values(%a = %x) -> (tile<SIZExf32>) {
      %y = addf %a, %x : tile<SIZExf32>
      continue %y : tile<SIZExf32>
    }
    %u = store_view_tko weak %r, %v[%zero] token = %t : tile<SIZExf32>, TILES, tile<i32> -> token
"""
PRINTED = '    %u = print_tko "%f", %x : tile<SIZExf32> -> token\n'
ELSEWHERE = """    %i = iota : tile<SIZExi32>
    %q1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qb = broadcast %q1 : tile<1xptr<f32>> -> tile<SIZExptr<f32>>
    %o = offset %qb, %i : tile<SIZExptr<f32>>, tile<SIZExi32> -> tile<SIZExptr<f32>>
    %u = store_ptr_tko weak %o, %x token=%t : tile<SIZExptr<f32>>, tile<SIZExf32> -> token
"""
ACQUIRED = """    %i = iota : tile<SIZExi32>
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qb = broadcast %q1 : tile<1xptr<f32>> -> tile<SIZExptr<f32>>
    %o = offset %qb, %i : tile<SIZExptr<f32>>, tile<SIZExi32> -> tile<SIZExptr<f32>>
    %y, %u = load_ptr_tko acquire device %o : tile<SIZExptr<f32>> -> tile<SIZExf32>, token
"""
RELEASED = """    %i = iota : tile<SIZExi32>
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qb = broadcast %q1 : tile<1xptr<f32>> -> tile<SIZExptr<f32>>
    %o = offset %qb, %i : tile<SIZExptr<f32>>, tile<SIZExi32> -> tile<SIZExptr<f32>>
    %u = store_ptr_tko release device %o, %x : tile<SIZExptr<f32>>, tile<SIZExf32> -> token
"""
INTERLEAVED = """    %h = reshape %x : tile<SIZExf32> -> tile<2x524288xf32>
    %w = permute %h [1, 0] : tile<2x524288xf32> -> tile<524288x2xf32>
    %y = reshape %w : tile<524288x2xf32> -> tile<SIZExf32>
    %u = store_view_tko weak %y, %v[%zero] token = %t : tile<SIZExf32>, TILES, tile<i32> -> token
"""

REFUSED = {
    "carried": (CARRIED, "a large tile lives through a loop or a branch ('cuda_tile.for' op at -:8:10)"),
    "printed": (PRINTED, "a large tile is needed whole ('cuda_tile.print_tko' op at -:7:10)"),
    "elsewhere": (ELSEWHERE, "a token puts all of a load before all of a store"),
    "acquired": (ACQUIRED, "it acquires or releases other memory ('cuda_tile.load_ptr_tko' op at -:11:14)"),
    "released": (RELEASED, "it acquires or releases other memory ('cuda_tile.store_ptr_tko' op at -:11:10)"),
    "interleaved": (INTERLEAVED, "a reshape takes its elements from all over the operand"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_refused_before_llvm_is_asked(name):
    body, reason = REFUSED[name]
    with pytest.raises(LoweringError) as caught:
        libtile.compile(libtile.parse(big_text(str(1 << 20), body)), opt_level=0)  # what nobody uses stays
    assert caught.value.location is not None and caught.value.location.line == 6
    said = str(caught.value)
    assert (
        "'cuda_tile.load_view_tko' op has a tile<1048576xf32> that would take 2048 registers a thread on sm_90" in said
    )
    assert reason in said


def test_a_tile_that_cannot_be_cut_is_compiled_where_registers_and_spills_hold_it():
    assert libtile.compile(libtile.parse(big_text(str(BIG), CARRIED)), emit="ptx").ptx


def test_a_module_that_is_compiled_is_not_changed():
    module = libtile.parse(big_text(str(BIG), CHAIN))
    before = str(module)
    libtile.compile(module, emit="tileaa")
    assert str(module) == before


def test_a_module_without_large_tiles_is_the_same_behind_the_pass():
    module = libtile.parse(big_text("1024", CHAIN))
    before = str(module)
    assert strip_mine(module.op, target("sm_90")) == {}
    assert str(module) == before


def test_long_chains_are_followed_without_recursion():
    """Two thousand dependent ops, and as many tokens joined one after the other."""
    sums = "".join(f"    %y{i + 1} = addf %y{i}, %x : tile<SIZExf32>\n" for i in range(2000))
    joins = "".join(f"    %t{i + 1} = join_tokens %t{i}, %t : token\n" for i in range(2000))
    ends = "    %u = store_view_tko weak %y2000, %v[%zero] token = %t2000 : tile<SIZExf32>, TILES, tile<i32> -> token\n"
    body = (sums + joins + ends).replace("%y0,", "%x,").replace("%t0,", "%t,")
    cut, reasons = mined(big_text(str(BIG), body), 1 << 15, 1 << 12)
    assert not reasons
    assert loops(cut) == 1
