# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every command and program that the documents show is run: here, by a test of the page's own, or not, for a reason.

What is a block: fenced Python; lines of a shell, fenced or indented, that begin with a command of ours. A shell's
lines have to end well; where what they print is shown (behind `$ `), it is compared, numbers included, but for the
seconds that something took. Python runs as it stands, the blocks of a page one after the other. All run in a folder
with the examples, and with the files that pages speak of.

`python test/test_pages.py` puts what commands print now into the pages, after a change of the compiler as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

import libtile
from patience import PATIENCE
from tools.transcripts import output, tools_environment

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").glob("*.md")])

OWN_TESTS = {
    "architecture.md": "test_architecture.py",
    "bytecode-format.md": "bytecode/test_docs.py",
    "cutile.md": "cutile/test_docs.py",
    "estimate.md": "explore/test_estimate.py",
    "extending.md": "test_extending.py",
    "gpu.md": "runtime/test_gpu_page.py",
    "inner-dialects.md": "dialects/test_inner_reference.py",
    "interpreter.md": "interpreter/test_docs.py",
    "library.md": "runtime/test_library_page.py",
    "lowering-passes.md": "transforms/test_docs.py",
    "migration.md": "bytecode/test_docs.py",
    "mlir.md": "mlir/test_mlir_exchange.py",
    "passes.md": "transforms/test_docs.py",
    "quickstart.md": "cutile/test_quickstart.py",
    "remarks.md": "tools/test_remarks_of_examples.py",
    "server.md": "tools/test_server.py",
    "simulator.md": "simulator/test_docs.py",
    "tileiras.md": "compiler/test_docs.py",
    "tools.md": "tools/test_docs.py",
}
"""Pages whose blocks another test runs, which names the page."""

NOT_RUN = {
    "README.md: python3 -m venv .venv && .venv/bin/pip install -q -e . &&": "installs; test/kernels runs it",
    "README.md: python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'": "installs, and runs all tests",
    "cutile-suite.md: export CUTILE_PYTHON=CHECKOUT": "takes hours, and another repository",
    "cutile-suite.md: python bench/cutile_suite.py": "takes hours, and another repository",
    "cutile-suite.md: export TILEGYM=CHECKOUT": "takes hours, and another repository",
    "explore.md: libtile explore --serve=8000 kernel.bc": "waits until Ctrl-C; test/explore serves a page",
    "fuzzing.md: python -m fuzz": "takes hours; test/fuzz runs some seeds of each",
    "random-programs.md: python -m pytest": "the tests themselves",
    "random-programs.md: python -m generators": "takes minutes; test/generators runs some seeds",
    "fuzzing.md: $ python -m fuzz": "a module of the tests; test/fuzz runs some seeds of each",
    "examples/README.md: pip install cuda-tile==1.7.0": "installs",
    "examples/README.md: python examples/export.py": "writes the examples anew; test/kernels compares",
}
"""Blocks that no test runs, by their page and beginning, and why."""

COMMAND = re.compile(r"(libtile|cuda-tile-\w+|tileiras|tileirdisasm|python3?|pip|export|cd|eval) ")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?:    .*)?\n)+", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page that can be run: "python", "shell" (lines), or "console" (lines with what they print)."""
    found = []
    text = page.read_text(encoding="utf-8")
    for match in FENCED.finditer(text):
        body = match[2]
        if match[1] == "python":
            found.append(("python", body))
        elif body.startswith("$ "):
            found.append(("console", body))
        elif match[1] == "sh" or COMMAND.match(body):
            found.append(("shell", body))
    for match in INDENTED.finditer(FENCED.sub("", text)):
        body = re.sub(r"(?m)^    ", "", match[0]).strip("\n") + "\n"
        if body.startswith("$ "):
            found.append(("console", body))
        elif COMMAND.match(body):
            found.append(("shell", body))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT / "docs" if page.parent.name == "docs" else ROOT))


def why_not(page: Path, line: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if f"{name_of(page)}: {line}".startswith(start)), None)


HERE = [
    pytest.param(page, number, id=f"{name_of(page)}-{number}")
    for page in PAGES
    if name_of(page) not in OWN_TESTS
    for number, (kind, body) in enumerate(blocks(page))
    if any(why_not(page, line) is None for line in body.splitlines()[:1])
]


