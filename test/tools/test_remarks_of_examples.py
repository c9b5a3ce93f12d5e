# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`examples/remarks.sh`, which `.ci/run` calls, notices remarks that have changed, and writes them anew when asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "examples/remarks.sh"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    tileiras = folder / "tileiras"
    tileiras.write_text(f'#!/bin/sh\nexec {sys.executable} -m tileiras "$@"\n')
    tileiras.chmod(0o755)
    environment = {**os.environ, "TILEIRAS": str(tileiras), "PYTHONPATH": str(ROOT)}
    command = [folder / SCRIPT, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_changed_remarks_are_shown_and_fail_until_they_are_written_anew(tmp_path):
    (tmp_path / "examples").mkdir()
    for name in (SCRIPT, "examples/vector_add.bc"):
        shutil.copy(ROOT / name, tmp_path / name)
    made = run(tmp_path, "--update")
    assert (made.returncode, made.stderr) == (0, "")
    written = {path.name: path.read_text() for path in (tmp_path / "examples/remarks").iterdir()}
    committed = ROOT / "examples/remarks"
    assert written == {
        name: (committed / name).read_text() for name in ("vector_add.sm_80.yaml", "vector_add.sm_90.yaml")
    }

    file = tmp_path / "examples/remarks/vector_add.sm_80.yaml"
    file.write_text(file.read_text().replace("Global-memory store instruction", "TMA Store instruction"))
    found = run(tmp_path)
    assert found.returncode == 1
    assert (
        "-  - Instruction: TMA Store instruction\n+  - Instruction: Global-memory store instruction\n" in found.stdout
    )
    assert "examples/remarks.sh --update" in found.stderr


def test_every_example_has_its_remarks_committed():
    inputs = {path.stem for path in (ROOT / "examples").glob("*.bc")}
    files = {path.name for path in (ROOT / "examples" / "remarks").iterdir()}
    assert files == {f"{name}.{target}.yaml" for name in inputs for target in ("sm_80", "sm_90")}


def test_ci_compares_them():
    assert f"TILEIRAS=.venv/bin/tileiras {SCRIPT}\n" in (ROOT / ".ci" / "run").read_text()


def test_the_page_runs(monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "remarks.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ROOT)
    names: dict[str, str] = {}
    exec(program, names)
    # the file has what filters pass; warnings are none of it
    assert names["text"] == (ROOT / "examples" / "remarks" / "gemm.sm_90.yaml").read_text()
