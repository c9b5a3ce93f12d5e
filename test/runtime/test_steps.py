# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A limit of steps ends a loop that does not, and says where."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import libtile
from tools.process import run

ENDLESS = {
    "loop": """
    %r = loop iter_values(%i = %z) : tile<i32> -> tile<i32> {
      %n = xori %i, %o : tile<i32>
      %t = store_ptr_tko weak %p, %n : tile<ptr<i32>>, tile<i32> -> token
      %c = cmpi less_than %n, %z, signed : tile<i32> -> tile<i1>
      if %c { break %n : tile<i32> }
      continue %n : tile<i32>
    }""",
    "for": """
    %m = constant <i32: 2147483647> : tile<i32>
    for %i in (%z to %m, step %o) : tile<i32> {
      %t = store_ptr_tko relaxed device %p, %i : tile<ptr<i32>>, tile<i32> -> token
    }""",
}
KERNEL = """cuda_tile.module @m {{ entry @spin(%p: tile<ptr<i32>>) {{
    %z = constant <i32: 0> : tile<i32>
    %o = constant <i32: 1> : tile<i32>{}
    return }} }}"""
BACKENDS = ("interpreter", "simulator")


def kernel(kind: str) -> libtile.Module:
    return libtile.parse(KERNEL.format(ENDLESS[kind]), "spin.mlir")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_loop_that_goes_on_beyond_the_limit_is_a_fault_with_kernel_block_and_line(kind: str, backend: str) -> None:
    with pytest.raises(libtile.LibtileError) as caught:
        libtile.run(kernel(kind), args=[np.zeros(1, np.int32)], backend=backend, max_steps=2000)
    text = str(caught.value)
    assert re.search(r"@?spin .*more than 2000 (ops in a tile block|warp instructions in a CTA), the limit", text)
    assert re.search(r"spin\.mlir:[4-9]", text)
    assert re.search(r"\(0, ?0, ?0\)", text)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_limit_is_for_each_tile_block(backend: str) -> None:
    text = KERNEL.format("""
    %n = constant <i32: 40> : tile<i32>
    for %i in (%z to %n, step %o) : tile<i32> {
      %t = store_ptr_tko relaxed device %p, %i : tile<ptr<i32>>, tile<i32> -> token
    }""")
    done = libtile.run(libtile.parse(text), args=[np.zeros(1, np.int32)], grid=200, backend=backend, max_steps=2000)
    assert (done.ops or done.warp_instructions or 0) > 2000


def test_agents_and_loops_of_the_inner_dialects_have_the_limit() -> None:
    made = libtile.compile(kernel("loop"), "sm_90", emit="tileaa", keep_text=True)
    with pytest.raises(libtile.LibtileError, match="@spin runs more than 3000 ops"):
        libtile.run(libtile.parse(made.tileaa), args=[np.zeros(1, np.int32)], max_steps=3000)


@pytest.mark.parametrize(
    ("given", "said"), [({"max_steps": 0}, "0 steps run nothing"), ({"max_steps": -1}, "-1 steps")]
)
def test_a_limit_that_runs_nothing_is_refused(given: dict[str, int], said: str) -> None:
    with pytest.raises(libtile.LibtileError, match=said):
        libtile.run(kernel("loop"), args=[np.zeros(1, np.int32)], **given)


def test_the_tool_has_the_option(tmp_path: Path) -> None:
    path = tmp_path / "spin.mlir"
    path.write_text(KERNEL.format(ENDLESS["loop"]))
    done = run("cuda_tile_run", path, "--arg", "zeros:i32:1", "--max-steps", "500")
    assert done.status == 1
    assert done.err.splitlines() == [
        f"{path}:4:10: error: 'cuda_tile.loop' op too many steps: @spin runs more than 500 ops in a tile block, the "
        "limit (max_steps) (tile block (0, 0, 0))"
    ]
