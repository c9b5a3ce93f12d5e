# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/gpu.md says what a user with a GPU types: each command there parses, and what it names is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from runtime.test_gpu import library, machine  # noqa: F401 - the fixtures of a driver without a GPU

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench")]

TEXT = (ROOT / "docs" / "gpu.md").read_text()
COMMANDS = [line.strip() for line in TEXT.splitlines() if re.match(r"    (python|cuda-tile-run|cd|tar)\b", line)]
MADE = {"hopper.tar.gz", "hopper.md", "scale.bc", "x.npy", "0:scaled.npy"}
"""Files that commands write, or that stand for the reader's."""


def _parts(command: str) -> list[list[str]]:
    words = shlex.split(command, comments=True)
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "&&":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _check(words: list[str], folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    match words:
        case ["python", "-m", "pip", "install", "-e", what]:
            extra = re.fullmatch(r"\.\[(\w+)\]", what)
            assert extra and extra[1] in project["project"]["optional-dependencies"]
        case ["python", "-m", "pip", "install", *names]:
            assert all(re.fullmatch(r"[a-z]+", name) for name in names)
        case ["python", "-m", "pytest", "-m", marker]:
            markers = project["tool"]["pytest"]["ini_options"]["markers"]
            assert any(text.startswith(f"{marker}:") for text in markers)
        case ["python", "-m", "simulator.compare_on_gpu", *rest]:
            command = [sys.executable, "-m", "simulator.compare_on_gpu", *rest, "--help"]
            assert subprocess.run(command, cwd=folder / "test", capture_output=True, timeout=PATIENCE).returncode == 0
        case ["python", ("bench/hopper.py" | "bench/blackwell.py") as script, *rest]:
            import on_gpu

            given = on_gpu.arguments("sm_90").parse_args(rest)
            assert (ROOT / script).is_file()
            if given.kernels:
                problems = pytest.importorskip("on_gpu_problems", reason="cuTile Python has the kernels")
                assert all(problems.launches("sm_90", [name]) for name in given.kernels)
        case ["cuda-tile-run", *rest]:
            environment = {**os.environ, "LIBTILE_CUDA_DRIVER": "/nonexistent/libcuda.so"}
            done = subprocess.run([sys.executable, "-m", "cuda_tile_run", *rest], cwd=folder, capture_output=True,
                                  text=True, timeout=PATIENCE, env=environment, check=False)  # fmt: skip
            # All is well up to the reader's own file, or to the GPU.
            wanted = "No such file" if rest[0] in MADE else "/nonexistent/libcuda.so"
            assert done.returncode == 1 and wanted in done.stderr
        case ["tar", "-czf" | "-xzf", *names]:
            assert all((ROOT / name).is_dir() for name in names if name not in MADE)
        case ["cd", name]:
            assert (folder / name).is_dir()
        case _:
            raise AssertionError(f"no check is known for {shlex.join(words)}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_parses(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for words in _parts(command):
        _check(words, ROOT)


def test_the_example_of_the_page_runs(machine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """On a driver that has no GPU behind it."""
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(example, names)
    assert (names["out"] == names["a"] + names["b"]).all()


def test_the_page_has_the_commands() -> None:
    assert len(COMMANDS) >= 9 and any("--prepare" in command for command in COMMANDS)


def test_what_is_packed_is_enough(tmp_path: Path) -> None:
    """The three folders that the page packs, and numpy, are all that the runner imports."""
    packed = re.search(r"tar -czf \S+ (.*)", TEXT)
    assert packed
    for name in packed[1].split():
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "cubins"))
    code = (
        "import sys\n"
        "for n in ('xdsl', 'llvmlite', 'construct', 'click', 'ml_dtypes', 'cuda', 'kernels', 'examples'):\n"
        "    sys.modules[n] = None\n"
        "import on_gpu\nprint(on_gpu.arguments('sm_90').format_usage())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "bench", capture_output=True, text=True,
                          timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 0 and "--prepare" in done.stdout, done.stderr
