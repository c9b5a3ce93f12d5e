# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scripts in place of bytecode: the kernels that they launch, and the commands that take them."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")

import libtile
from libtile.cutile.scripts import chosen, launched_kernels

SCRIPT = """
import sys
import cuda.tile as ct
import numpy as np

@ct.kernel
def add(a, b, c, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (tile,)) + ct.load(b, (i,), (tile,)))

@ct.kernel
def double(a, c, tile: ct.Constant[int]):
    ct.store(c, (ct.bid(0),), ct.load(a, (ct.bid(0),), (tile,)) * 2)

if __name__ == "__main__":
    a, b, c = (np.arange(64, dtype=np.float32) for _ in range(3))
    for _ in range(2):
        ct.launch(None, (4, 1, 1), add, (a, b, c, 16))
    assert (c == 2 * a).all()
    ct.launch(None, (2, 2, 1), double, (a, c, 16))
    ct.launch(None, (4,), double, (a.astype(np.float16), c.astype(np.float16), 16))
    print("launched", *sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(SCRIPT)
    return path


def test_each_kind_of_launch_is_a_kernel(script: Path) -> None:
    out = io.StringIO()
    kernels = launched_kernels(script, ["with", "these"], out=out)
    assert [(kernel.name, kernel.grid) for kernel in kernels] == [
        ("add", (4, 1, 1)), ("double", (2, 2, 1)), ("double", (4, 1, 1)),
    ]  # fmt: skip
    assert out.getvalue() == "launched with these\n"
    for kernel in kernels:
        entry = libtile.read(kernel.bytecode).tile_module.regions[0].block.first_op
        assert entry.attribute_value("sym_name") == kernel.symbol
    assert chosen(kernels, "add") is kernels[0] and chosen(kernels, kernels[2].symbol) is kernels[2]
    for name, message in (
        (None, f"launches more than one kernel: choose one of add, {kernels[1].symbol}, {kernels[2].symbol}$"),
        ("double", f"more than one kernel named double: choose one of {kernels[1].symbol}, {kernels[2].symbol}"),
        ("none", "launches no kernel named none: choose one of add, double$"),
    ):
        with pytest.raises(libtile.LibtileError, match=message):
            chosen(kernels, name)


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\n1 / 0\n", r"failing\.py:2: ZeroDivisionError: division by zero"),
        ("1 +\n", r"failing\.py:1: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", r"failing\.py: the script ended with status 3"),
        ("print('done')\n", r"failing\.py: the script launches no kernel"),
    ],
)
def test_a_script_that_fails_is_an_error_at_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "failing.py"
    path.write_text(text)
    with pytest.raises(libtile.LibtileError, match=message):
        launched_kernels(path, out=io.StringIO())
    path.unlink()
    with pytest.raises(libtile.LibtileError, match=r"cannot open.*failing\.py"):
        launched_kernels(path)


def test_explore_and_explain_take_scripts(script: Path) -> None:
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        tool = [sys.executable, "-m", "libtile_cli", *command]
        return subprocess.run(tool, cwd=script.parent, capture_output=True, text=True, check=False)

    explained = run("explain", "kernels.py:add")
    assert explained.returncode == 0 and explained.stdout.startswith("add on sm_90: ") and " 9:22" in explained.stdout
    assert explained.stderr == "launched\n"
    shown = run("explore", "kernels.py:add", "-O", "1")
    assert shown.returncode == 0, shown.stderr
    page = (script.parent / "kernels.html").read_text()
    assert "def add(a, b, c, tile: ct.Constant[int]):" in page
    refused = run("explain", "kernels.py")
    assert refused.returncode == 1 and refused.stderr.splitlines()[-1].startswith(
        "error: the script launches more than"
    )
