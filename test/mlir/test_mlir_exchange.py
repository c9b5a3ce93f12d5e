# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules in MLIR proper: there and back in both forms, over each of the bindings that are installed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import libtile
from kernels import corpus
from libtile import mlir

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.bc"))
SAMPLE = list(corpus.KERNELS)[::12]
BINDINGS = ("jaxlib.mlir.ir", "iree.compiler.ir")


@pytest.fixture(params=BINDINGS)
def ir(request: pytest.FixtureRequest) -> ModuleType:
    pytest.importorskip(request.param.partition(".")[0], reason="the MLIR bindings are not installed")
    return import_module(request.param)


@pytest.fixture
def jax() -> ModuleType:
    pytest.importorskip("jaxlib", reason="the MLIR bindings are not installed")
    return import_module("jaxlib.mlir.ir")


def text(module: libtile.Module) -> str:
    return libtile.print_module(module, debuginfo=True)


def stages(path: Path, gpu_name: str = "sm_90") -> Iterator[libtile.Module]:
    """The module of a file, and what becomes of it in the inner dialects."""
    yield libtile.read(path)
    compiled = libtile.compile(path, gpu_name, keep_text=True, emit="tileas")
    yield libtile.parse(compiled.tileaa)
    yield libtile.parse(compiled.tileas)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_stage_of_an_example_goes_there_and_back(path: Path, jax: ModuleType) -> None:
    _every_stage(path, jax)


def test_every_stage_of_a_product_goes_there_and_back(ir: ModuleType) -> None:
    _every_stage(ROOT / "examples" / "gemm.bc", ir)


def _every_stage(path: Path, ir: ModuleType) -> None:
    with mlir.new_context(ir) as context:
        for module in stages(path):
            there = mlir.to_mlir(module, ir)
            assert there.operation.verify()
            assert text(mlir.from_mlir(there, ir)) == text(module)
            assert text(mlir.from_mlir(mlir.to_mlir(module, ir, "structural"), ir)) == text(module)
            file = io.BytesIO()
            there.operation.write_bytecode(file)
            generic = there.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
            for data in (file.getvalue(), generic):  # MLIR's custom forms lose locations of arguments
                assert text(mlir.from_mlir(ir.Module.parse(data, context), ir)) == text(module)


def _same_bytecode(name: str, ir: ModuleType) -> None:
    kernel = corpus.KERNELS[name]
    module = libtile.read(corpus.export(kernel, kernel.versions[-1]))
    for form in ("exact", "structural"):
        back = mlir.from_mlir(mlir.to_mlir(module, ir, form), ir)
        assert back.version == module.version and libtile.write(back) == libtile.write(module)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_kernel_has_the_same_bytecode_when_it_is_back(name: str, jax: ModuleType) -> None:
    _same_bytecode(name, jax)


def test_the_version_of_a_file_goes_along(jax: ModuleType) -> None:
    module = libtile.read(libtile.migrate(ROOT / "examples" / "vector_add.bc", "13.5"))
    there = mlir.to_mlir(module, jax)
    assert libtile.write(mlir.from_mlir(there, jax)) == libtile.write(module)
    there.operation.attributes["libtile.version"] = jax.StringAttr.get("new", there.context)
    with pytest.raises(libtile.LibtileError, match='is no version of the bytecode: "new"'):
        mlir.from_mlir(there, jax)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in corpus.KERNELS if name not in SAMPLE])
def test_every_kernel_has_the_same_bytecode_when_it_is_back(name: str, ir: ModuleType) -> None:
    _same_bytecode(name, ir)
    kernel = corpus.KERNELS[name]
    module = libtile.read(corpus.export(kernel, kernel.versions[-1]))
    for gpu_name in ("sm_80", "sm_90", "sm_100"):
        compiled = libtile.compile(module, gpu_name, keep_text=True, emit="tileas")
        for inner in map(libtile.parse, (compiled.tileaa, compiled.tileas)):
            for form in ("exact", "structural"):
                assert text(mlir.from_mlir(mlir.to_mlir(inner, ir, form), ir)) == text(inner)


