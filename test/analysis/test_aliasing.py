# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which accesses are known to touch different memory; what is claimed is compared with the addresses themselves."""

from __future__ import annotations

import random

import pytest

import libtile
from libtile.analysis import Facts
from libtile.analysis.aliasing import Aliasing
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from transforms.pointer_kernels import Body

ACCESSES = ("load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko")


def accesses(module: libtile.Module) -> list[CudaTileOp]:
    return [op for op in module.op.walk() if isinstance(op, CudaTileOp) and op.spec.name in ACCESSES]


def pairs(text: str, distinct_elements: bool = False) -> list[bool]:
    """Whether the accesses are disjoint: the first and the second, the first and the third, ..."""
    module = libtile.parse(text)
    libtile.verify(module)
    function = next(op for op in module.op.walk() if op.name == "cuda_tile.entry")
    aliasing = Aliasing(Facts(function), distinct_elements)
    first, *others = accesses(module)
    return [aliasing.are_disjoint(first, other) for other in others]


HEAD = """global private @g <i32: [1, 2]> : tile<2xi32>
  global private @h <i32: [1, 2]> : tile<2xi32>
  entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %n0: tile<i32>, %ld0: tile<i32>) {
    %n = assume bounded<64, 4096>, %n0 : tile<i32>
    %ld = assume bounded<1, 4096>, %ld0 : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %x1 = addi %x, %c1 : tile<i32>
"""


def kernel(body: str) -> str:
    return f"cuda_tile.module @m {{\n  {HEAD}{body}\n    return\n  }}\n}}"


def view(name: str, base: str, shape: str, strides: str, type_: str, dynamic: str, tile: str) -> str:
    operands = f"{dynamic} -> " if dynamic else ""
    return f"""%t{name} = make_tensor_view {base}, shape = [{shape}], strides = [{strides}] : {operands}{type_}
    %{name} = make_partition_view %t{name} : partition_view<tile=({tile}), {type_}>
    """


def load(name: str, base: str, index: str, type_: str, tile: str) -> str:
    partition = f"partition_view<tile=({tile}), {type_}>"
    return (
        f"%{name}, %k{name} = load_view_tko weak %{base}[{index}] : {partition}, tile<i32> -> tile<{tile}xi32>, token\n"
    )


FLAT = "tensor_view<?xi32, strides=[1]>"
ROWS = "tensor_view<?x?xi32, strides=[?,1]>"


def test_tiles_of_a_view_are_disjoint_where_their_indices_are() -> None:
    made = view("v", "%p", "%n", "1", FLAT, "tile<i32>", "64")
    indices = ("%x", "%x1", "%x", "%c0", "%y")
    text = kernel(made + "".join(load(f"l{i}", "v", index, FLAT, "64") for i, index in enumerate(indices)))
    assert pairs(text) == [True, False, False, False]


def test_rows_of_a_tensor_overlap_unless_its_strides_or_somebody_says_that_they_do_not() -> None:
    for strides, shown in (("%ld", False), ("%n", True)):
        made = view("v", "%p", "%n, %n", f"{strides}, 1", ROWS, "tile<i32>", "8x8")
        text = kernel(made + load("a", "v", "%x, %y", ROWS, "8x8") + load("b", "v", "%x1, %y", ROWS, "8x8"))
        assert pairs(text) == [shown]
        assert pairs(text, distinct_elements=True) == [True]


def test_pointers_of_parameters_may_be_equal_and_globals_are_not() -> None:
    text = """%g = get_global @g : tile<ptr<i32>>
    %h = get_global @h : tile<ptr<i32>>
    %a, %ka = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
    %b, %kb = load_ptr_tko weak %h : tile<ptr<i32>> -> tile<i32>, token
    %c, %kc = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %next = offset %g, %c1 : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %d, %kd = load_ptr_tko weak %next : tile<ptr<i32>> -> tile<i32>, token"""
    assert pairs(kernel(text)) == [True, False, True]
    both = "%a, %ka = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token\n"
    both += "%b, %kb = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token"
    assert pairs(kernel(both)) == [False]


# -- random accesses --------------------------------------------------------------------------------------------------

SHAPES = ((8,), (4, 4), (2, 8))


