# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of the NVIDIA/cuda-tile repository, as they are, with this project's tools in place of its own.

Tests are run by lit. Its configuration is made for the run: the tools on PATH are small scripts that start this
checkout with the running Python, `FileCheck` is the one from PyPI, `%round_trip_test` is the suite's own script.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = ("Bytecode", "Dialect/CudaTile", "Transforms")

EXCLUDED = {
    "CAPI": "calls the C API of the C++ library",
    "python": "imports the compiled Python bindings of the C++ library",
    "lib": "sources of a C++ test library",
}
"""Folders of the suite's `test/` that are not run, and why."""

TOOLS = {
    "cuda-tile-opt": "cuda_tile_opt",
    "cuda-tile-translate": "cuda_tile_translate",
}

_CONFIG = """\
import lit.formats

config.name = "cuda-tile"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = {source!r}
config.test_exec_root = {work!r}
config.environment["PATH"] = {path!r}
config.environment["PYTHONPATH"] = {python_path!r}
config.environment["PYTHONDONTWRITEBYTECODE"] = ""
config.substitutions.append(("%round_trip_test", {round_trip!r}))
"""


@dataclass(frozen=True)
class Result:
    """One test of the suite: its path under `test/`, lit's verdict (PASS, FAIL, ...), and what it printed."""

    name: str
    code: str
    output: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.code in ("PASS", "XFAIL")


class SuiteError(Exception):
    """The folder given is not the suite, or lit could not run."""


def tests_folder(suite: Path) -> Path:
    """The `test` folder of a checkout of the suite. SuiteError when there is none."""
    folder = suite / "test"
    if not (folder / FOLDERS[0]).is_dir():
        raise SuiteError(f"{suite} is not a checkout of NVIDIA/cuda-tile: it has no test/{FOLDERS[0]}")
    return folder.resolve()


def names(suite: Path, folders: tuple[str, ...] = FOLDERS) -> list[str]:
    """The tests' paths under `test/`: every .mlir file of the folders that has a RUN line."""
    base = tests_folder(suite)
    files = (path for folder in folders for path in sorted((base / folder).rglob("*.mlir")))
    return [str(f.relative_to(base)) for f in files if "RUN:" in f.read_text(errors="replace")]


def run(suite: Path, filter_: str = "", workers: int = 2, folders: tuple[str, ...] = FOLDERS) -> list[Result]:
    """Run the suite's tests whose path matches the regular expression `filter_`; their results by name."""
    base = tests_folder(suite)
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        work = Path(name)
        _write_tools(work / "bin")
        (work / "lit.site.cfg.py").write_text(
            _CONFIG.format(
                source=str(base),
                work=str(work),
                path=os.pathsep.join([str(work / "bin"), os.environ.get("PATH", "")]),
                python_path=str(ROOT),
                round_trip=f"bash {shlex.quote(str(base / 'Dialect/CudaTile/round_trip_test.sh'))}",
            )
        )
        for folder in folders:
            (work / folder).mkdir(parents=True, exist_ok=True)
        report = work / "report.json"
        command = [sys.executable, "-c", "import lit.main; lit.main.main()", "-q", f"-j{workers}", "-o", str(report)]
        command += [f"--filter={filter_}"] if filter_ else []
        command += [str(work / folder) for folder in folders]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SuiteError(f"lit did not run:\n{done.stdout}{done.stderr}")
        return _results(json.loads(report.read_text()))


def _write_tools(folder: Path) -> None:
    folder.mkdir()
    commands = {tool: f"-m {module}" for tool, module in TOOLS.items()}
    commands["FileCheck"] = shlex.quote(str(Path(__file__).with_name("filecheck_main.py")))
    for tool, command in commands.items():
        script = folder / tool
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
        script.chmod(0o755)
    script = folder / "not"
    script.write_text('#!/bin/sh\nif "$@"; then exit 1; fi\nexit 0\n')
    script.chmod(0o755)


def _results(report: dict) -> list[Result]:
    found = [
        Result(test["name"].split(" :: ", 1)[1], test["code"], test.get("output", ""), test.get("elapsed") or 0.0)
        for test in report["tests"]
    ]
    return sorted(found, key=lambda result: result.name)
