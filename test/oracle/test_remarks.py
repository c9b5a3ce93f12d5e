# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our remarks state the facts that the reference assembler's state, in files that one reader reads."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.ir import Operation

import libtile
from libtile import remarks
from libtile.diagnostics import SourceLocation
from libtile.dialects.cuda_tile.locations import source_location
from libtile.lowering.tensor_map_remarks import NOT_GENERATED
from oracle import require_tool

corpus = pytest.importorskip("kernels.corpus", reason="cuTile Python exports the kernels")

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


def reference(data: bytes, target: str, folder: Path) -> str | None:
    """The YAML that the reference assembler writes about a module; None when it refuses the module for the target."""
    tool, source, result = require_tool("tileiras"), folder / "k.bc", folder / "theirs.yaml"
    source.write_bytes(data)
    arguments = ["--remarks=all", "--remark-format=yaml", f"--remarks-output-file={result}", "-o", folder / "k"]
    done = subprocess.run([tool, f"--gpu-name={target}", source, *arguments], capture_output=True, timeout=120)
    return result.read_text() if done.returncode == 0 else None


def facts(documents: list[dict[str, str]]) -> set[tuple[str, ...]]:
    """What is said of which place, without the numbering."""
    keys = ("Kind", "Pass", "Name", "Remark", "DebugLoc", "Function", "Instruction", "Shape")
    return {(*(d.get(key, "") for key in keys), _tma_reason(d)) for d in documents}


def _tma_reason(document: dict[str, str]) -> str:
    """Why an access is not done by TMA. The reference puts the place before some reasons, and repeats others."""
    if document["Name"] not in TMA_FAILED:
        return ""
    return re.sub(r"^loc\(.*?\): ", "", document["Reason"].strip("'"))


def place_of(fact: tuple[str, ...]) -> tuple[str, str]:
    return fact[2], fact[4]


TMA_FAILED = ("RemarkMemoryTmaLoadFailed", "RemarkMemoryTmaStoreFailed")
TMA_COSTS = (
    "software-implemented TMA padding is not profitable for this tile",
    "hardware coordinate limits exceeded - shapes or strides require encoding beyond TMA descriptor capacity",
)
"""Reasons of the reference's that follow from how it uses TMA."""

OURS = {
    "RemarkMemoryAccessWidth", "RemarkMemoryLoadPipelined", "RemarkTensorCoreTypes", "RemarkTensorCoreWarps",
}  # fmt: skip
"""Names of remarks that only we give."""

NARROWING = "RemarkTensorViewIndexTypeNarrowing"
LOAD, STORE = "RemarkMemoryLoadInstructionSelected", "RemarkMemoryStoreInstructionSelected"
MMA = "RemarkTensorCoreMMA"


LATER_ATOMS = ("Tensor-core SM90", "Tensor-core SM100", "Tensor-core SM120")
"""wgmma, tcgen05.mma and scaled products in hardware, where ours are mma.sync."""

OTHER_ATOMS = {
    # The deepest product of f64 that the target has.
    ("Tensor-core SM80", "[8, 8, 4]", "Tensor-core SM80", "'[16, 8, 16]'"),
    # 8-bit floats as they are, where the reference converts them to f16.
    ("Tensor-core SM80", "[16, 8, 16]", "Tensor-core SM89", "'[16, 8, 32]'"),
}
"""Instruction and shape of the reference's, and of ours for the same product."""


def is_theirs_alone(fact: tuple[str, ...], ours: set[tuple[str, ...]], messages: set[str]) -> bool:
    """Whether the reference may say a thing that we do not. At the places `messages` it stores what it will print."""
    _, category, name, _, _, _, instruction, shape, reason = fact
    if category == "Hints":
        return True  # which hints it left at their defaults; we take each hint
    if name in TMA_FAILED:
        return reason in TMA_COSTS or fact[4] in messages
    if name in (LOAD, STORE):
        # Another instruction is chosen: other rules decide whether loads run ahead (Ldgsts), and TMA is theirs alone.
        return any(place_of(f) == place_of(fact) and f[6] != instruction for f in ours)
    if name == MMA:
        chosen = {(f[6], f[7]) for f in ours if place_of(f) == place_of(fact)}
        return any((instruction, shape.strip("'"), *c) in OTHER_ATOMS or instruction in LATER_ATOMS for c in chosen)
    return False


