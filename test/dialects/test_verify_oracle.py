# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The verifier accepts and refuses what the reference disassembler does, with its words, on the same bytecode."""

from __future__ import annotations

from pathlib import Path

import pytest

import oracle
from dialects.building import Body, kernel, tile
from dialects.verify_cases import CASES
from dialects.verify_cases.case import Case
from libtile import bytecode
from libtile.asm.module import diagnose
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType
from libtile.spec import OpSpec, default_spec

_FRAME = ("verification failed for deserialized", "failed to read provided Tile IR bytecode")
"""What the disassembler adds to the errors of its verifier."""

_OLDER_WORDS = {
    " or f4E2M1FN or fnv8E5M3FNU values": " or f4E2M1FN values",
    " or f8E8M0FNU or fnv8E5M3FNU values": " or f8E8M0FNU values",
    " or fnv8E5M3FNU or i4 values": " or i4 values",
    "'cuda_tile.fpowf'": "'cuda_tile.pow'",
}
"""Wording that 13.5 changed, for the preview type and a renamed op; ours is that of the open dialect."""


def reference_errors(data: bytes, folder: Path) -> list[str]:
    """The errors that the reference disassembler reports."""
    path = folder / "module.bc"
    path.write_bytes(data)
    finished = oracle.run_tool("tileirdisasm", path)
    errors = [line.removeprefix("error: ") for line in finished.stderr.splitlines() if line.startswith("error: ")]
    if finished.rc != 0 and not errors:
        pytest.fail(f"the reference disassembler ended with {finished.rc}: {finished.stderr}")
    for new, old in _OLDER_WORDS.items():
        errors = [error.replace(new, old) for error in errors]
    return [error for error in errors if not error.startswith(_FRAME)]


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle != "absent"], ids=str)
def test_the_reference_has_the_same_errors(case: Case, tmp_path: Path) -> None:
    oracle.require_tool("tileirdisasm")
    found = reference_errors(bytecode.write(to_bytecode(case.make()), "13.5"), tmp_path)
    if case.oracle == "refuses":
        assert found != []
    else:
        assert found == list(case.errors)


_ELEMENTS = tuple(name for name in NUMBER_TYPES if name not in ("i4", "fnv8E5M3FNU", "tf32"))
"""Element types that a constant may have, and that need no preview."""


def _plain_ops() -> list[OpSpec]:
    """Ops that take and give one tile each of a group, and nothing else."""
    ops = default_spec().ops.values()
    return [
        op
        for op in ops
        if op.results and op.operands and not op.regions and not op.has_segments and op.preview is None
        and all(v.arity == "one" and v.constraint.endswith("_tile") for v in (*op.operands, *op.results))
    ]  # fmt: skip


_SETTINGS = {
    "signedness": "signed",
    "comparison_predicate": "equal",
    "comparison_ordering": "ordered",
    "rounding_mode": "nearest_even",
}


@pytest.mark.oracle
@pytest.mark.parametrize("op", _plain_ops(), ids=lambda op: op.name)
def test_the_reference_agrees_on_every_element_type(op: OpSpec, tmp_path: Path) -> None:
    oracle.require_tool("tileirdisasm")
    attributes = {a.name: _SETTINGS[a.name] for a in op.attributes if a.name in _SETTINGS and a.default is None}
    for element in _ELEMENTS:
        type_ = tile(element, 4)

        def fill(b: Body, type_: TileType = type_) -> None:
            b.op(op.name, {v.name: b.constant(type_, 1) for v in op.operands}, [type_], attributes=attributes)

        module = kernel(fill)
        ours = [d.message for d in diagnose(module)]
        assert reference_errors(bytecode.write(to_bytecode(module), "13.5"), tmp_path) == ours, element
