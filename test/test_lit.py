# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lit tests in test/lit, each as a test of its own; one run of lit serves them all."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("lit")
NAMES = [str(p.relative_to(FOLDER)) for p in sorted(FOLDER.rglob("*.mlir"))]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, tuple[str, str]]:
    """Verdict and output by test. Of several workers the first to come runs lit, and the others wait for its report."""
    base = tmp_path_factory.getbasetemp()
    work = (base if worker_id == "master" else base.parent) / "lit"
    work.mkdir(exist_ok=True)
    report = work / "report.json"
    with open(work / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            _run(work, report)
    tests = json.loads(report.read_text())["tests"]
    return {t["name"].split(" :: ", 1)[1]: (t["code"], t.get("output", "")) for t in tests}


def _run(work: Path, report: Path) -> None:
    command = [sys.executable, "-c", "import lit.main; lit.main.main()", "-q", "-j2", "-o", str(report), str(FOLDER)]
    environment = {**os.environ, "LIBTILE_LIT_OUT": str(work / "out")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert report.exists(), done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_lit(name: str, results: dict[str, tuple[str, str]]) -> None:
    code, output = results[name]
    if code == "UNSUPPORTED":
        pytest.skip("its REQUIRES line asks for something that is not here")
    assert code in ("PASS", "XFAIL"), output
