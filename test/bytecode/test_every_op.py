# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op of the declarations goes out and comes back the same, in its first version and in the newest."""

from __future__ import annotations

import pytest

from bytecode.samples import dump, instructions, op_module
from libtile import bytecode
from libtile.spec import OpSpec, Version, default_spec

SPEC = default_spec()


def versions_of(op: OpSpec) -> list[Version]:
    newest = SPEC.versions[-1] if SPEC.is_testing_op(op) else SPEC.current
    return sorted({op.since, newest})


CASES = [
    pytest.param(op, version, full, id=f"{op.name}-{version}-{'full' if full else 'bare'}")
    for op in instructions(SPEC)
    for version in versions_of(op)
    for full in (True, False)
]


@pytest.mark.parametrize("op, version, full", CASES)
def test_op_round_trips(op: OpSpec, version: Version, full: bool) -> None:
    module = op_module(SPEC, op, version, full)
    data = bytecode.write(module, version, allow_testing=True)
    back = bytecode.read(data, allow_testing=True, preview=("simt",), lazy=False)
    assert dump(back) == dump(module)
    assert bytecode.write(back) == data
    assert not back.warnings


NEWER = [op for op in instructions(SPEC) if op.since > SPEC.versions[0]]


@pytest.mark.parametrize("op", [op for op in NEWER if not op.preview], ids=lambda op: op.name)
def test_op_is_refused_by_the_version_before_its_first(op: OpSpec) -> None:
    older = [v for v in SPEC.versions if v < op.since]
    module = op_module(SPEC, op, op.since, full=False)
    with pytest.raises(bytecode.MigrationError) as refused:
        bytecode.write(module, older[-1], allow_testing=True)
    assert refused.value.message == f"operation 'cuda_tile.{op.name}' is not available in bytecode version {older[-1]}"
    assert refused.value.required == op.since
    assert refused.value.op == f"cuda_tile.{op.name}"


@pytest.mark.parametrize("op", NEWER, ids=lambda op: op.name)
def test_reader_refuses_op_in_a_version_that_lacks_it(op: OpSpec) -> None:
    data = bytearray(bytecode.write(op_module(SPEC, op, op.since, full=False), op.since, allow_testing=True))
    if op.preview:
        data[10] = 0
        with pytest.raises(bytecode.InvalidError, match="not marked as preview"):
            bytecode.validate(bytes(data), preview=("simt",))
        return
    older = [v for v in SPEC.versions if v < op.since][-1]
    data[8:10] = older.major, older.minor
    with pytest.raises(bytecode.BytecodeError) as refused:
        bytecode.validate(bytes(data), allow_testing=True)
    # From 13.5 on the function record itself is different, so that an older version stops there already.
    if op.since < SPEC.change("ENTRY_HINTS_MANDATORY"):
        assert refused.value.message == f"unsupported opcode {op.opcode} for bytecode version {older}"
        assert isinstance(refused.value, bytecode.UnsupportedVersionError)
