# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IR made of a file's records alone is, to the verifier and the printer, the same as xDSL's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from asm.test_record_text import NESTED, WRITTEN
from dialects.verify_cases.case import Case
from libtile import asm, bytecode
from libtile.asm.diagnosis import diagnose
from libtile.asm.disasm_names import disassembly
from libtile.asm.printer import print_op
from libtile.dialects.cuda_tile.attribute_text import attribute_text
from libtile.dialects.cuda_tile.bridge import from_bytecode, light_ir
from libtile.dialects.cuda_tile.kit_xdsl import op_classes
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.ir import forms, light
from libtile.spec import default_spec

ROOT = Path(__file__).parents[2]


def texts(op: forms.Operation) -> list[str]:
    return [
        print_op(op),
        print_op(op, generic=True),
        print_op(op, debuginfo=True),
        print_op(op, debuginfo=True, local_scope=True),
        disassembly(op),
        disassembly(op, debuginfo=True),
    ]


def check_same(data: bytes) -> bool:
    """Diagnostics and texts of both kinds of IR are equal; whether there are any of the latter."""
    try:
        heavy = from_bytecode(bytecode.read(data))
    except bytecode.BytecodeError as error:
        with pytest.raises(type(error)) as found:
            light_ir(bytecode.read(data))
        assert str(found.value) == str(error)
        return False
    op = light_ir(bytecode.read(data))
    assert diagnose(op, warn_hints=True) == diagnose(heavy, warn_hints=True)
    assert texts(op) == texts(heavy)
    return True


@pytest.mark.parametrize("cases", [WRITTEN[::8], pytest.param(WRITTEN, marks=pytest.mark.slow)], ids=["some", "all"])
def test_both_kinds_of_ir_have_the_same_diagnostics(cases: list[Case]) -> None:
    checked = [check_same(bytecode.write(to_bytecode(case.make()), "13.5")) for case in cases]
    assert sum(checked) > len(cases) / 2


def test_both_kinds_of_ir_have_the_same_texts() -> None:
    assert check_same(bytecode.write(to_bytecode(asm.parse(NESTED, implicit_module=False)), "13.5"))
    for name in ("vector_add", "histogram"):
        assert check_same((ROOT / "examples" / f"{name}.bc").read_bytes())


@pytest.mark.slow
def test_both_kinds_of_ir_have_the_same_texts_of_the_corpus() -> None:
    pytest.importorskip("cuda.tile")
    from kernels import corpus

    for kernel in corpus.KERNELS.values():
        for version in {kernel.versions[0], kernel.versions[-1]}:
            assert check_same(corpus.export(kernel, version)), (kernel.name, version)


def test_declared_defaults_are_the_same() -> None:
    from libtile.dialects.cuda_tile import kit_light

    spec = default_spec()
    found = 0
    for name, declared in spec.ops.items():
        for attribute in declared.attributes:
            ours = kit_light.op_classes(spec)[name].default_of(attribute)
            theirs = op_classes(spec)[name].default_of(attribute)
            assert (ours is None) == (theirs is None), (name, attribute.name)
            if ours is not None:
                found += 1
                assert attribute_text(ours) == attribute_text(theirs), (name, attribute.name)
    assert found > 10


def test_a_name_stands_for_the_classes_of_both() -> None:
    from xdsl.dialects import builtin

    assert isinstance(builtin.StringAttr("a"), forms.StringAttr) and isinstance(light.StringAttr("a"), forms.StringAttr)
    assert not isinstance(builtin.StringAttr("a"), forms.ArrayAttr) and not isinstance("a", forms.StringAttr)
    assert light.ArrayAttr([light.StringAttr("a")]) == light.ArrayAttr([light.StringAttr("a")])
    assert light.StringAttr("a") != builtin.StringAttr("a") and light.StringAttr("a") != light.IntAttr("a")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("tileirdisasm", ["examples/softmax.bc"]),
        ("tileirdisasm", ["-g", "examples/softmax.bc"]),
        ("cuda_tile_translate", ["-cudatilebc-to-mlir", "examples/softmax.bc"]),
        ("cuda_tile_translate", ["-cudatilebc-to-mlir", "-mlir-print-op-generic", "examples/softmax.bc"]),
        ("cuda_tile_translate", ["-cudatilebc-to-mlir", "-mlir-print-debuginfo", "examples/softmax.bc"]),
    ],
)
def test_tools_that_print_bytecode_load_nothing_of_xdsl(tool: str, arguments: list[str]) -> None:
    code = (
        "from libtile_tools import startup; startup.install()\n"
        f"import sys; from libtile_tools import cli; from {tool}.main import command\n"
        f"status = cli.call(command, {arguments!r})\n"
        "print(status, [name for name in sys.modules if name.partition('.')[0] == 'xdsl'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "0 []"
