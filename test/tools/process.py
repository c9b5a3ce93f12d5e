# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the command-line tools as their users do: as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """A finished tool: exit status and what it printed."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def run(tool: str, *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> Done:
    """Run the tool with the running Python; fails when it prints a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", tool, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=cwd or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    err = done.stderr.decode(errors="replace")
    assert "Traceback" not in err, err
    return Done(done.returncode, done.stdout, err)
