# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of docs/inner-census.md about types, attributes and passes: what stands behind each pass of compilations.

These are those of the documents' programs, of a program of what these have not, and, for each type and attribute, of
the first sample of an op that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from re import compile as pattern

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, TypeAttribute

from dialects.inner_samples import BODIES
from libtile.asm import parse
from libtile.asm.module import load
from libtile.compiler.entry import program_of
from libtile.compiler.options import Options
from libtile.compiler.stages import lower
from libtile.dialects.nv_tileaa import NvTileAA
from libtile.dialects.nv_tileas import NvTileAS
from libtile.support.errors import LibtileError

DOCUMENTS = Path(__file__).parents[1] / "lowering" / "documents"
SYMBOLS = {cls.name: cls for dialect in (NvTileAA, NvTileAS) for cls in dialect.attributes}
"""All types and attributes of the two dialects."""
_NAME = pattern(r"[#!](nv_tilea[as]\.[\w.-]+?)(?=[^\w.-]|$)")
EMISSION = "LLVM IR"

HEAD = """## Types, attributes and passes

What becomes of the types and attributes, in the compilations of the documents' programs, of a program of what these
have not, and, for each of them, of the first sample that names it: the passes behind which it stood that was not there
before, those behind which it was gone (LLVM IR where it stood to the end, and emission reads it), and the targets on
which such a compilation ended in LLVM IR; "written" is what programs have from the start. Why a target has no "yes"
stands above: with the op of the sample, which it refuses.
"""
LAST = """Passes that these compilations run, in order, with the types and attributes that they make, and the targets
for which they run."""
PARTS = {
    "nv_tileaa.compute-capability": ("nv_tileaa.compute_capability", "read as"),
    "nv_tileas.memory_space": ("nv_tileas.buffer", "where the type's space is spelled:"),
}
"""Attributes that only stand in others, and in which."""

_ONE = "kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>"
OTHERS = f"""
!m = !nv_tileaa.memref<?xf32, 1>
!padded = !nv_tileaa.tiled_view<!nv_tileaa.memref<?xf32, 1>, 64, #nv_tileaa.tiling<padding=zero>>
nv_tileaa.func @k(%m: !m, %n: i32, %c: i1) attributes {{
    {_ONE}, compute_capability = #nv_tileaa.compute-capability<GPU>}} {{
  %0 = arith.constant 0 : index
  %x = nv_tileaa.tiled_load %m[%0] {{cache_modifier = #nv_tileaa.cache_modifier<cg>,
    eviction_policy = #nv_tileaa.eviction_policy<first>}} : !m, index -> tile<64xf32>
  %e = nv_tileaa.block_tile %m {{tileSizes = array<i64: 64>, dimGroups = [array<i64: 0>]}} : !m -> !padded
  %k = nv_tileaa.tiled_load %e[%0] {{padding_value = #nv_tileaa.padding_value<zero>}} : !padded, index -> tile<64xf32>
  %y = nv_tileaa.clampf %x, %k, %x {{propagate_nan = #nv_tileaa.propagate_nan<all>}}
    : tile<64xf32>, tile<64xf32>, tile<64xf32> -> tile<64xf32>
  %a = nv_tileaa.constant {{value = dense<1> : !cuda_tile.tile<16x32xi8>}} : tile<16x32xi8>
  %b = nv_tileaa.constant {{value = dense<2> : !cuda_tile.tile<32x16xi8>}} : tile<32x16xi8>
  %z = nv_tileaa.constant {{value = dense<0> : !cuda_tile.tile<16x16xi32>}} : tile<16x16xi32>
  %d = nv_tileaa.dot %a, %b, %z {{signedness_a = #nv_tileaa.signedness<signed>,
    signedness_b = #nv_tileaa.signedness<unsigned>}}
    : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32> -> tile<16x16xi32>
  %w = nv_tileaa.splat %n : i32 -> tile<64xi32>
  %s = nv_tileaa.assume %w {{predicates = [#nv_tileaa.bounded<0, 64>, #nv_tileaa.same_elements<[64]>]}}
    : tile<64xi32> -> tile<64xi32>
  %f = nv_tileaa.int_to_fp %s : tile<64xi32> -> tile<64xf32>
  %g = nv_tileaa.addf %y, %f : tile<64xf32>, tile<64xf32> -> tile<64xf32>
  %t = nv_tileaa.reduce %g {{dim = 0, identities = [0.0 : f32]}} ({{
  ^bb0(%u: f32, %v: f32):
    %q = nv_tileaa.addf %u, %v : f32, f32 -> f32
    nv_tileaa.yield %q : f32
  }}) : tile<64xf32> -> f32
  nv_tileaa.store %m[%0], %t : !m, f32, index
  nv_tileaa.print %d {{format = "%d"}} : tile<16x16xi32>
  nv_tileaa.return
}}
"""
"""A program of attributes that no sample has."""


