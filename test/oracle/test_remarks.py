# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our remarks state the facts that the reference assembler's state, but for a list of cases with their reasons.

The list is `remark_differences.txt`; `python test/oracle/test_remarks.py --update` writes it anew (many minutes), and
refuses to where nothing here explains a difference. Remarks whose names the reference does not have are not compared.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from patience import PATIENCE

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (1, 2)]

import libtile
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation
from oracle import remark_facts, require_tool, run_tileiras
from oracle.remark_facts import Case, Cases, Fact

corpus = pytest.importorskip("kernels.corpus", reason="cuTile Python exports the kernels")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

OURS = (
    "RemarkMemoryAccessWidth", "RemarkMemoryLoadPipelined", "RemarkTensorCoreTypes", "RemarkTensorCoreWarps",
    "RemarkTensorCoreSpecialization", "RemarkTensorCoreParts",
    "RemarkHintIgnored",
)  # fmt: skip
"""Names of remarks that the reference does not have."""


def kernels() -> list[str]:
    """The kernels of the corpus, and the files of the examples."""
    return [*corpus.KERNELS, *(path.name for path in sorted(EXAMPLES.glob("*.bc")))]


def bytecode(name: str) -> bytes:
    if name.endswith(".bc"):
        return (EXAMPLES / name).read_bytes()
    kernel = corpus.KERNELS[name]
    return corpus.export(kernel, kernel.versions[-1])


# -- why one says what the other does not ------------------------------------------------------------------------------

LOAD, STORE = "RemarkMemoryLoadInstructionSelected", "RemarkMemoryStoreInstructionSelected"
TMA_FAILED = ("RemarkMemoryTmaLoadFailed", "RemarkMemoryTmaStoreFailed")
WARNING = "RegisterPressure"
NARROWING = "RemarkTensorViewIndexTypeNarrowing"
TMA_COSTS = ("software-implemented TMA padding", "hardware coordinate limits exceeded")

NO_TMA = "TMA copies only for producers of loops, where the reference copies by TMA"
TMA_LOAD_PARTS = "two whole stages of the tile do not fit shared memory: it comes in parts"
TMA_PARTS = "the boxes are of parts of a result that come from tensor memory one after the other, of other columns"
NO_TMA_COST = "TMA copies only for producers of loops: what else would cost or could not encode is not worked out"
PRINTED = "the reference stores what print_tko prints through a view, where ours goes to the print buffer"
ATOMS = {
    "Tensor-core SM80": "another mma.sync is chosen: the deepest that the hardware has for the types",
    "FMA": "the reference has no tensor-core instruction for this small scaled product, where ours are f16's",
}  # fmt: skip
OF_AGENTS = {"Tensor-core SM90": "wgmma", "Tensor-core SM100": "tcgen05.mma"}
"""Instructions that only the consumers of a producer's tiles issue."""
AHEAD = "other rules decide which loads run ahead of their loop"
PLAIN_STORE = "the reference says nothing of a store that is not done by TMA"
PLAIN_LOAD = (
    "the reference says nothing of loads by pointers, gathers, and those of views with 64-bit or unchecked indices"
)
NO_TMA_INDEX = "TMA copies only for producers of loops: the reference's take indices of tiles and compute no addresses"
ONCE = "the reference says one index width for a line, and each wording for one line"
UNSAID = "the reference says nothing of index widths where all accesses are by 64-bit indices, gathers, or unchecked"
HINT_ONCE = (
    "the reference says each wording about hints for one op only, and none about those of a kernel with a location"
)
HINT_STORE = "stores are not started iterations ahead: their latency is ignored, as a remark of ours says"


def explained(fact: Fact, whose: str, ours: set[Fact], theirs: set[Fact]) -> str:
    """Why one of the two says a thing alone; empty when nothing explains it."""
    other = [f for f in (theirs if whose == "ours" else ours) if f.place == fact.place]
    if fact.name.startswith("RemarkHint"):
        return _about_hint(fact, whose, ours, theirs)
    if fact.name in TMA_FAILED:
        return _about_tma(fact, whose, other)
    if fact.name in (LOAD, STORE):
        return _about_access(fact, whose, other, ours if whose == "ours" else theirs)
    if fact.name == "RemarkTensorCoreMMA":
        chosen = [f for f in other if f.name == fact.name]
        theirs_said = fact if whose == "theirs" else next(iter(chosen), fact)
        instruction = re.search(r"Instruction = ([^;]*)", theirs_said.said)
        if not chosen or instruction is None:
            return ""
        return _about_agents(fact.place, instruction[1], ours) or ATOMS.get(instruction[1], "")
    if fact.name == NARROWING and whose == "ours":
        wording = fact.said
        said = [f for f in theirs if f.name == NARROWING and (f.place == fact.place or f.said == wording)]
        if not said and any("TMA " in f.said for f in theirs):
            return NO_TMA_INDEX
        return ONCE if said else UNSAID
    return ""