def is_ours_alone(fact: tuple[str, ...], theirs: set[tuple[str, ...]], unsaid: set[str]) -> bool:
    """Whether we may say a thing that the reference does not. It says nothing of the accesses at the lines `unsaid`."""
    _, _, name, remark, place, _, instruction, _, reason = fact
    if name in TMA_FAILED:
        costs = any(place_of(f) == place_of(fact) and f[-1] in TMA_COSTS for f in theirs)
        return costs or reason == NOT_GENERATED or place in unsaid
    if name in OURS or instruction == remarks.GLOBAL_STORE:
        return True
    if name in (LOAD, MMA) and any(place_of(f) == place_of(fact) and f[6:8] != fact[6:8] for f in theirs):
        return True  # another instruction is chosen: `is_theirs_alone` looks at which
    if name == LOAD:
        return place in unsaid
    if name == NARROWING:
        # It gives each wording, and each place, once, and none where the program's own indices are i64 or all accesses
        # are said to be in bounds.
        return bool(unsaid) or any(f[2] == NARROWING and (f[3] == remark or f[4] == place) for f in theirs)
    return False


def places(data: bytes, wanted: Callable[[Operation], bool]) -> set[str]:
    """Where a module has ops, as files of remarks write places."""
    found = (source_location(op.location) for op in libtile.read(data).op.walk() if wanted(op))
    return {f"{{ File: '{p.filename}', Line: {p.line}, Column: {p.column} }}" for p in found if p is not None}


def _is_unsaid(op: Operation) -> bool:
    """A load of which the reference says nothing: by pointers, a gather, with wide indices, in bounds."""
    if op.name != "cuda_tile.load_view_tko":
        return op.name == "cuda_tile.load_ptr_tko"
    wide = any(str(v.type) == "!cuda_tile.tile<i64>" for v in op.index)
    return wide or "gather_scatter" in str(op.view.type) or bool(op.attribute_value("inbounds"))


def differences(data: bytes, target: str, folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """What one of the two says and the other should, too."""
    said = reference(data, target, folder)
    if said is None:
        return []
    theirs = facts(read(said))
    made = libtile.compile(data, gpu_name=target, emit="llvm")
    ours, unsaid = facts(read(remarks.yaml_format(made.remarks))), places(data, _is_unsaid)
    messages = places(data, lambda op: op.name == "cuda_tile.print_tko")
    missing = [("theirs", f) for f in theirs - ours if not is_theirs_alone(f, ours, messages)]
    return missing + [("ours", f) for f in ours - theirs if not is_ours_alone(f, theirs, unsaid)]


@pytest.mark.oracle
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["vector_add", "transpose", "gemm", "attention", "layer_norm", "histogram"])
def test_facts_are_those_of_the_reference(name: str, target: str, tmp_path: Path) -> None:
    assert differences((EXAMPLES / f"{name}.bc").read_bytes(), target, tmp_path) == []


SOME = (
    "mlp", "slices", "reshape", "gather_rows", "copy_wide_index", "ordered_views", "mma_f32_f32_f32", "static_shape",
    "unchecked_views", "gemm_i8", "copy_5d",
)  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", SOME)
def test_facts_about_kernels_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    kernel = corpus.KERNELS[name]
    assert differences(corpus.export(kernel, kernel.versions[-1]), "sm_80", tmp_path) == []


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_facts_about_all_kernels_are_those_of_the_reference(target: str, tmp_path: Path) -> None:
    found = {}
    for name, kernel in corpus.KERNELS.items():
        if made := differences(corpus.export(kernel, kernel.versions[-1]), target, tmp_path):
            found[name] = made
    assert found == {}


@pytest.mark.oracle
def test_yaml_is_theirs_to_the_byte_but_for_the_numbering(tmp_path: Path) -> None:
    text = reference((EXAMPLES / "gemm.bc").read_bytes(), "sm_90", tmp_path)
    assert text is not None
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
