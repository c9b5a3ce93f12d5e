# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The next version of the dialect is an edit of the declarations: a made-up one is added here, and nothing else."""

from __future__ import annotations

import pytest

from bytecode.samples import SCALAR, VECTOR, dump, module_of, op
from libtile import bytecode
from libtile.bytecode.model import Module, OptimizationHints, Value
from libtile.spec import Version, load

OVERLAY = """
current = "99.1"

[version."99.1"]

[enum.Shade]
attr = "shade"
since = "99.1"
cases = ["light = 0", "dark = 1"]

[op.frobnicate]
group = "Made up"
opcode = 0x9001
since = "99.1"
operands = ["source: tile", "extras: tile*", "token: token?"]
attributes = ["shade: Shade?", "rounds: i32 = 3", "loud: unit"]
results = ["result: tile", "result_token: token"]
traits = ["operand_segments"]
format = "generic"

[op.absi]
extend = true
attributes = ["saturate: bool = false @99.1", "limit: i64 = 7 @99.1", "note: string? @99.1"]
"""

SPEC = load([OVERLAY])
NEW = Version(99, 1)


def sample(**extra: object) -> Module:
    value = Value(SCALAR)
    return module_of(
        op("absi", value, results=(SCALAR,), spec=SPEC, **{"saturate": False, "limit": 7, **extra}),
        arguments=(value,),
        spec=SPEC,
        hints=OptimizationHints(),
    )


def test_the_version_reads_and_writes() -> None:
    value = Value(VECTOR)
    new = op(
        "frobnicate",
        value,
        value,
        value,
        results=(VECTOR, VECTOR),
        spec=SPEC,
        segments=(1, 2, 0),
        shade="dark",
        rounds=4,
        loud=True,
    )
    module = module_of(new, arguments=(value,), spec=SPEC)
    data = bytecode.write(module, "99.1")
    assert data[8:10] == bytes([99, 1])
    back = bytecode.read(data, spec=SPEC)
    assert dump(back) == dump(module)
    assert bytecode.write(back) == data


def test_a_new_default_migrates_both_ways() -> None:
    old = bytecode.write(sample(), "13.1")
    upgraded = bytecode.migrate(old, NEW, spec=SPEC)
    operation = bytecode.read(upgraded, spec=SPEC).functions[0].body.operations[0]
    assert operation.attributes == {"saturate": False, "limit": 7}
    assert bytecode.migrate(upgraded, "13.1", spec=SPEC) == old


@pytest.mark.parametrize(
    "extra, message",
    [
        ({"saturate": True}, "attribute 'saturate' requires bytecode version 99.1+, but targeting 13.5"),
        ({"limit": 8}, "attribute 'limit' requires bytecode version 99.1+, but targeting 13.5"),
        ({"note": "x"}, "optional attribute 'note' is provided but requires bytecode version 99.1, targeting 13.5"),
    ],
)
def test_a_new_value_is_refused_by_the_older_version(extra: dict, message: str) -> None:
    module = sample(**extra)
    assert dump(bytecode.read(bytecode.write(module, NEW), spec=SPEC)) == dump(module)
    with pytest.raises(bytecode.MigrationError) as refused:
        bytecode.write(module, "13.5")
    assert refused.value.message == message


def test_a_reader_that_does_not_know_the_version_says_so() -> None:
    with pytest.raises(
        bytecode.UnsupportedVersionError,
        match=r"unsupported Tile version 99\.1\.0, this reader supports versions",
    ):
        bytecode.read(bytecode.write(sample(), NEW))