def _about_agents(place: str, instruction: str, ours: set[Fact]) -> str:
    """Why a product of the reference's is by an instruction that only consumers issue: what a remark of ours says."""
    if instruction not in OF_AGENTS:
        return ""
    said = [f.said for f in ours if f.place == place and f.name == "RemarkTensorCoreSpecialization"]
    reason = re.search(r"; reason: (.*)", said[0]) if said else None
    return f"{OF_AGENTS[instruction]} is for products with a producer: {reason[1]}" if reason else ""


def _about_hint(fact: Fact, whose: str, ours: set[Fact], theirs: set[Fact]) -> str:
    if whose == "theirs":
        ignored = any(f.place == fact.place and f.name == "RemarkHintIgnored" for f in ours)
        return HINT_STORE if ignored and fact.said.endswith(" latency") else ""
    return HINT_ONCE


def _about_tma(fact: Fact, whose: str, other: list[Fact]) -> str:
    costs = any(cost in f.said for f in (fact, *other) for cost in TMA_COSTS)
    if costs:
        return NO_TMA_COST
    if whose == "theirs":
        return PRINTED if not other else ""
    if remarks.NO_TENSOR_MAPS in fact.said or remarks.NO_TMA_STORE in fact.said:
        return NO_TMA
    if fact.name == "RemarkMemoryTmaStoreFailed" and any("TMA Store" in f.said for f in other):
        return f"this result of a product is not stored by TMA: {fact.said.rpartition('): ')[2]}"
    return ""


def _about_access(fact: Fact, whose: str, other: list[Fact], own: set[Fact]) -> str:
    chosen = [f for f in other if f.name == fact.name]
    if "TMA Load" in fact.said and any("TMA Load" in f.said and f not in own for f in chosen):
        return TMA_LOAD_PARTS
    if "TMA Store" in fact.said and any("TMA Store" in f.said for f in chosen):
        return TMA_PARTS
    if "TMA " in fact.said or any("TMA " in f.said for f in chosen):
        return NO_TMA
    if whose == "ours" and fact.name == STORE:
        return PLAIN_STORE
    if chosen:
        return AHEAD
    return PLAIN_LOAD if whose == "ours" else ""


# -- the comparison ----------------------------------------------------------------------------------------------------


def differences(name: str, target: str) -> Iterator[Case]:
    """What one of the two says of a kernel and the other does not, with the reasons; nothing where one refuses it."""
    data = bytecode(name)
    done = run_tileiras(data, target, "--remarks=all")
    if done.rc != 0:
        return
    made = libtile.compile(data, gpu_name=target, emit="llvm").remarks
    yield from compared(name, made, done.stdout)
    if (warned := any(r.name == WARNING for r in made)) != ("High register usage" in done.stderr):
        yield Case(name, "ours" if warned else "theirs", Fact("?", WARNING), "")


def compared(name: str, made: list[remarks.Remark], text: str) -> Iterator[Case]:
    """The cases of one kernel, of our remarks and the text of the reference's."""
    said, theirs = remark_facts.read(remarks.command_line_format(made)), remark_facts.read(text)
    ours = {f for f in said if f.name not in OURS}
    for whose, facts in (("ours", ours - theirs), ("theirs", theirs - ours)):
        for fact in facts:
            yield Case(name, whose, fact, explained(fact, whose, said, theirs))


@lru_cache(maxsize=1)
def listed() -> Cases:
    return remark_facts.load()


def expected(name: str, target: str) -> list[Case]:
    return sorted(case for case, targets in listed().items() if case.kernel == name and target in targets)


STALE = "see test/oracle/remark_differences.txt; `python test/oracle/test_remarks.py --update` writes it anew"

