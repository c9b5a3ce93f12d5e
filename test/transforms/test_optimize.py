# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile.optimize`: what it takes, its levels, and that the program stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from libtile.passes.pipeline import PipelineError
from libtile.passes.pipelines import LEVELS, tile_pipeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

TEXT = """\
cuda_tile.module @m {
  entry @k(%a: tile<f32>, %b: tile<f32>, %c: tile<f32>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %p = mulf %a, %b : tile<f32>
      %q = mulf %a, %b : tile<f32>
      %s = addf %p, %c : tile<f32>
      %t = addf %q, %c : tile<f32>
      %u = print_tko "%f %f", %s, %t : tile<f32>, tile<f32> -> token
      continue
    }
    return
  }
}
"""


def ops(module: libtile.Module) -> list[str]:
    return [op.name.removeprefix("cuda_tile.") for op in module.op.walk()]


def test_levels_do_more_and_more():
    module = libtile.parse(TEXT)
    plain, one, two, three = (libtile.optimize(module, level) for level in range(4))
    assert libtile.diff(module, plain) == []
    assert ops(one).count("mulf") == 1 and ops(one).index("mulf") > ops(one).index("for")
    assert ops(two).index("mulf") < ops(two).index("for")
    assert libtile.diff(two, three) == []
    assert str(module) == str(libtile.parse(TEXT)), "the module that was given has changed"


def test_pipelines_run_before_and_behind():
    fused = libtile.optimize(libtile.parse(TEXT), 1, fuse_fma=True)
    assert "fma" in ops(fused) and "mulf" not in ops(fused)
    assert "fma" in ops(libtile.optimize(libtile.parse(TEXT), 0, after="fuse-fma"))
    seen: list[str] = []
    from libtile.passes.manager import Instrument

    class Names(Instrument):
        def before(self, run, op):
            seen.append(run.name)

    libtile.optimize(libtile.parse(TEXT), 1, before="licm", after="dce", instruments=[Names()])
    assert seen[0] == "licm" and seen[-1] == "dce" and "canonicalize" in seen


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.bc")), ids=lambda path: path.stem)
def test_files_and_bytes_are_optimized_and_do_the_same(path):
    optimized = libtile.optimize(path)
    assert libtile.diff(libtile.optimize(path.read_bytes()), optimized) == []
    assert libtile.compare_runs(path, libtile.write(optimized), runs=1).difference is None
    assert len(ops(libtile.optimize(path, 2))) < len(ops(libtile.read(path)))  # masks of ragged tiles are more ops


def test_the_page_on_passes_lists_the_levels():
    page = (EXAMPLES.parent / "docs" / "passes.md").read_text()
    for level in LEVELS:
        passes = ", ".join(f"`{step.strip()}`" for step in tile_pipeline(int(level)).split(",") if step.strip())
        assert f"| `tile-O{level}` | {passes}{' ' if passes else ''}|" in page


def test_what_is_wrong_is_said():
    with pytest.raises(libtile.LibtileError, match="there is no optimization level 4: the levels are 0, 1, 2, 3"):
        libtile.optimize(libtile.parse(TEXT), 4)
    with pytest.raises(PipelineError, match="'nothing' does not refer to a registered pass"):
        libtile.optimize(libtile.parse(TEXT), before="nothing")
    op = '"cuda_tile.negi"(%x) : (tile<f32>) -> tile<f32>'
    wrong = f"cuda_tile.module @m {{ entry @k(%x: tile<f32>) {{ {op} return }} }}"
    with pytest.raises(libtile.DiagnosticError, match="negi"):
        libtile.optimize(libtile.parse(wrong))


def test_what_a_level_gives_has_as_wide_accesses_as_before():
    """The pointers that level 3 makes of views become views again."""
    path = EXAMPLES / "vector_add.bc"
    made = [libtile.compile(x, gpu_name="sm_90", emit="ptx").ptx for x in (path, libtile.optimize(path))]
    wide, lines = ([text.count(what) for text in made] for what in (".v2.b32", "\n"))  # 256 elements for 128 threads
    assert wide[0] == wide[1] > 0 and abs(lines[0] - lines[1]) <= 2


@pytest.mark.parametrize(("level", "after"), [(3, ""), (2, "tile-masked")])
def test_ragged_tiles_are_masked_pointers_for_another_assembler(level, after):
    text = libtile.print_module(libtile.optimize(EXAMPLES / "vector_add.bc", level, after=after))
    assert "load_ptr_tko" in text and "store_ptr_tko" in text and "_view_tko" not in text
