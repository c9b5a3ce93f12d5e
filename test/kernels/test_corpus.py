# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The corpus itself: what exports in which version, that the reference tools read it, that the examples are fresh."""

from __future__ import annotations

import importlib.metadata
import re

import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

from cuda.tile import TileUnsupportedFeatureError

import oracle
from examples import export as examples
from kernels import corpus, coverage, emulation
from kernels.model import Kernel, Tolerance, as_mapping, flatten, mismatch

#: The frontend that the .bc files in examples/ come from; another one may order tables differently.
PINNED_FRONTEND = "1.7.0"
LAUNCHED = [name for name, kernel in corpus.KERNELS.items() if kernel.problem is not None]
#: What the reference assembler 13.5 cannot compile, with the gist of what it says.
NOT_ASSEMBLED: dict[str, str] = {}


EACH_VERSION = pytest.mark.parametrize(
    "version",
    [pytest.param(v, marks=[] if v == corpus.VERSIONS[-1] else pytest.mark.slow) for v in corpus.VERSIONS],
)
"""All kernels are exported once for each version, which takes long."""


@EACH_VERSION
def test_every_kernel_exports_in_each_version_that_can_hold_it(version: str) -> None:
    for name, kernel in corpus.KERNELS.items():
        if version not in kernel.versions:
            continue
        data = corpus.export(kernel, version)
        assert data.startswith(b"\x7fTileIR\0"), name
        assert data[8:10] == bytes(int(part) for part in version.split(".")), name


@pytest.mark.parametrize("name", [name for name, kernel in corpus.KERNELS.items() if kernel.min_version != "13.1"])
def test_the_frontend_refuses_a_version_that_lacks_the_feature(name: str) -> None:
    kernel = corpus.KERNELS[name]
    for version in corpus.VERSIONS:
        if version not in kernel.versions:
            with pytest.raises(TileUnsupportedFeatureError, match=kernel.refusal):
                corpus.export(kernel, version)


@pytest.mark.slow
def test_no_file_name_in_an_export_says_where_the_sources_lie() -> None:
    for name, kernel in corpus.KERNELS.items():
        data = corpus.run_frontend(kernel, "13.4", kernel.gpu_code)
        assert not re.findall(rb"/(?:home|root|tmp|usr|work)/[\x20-\x7e]*", data), name


def test_an_export_comes_back_from_the_cache_unchanged() -> None:
    kernel = corpus.KERNELS["gemm"]
    assert corpus.export(kernel, "13.3") == corpus.run_frontend(kernel, "13.3", kernel.gpu_code)


@pytest.mark.oracle
@pytest.mark.parametrize("version", corpus.VERSIONS)
def test_one_file_holds_several_entries(version: str) -> None:
    kernels = [kernel for name, kernel in corpus.KERNELS.items() if name.startswith("integer_arithmetic_")]
    text = oracle.run_tileirdisasm(corpus.export_together(kernels, version, "sm_90"))
    assert re.findall(r"entry @(\w+)\(", text) == [kernel.name for kernel in kernels]


def test_kernels_of_different_functions_do_not_go_into_one_file() -> None:
    with pytest.raises(ValueError, match="different Python functions"):
        corpus.export_together([corpus.KERNELS["gemm"], corpus.KERNELS["softmax"]], "13.3", "sm_90")