SAMPLE = {
    ("gemm.bc", "sm_80"), ("gemm.bc", "sm_90"), ("attention.bc", "sm_90"), ("histogram.bc", "sm_80"),
    ("slices", "sm_90"), ("gather_rows", "sm_80"), ("ordered_views", "sm_90"), ("mma_f32_f32_f32", "sm_80"),
    ("gemm_i8", "sm_120"), ("access_hints", "sm_90"),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name, target", sorted(SAMPLE))
def test_the_facts_are_those_of_the_reference_but_for_the_cases_in_the_list(name: str, target: str) -> None:
    assert sorted(differences(name, target)) == expected(name, target), STALE


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_facts_about_all_kernels_are_those_of_the_reference_but_for_the_cases(target: str) -> None:
    found = [case for name in kernels() for case in differences(name, target)]
    assert sorted(found) == sorted(case for name in kernels() for case in expected(name, target)), STALE


def test_every_case_has_a_reason() -> None:
    cases = listed()
    assert {case.kernel for case in cases} <= set(kernels())
    assert all(case.reason and set(targets) <= set(TARGETS) for case, targets in cases.items())


@pytest.mark.oracle
def test_the_reference_has_no_remarks_of_the_names_that_are_not_compared() -> None:
    words = require_tool("tileiras").read_bytes()
    assert b"RemarkTensorCoreMMA" in words
    assert [name for name in OURS if name.encode() in words] == []


# -- YAML --------------------------------------------------------------------------------------------------------------

_LINES = re.compile(r"Line: (\d+), Column: (\d+)")
_DOCUMENT = re.compile(r"^--- !(?P<kind>\w+)\n(?P<fields>.*?)^\.\.\.\n", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^(?:  - )?(\w+): +(.*)$", re.MULTILINE)


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
    done = subprocess.run([tool, f"--gpu-name={target}", source, *arguments], capture_output=True, timeout=PATIENCE)
    return result.read_text() if done.returncode == 0 else None


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


def big_product(columns: int) -> str:
    """A product of 256 rows in a loop, whose result is used twice."""
    tensor = "tensor_view<4096x4096xf16, strides=[4096,1]>"
    a, b = f"partition_view<tile=(256x64), {tensor}>", f"partition_view<tile=(64x{columns}), {tensor}>"
    to = "tensor_view<4096x4096xf32, strides=[4096,1]>"
    c, tile = f"partition_view<tile=(256x{columns}), {to}>", f"tile<256x{columns}xf32>"
    return f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %r: tile<ptr<f32>>) {{
      %z = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %n = constant <i32: 8> : tile<i32>
      %p1 = assume div_by<16>, %p : tile<ptr<f16>>
      %q1 = assume div_by<16>, %q : tile<ptr<f16>>
      %r1 = assume div_by<16>, %r : tile<ptr<f32>>
      %ta = make_tensor_view %p1, shape = [4096, 4096], strides = [4096, 1] : {tensor}
      %tb = make_tensor_view %q1, shape = [4096, 4096], strides = [4096, 1] : {tensor}
      %tc = make_tensor_view %r1, shape = [4096, 4096], strides = [4096, 1] : {to}
      %va = make_partition_view %ta : {a}
      %vb = make_partition_view %tb : {b}
      %vc = make_partition_view %tc : {c}
      %zero = constant <f32: 0.0> : {tile}
      %sum = for %i in (%z to %n, step %one) : tile<i32> iter_values(%acc = %zero) -> ({tile}) {{
        %x, %s = load_view_tko weak %va[%z, %i] : {a}, tile<i32> -> tile<256x64xf16>, token
        %y, %t = load_view_tko weak %vb[%i, %z] : {b}, tile<i32> -> tile<64x{columns}xf16>, token
        %d = mmaf %x, %y, %acc : tile<256x64xf16>, tile<64x{columns}xf16>, {tile}
        continue %d : {tile}
      }}
      %e = exp %sum : {tile}
      %f = addf %e, %sum : {tile}
      %w = store_view_tko weak %f, %vc[%z, %z] : {tile}, {c}, tile<i32> -> token
      return }} }}"""


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("columns, warned", [(256, True), (128, False)])
def test_the_warning_of_registers_has_the_words_of_the_reference(columns: int, warned: bool) -> None:
    data = libtile.write(libtile.parse(big_product(columns)), version="13.4")
    done = run_tileiras(data, "sm_80", timeout=PATIENCE)
    made = libtile.compile(data, gpu_name="sm_80", emit="llvm").remarks
    assert (done.rc, remarks.warnings_format(made)) == (0, done.stderr)
    assert bool(done.stderr) == warned


def main() -> None:
    """Write the list anew. SystemExit, with the differences, where nothing explains them."""
    found = [(target, case) for target in TARGETS for name in kernels() for case in differences(name, target)]
    unexplained = [f"{target} {case}" for target, case in found if not case.reason]
    if unexplained:
        sys.exit("nothing explains:\n" + "\n".join(unexplained))
    remark_facts.dump(remark_facts.merged(found))


if __name__ == "__main__":
    main()