def straight(rng: random.Random, count: int) -> tuple[str, list[set[int]], list[bool]]:
    """A kernel of loads and stores in one chain of tokens; the elements of each access, and which write."""
    made = Body(["%zero = constant <i32: 0> : tile<i32>", "%t0 = make_token : token"])
    touched, writes, token = [], [], "%t0"
    for _ in range(count):
        shape = rng.choice(SHAPES)
        starts = [rng.randrange(0, 12, 2) for _ in shape]
        strides = [1] if len(shape) == 1 else rng.choice([[8, 1], [16, 1], [1, 8], [3, 1]])
        full = "x".join(map(str, shape))
        total, elements = None, {0}
        for dim, (start, stride) in enumerate(zip(starts, strides)):
            first = made.op(f"constant <i32: {start}> : tile<i32>")
            position = made.positions(first, dim, shape)
            factor = made.op(f"constant <i32: {stride}> : tile<{full}xi32>")
            position = made.op(f"muli {position}, {factor} : tile<{full}xi32>")
            total = position if total is None else made.op(f"addi {total}, {position} : tile<{full}xi32>")
            elements = {e + (start + i) * stride for e in elements for i in range(shape[dim])}
        pointers = f"tile<{full}xptr<i32>>"
        base = made.spread("%p", shape, "ptr<i32>")
        address = made.op(f"offset {base}, {total} : {pointers}, tile<{full}xi32> -> {pointers}")
        writes.append(rng.random() < 0.6)
        if writes[-1]:
            value = made.spread("%zero", shape)
            token = made.op(
                f"store_ptr_tko weak {address}, {value} token={token} : {pointers}, tile<{full}xi32> -> token"
            )
        else:
            made.count += 1
            head = f"%v{made.count}, %k{made.count} = load_ptr_tko weak {address} token={token}"
            made.lines.append(f"{head} : {pointers} -> tile<{full}xi32>, token")
            token = f"%k{made.count}"
        touched.append(elements)
    return made.text("%p: tile<ptr<i32>>"), touched, writes


@pytest.mark.parametrize("seed", range(8))
def test_order_stays_between_accesses_that_meet_and_goes_between_others(seed: int) -> None:
    text, touched, writes = straight(random.Random(seed), 8)
    module = libtile.parse(text)
    PassManager(parse_pipeline("eliminate-redundant-tokens")).run(module.op)
    ops = accesses(module)
    waits: list[set[int]] = []  # for each access, those that it waits for
    for op in ops:
        found, pending = set(), [v for v in op.operands if str(v.type) == "!cuda_tile.token"]
        while pending:
            owner = pending.pop().owner
            if owner in ops:
                found |= {ops.index(owner)} | waits[ops.index(owner)]
            elif isinstance(owner, CudaTileOp):
                pending += owner.operands
        waits.append(found)
    apart = 0
    for late in range(len(ops)):
        for early in range(late):
            if touched[early] & touched[late] and (writes[early] or writes[late]):
                assert early in waits[late], (early, late, text, str(module))
            apart += early not in waits[late]
    assert apart


LOOP = f"""{view("w", "%p", "%n", "1", FLAT, "tile<i32>", "64")}
    %value = iota : tile<64xi32>
    %s = make_token : token
    %f, %t = load_ptr_tko weak %p token=%s : tile<ptr<i32>> -> tile<i32>, token
    %r = for %i in (%c0 to %n, step %STEP) : tile<i32> iter_values(%c = %t) -> (token) {{
      %o = store_view_tko weak %value, %w[%INDEX] token=%c
        : tile<64xi32>, partition_view<tile=(64), {FLAT}>, tile<i32> -> token
      continue %o : token
    }}
    %e, %u = load_ptr_tko weak %p token=%r : tile<ptr<i32>> -> tile<i32>, token"""


@pytest.mark.parametrize(("step", "index", "apart"), [("c1", "i", True), ("c2", "i", True), ("c1", "x", False)])
def test_stores_of_different_iterations_do_not_wait_for_each_other(step: str, index: str, apart: bool) -> None:
    module = libtile.parse(kernel(LOOP.replace("STEP", step).replace("INDEX", index)))
    PassManager(parse_pipeline("eliminate-redundant-tokens")).run(module.op)
    text = str(module)
    if apart:
        assert "token = %result_token :" in text and "join_tokens %iterArg0, %" in text, text
    else:
        assert "token = %iterArg0" in text and "join_tokens" not in text
    assert "token=%for" in text  # behind the loop
