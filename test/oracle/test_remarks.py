# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our remarks state the facts that the reference assembler's state, in files that one reader reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from libtile import driver, remarks
from libtile.diagnostics import SourceLocation
from oracle import require_tool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

_DOCUMENT = re.compile(r"^--- !(?P<kind>\w+)\n(?P<fields>.*?)^\.\.\.\n", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^(?:  - )?(\w+): +(.*)$", re.MULTILINE)
_LINES = re.compile(r"Line: (\d+), Column: (\d+)")


def read(text: str) -> list[dict[str, str]]:
    """The documents of a file of remarks, whoever wrote it."""
    found = []
    for document in _DOCUMENT.finditer(text):
        fields = dict(_FIELD.findall(document["fields"]))
        found.append({"Kind": document["kind"], **fields})
    assert "".join(m[0] for m in _DOCUMENT.finditer(text)) == text
    return found


def reference(name: str, target: str, folder: Path) -> str:
    """The YAML that the reference assembler writes about an example."""
    tool, result = require_tool("tileiras"), folder / "theirs.yaml"
    arguments = ["--remarks=all", "--remark-format=yaml", f"--remarks-output-file={result}", "-o", folder / "k"]
    subprocess.run([tool, f"--gpu-name={target}", EXAMPLES / f"{name}.bc", *arguments], check=True, timeout=120)
    return result.read_text()


def facts(documents: list[dict[str, str]]) -> set[tuple[str, ...]]:
    """What is said of which place, without the numbering, and without plain stores, of which only we speak."""
    return {
        tuple(d.get(key, "") for key in ("Kind", "Pass", "Name", "DebugLoc", "Function", "Instruction", "Shape"))
        for d in documents
        if d.get("Instruction") != remarks.GLOBAL_STORE
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["vector_add", "transpose"])
def test_facts_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    theirs = reference(name, "sm_80", tmp_path)
    made = driver.compile_bytecode((EXAMPLES / f"{name}.bc").read_bytes(), driver.Options("sm_80"))
    assert facts(read(remarks.yaml_format(made.remarks))) == facts(read(theirs))


@pytest.mark.oracle
def test_yaml_is_theirs_to_the_byte_but_for_the_numbering(tmp_path: Path) -> None:
    text = reference("gemm", "sm_90", tmp_path)
    again = []
    for d in read(text):
        line, column = map(int, next(iter(_LINES.findall(d["DebugLoc"]))))
        place = SourceLocation("examples/gemm.py", line, column)
        given = [(key, d[key].strip("'")) for key in ("Instruction", "Shape") if key in d]
        kind = {"Passed": remarks.Kind.PASSED, "Missed": remarks.Kind.MISSED}[d["Kind"]]
        category = remarks.Category(d["Pass"])
        message = d["Remark"].strip("'")
        again.append(remarks.Remark(category, kind, d["Name"], message, d["Function"], place, tuple(given)))
    number = re.compile(r"RemarkId: +\d+")
    assert number.sub("", remarks.yaml_format(again)) == number.sub("", text)