@cache
def _within(attribute: Attribute) -> frozenset[str]:
    """The types and attributes that one names, itself included."""
    return frozenset(_NAME.findall(str(attribute)))


def symbols_of(module: Operation) -> set[str]:
    """All types and attributes of the two dialects that a module has."""
    found: set[Attribute] = set()
    for op in module.walk():
        found.update(r.type for r in op.results)
        found.update(a.type for region in op.regions for block in region.blocks for a in block.args)
        found.update(op.properties.values())
        found.update(op.attributes.values())
    return {name for attribute in found for name in _within(attribute)}


@dataclass
class Symbol:
    """Of a type or attribute: behind which passes it came and went, and on which targets code was made."""

    made: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)


@dataclass
class Roster:
    """What compilations showed."""

    symbols: dict[str, Symbol] = field(default_factory=lambda: {name: Symbol() for name in SYMBOLS})
    passes: dict[str, set[str]] = field(default_factory=dict)
    """The targets that each pass was run for, in the order of the passes."""

    def compile(self, module: ModuleOp, gpu_name: str) -> None:
        """Look at one compilation, as far as it comes."""
        before = symbols_of(module)
        seen = set(before)
        for name in before:
            self.symbols[name].made.add("written")

        def behind(pass_name: str, now_module: object) -> None:
            nonlocal before
            assert isinstance(now_module, Operation)
            now = symbols_of(now_module)
            for name in now - before:
                self.symbols[name].made.add(f"`{pass_name}`")
            for name in before - now:
                self.symbols[name].gone.add(f"`{pass_name}`")
            before = now
            seen.update(now)
            self.passes.setdefault(pass_name, set()).add(gpu_name)

        try:
            lower(module, Options(gpu_name, emit="llvm"), observer=behind)
        except LibtileError:
            return
        for name in seen:
            self.symbols[name].targets.add(gpu_name)
        for name in before:
            self.symbols[name].gone.add(EMISSION)


def chosen() -> list[str]:
    """For each type and attribute the first op whose sample names it."""
    from dialects.inner_census import launchable

    texts = {name: launchable(name) for name in BODIES}
    found = {next((op for op, text in texts.items() if name in _NAME.findall(text)), "") for name in SYMBOLS}
    return sorted(found - {""})


@cache
def roster() -> Roster:
    """The compilations, for a target of each class."""
    from dialects.inner_census import TARGETS, kernel_of

    made = Roster()
    for gpu_name in TARGETS:
        for path in sorted(DOCUMENTS.glob("*.mlir")):
            made.compile(program_of(load(path)), gpu_name)
        for name in chosen():
            made.compile(kernel_of(name), gpu_name)
        others = parse(OTHERS.replace("GPU", gpu_name), "others.mlir")
        assert isinstance(others, ModuleOp)
        made.compile(others, gpu_name)
    return made


def lines() -> list[str]:
    """The lines of this part of the page."""
    from dialects.inner_census import TARGETS

    found = roster()
    heads = ["name", "kind", "made by", "gone behind", *TARGETS]
    out = [HEAD, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, cls in SYMBOLS.items():
        holder, how = PARTS.get(name, (name, ""))
        symbol = found.symbols[holder]
        kind = "type" if issubclass(cls, TypeAttribute) else "attribute"
        if how:
            kind = f"attribute, {how} `{holder}`"
        cells = ["yes" if target in symbol.targets else "" for target in TARGETS]
        out.append(f"| {' | '.join([f'`{name}`', kind, _listed(symbol.made), _listed(symbol.gone), *cells])} |")
    out += ["", LAST, "", "| pass | makes | targets |", "|---|---|---|"]
    for pass_name, targets in found.passes.items():
        makes = [f"`{name}`" for name, symbol in found.symbols.items() if f"`{pass_name}`" in symbol.made]
        where = "all" if targets == set(TARGETS) else ", ".join(t for t in TARGETS if t in targets)
        out.append(f"| `{pass_name}` | {', '.join(makes)} | {where} |")
    return [*out, ""]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names, key=lambda name: (name == EMISSION, name)))
