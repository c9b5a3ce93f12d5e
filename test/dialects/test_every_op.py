# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op goes from text to bytecode and back to the same text, in its first version and in the newest."""

from __future__ import annotations

import pytest

from asm.op_texts import CASES
from bytecode.samples import op_module
from libtile import asm, bytecode
from libtile.bytecode import MigrationError
from libtile.dialects.cuda_tile.bridge import from_bytecode
from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
from libtile.spec import OpSpec, Version, default_spec

SPEC = default_spec()

# A preview op has no form in a released version, and a module is a container of functions.
OPS = [op for name, op in SPEC.ops.items() if op.preview is None and name in CASES]


# Cases without the later features that the shared ones use.
PLAIN = {
    "exti": (["tile<2x2xi8>"], "%0 = exti %arg0 signed : tile<2x2xi8> -> tile<2x2xi32>"),
    "testing$bytecode_test_evolution": (
        ["tile<2xf32>"],
        "%0 = testing$bytecode_test_evolution(%arg0 : !cuda_tile.tile<2xf32>) -> token",
    ),
}


def newest(op: OpSpec) -> Version:
    return SPEC.versions[-1] if SPEC.is_testing_op(op) else SPEC.current


def module_texts(op: OpSpec) -> list[str]:
    texts = []
    for types, body in [*CASES[op.name], *([PLAIN[op.name]] if op.name in PLAIN else [])]:
        arguments = ", ".join(f"%arg{i}: {type_}" for i, type_ in enumerate(types))
        lines = "".join(f"    {line}\n" for line in body.split("\n"))
        entry = f"  entry @f({arguments}) {{\n{lines}    return\n  }}\n"
        texts.append(f"cuda_tile.module @kernels {{\n{entry}}}\n")
    return texts


def through_bytecode(text: str, version: Version) -> str:
    module = asm.parse(text, implicit_module=False)
    data = write_bytecode(module, version, allow_testing=True)
    return asm.print_op(from_bytecode(bytecode.read(data, allow_testing=True)))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_text_comes_back_from_the_newest_version(op: OpSpec) -> None:
    for text in module_texts(op):
        assert through_bytecode(text, newest(op)) == text


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_text_comes_back_from_the_first_version_or_is_refused_by_name(op: OpSpec) -> None:
    kept = 0
    for text in module_texts(op):
        try:
            assert through_bytecode(text, op.since) == text
        except MigrationError as error:
            assert error.feature and error.required is not None and error.required > op.since
        else:
            kept += 1
    assert kept, "no case in test/asm/op_texts.py is without later features"


@pytest.mark.parametrize("op", [op for op in SPEC.ops.values() if op.preview], ids=lambda op: op.name)
def test_preview_op_makes_the_file_a_preview(op: OpSpec) -> None:
    data = bytecode.write(op_module(SPEC, op, op.since, full=True), op.since)
    module = from_bytecode(bytecode.read(data, preview=(op.preview or "",)))
    assert bytecode.read(write_bytecode(module, op.since), preview=(op.preview or "",)).preview
