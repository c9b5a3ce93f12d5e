# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The annotated dump shows every byte once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from bytecode.samples import VECTOR, instructions, op_module
from libtile import bytecode
from libtile.bytecode.annotate import annotate
from libtile.bytecode.model import Dense, Global
from libtile.spec import default_spec
from libtile_tools import cli
from libtile_tools.annotate import command

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.bc"))
SPEC = default_spec()


def shown(dump: str) -> bytes:
    """The bytes of the dump's middle column; each line's offset must be the number of bytes before it."""
    result = b""
    for line in dump.splitlines()[1:]:
        if line and not line.startswith("section"):
            assert int(line[:8], 16) == len(result), line
            result += bytes.fromhex(line[10:34])
    return result


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path: Path) -> None:
    assert shown(annotate(path.read_bytes())) == path.read_bytes()


@pytest.mark.parametrize("version", [str(v) for v in SPEC.released_versions])
def test_all_sections_and_ops(version: str) -> None:
    ops = [o for o in instructions(SPEC) if str(o.since) <= version and not o.preview]
    for number, declared in enumerate(ops):
        module = op_module(SPEC, declared, next(v for v in SPEC.versions if str(v) == version), full=True)
        if number == 0:
            module.producer = "maker"
            module.globals.append(Global("g", Dense(VECTOR, bytes(4))))
        data = bytecode.write(module, version)
        dump = annotate(data)
        assert shown(dump) == data
        assert f" {declared.name} " in dump or f" {declared.name}\n" in dump or f"= {declared.name}" in dump


def test_names_may_hold_braces() -> None:
    module = op_module(SPEC, SPEC.ops["print_tko"], SPEC.current, full=True)
    module.functions[0].name = "{} {0!r}} {x"
    assert "name is string 0 '{} {0!r}} {x'" in annotate(bytecode.write(module, SPEC.current)).replace(
        "string 1 ", "string 0 "
    )


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES[0]

    def main(*arguments: str) -> int:
        return cli.call(command, arguments, misuse=2)

    assert main(str(path)) == 0
    assert "section Func" in capsys.readouterr().out
    bad = tmp_path / "bad.bc"
    bad.write_bytes(path.read_bytes()[:-1])
    assert main(str(bad)) == 1
    assert "error at offset" in capsys.readouterr().err
    assert main(str(tmp_path / "absent.bc")) == 2
    assert "No such file" in capsys.readouterr().err
