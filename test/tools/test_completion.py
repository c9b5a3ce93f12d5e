# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile completion`: a shell completes commands, options and values."""

from __future__ import annotations

import shutil
import subprocess

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