CONSTANTS = """
cuda_tile.module @constants {
  entry @kernel(%p: tile<ptr<i32>>) {
    %a = constant <i1: [%BITS%]> : tile<128xi1>
    %b = constant <f8E4M3FN: [1.0, 2.0]> : tile<2xf8E4M3FN>
    %c = constant <i64: -9223372036854775808> : tile<i64>
    %d = constant <f32: 0x7FC00001> : tile<4xf32>
    %e = constant <i32: [[1, 2], [3, 4]]> : tile<2x2xi32>
    return
  } {optimization_hints = #cuda_tile.optimization_hints<sm_90 = {num_cta_in_cga = 2 : i8}>}
}
"""


def test_constants_and_the_widths_of_hints_are_kept(ir: ModuleType) -> None:
    bits = ", ".join("true" if i % 3 else "false" for i in range(128))
    given = libtile.parse(CONSTANTS.replace("%BITS%", bits))
    back = mlir.from_mlir(mlir.to_mlir(given, ir), ir)
    assert libtile.print_module(back, generic=True) == libtile.print_module(given, generic=True)
    hints = back.tile_module.regions[0].block.first_op.properties["optimization_hints"]
    assert str(hints.hints["sm_90"]["num_cta_in_cga"].type) == "i8"


COMPARED = """
cuda_tile.module @compared {
  entry @kernel(%a: tile<i32>, %b: tile<i32>) {
    %0 = cmpi equal %a, %b, unsigned : tile<i32> -> tile<i1>
    %1 = cmpi equal %a, %b, signed : tile<i32> -> tile<i1>
    %2 = cmpi less_than %a, %b, unsigned : tile<i32> -> tile<i1>
    %3 = addi %a, %b overflow<no_signed_wrap> : tile<i32>
    %4 = shli %a, %b : tile<i32>
    %5 = divi %a, %b signed : tile<i32>
    %6 = exti %a unsigned : tile<i32> -> tile<i64>
    %7 = select %0, %a, %b : tile<i1>, tile<i32>
    print_tko "%i %i %i %i %i", %3, %4, %5, %6, %7 : tile<i32>, tile<i32>, tile<i32>, tile<i64>, tile<i32> -> token
    return
  }
}
"""


def test_what_arith_would_say_otherwise_is_kept(ir: ModuleType) -> None:
    given = libtile.parse(COMPARED)
    there = mlir.to_mlir(given, ir, "structural")
    assert libtile.print_module(mlir.from_mlir(there, ir)) == libtile.print_module(given)
    assert str(there).count("arith.") == 4  # neither the unsigned equality, nor what may be undefined


COUNTED = """
cuda_tile.module @counted {
  entry @kernel(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = addi %one, %one : tile<i32>
    %dead = muli %two, %two : tile<i32>
    %once = for %i in (%zero to %one, step %one) : tile<i32> iter_values(%sum = %two) -> (tile<i32>) {
      %x = addi %sum, %two : tile<i32>
      continue %x : tile<i32>
    }
    for %i in (%zero to %n, step %one) : tile<i32> {
      %four = muli %n, %n : tile<i32>
      %again = muli %n, %n : tile<i32>
      %y = addi %four, %once : tile<i32>
      %z = addi %y, %again : tile<i32>
      %stop = cmpi greater_than %i, %z, signed : tile<i32> -> tile<i1>
      if %stop {
        continue
      }
      %token = store_ptr_tko weak %p, %z : tile<ptr<i32>>, tile<i32> -> token
    }
    return
  }
}
"""


def test_passes_of_mlir_fold_what_is_constant_and_hoist_what_does_not_change(ir: ModuleType) -> None:
    given = libtile.parse(COUNTED)
    there = str(mlir.to_mlir(given, ir, "structural"))
    assert "func.func @kernel" in there and "scf.for" in there and "arith.muli" in there
    assert '"cuda_tile.for"' in there  # an exit leaves it early
    made = str(mlir.run_passes(given, ir, ["canonicalize", "cse"]))
    assert made.count("muli") == 1 and made.count("for ") == 1 and "<i32: 4>" in made and "%dead" not in made
    assert libtile.verify(libtile.parse(made)) == []


