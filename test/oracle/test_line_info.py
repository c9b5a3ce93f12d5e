# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lines that a cubin's instructions lead to, in the source and in the text of the Tile IR, and that text, are those
of the reference assembler's cubin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import libtile
from line_tables import TEXT, TILE_IR, lines_of, sections
from oracle import run_tileiras, run_tool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def lines(cubin: bytes | None, folder: Path) -> set[tuple[str, int]]:
    """(file, line) of the instructions, as the disassembler finds them."""
    assert cubin is not None
    path = folder / "k.cubin"
    path.write_bytes(cubin)
    text = run_tool("nvdisasm", "-g", "-c", path).stdout
    found = re.findall(r'//## File "([^"]+)", line (\d+)', text)
    return {(Path(file).name, int(line)) for file, line in found}


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "options", "opt_level"),
    [
        ("vector_add", "line_info", 3),
        pytest.param("softmax", "line_info", 3, marks=pytest.mark.slow),
        pytest.param("gemm", "line_info", 0, marks=pytest.mark.slow),
        pytest.param("gemm", "debug", 0, marks=pytest.mark.slow),
        pytest.param("gemm", "line_info", 3, marks=pytest.mark.slow),
    ],
)
def test_instructions_lead_to_the_lines_of_the_reference(
    name: str, options: str, opt_level: int, tmp_path: Path
) -> None:
    data = (EXAMPLES / f"{name}.bc").read_bytes()
    option = {"line_info": "--lineinfo", "debug": "-g"}[options]
    theirs = lines(run_tileiras(data, "sm_90", option, f"-O{opt_level}").cubin, tmp_path)
    ours = lines(libtile.compile(data, "sm_90", opt_level, **{options: True}).cubin, tmp_path)
    # The function's first two lines, its decorator and its name, are where parameters are read.
    assert ours - theirs <= set(sorted(ours)[:2])
    assert {file for file, _ in ours} == {f"{name}.py"}
    # A line of the reference may be one whose value here needs no instruction.
    assert len(theirs) - len(ours) <= 3, sorted(theirs - ours)


TEXTS = [
    ("vector_add", "line_info"),
    *(
        pytest.param(path.stem, option, marks=pytest.mark.slow)
        for path in sorted(EXAMPLES.glob("*.bc"))
        for option in ("line_info", "debug")
        if (path.stem, option) != ("vector_add", "line_info")
    ),
]


def tile_ir(cubin: bytes) -> bytes:
    (text,) = (data for name, data in sections(cubin).items() if name.startswith(TEXT))
    return text


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "option"), TEXTS)
def test_the_text_of_the_tile_ir_and_the_lines_of_accesses_in_it_are_the_references(
    name: str, option: str, tmp_path: Path
) -> None:
    data = (EXAMPLES / f"{name}.bc").read_bytes()
    flag, level = {"line_info": ("--lineinfo", 3), "debug": ("-g", 0)}[option]
    theirs = run_tileiras(data, "sm_90", flag, f"-O{level}").cubin
    ours = libtile.compile(data, "sm_90", level, **{option: True}).cubin
    assert theirs is not None
    assert tile_ir(ours) == tile_ir(theirs)
    found = {line for _, line in lines_of(ours, tmp_path, table=TILE_IR)}
    assert found == {line for _, line in lines_of(theirs, tmp_path, table=TILE_IR)}
