# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of the inner dialects, written from their classes: `python -m libtile.dialects.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Attribute
from xdsl.irdl import OptionalDef, OptPropertyDef, VariadicDef

from libtile.dialects.nv_tileaa import NAME as TILEAA
from libtile.dialects.nv_tileaa import NvTileAA
from libtile.dialects.nv_tileas import NAME as TILEAS
from libtile.dialects.nv_tileas import NvTileAS
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import OP_CLASSES, TileOp

INTRODUCTION = """# The inner dialects

Tile IR is lowered in two steps before it becomes LLVM IR: `nv_tileaa` says where memory is and what orders accesses
to it, `nv_tileas` gives tiles layouts, accesses atoms, and spells out what runs asynchronously. `cuda-tile-opt` reads
and prints both, also mixed with `arith`, `math`, `scf` and `cuda_tile`. [The passes](lowering-passes.md) lead from one
to the next; [what the verifier says](inner-diagnostics.md), with an example each, and [what becomes of each
op](inner-census.md), on which targets, are pages of their own. This page is written by
`python -m libtile.dialects.reference`.

```mlir
// A product of one tile: tokens order the store behind the loads, and nothing else.
nv_tileaa.func @product(%a: !nv_tileaa.memref<?x?xf16, 1>, %b: !nv_tileaa.memref<?x?xf16, 1>,
                        %c: !nv_tileaa.memref<?x?xf32, 1>, %zero: tile<64x64xf32>, %i: index, %j: index, %k: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %va = nv_tileaa.block_tile %a {tileSizes = array<i64: 64, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xf16, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, 1>, 64x32>
  %vb = nv_tileaa.block_tile %b {tileSizes = array<i64: 32, 64>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xf16, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, 1>, 32x64>
  %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %x, %t1 = nv_tileaa.tiled_load %va[%i, %k], %t0
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, 1>, 64x32>, index, index, !nv_tileaa.mem_token
    -> tile<64x32xf16>, !nv_tileaa.mem_token
  %y, %t2 = nv_tileaa.tiled_load %vb[%k, %j], %t0
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, 1>, 32x64>, index, index, !nv_tileaa.mem_token
    -> tile<32x64xf16>, !nv_tileaa.mem_token
  %d = nv_tileaa.dot %x, %y, %zero : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
  %t3 = nv_tileaa.join_mem_token %t1, %t2 : !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  %t4 = nv_tileaa.tiled_store %c[%i, %j], %d, %t3 {mem_semantic = #nv_tileaa.mem_semantic<weak>}
    : !nv_tileaa.memref<?x?xf32, 1>, tile<64x64xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.return
}
```

All ops have one textual form. Indices stand in brackets behind the first operand, the types of the operands follow in
the order of the table below, optional operands need no mark where the types tell them apart:

    %v, %t1 = nv_tileaa.tiled_load %view[%i, %j], %t0 {in_bounds = array<i1: true, true>}
      : VIEW, index, index, !nv_tileaa.mem_token -> tile<64x64xf16>, !nv_tileaa.mem_token

`tile<4x8xf32>` is the type `tensor<4x8xf32>`, with a layout `tile<4x8xf32, #nv_tileas.layout<...>>`. In the lists of
arguments of blocks it has to be written as a tensor. The first operand of an op whose operands are all optional stands
on the op's line. In the tables, `?` marks what is optional and `*` what may be any number.

Integer arithmetic, comparisons and selects on tiles are ops of `arith`, control flow is `scf`'s. In modules of
`nv_tileas`, ops of `nv_tileaa` that have no counterpart there (elementwise ones above all) stay, with layouts in their
types.

Agents hand tiles on through queues. `nv_tileaa.execute` runs its regions side by side, each by some warps; a
`queue.put` in one of them fills an entry of a queue with what its region yields, and a `queue.get` in another one runs
its region on it. Each of the queue's `num_consumers` gets every entry, and says by its `consumer_idx` which of them it
is. In nv_tileas that is a pipeline, whose turns are spelled out: a producer acquires a stage, writes it and commits it;
a consumer waits for it, reads it and releases it; an iterator says which stage, and in which round.
[`lower-tileaa-queues`](lowering-passes.md#lower-tileaa-queues) says what queues have to be like for that.
Four such programs (a producer and a consumer, a product by two consumers, a persistent loop over two queues, turns
under conditions) are run on sm_80, sm_90, sm_100 and sm_120 in 20 random schedules with every check of the simulator
on, and broken in 16 to 18 ways each, by `python -m pytest -m "slow or not slow" test/lowering/test_worked_programs.py`.

From Python, `libtile.asm.parse` and `print_op` read and write modules of these dialects,
`libtile.ir.tile_form.build` makes an op by its name, and `libtile.dialects.cuda_tile.verify.verify` gives the
diagnostics of a module.
"""


def reference() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for name, dialect in ((TILEAA, NvTileAA), (TILEAS, NvTileAS)):
        lines += [f"## {name}", "", "### Types and attributes", "", "| name | meaning |", "|---|---|"]
        lines += [f"| `{cls.name}` | {_text(cls)}{_cases(cls)} |" for cls in dialect.attributes if not _hidden(cls)]
        lines += ["", "### Ops", "", "| op | operands | results | attributes | meaning |", "|---|---|---|---|---|"]
        lines += [_row(cls) for op, cls in sorted(OP_CLASSES.items()) if op.startswith(name + ".")]
        lines.append("")
    return "\n".join(lines)


def _hidden(cls: type[Attribute]) -> bool:
    return getattr(cls, "stands_for", None) is not None


def _cases(cls: type[Attribute]) -> str:
    """The keywords that an attribute may have."""
    for name, heading in (("keywords", "Cases"), ("kinds", "Kinds")):
        found = getattr(cls, name, ())
        if found:
            return f" {heading}: {', '.join(f'`{keyword}`' for keyword in found)}."
    return ""


def _text(cls: type) -> str:
    """The documentation of a class as one line of a table."""
    return " ".join((cls.__doc__ or "").split()).replace("|", "\\|")


def _row(cls: type[TileOp]) -> str:
    definition = cls.get_irdl_definition()
    attributes = ", ".join(
        f"`{name}`" + ("?" if isinstance(d, OptPropertyDef) else "")
        for name, d in sorted(definition.properties.items())
        if name != SEGMENTS
    )
    operands, results = (", ".join(_names(group)) for group in (definition.operands, definition.results))
    regions = f" Regions: {', '.join(_names(definition.regions))}." if definition.regions else ""
    return f"| `{cls.name}` | {operands} | {results} | {attributes} | {_text(cls)}{regions} |"


def _names(group: list) -> Iterator[str]:
    for name, definition in group:
        mark = "?" if isinstance(definition, OptionalDef) else "*" if isinstance(definition, VariadicDef) else ""
        yield f"{name}{mark}"


if __name__ == "__main__":
    print(reference(), end="")
