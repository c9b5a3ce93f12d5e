# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The driver in-process: which error says what, and that the cache gives back what it was given."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

import libtile
from libtile.backend.ptxas import PtxasError
from libtile.backend.tools import ToolNotFoundError
from libtile.compiler import driver
from libtile.compiler.cache import Cache, Key
from libtile.compiler.driver import CompilationError, InputError
from libtile.compiler.options import STAGES, Compiled, Kernel, Options
from libtile.ir.kernels import FromParameter, Parameter, TensorMapRecipe
from libtile.support import remarks, timing
from libtile.support.diagnostics import Diagnostic, DiagnosticError, LoweringError, Severity, SourceLocation

VECTOR_ADD = (Path(__file__).resolve().parents[2] / "examples" / "vector_add.bc").read_bytes()
SM_90 = Options("sm_90")
PLACE = SourceLocation("a.py", 3, 7)


def _failing(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("libtile.compiler.compile.compile_module", fail)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (LoweringError("a.py:3:7: 'x' op cannot be compiled", PLACE),
         "loc(\"a.py\":3:7): error: 'x' op cannot be compiled"),
        (LoweringError("cannot be compiled"), "error: cannot be compiled"),
        (PtxasError("ptxas failed", "log"), "error: ptxas failed"),
        (DiagnosticError([Diagnostic(Severity.ERROR, PLACE, "bad").note(SourceLocation("b.py"), "because")]),
         'loc("a.py":3:7): error: bad\nloc("b.py"): note: because'),
        (LoweringError("a name\x00\udc80 that is none", SourceLocation("a\n\x1cb.py", 3, 7)),
         'loc("a\\n\\x1cb.py":3:7): error: a name\\x00\\x80 that is none'),
    ],
    ids=["located", "unlocated", "ptxas", "diagnostics", "any bytes"],
)  # fmt: skip
def test_errors_have_the_shape_that_frontends_parse(monkeypatch, error, line):
    _failing(monkeypatch, error)
    with pytest.raises(CompilationError) as caught:
        driver.compile_bytecode(VECTOR_ADD, SM_90)
    assert str(caught.value) == f"{line}\nerror: failed to compile Tile IR program"


def test_a_fault_of_the_compiler_is_one_line_that_says_where(monkeypatch):
    _failing(monkeypatch, ZeroDivisionError("division by zero"))
    with pytest.raises(
        CompilationError, match=r"^error: internal error of the compiler at test_driver.py:\d+: ZeroDiv"
    ):
        driver.compile_bytecode(VECTOR_ADD, SM_90)


def test_a_module_that_breaks_a_rule_is_bad_input():
    text = "cuda_tile.module @m {\n entry @k() {\n %a = constant <i32: 1> : tile<i32>\n"
    text += " %b = divi %a, %a unsigned rounding<negative_inf> : tile<i32>\n return\n }\n}\n"
    data = libtile.write(libtile.parse(text), "13.4")
    with pytest.raises(InputError) as caught:
        driver.compile_bytecode(data, SM_90)
    *lines, last = str(caught.value).split("\n")
    assert last == driver.NOT_BYTECODE
    assert any("rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in line for line in lines)


def test_the_cache_gives_back_everything(tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    made = driver.compile_bytecode(VECTOR_ADD, Options("sm_90", keep_text=True), cache=cache)
    assert not made.cached
    _failing(monkeypatch, AssertionError("the cache was not asked"))
    again = driver.compile_bytecode(VECTOR_ADD, Options("sm_90", keep_text=True), cache=cache)
    assert again.cached
    assert (again.kernels, again.log, again.gpu_name) == (made.kernels, made.log, made.gpu_name)
    assert [again.stage(s) for s in STAGES] == [made.stage(s) for s in STAGES]
    assert again.remarks == made.remarks


def test_the_cache_keeps_how_tensor_maps_are_made():
    recipe = TensorMapRecipe(0, "f16", (64, FromParameter(2)), (FromParameter(3),), (64, 8), "128b", 2)
    kernel = Kernel("k", (Parameter("ptr", 8),), (384, 1, 1), descriptors=(recipe,))
    made = Compiled("sm_90", b"cubin", kernels={"k": kernel})
    assert (again := driver._unpacked(driver._packed(made))) is not None
    assert again.kernels == made.kernels


def test_without_ptxas_the_cache_serves_what_needs_none(tmp_path, monkeypatch):
    def missing(name):
        raise ToolNotFoundError(f"{name} was not found in nowhere")

    monkeypatch.setattr("libtile.backend.tools.tool_path", missing)
    monkeypatch.setattr("libtile.backend.ptxas.tool_path", missing)
    driver.compiler_identity.cache_clear()
    try:
        made = driver.compile_bytecode(VECTOR_ADD, Options("sm_90", emit="ptx"), cache=Cache(tmp_path))
        assert ".entry vector_add" in made.ptx
        with pytest.raises(CompilationError, match=r"^error: ptxas was not found in nowhere\nerror: failed"):
            driver.compile_bytecode(VECTOR_ADD, SM_90, cache=Cache(tmp_path))
    finally:
        driver.compiler_identity.cache_clear()


def test_remarks_survive_the_cache(tmp_path):
    given = [remarks.mma_fma("f", None), remarks.load_selected("g", PLACE, remarks.TMA_LOAD, (4, 8))]
    made = Compiled("sm_90", b"cubin", "ptx", "llvm", "aa", "as", remarks=given)
    cache = Cache(tmp_path)
    key = Key.of({"input": "k"})
    cache.store(key, driver._packed(made))
    found = cache.load(key)
    assert found is not None
    again = driver._unpacked(found)
    assert again is not None
    assert again.remarks == given


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\xff",
        b"{}x",
        b"7",
        b"[7]",
        b"[{}]",
        b"null",
        b"[" * 100_000,
        b'{"gpu_name": "sm_90", "kernels": {}, "remarks": [{"category": "none of these"}]}',
        b'{"gpu_name": "sm_90", "remarks": [], "kernels": {"k": 1}}',
    ],
)
def test_an_entry_that_does_not_hold_what_a_compilation_makes_is_a_miss(tmp_path, rest):
    cache = Cache(tmp_path)
    made = driver.compile_bytecode(VECTOR_ADD, Options("sm_90", emit="tileaa"), cache=cache)
    key = driver._key(VECTOR_ADD, Options("sm_90", emit="tileaa"), ())
    whole = driver._packed(made)
    for parts in ({**whole, "rest": rest}, {name: part for name, part in whole.items() if name != "llvm_ir"}):
        assert cache.store(key, parts)
        again = driver.compile_bytecode(VECTOR_ADD, Options("sm_90", emit="tileaa"), cache=cache)
        assert not again.cached
        assert again.tileaa == made.tileaa


