# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated bytecode files: read, write, annotate, verify; what verifies is printed, parsed and written."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path

from xdsl.dialects.builtin import IntegerAttr, i1, i64
from xdsl.ir import Attribute, Operation

from asm.test_every_op import NAMED, module
from bytecode.samples import VECTOR, instructions, op_module
from fuzz.framework import Fuzzer
from fuzz.mutate import damaged_bytes
from fuzz.text import check_rendered
from libtile import bytecode
from libtile.asm import parse, print_op
from libtile.asm.module import diagnose as verify
from libtile.bytecode.annotate import annotate, sections_of
from libtile.bytecode.container import append_section
from libtile.bytecode.model import Dense, Global
from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr
from libtile.dialects.cuda_tile.bridge import from_bytecode, light_ir
from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
from libtile.spec import default_spec
from libtile.support.diagnostics import DiagnosticError, has_errors

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.bc"), key=lambda p: p.stat().st_size)
PREVIEW = ("simt",)


@cache
def seeds() -> list[bytes]:
    """Small files: one for every op in its newest version, some in every version, the smaller examples, and what the
    texts of ops are in bytecode, which verify.
    """
    spec = default_spec()
    files = [path.read_bytes() for path in EXAMPLES[:4]]
    for text in map(module, NAMED.values()):
        op = parse(text)
        if has_errors(verify(op)):
            continue
        for version in (spec.current, *spec.testing_versions):  # the functions around ops are of the testing versions
            with suppress(bytecode.MigrationError, DiagnosticError):
                files.append(write_bytecode(op.regions[0].block.ops.first, version, allow_testing=True))
    for declared in instructions(spec):
        version = max(declared.since, spec.current)
        files.append(bytecode.write(op_module(spec, declared, version, full=True), version, allow_testing=True))
    for version in spec.released_versions:
        for name in ("print_tko", "load_view_tko", "for", "reduce", "assume"):
            made = op_module(spec, spec.ops[name], version, full=True)
            made.globals.append(Global("g", Dense(VECTOR, bytes(16)), 16))
            made.producer = "maker"
            files.append(bytecode.write(made, version))
    return files


def damage_section(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage inside of one section, in a container that is whole."""
    read = bytecode.read(data, allow_testing=True, preview=PREVIEW)
    alignment = {s.id: s.alignment for s in read.layout or ()}
    sections = sections_of(data)
    chosen = rng.randrange(len(sections))
    out = bytearray(data[:12])
    if rng.random() < 0.1:
        out[8:10] = bytes(rng.choice([(13, 1), (13, 2), (13, 3), (13, 4), (13, 5), (250, 0), (250, 1)]))
    for number, (section, start, length) in enumerate(sections):
        payload = data[start : start + length]
        payload = damaged_bytes(rng, payload, other) if number == chosen else payload
        append_section(out, section, alignment[section], payload)
    return bytes(out) + b"\0"


def damage_body(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage inside of one function's instructions, in a file that is whole."""
    module = bytecode.read(data, allow_testing=True, preview=PREVIEW)
    if not module.functions:
        return damaged_bytes(rng, data, other)
    encoded = rng.choice(module.functions).encoded
    assert encoded is not None
    encoded.data = damaged_bytes(rng, encoded.data, other)
    return bytecode.write(module, allow_testing=True)


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage anywhere behind the header, in one section, or in one function's body."""
    kind = rng.randrange(4)
    if kind == 0:
        return damaged_bytes(rng, data, other, first=12)
    return damage_section(rng, data, other) if kind == 1 else damage_body(rng, data, other)


def check_error(error: bytecode.BytecodeError, data: bytes) -> str:
    """An error of a file says where in the file, on one line."""
    assert error.offset is not None and 0 <= error.offset <= len(data), f"no offset in the file: {error}"
    assert error.section and str(error).isprintable(), f"not a line: {error!r}"
    return type(error).__name__


def check_file(data: bytes) -> str:
    """Read a file, and write what was read in the same version; the name of the error, or `module`."""
    try:
        module = bytecode.read(data, allow_testing=True, preview=PREVIEW, lazy=False)
    except bytecode.BytecodeError as error:
        return check_error(error, data)
    again = bytecode.write(module, allow_testing=True)
    back = bytecode.read(again, allow_testing=True, preview=PREVIEW, lazy=False)
    assert bytecode.write(back, allow_testing=True) == again, "not the same bytes"
    return "module"


def check_refused(module: bytecode.Module, error: bytecode.BytecodeError) -> None:
    """What has no form in the dialect has none in light IR, and says the same."""
    try:
        light_ir(module)
    except bytecode.BytecodeError as other:
        assert str(other) == str(error), "light IR says something else"
        return
    raise AssertionError("light IR takes it")


def _widen_hints(op: Operation) -> None:
    """Give the integers in the hints of a module the 64 bits that they have when they are read from text."""
    for inner in op.walk():
        hints = inner.properties.get("optimization_hints")
        if isinstance(hints, OptimizationHintsAttr):
            wide = {arch: {key: _widened(value) for key, value in keys.items()} for arch, keys in hints.hints.items()}
            inner.properties["optimization_hints"] = OptimizationHintsAttr(wide)


def _widened(value: Attribute) -> Attribute:
    if isinstance(value, IntegerAttr) and value.type != i1:
        return IntegerAttr(value.value.data, i64)
    return value


class BytecodeFuzzer(Fuzzer):
    """An input is the bytes of a file."""

    name = "bytecode"
    seconds = 4.0

    @cached_property
    def seeds(self) -> list[bytes]:
        return seeds()

    def make(self, rng: random.Random) -> bytes:
        return mutate(rng, rng.choice(self.seeds), rng.choice(self.seeds))

    def show(self, given: bytes) -> bytes:
        return given

    def check(self, data: bytes) -> str:
        outcome = check_file(data)
        if outcome != "module":
            return outcome
        annotate(data, allow_testing=True, preview=PREVIEW)
        module = bytecode.read(data, allow_testing=True, preview=PREVIEW)
        light = bytecode.read(data, allow_testing=True, preview=PREVIEW)
        try:
            op = from_bytecode(module)
        except bytecode.BytecodeError as error:
            check_refused(light, error)
            return f"{check_error(error, data)} of the dialect"
        printed = [print_op(op), print_op(op, debuginfo=True), print_op(op, generic=True)]
        found = verify(op)
        same = light_ir(light)
        assert verify(same) == found, "light IR has other diagnostics"
        assert [print_op(same), print_op(same, debuginfo=True), print_op(same, generic=True)] == printed, "or texts"
        check_rendered(found)
        if has_errors(found):
            return "invalid"
        written = write_bytecode(op, allow_testing=True, since=module.version)
        for text in printed:
            again = parse(text, "f.mlir", implicit_module=False)
            assert not has_errors(verify(again)), "what is printed does not verify"
            assert print_op(again) == printed[0], "what is printed is printed otherwise when it was read"
        # Text has locations for all that bytecode has them for. It has no widths of the integers in hints.
        _widen_hints(op)
        written = write_bytecode(op, allow_testing=True, since=module.version)
        inner = parse(printed[1], "f.mlir", implicit_module=False)
        since = bytecode.read(written, allow_testing=True, preview=PREVIEW).version
        assert write_bytecode(inner, since, allow_testing=True) == written, "text and bytecode are not the same"
        return "verified"