def prepare(tmp_path: Path) -> None:
    """Write the files that pages speak of."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("gemm.bc", "vector_add.bc", "gemm.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    shutil.copy(ROOT / "examples" / "gemm.bc", tmp_path / "kernel.bc")
    for name, dtype in (("a", np.float16), ("b", np.float16), ("c", np.float32)):
        np.save(tmp_path / f"{name}.npy", np.zeros((1024, 1024), dtype))
    (tmp_path / "train.py").write_text(
        "import cuda.tile as ct\nimport numpy as np\n\n\n@ct.kernel\ndef matmul(x, y):\n"
        "    tile = ct.load(x, (0, 0), (16, 16))\n"
        "    ct.store(y, (0, 0), ct.mma(tile, tile, ct.zeros((16, 16), ct.float32)))\n\n\n"
        "ct.launch(None, (1,), matmul, (np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)))\n"
    )
    (tmp_path / "bad.mlir").write_text(
        "cuda_tile.module @m {\n  entry @k() {\n    %i = iota : tile<3xi32>\n    return\n  }\n}\n"
    )
    (tmp_path / "kernel.mlir").write_text(
        "cuda_tile.module @m {\n  entry @k() {\n    %c = constant <f32: 1.0> : tile<4xf32>\n"
        "    %d = atan2 %c, %c : tile<4xf32>\n    return\n  }\n}\n"
    )
    scale = libtile.parse(
        "cuda_tile.module @m {\n  entry @scale(%x: tile<ptr<f32>>, %factor: tile<f32>) {\n"
        "    %v, %t = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token\n"
        "    %y = mulf %v, %factor : tile<f32>\n"
        "    %u = store_ptr_tko weak %x, %y : tile<ptr<f32>>, tile<f32> -> token\n    return\n  }\n}\n"
    )
    (tmp_path / "scale.bc").write_bytes(libtile.write(scale))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path)
    return tmp_path


def settled(text: str) -> str:
    """What is shown of a command's output, without the seconds that it took."""
    return re.sub(r"\d+\.\d{3} s$", "", text.strip(), flags=re.MULTILINE)


def shown_commands(body: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what is shown below it."""
    return re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n?)*)", body)


def refreshed(body: str, folder: Path) -> str:
    """A console block with what its commands print now, and as it is where that is what it shows."""
    text = ""
    for command, shown in shown_commands(body):
        printed = output(command, folder)
        same = settled(printed) == settled(shown)
        text += f"$ {command}\n{shown if same else printed.rstrip() + chr(10)}"
    return text


@pytest.mark.parametrize(("page", "number"), HERE)
def test_what_a_page_shows_is_run(page: Path, number: int, folder: Path) -> None:
    kind, body = blocks(page)[number]
    if kind == "python":
        if "cuda.tile" in body:
            pytest.importorskip("cuda.tile")
        before = [text for kind, text in blocks(page)[:number] if kind == "python" and why_not(page, text) is None]
        (folder / "shown.py").write_text("\n".join([*before, body]), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "shown.py"], cwd=folder, env=tools_environment(folder), capture_output=True, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return
    if kind == "console":
        for command, shown in shown_commands(body):
            printed = output(command, folder)
            stale = f"{name_of(page)} is stale: run `python test/test_pages.py`; it prints\n{printed}"
            assert settled(printed) == settled(shown), stale
        return
    for line in body.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#") and why_not(page, line) is None:
            printed = output(f"({line}) && echo -n fine", folder, seconds=300)
            assert printed.endswith("fine"), printed


def test_every_page_with_a_test_of_its_own_is_named_there() -> None:
    for page, test in OWN_TESTS.items():
        assert page in (ROOT / "test" / test).read_text(encoding="utf-8"), (page, test)
        assert (ROOT / "docs" / page).exists()


def test_an_index_page_has_no_link_that_leads_nowhere() -> None:
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    (rule,) = hooks["fancy-pypi-readme"]["substitutions"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files = re.findall(rule["pattern"], text)
    assert len(files) > 20 and all((ROOT / path.partition("#")[0]).exists() for _, path in files)
    shown = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert links and all(link.startswith("https://") for link in links)


def test_what_is_not_run_is_still_there() -> None:
    lines = [f"{name_of(page)}: {line}" for page in PAGES for _, body in blocks(page) for line in body.splitlines()]
    for start in NOT_RUN:
        assert any(line.startswith(start) for line in lines), start


if __name__ == "__main__":
    for page in PAGES:
        if name_of(page) in OWN_TESTS:
            continue
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name))
            for kind, body in blocks(page):
                if kind == "console" and why_not(page, body.splitlines()[0]) is None:
                    text = text.replace(body, refreshed(body, Path(name)))
        page.write_text(text, encoding="utf-8")