def test_every_option_and_the_input_are_in_the_key():
    def key(data=b"x", preview=(), **changes):
        return driver._key(data, Options(**{"gpu_name": "sm_90", **changes}), preview)

    other = [
        key(b"y"), key(preview=["simt"]), key(gpu_name="sm_80"), key(opt_level=0), key(line_info=True), key(debug=True),
        key(sanitize="memcheck"), key(host=("riscv", "linux")), key(host=("riscv", "windows")), key(launch_abi="simt"),
        key(emit="ptx"), key(keep_text=True), key(dopt=True),
    ]  # fmt: skip
    assert len({key(), *other}) == len(other) + 1
    assert key() == key()


@pytest.mark.parametrize(
    "name", ["TILEIR_PREFER_TMA_FOR_LOAD_STORE", "TILEIR_DELAY_TMA_STORE_WAIT", "LIBTILE_VERIFY_EACH"]
)
def test_what_passes_read_from_the_environment_is_in_the_key(name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    before = driver._key(b"x", SM_90, ())
    monkeypatch.setenv(name, "1")
    assert driver._key(b"x", SM_90, ()) != before


def test_where_the_cache_is_does_not_enter_the_key(monkeypatch):
    before = driver._key(b"x", SM_90, ())
    monkeypatch.setenv("LIBTILE_CACHE_DIR", "/elsewhere")
    assert driver._key(b"x", SM_90, ()) == before


def test_a_key_says_what_the_compiler_is_made_of():
    facts = json.loads(driver._key(b"x", SM_90, ()).text)
    assert set(facts) == {"input", "options", "preview", "compiler", "environment"}
    assert {"libtile", "files of libtile", "llvmlite", "xdsl", "ptxas", "libdevice"} <= set(facts["compiler"])
    assert facts["options"]["gpu_name"] == "sm_90"


def test_a_release_of_a_package_is_told_from_another(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    found = {driver._release("some_package")}
    (tmp_path / "some_package-1.0.dist-info").mkdir()
    found.add(driver._release("some_package"))
    (tmp_path / "some_package-1.0.dist-info").rename(tmp_path / "some_package-1.1.dist-info")
    found.add(driver._release("some_package"))
    (package / "__init__.py").write_text("x = 1")
    found |= {driver._release("some_package"), driver._release("no_package")}
    assert len(found) == 5


def test_nothing_is_timed_unless_asked_for():
    with timing.stage("a"):
        pass
    with timing.collect() as report, timing.stage("b"), timing.stage("c"):
        pass
    assert list(report.stages) == ["c", "b"]
    assert report.stages["b"] > 0 and report.stages["c"] > 0
    assert report.total >= report.booked == pytest.approx(report.stages["b"] + report.stages["c"])
    assert report.table().splitlines()[-1].endswith("100.0%  total")


def test_nothing_is_collected_before_a_compilation_ends():
    # What a collection finds alive is old from then on, and is looked at again when it has died.
    enabled: list[bool] = []
    driver.compile_bytecode(
        VECTOR_ADD, Options("sm_90", emit="llvm"), observer=lambda *_: enabled.append(gc.isenabled())
    )
    assert gc.isenabled()
    assert enabled
    assert not any(enabled)
