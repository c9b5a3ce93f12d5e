# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-diff as a process: its options, what it prints and its exit statuses, which are diff's."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from tools.process import ROOT, run

TOOL = "cuda_tile_diff"
KERNEL = ROOT / "examples" / "softmax.bc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("diff")
    text = libtile.print_module(libtile.read(KERNEL))
    (made / "same.mlir").write_text(text)
    (made / "other.mlir").write_text(text.replace("divf", "addf"))
    (made / "shuffled.mlir").write_text(text.replace("subf %tile, %bcast", "subf %tile, %bcast_1").replace(
        "%bcast = broadcast", "%bcast_1 = broadcast"))  # fmt: skip
    (made / "wrong.mlir").write_text("nonsense")
    return made


def test_help_has_examples_and_statuses() -> None:
    done = run(TOOL, "--help")
    assert done.status == 0
    for part in ("--run", "--locations", "--seed", "Examples:", "Exit status:", "1  they differ"):
        assert part in done.text


@pytest.mark.parametrize("name", ["same.mlir", "shuffled.mlir"])
def test_the_same_program_is_told_by_the_status_alone(folder: Path, name: str) -> None:
    done = run(TOOL, KERNEL, folder / name)
    assert (done.status, done.out, done.err) == (0, b"", "")


def test_a_difference_is_printed_with_both_places(folder: Path) -> None:
    done = run(TOOL, "same.mlir", "other.mlir", cwd=folder)
    assert (done.status, done.err) == (1, "")
    place = "mlir:49:10: 'cuda_tile."
    assert done.text == f"entry @softmax: another op\n< same.{place}divf'\n> other.{place}addf'\n"
    assert run(TOOL, "-q", "same.mlir", "other.mlir", cwd=folder).out == b""


def test_runs_tell_what_programs_do(folder: Path) -> None:
    done = run(TOOL, "--run", "same.mlir", "other.mlir", cwd=folder)
    assert (done.status, done.err) == (1, "")
    assert done.text.startswith("@softmax, arguments number 0 of seed 0: element 0 of parameter 5 is 0x")
    twice = (
        (folder / "same.mlir").read_text().replace("%2 = exp %1", "%2 = exp %1 : tile<1x1024xf32>\n%unused = exp %1")
    )
    done = run(TOOL, "--run", "--runs=1", folder / "same.mlir", "-", stdin=twice.encode())
    assert (done.status, done.out, done.err) == (0, b"", "the same in 1 run\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["same.mlir"], "cuda-tile-diff: Missing argument 'B'."),
        (["same.mlir", "missing.bc"], "cannot open input file 'missing.bc': No such file or directory"),
        (["same.mlir", "wrong.mlir"], "wrong.mlir:1:1: error: "),
        (["--run", "--grid=x", "same.mlir", "other.mlir"], "'x' is no grid"),
        (["--run", "--kernel=no", "same.mlir", "other.mlir"], "the module has no kernel named 'no'"),
        (["--run", "--grid=x", "same.mlir", "same.mlir"], "'x' is no grid"),
        (["--run", "--grid=0,1", "same.mlir", "same.mlir"], "'0,1' is no grid: a grid has one to three extents from 1"),
        (["--run", "--grid=1,2,3,4", "same.mlir", "other.mlir"], "'1,2,3,4' is no grid: a grid has one to three"),
        (["--run", "--kernel=no", "same.mlir", "same.mlir"], "the module has no kernel named 'no'"),
        (["--grid=2", "same.mlir", "other.mlir"], "--grid says what --run runs, and is of no use without it"),
        (["--kernel=softmax", "same.mlir", "other.mlir"], "--kernel says what --run runs"),
        (["--nothing", "same.mlir", "other.mlir"], "Unknown command line argument '--nothing'"),
    ],
)
def test_trouble_has_a_status_of_its_own(folder: Path, arguments: list[str], message: str) -> None:
    done = run(TOOL, *arguments, cwd=folder)
    assert (done.status, done.out) == (2, b"")
    assert message in done.err
