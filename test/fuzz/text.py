# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated texts: parse, print, verify; what verifies is parsed again from what was printed, written, and read."""

from __future__ import annotations

import random
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from asm.test_every_op import NAMED, module
from fuzz.framework import Fuzzer
from fuzz.mutate import NUMBERS, damaged_text
from libtile import bytecode
from libtile.asm import parse, print_op
from libtile.asm.module import diagnose as verify
from libtile.dialects.cuda_tile.bridge import from_bytecode
from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
from libtile.support.diagnostics import DiagnosticError, has_errors

TEST = Path(__file__).resolve().parents[1]
EXAMPLES = TEST.parent / "examples"

DEBUG = """\
#di_file = #cuda_tile.di_file<"a.py" in "/d">
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1, name = "k", linkageName = "k", \
compileUnit = #di_compile_unit, scopeLine = 2>
#loc1 = loc("a.py":1:2)
#loc2 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
cuda_tile.module @m {
  entry @k(%arg0: tile<i32> loc("x"(#loc1))) {
    %0 = absi %arg0 : tile<i32> loc(fused<"m">[#loc1, callsite(#loc2 at unknown)])
    %1 = "foo.op"(%0) [^bb1] <{a = [1.0 : f32, dense<[1, 2]> : !cuda_tile.tile<2xi8>]}> : (!cuda_tile.tile<i32>) -> i1
  } loc(#loc2)
}
"""

PIECES = (
    *"{}()<>[]=:,@%^#!\"\\-?*", "->", "#loc", "!t", "^bb0", "%0", "loc(", "0x1p", *NUMBERS, "tile<", "cuda_tile.",
    "nv_tileaa.", "nv_tileas.", '"x"', '"\\FF\\0A"', "array<i32", "array<i32: 1, 2>", "dense<", "attributes", "...",
    "{-#", "\n#a = [#a]\n", "builtin.module {", '"cuda_tile.if"(',
    "\x00", "é", "tile<4xf32>", "tile<ptr<f32>>", "token", "i1",
    "f8E4M3FN", "index", "!cuda_tile.tile<2xi8>", "{a = unit}", "optimization_hints=<sm_90 = {num_cta_in_cga = 2}>",
)  # fmt: skip


@cache
def seeds() -> list[str]:
    """A text for each op, those of the lit tests, and the examples, with and without debug information."""
    texts = [*map(module, NAMED.values()), DEBUG]
    for path in sorted((TEST / "lit").rglob("*.mlir")):
        texts += [part for part in path.read_text().split("// -----\n") if len(part) < 10_000]
    for path in sorted(EXAMPLES.glob("*.bc")):
        op = from_bytecode(bytecode.read(path.read_bytes()))
        texts += [print_op(op), print_op(op, debuginfo=True), print_op(op, generic=True)]
    return texts


FORMS: tuple[dict[str, bool], ...] = ({}, {"generic": True}, {"debuginfo": True})


class TextFuzzer(Fuzzer):
    """An input is a text, and whether ops of dialects that are not known may stand in it."""

    name = "text"
    seconds = 10.0

    @cached_property
    def seeds(self) -> list[str]:
        return seeds()

    def make(self, rng: random.Random) -> tuple[str, bool]:
        text = damaged_text(rng, rng.choice(self.seeds), rng.choice(self.seeds), PIECES)
        return text, rng.random() < 0.5

    def show(self, given: tuple[str, bool]) -> bytes:
        return given[0].encode("utf-8", "surrogateescape")

    def check(self, given: tuple[str, bool]) -> str:
        text, unregistered = given
        try:
            op = parse(text, "f.mlir", allow_unregistered=unregistered)
        except DiagnosticError as refused:
            assert refused.diagnostics
            assert all(d.location is not None for d in refused.diagnostics), refused
            check_rendered(refused.diagnostics)
            return "malformed"
        printed = [print_op(op, **form) for form in FORMS]
        found = verify(op)
        check_rendered(found)
        if has_errors(found):
            return "invalid"
        for text_, form in zip(printed, FORMS):
            again = parse(text_, "f.mlir", allow_unregistered=unregistered)
            assert not has_errors(verify(again)), "what is printed does not verify"
            # A custom form has no place for the locations of some block arguments, so that these change.
            form = {} if "debuginfo" in form else form
            expected = printed[FORMS.index(form)]
            assert print_op(again, **form) == expected, "what is printed is printed otherwise when it was read"
        return check_written(op)


def check_rendered(diagnostics: list[Any]) -> None:
    """A diagnostic and its notes are a line each, without control characters."""
    for diagnostic in diagnostics:
        lines = diagnostic.render().split("\n")
        assert len(lines) == 1 + len(diagnostic.notes), f"more lines than messages: {lines}"
        assert all(line.isprintable() for line in lines), lines


def check_written(op: Any) -> str:
    """Write a module that verifies, and read it."""
    inner = list(op.regions[0].block.ops) if op.name == "builtin.module" and op.regions[0].blocks else [op]
    if len(inner) != 1 or inner[0].name != "cuda_tile.module":
        return "verified"
    try:
        data = write_bytecode(inner[0], allow_testing=True)
    except (DiagnosticError, bytecode.MigrationError):  # locations, testing ops, ops of other dialects
        return "not for bytecode"
    module = bytecode.read(data, allow_testing=True, preview=("simt",))
    back = from_bytecode(module)
    assert not has_errors(verify(back)), "what was written does not verify"
    assert write_bytecode(back, module.version, allow_testing=True) == data, "not the same bytes"
    return "written"