def test_a_loop_that_nothing_leaves_early_loses_what_does_not_change_in_it(ir: ModuleType) -> None:
    given = libtile.parse(COUNTED.replace("continue\n      }", "yield\n      }"))
    made = mlir.run_passes(given, ir, ["loop-invariant-code-motion"])
    for module, expected in ((given, ["entry", "for", "for"]), (made, ["entry", "entry", "entry"])):
        products = [op for op in module.op.walk() if op.name == "cuda_tile.muli"]
        assert [product.parent_op().spec.name for product in products] == expected


def _does_the_same(name: str, ir: ModuleType, passes: list[str]) -> None:
    kernel = corpus.KERNELS[name]
    module = libtile.read(corpus.export(kernel, kernel.versions[-1]))
    optimized = mlir.run_passes(module, ir, passes)
    assert sum(1 for _ in optimized.op.walk()) <= sum(1 for _ in module.op.walk())
    if kernel.problem is None:
        return
    results = []
    for version in (module, optimized):
        case = corpus.case(kernel)
        libtile.run(version, grid=case.grid, args=case.args)
        results.append([array.tobytes() for array in case.args if isinstance(array, np.ndarray)])
    assert results[0] == results[1]


PASSES = ["canonicalize", "cse", "sccp", "loop-invariant-code-motion", "inline", "symbol-dce"]


@pytest.mark.parametrize("name", SAMPLE)
def test_what_the_passes_make_of_a_kernel_does_the_same(name: str, jax: ModuleType) -> None:
    _does_the_same(name, jax, PASSES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in corpus.KERNELS if name not in SAMPLE])
def test_what_the_passes_make_of_every_kernel_does_the_same(name: str, ir: ModuleType) -> None:
    _does_the_same(name, ir, [name for name in PASSES if name != "sccp" or ir.__name__.startswith("jaxlib")])


def test_errors_are_the_librarys(jax: ModuleType) -> None:
    module = libtile.read(EXAMPLES[0])
    with pytest.raises(libtile.LibtileError, match="unknown form 'loose', expected one of exact, structural"):
        mlir.to_mlir(module, jax, "loose")
    with pytest.raises(libtile.LibtileError, match="expected the module `ir` of MLIR's Python bindings"):
        mlir.to_mlir(module, None)
    there = mlir.to_mlir(module, jax)
    calls = (mlir.new_context, partial(mlir.from_mlir, there), partial(mlir.run_passes, module))
    for call, what in product(calls, (None, "jaxlib.mlir.ir", io)):
        with pytest.raises(libtile.LibtileError, match="expected the module `ir` of MLIR's Python bindings"):
            call(what)
    with pytest.raises(libtile.LibtileError, match="'mem2reg' is no pass that leaves Tile IR alone; there are canon"):
        mlir.run_passes(module, jax, ["mem2reg"])
    with pytest.raises(libtile.LibtileError, match=r"expected an ir\.Module of jaxlib\.mlir\.ir, but got str"):
        mlir.from_mlir("module {}", jax)
    with jax.Context(), pytest.raises(libtile.LibtileError, match="has to allow unregistered dialects"):
        mlir.to_mlir(module, jax)


def test_what_stands_for_no_op_is_refused(jax: ModuleType) -> None:
    there = str(mlir.to_mlir(libtile.read(EXAMPLES[0]), jax, "structural").operation.get_asm())
    for old, new, message in (
        ('libtile.op = "cuda_tile.entry"', 'libtile.op = "cuda_tile.entrance"', "for 'cuda_tile.entrance', which no"),
        ('libtile.op = "cuda_tile.entry"', "", "a 'func.func' without the 'libtile.op' of the op that it stands for"),
    ):
        assert old in there
        changed = jax.Module.parse(there.replace(f"{old}, " if not new else old, new), mlir.new_context(jax))
        with pytest.raises(libtile.LibtileError, match=message):
            mlir.from_mlir(changed, jax)


def test_the_examples_of_the_page_print_what_it_shows(
    jax: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    page = (ROOT / "docs" / "mlir.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == page.count("```python")
    for code, printed in blocks:
        exec(compile(code, "docs/mlir.md", "exec"), names)
        assert capsys.readouterr().out == printed
