# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile completion`: a shell completes commands, options and values."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.process import run


def test_bash_completes_commands_options_and_values() -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    done = run("libtile_cli", "completion")
    assert done.status == 0, done.err

    def completions(*words: str) -> list[str]:
        program = (
            f"{done.text}\nCOMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; "
            f"_libtile {words[0]}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        assert found.stderr == ""
        return found.stdout.split()

    assert completions("libtile", "expl") == ["explore", "explain"]
    assert "--describe" in completions("cuda-tile-run", "--de") == completions("libtile", "run", "--de")
    assert completions("cuda-tile-run", "--backend", "") == ["interpreter", "simulator", "gpu"]
    assert completions("tileiras", "--emit", "=", "tilea") == ["tileaa", "tileas"]
    assert "sm_120" in completions("tileiras", "--gpu-name", "sm_1")
    assert completions("libtile", "compile", "ker") == []  # a file: the shell's own
    assert completions("libtile", "layouts", "sh") == ["show"]


def test_zsh_takes_the_same_script() -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    program = (
        "autoload -U compinit bashcompinit && compinit -u -D && bashcompinit"
        ' && eval "$SCRIPT" && print $_comps[libtile]'
    )
    done = run("libtile_cli", "completion", "zsh")
    found = subprocess.run(
        ["zsh", "-f", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SCRIPT": done.text},
    )
    assert found.stderr == "" and "_libtile" in found.stdout


def test_fish_completes_commands_options_and_values(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    done = run("libtile_cli", "completion", "fish")
    assert done.status == 0, done.err
    (tmp_path / "libtile.fish").write_text(done.text)
    lines = (
        "libtile expl",
        "cuda-tile-run --de",
        "tileiras --emit tilea",
        "libtile explore --gpu-name sm_12",
        "libtile layouts s",
    )
    asked = "; ".join(f"complete -C {line!r}; echo ====" for line in lines)
    found = subprocess.run(
        ["fish", "--no-config", "-c", f"source {tmp_path}/libtile.fish; {asked}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    offered = [[line.split("\t")[0] for line in part.split("\n") if line] for part in found.stdout.split("====\n")]
    assert offered[:5] == [["explain", "explore"], ["--describe"], ["tileaa", "tileas"], ["sm_120", "sm_121"], ["show"]]
