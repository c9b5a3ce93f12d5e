# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`import libtile`: the functions of the library's face, and what they raise."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import libtile
from libtile.bytecode import BytecodeError, MigrationError

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "examples" / "vector_add.bc"

TEXT = """\
cuda_tile.module @kernels {
  entry @main(%arg0: tile<i32>) {
    %0 = negi %arg0 : tile<i32>
    return
  }
}
"""


def loaded_modules(code: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after running `code`."""
    script = f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    return set(done.stdout.split())


HEAVY = {"xdsl", "numpy", "construct", "llvmlite", "click", "ml_dtypes"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_modules("import libtile") & HEAVY


def test_bytecode_is_usable_without_xdsl() -> None:
    code = f"from libtile import bytecode; bytecode.validate(open({str(KERNEL)!r}, 'rb').read())"
    assert not loaded_modules(code) & {"xdsl", "numpy", "mlir"}


@pytest.mark.parametrize(
    "tool",
    [
        "cuda_tile_translate",
        "tileirdisasm",
        "cuda_tile_opt",
        "tileiras",
        "cuda_tile_run",
        "cuda_tile_diff",
        "cuda_tile_reduce",
        "cuda_tile_optimize",
    ],
)
def test_version_of_a_tool_loads_nothing_heavy(tool: str) -> None:
    code = f"from libtile_tools import cli; from {tool} import main as tool; cli.call(tool.command, ['--version'])"
    has_numbers = tool in ("cuda_tile_diff", "cuda_tile_optimize", "cuda_tile_reduce")  # of click's types
    assert not loaded_modules(code) & (HEAVY - ({"click"} if has_numbers else set()))


def test_every_name_of_the_face_exists() -> None:
    assert all(getattr(libtile, name) is not None for name in libtile.__all__)
    assert set(libtile.__all__) <= set(dir(libtile))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        libtile.nothing  # noqa: B018


@pytest.mark.parametrize("source", [KERNEL, str(KERNEL), KERNEL.read_bytes(), bytearray(KERNEL.read_bytes())])
def test_bytecode_is_read_from_a_path_or_bytes(source: object) -> None:
    module = libtile.read(source)  # type: ignore[arg-type]
    assert module.op.name == "cuda_tile.module"
    assert "entry @vector_add" in libtile.print_module(module)


def test_read_keeps_the_version_for_write() -> None:
    module = libtile.read(KERNEL)
    assert libtile.read(libtile.write(module)).version == module.version


def test_text_is_printed_as_parsed() -> None:
    assert libtile.print_module(libtile.parse(TEXT)) == TEXT
    assert str(libtile.parse(TEXT)) == TEXT


def test_generic_form_is_parsed_back() -> None:
    generic = libtile.print_module(libtile.parse(TEXT), generic=True)
    assert '"cuda_tile.negi"' in generic
    assert libtile.print_module(libtile.parse(generic)) == TEXT


def test_module_inside_of_a_builtin_module_is_found() -> None:
    module = libtile.parse(f"module {{\n{TEXT}}}\n")
    assert module.tile_module.name == "cuda_tile.module"
    assert libtile.write(module) == libtile.write(libtile.parse(TEXT))


def test_two_modules_are_not_one() -> None:
    module = libtile.parse(TEXT + TEXT.replace("@kernels", "@others"), filename="k.mlir")
    with pytest.raises(libtile.DiagnosticError) as caught:
        libtile.write(module)
    second = TEXT.count("\n") + 1
    assert str(caught.value) == f"k.mlir:{second}:1: error: expected a single CUDA Tile IR module in the MLIR module"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "k.mlir"),
        ("module {}", "k.mlir:1:1"),
        ("\n func.func private @f()", "k.mlir:2:2"),
        (TEXT + "func.func private @f()", f"k.mlir:{TEXT.count(chr(10)) + 1}:1"),
        ('nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<4xf32>}', "k.mlir:1:1"),
    ],
)
def test_a_text_without_a_module_is_refused_with_its_place(text: str, place: str) -> None:
    for use in (libtile.write, libtile.compile):
        with pytest.raises(libtile.DiagnosticError) as caught:
            use(libtile.parse(text, filename="k.mlir"))  # type: ignore[operator]
        (found,) = caught.value.diagnostics
        assert found.text == f"{place}: expected a single CUDA Tile IR module in the MLIR module"


def test_text_is_written_in_the_oldest_version_that_holds_it() -> None:
    assert str(libtile.read(libtile.write(libtile.parse(TEXT))).version) == "13.1"
    newer = TEXT.replace("negi %arg0", "negi %arg0 overflow<no_signed_wrap>")
    assert str(libtile.read(libtile.write(libtile.parse(newer))).version) == "13.2"


def test_version_that_lacks_a_feature_is_refused_by_name_and_place() -> None:
    module = libtile.parse(TEXT.replace("negi %arg0", "negi %arg0 overflow<no_signed_wrap>"), filename="k.mlir")
    with pytest.raises(MigrationError) as caught:
        libtile.write(module, version="13.1")
    error = caught.value
    assert (error.op, error.feature, str(error.required)) == ("cuda_tile.negi", "overflow", "13.2")
    assert str(error).startswith("k.mlir:3:10: 'cuda_tile.negi': attribute 'overflow' requires bytecode version 13.2+")


def test_migration_changes_the_version_and_nothing_else() -> None:
    data = libtile.write(libtile.parse(TEXT), version="13.5")
    older = libtile.migrate(data, to="13.1")
    assert str(libtile.read(older).version) == "13.1"
    assert libtile.print_module(libtile.read(older)) == TEXT


def test_syntax_error_is_a_diagnostic_with_its_place() -> None:
    with pytest.raises(libtile.DiagnosticError) as caught:
        libtile.parse("cuda_tile.module @m {\n  entry @e( {\n  }\n}", filename="bad.mlir")
    location = caught.value.diagnostics[0].location
    assert location is not None and (location.filename, location.line) == ("bad.mlir", 2)


def test_verify_raises_every_diagnostic() -> None:
    text = TEXT.replace(
        "    return\n",
        "    %1 = addi %arg0, %arg0 : tile<i32>\n    %2 = exti %1 signed : tile<i32> -> tile<i8>\n    return\n",
    ).replace("    return\n", "    %3 = trunci %1 : tile<i32> -> tile<i64>\n    return\n")
    with pytest.raises(libtile.DiagnosticError) as caught:
        libtile.verify(libtile.parse(text, filename="k.mlir"))
    lines = [d.location.line for d in caught.value.diagnostics if d.location is not None]
    assert lines == [5, 6]


def test_valid_module_has_no_diagnostics() -> None:
    assert libtile.verify(libtile.parse(TEXT)) == []


def test_bad_bytecode_is_one_error_with_offset_and_section() -> None:
    with pytest.raises(BytecodeError) as caught:
        libtile.read(KERNEL.read_bytes()[:-30])
    assert caught.value.offset is not None and caught.value.section


def test_an_op_without_an_operand_that_it_needs_is_not_built() -> None:
    from libtile.dialects.cuda_tile.ops import build

    for operands in ({}, {"lhs": None}):
        with pytest.raises(libtile.LibtileError, match=r"operand 'lhs' of 'cuda_tile.addf' is missing"):
            build("addf", operands)


def test_missing_file_is_a_library_error() -> None:
    with pytest.raises(libtile.LibtileError, match=r"cannot open input file 'no-such-file\.bc'"):
        libtile.read("no-such-file.bc")


def test_arguments_that_are_no_modules_are_library_errors() -> None:
    functions = (libtile.verify, libtile.write, libtile.print_module, libtile.compile, libtile.optimize, libtile.read)
    for function in functions:
        with pytest.raises(libtile.LibtileError, match=r"(has to be|expected) a .* NoneType"):
            function(None)  # type: ignore[arg-type]
    with pytest.raises(libtile.LibtileError, match="text has to be a string, not bytes"):
        libtile.parse(b"")  # type: ignore[arg-type]
    with pytest.raises(libtile.LibtileError, match="expected a single CUDA Tile IR module"):
        libtile.write(ModuleOp([]))
    with pytest.raises(libtile.LibtileError, match="opt_level has to be a whole number, not str"):
        libtile.compile(b"", opt_level="3")  # type: ignore[arg-type]


def test_errors_have_one_base() -> None:
    assert issubclass(BytecodeError, libtile.LibtileError)
    assert issubclass(libtile.DiagnosticError, libtile.LibtileError)


def test_compile_gives_every_stage_of_a_kernel() -> None:
    made = libtile.compile(KERNEL, gpu_name="sm_90")
    assert made.cubin.startswith(b"\x7fELF")
    assert ".target sm_90" in made.ptx
    assert "define ptx_kernel void" in made.llvm_ir
    (kernel,) = made.kernels.values()
    assert kernel.block_dim[0] % 32 == 0
    assert kernel.registers > 0


def test_compile_names_the_targets_that_there_are() -> None:
    with pytest.raises(libtile.LibtileError, match="unknown GPU name 'sm_42'"):
        libtile.compile(KERNEL, gpu_name="sm_42")


def test_the_version_is_that_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == libtile.__version__