@pytest.mark.parametrize("name", LAUNCHED)
def test_expected_values_fit_the_arguments(name: str) -> None:
    case = corpus.case(corpus.KERNELS[name], seed=1)
    before = corpus.snapshot(case.args)
    results = case.expected(case.args)
    assert results
    for index, result in results.items():
        argument = case.args[index]
        assert (result.shape, result.dtype) == (argument.shape, argument.dtype), index
    for old, new in zip(before, case.args, strict=True):
        if isinstance(old, np.ndarray):
            assert mismatch(new, old, Tolerance()) == "", "the reference changed its input"
    assert any(mismatch(case.args[index], result, case.tolerance) for index, result in results.items()), (
        "the kernel could do nothing and pass"
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", LAUNCHED)
def test_a_case_has_the_parameters_of_the_entry(name: str) -> None:
    kernel = corpus.KERNELS[name]
    text = oracle.run_tileirdisasm(corpus.export(kernel, kernel.min_version))
    match = re.search(rf"entry @{name}\((.*?)\) (?:optimization_hints|{{)", text)
    assert match, text[:300]
    types = re.findall(r"%arg\d+: tile<(\S+?)>(?=[,)]|$)", match.group(1) + ")")
    case = corpus.case(kernel)
    assert len(types) == len(case.args), types
    for given, value in zip(types, case.args, strict=True):
        kind = np.ndarray if given.startswith("ptr") else int if given.startswith("i") else float
        assert isinstance(value, kind), (given, value)


@pytest.mark.oracle
@EACH_VERSION
def test_the_reference_disassembler_reads_every_export(version: str) -> None:
    oracle.require_tool("tileirdisasm")
    for name, kernel in corpus.KERNELS.items():
        if version in kernel.versions:
            assert f"entry @{name}(" in oracle.run_tileirdisasm(corpus.export(kernel, version)), name


@pytest.mark.oracle
@pytest.mark.parametrize("name", corpus.REFUSED)
def test_the_reference_refuses_what_the_frontend_should_not_write(name: str) -> None:
    kernel, gist = corpus.REFUSED[name]
    with pytest.raises(oracle.OracleError, match=re.escape(gist)):
        oracle.run_tileirdisasm(corpus.export(kernel, "13.3"))


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", corpus.KERNELS)
def test_the_reference_assembler_compiles_every_kernel(name: str) -> None:
    kernel = corpus.KERNELS[name]
    done = oracle.run_tileiras(corpus.export(kernel, kernel.min_version), kernel.gpu_code)
    if name in NOT_ASSEMBLED:
        assert done.rc != 0
        assert NOT_ASSEMBLED[name] in done.stderr
        return
    assert done.rc == 0, done.stderr
    assert done.cubin is not None
    assert done.cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize("name", examples.VERSIONS)
def test_example_files_are_what_their_sources_export(name: str) -> None:
    installed = importlib.metadata.version("cuda-tile")
    if installed != PINNED_FRONTEND:
        pytest.skip(f"the files come from cuda-tile {PINNED_FRONTEND}, installed is {installed}")
    path = examples.ROOT / "examples" / f"{name}.bc"
    assert path.read_bytes() == examples.export_example(name), "run: python examples/export.py"


def test_every_example_is_in_the_corpus() -> None:
    sources = {path.stem for path in (examples.ROOT / "examples").glob("*.bc")}
    assert sources == set(examples.VERSIONS) == {kernel.name for kernel in corpus.select("example")}


def test_the_readme_of_the_examples_gives_their_grids() -> None:
    text = (examples.ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(\1\.py\) \|[^|]*\| ([\dx ]+) \|", text, re.MULTILINE)
    assert {name for name, _ in rows} == set(examples.VERSIONS)
    for name, grid in rows:
        sizes = [int(size) for size in grid.split(" x ")]
        assert corpus.case(corpus.KERNELS[name]).grid == tuple(sizes + [1] * (3 - len(sizes))), name


def test_the_code_in_the_readme_of_the_examples_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (examples.ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(examples.ROOT)
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "examples/README.md", "exec"), {})


def test_the_corpus_reaches_every_operation_that_the_frontend_can_write() -> None:
    kernels = list(corpus.KERNELS.values())
    newest, oldest = coverage.emitted(kernels, "13.5"), coverage.emitted(kernels, "13.1")
    assert coverage.declared() - newest == set(coverage.NOT_EMITTED) | set(coverage.OLD_VERSIONS_ONLY)
    assert oldest - newest == set(coverage.OLD_VERSIONS_ONLY)


def test_the_frontend_knows_as_many_operations_as_the_dialect_has() -> None:
    assert len(coverage.writer_functions()) == len(coverage.declared())


def test_a_mismatch_names_the_first_wrong_element() -> None:
    want = np.array([[1.0, np.nan], [0.0, 4.0]], np.float32)
    assert mismatch(want.copy(), want, Tolerance()) == ""
    assert "first at [1, 0]" in mismatch(np.array([[1.0, np.nan], [-0.0, 4.0]], np.float32), want, Tolerance())
    assert mismatch(np.array([[1.0, np.nan], [-0.0, 4.0]], np.float32), want, Tolerance(signed_zero=False)) == ""
    assert mismatch(want * np.float32(1 + 1e-6), want, Tolerance(relative=2e-6)) == ""
    assert "first at [1, 1]" in mismatch(np.array([[1, np.nan], [0, np.inf]], np.float32), want, Tolerance(1.0))
    assert "expected float32" in mismatch(want.astype(np.float64), want, Tolerance())


def test_a_case_catches_a_change_to_an_input() -> None:
    case = corpus.case(corpus.KERNELS["vector_add"])
    before, after = corpus.snapshot(case.args), corpus.snapshot(case.args)
    for index, result in case.expected(before).items():
        after[index][...] = result
    corpus.check_case(case, before, after)
    after[0][3] += 1
    with pytest.raises(AssertionError, match=r"argument 0 \(not an output\)"):
        corpus.check_case(case, before, after)


def test_two_kernels_of_one_name_are_an_error() -> None:
    kernel: Kernel = corpus.KERNELS["vector_add"]
    with pytest.raises(ValueError, match="two kernels are named vector_add"):
        as_mapping([kernel, kernel])


@pytest.mark.parametrize("name", LAUNCHED)
def test_the_kernel_run_as_python_gives_the_expected_values(name: str) -> None:
    kernel = corpus.KERNELS[name]
    assert kernel.problem is not None
    case, problem = corpus.case(kernel, seed=2), kernel.problem(np.random.default_rng(2))
    before = corpus.snapshot(case.args)
    emulation.run(kernel, problem.values, problem.grid)
    after = [flat for value in problem.values for flat in flatten(value)]
    corpus.check_case(case, before, after)
