# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Command lines of the reference assembler: ours ends with the same status, leaves the same files, says the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oracle import require_tool
from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "examples" / "vector_add.bc"

#: Also what is printed is the same, but for the program's name.
SAME = (
    "nosuch.bc --gpu-name=sm_90", ". --gpu-name=sm_90", "junk.bc --gpu-name=sm_90", "k.bc k.bc --gpu-name=sm_90",
    "k.bc --gpu-name=sm_91", "k.bc --gpu-name=SM_90", "k.bc --gpu-name=", "k.bc --gpu-name", "k.bc --arch=sm_90a",
    "k.bc --gpu-name=sm_107 -o out", "k.bc -gpu-name sm_90 -output-file out", "--gpu-name=sm_90 -o=out -- k.bc",
    "k.bc --gpu-name=sm_90 --O2 -o out", "k.bc --gpu-name=sm_90 --opt-level=0x1 -o out",
    "k.bc --gpu-name=sm_90 -O4", "k.bc --gpu-name=sm_90 --opt-level=-1", "k.bc --gpu-name=sm_90 --opt-level=1.5",
    "k.bc --gpu-name=sm_90 -O99999999999", "k.bc --gpu-name=sm_90 -g", "k.bc --gpu-name=sm_90 -g -O0",
    "k.bc --gpu-name=sm_90 --lineinfo=maybe", "k.bc --gpu-name=sm_90 --lineinfo true",
    "k.bc --gpu-name=sm_90 --sanitize=racecheck", "k.bc --gpu-name=sm_90 --sanitize=",
    "k.bc --gpu-name=sm_90 --host-arch=arm", "k.bc --gpu-name=sm_90 --host-arch=aarch64 --host-os=windows",
    "k.bc --gpu-name=sm_90 --gpu-nam=sm_90", "k.bc --gpu-name=sm_90 --preview=simt,zot",
    "k.bc --gpu-name=sm_90 -l nosuch", "k.bc --gpu-name=sm_90 -l nosuch --preview=simt",
    "k.bc --gpu-name=sm_90 -l k.bc --preview=simt", "k.bc --gpu-name=sm_90 --apply-controls=k.bc",
    "k.bc --gpu-name=sm_90 --remarks=mem.*", "k.bc --gpu-name=sm_90 --remarks=all,memory",
    "k.bc --gpu-name=sm_90 --remarks=all --remarks=none", "k.bc --gpu-name=sm_90 --remarks=tensorcore",
    "k.bc --gpu-name=sm_90 --remarks=all --remark-format=json", "k.bc --gpu-name=sm_90 --remark-format=yaml",
    "k.bc --gpu-name=sm_90 --remarks=all --remark-format=yaml",
    "k.bc --gpu-name=sm_90 --remarks=all --remark-format=yaml --remarks-output-file=",
    "k.bc --gpu-name=sm_90 --remarks=all --remark-format=yaml --remarks-output-file=no/such",
    "k.bc --gpu-name=sm_90 --remarks=tensorcore --remark-format=yaml --remarks-output-file=junk.bc",
    "--Werror -w --host-arch=x86_64 --host-os=linux -arch=sm_90 k.bc -o out", "k.bc --gpu-name=sm_90 --Werror=2",
    "k.bc --gpu-name=sm_90 -w=maybe",
    "--list-versions", "-list-versions junk", "--list-versions=false k.bc --gpu-name=sm_90",
)  # fmt: skip

#: The same status and files; what is printed differs, as ours says more or has facts of its own.
ALIKE = (
    "", "k.bc", "cut.bc --gpu-name=sm_90", "k.bc --gpu-name=sm_90 -o no/such", "k.bc --gpu-name=sm_90 -o .",
    "k.bc --gpu-name=sm_90 --frob", "k.bc --gpu-name=sm_90 -x", "--help", "--help-list", "--version",
    "k.bc --gpu-name=sm_90 -o -", "k.bc --gpu-name=sm_90 --remarks=memory",
)  # fmt: skip

# Every third one by default: each starts both assemblers.
CASES = [
    pytest.param(line, same, id=line or "nothing", marks=[pytest.mark.slow] if place % 3 else [])
    for same, lines in ((True, SAME), (False, ALIKE))
    for place, line in enumerate(lines)
]


def outcome(command: list[str], line: str, folder: Path) -> tuple[int, list[str], str, str]:
    """Status, new files, and both streams, of a tool in a folder of its own."""
    folder.mkdir()
    data = KERNEL.read_bytes()
    given = {"k.bc": data, "cut.bc": data[:300], "junk.bc": b"junk"}
    for name, content in given.items():
        (folder / name).write_bytes(content)
    env = {**os.environ, "LIBTILE_CACHE": "0", "PYTHONPATH": str(ROOT)}
    # A bare value in a line is a word of its own; none of them has blanks.
    done = subprocess.run([*command, *line.split(" ")] if line else command, cwd=folder, env=env, capture_output=True,
                          timeout=PATIENCE, check=False)  # fmt: skip
    new = sorted(path.name for path in folder.iterdir() if given.get(path.name) != path.read_bytes())
    texts = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    out, err = (re.sub(r"[^\s']*/tileiras\b", "tileiras", text) for text in texts)
    return done.returncode, new, out, err


@pytest.mark.oracle
@pytest.mark.parametrize(("line", "same"), CASES)
def test_the_command_line_ends_as_with_the_reference(line: str, same: bool, tmp_path: Path) -> None:
    theirs = outcome([str(require_tool("tileiras"))], line, tmp_path / "theirs")
    ours = outcome([sys.executable, "-m", "tileiras"], line, tmp_path / "ours")
    assert ours[:2] == theirs[:2]
    if same:
        assert ours[2:] == theirs[2:]
    else:
        assert [bool(text) for text in ours[2:3]] == [bool(text) for text in theirs[2:3]]
