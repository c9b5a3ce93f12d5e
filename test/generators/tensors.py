# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels as people write them: products in loops over views of tensors, with what stands around them.

The other profiles put ops together at random, and tiles stay small. These kernels have the shapes that copies by TMA,
rings, agents and the tensor cores' larger instructions are made for: tiles of up to 256 x 256 with loops over K;
operands that are transposed, gathered, cast or computed; chains of two products; attention; persistent loops over
tiles; epilogues; results that are read again.

Elements are small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from generators.core import Program
from generators.tensor_kinds import KINDS
from generators.tensor_writer import Kernel, Tile


def tensor_program(seed: int) -> Program:
    """The kernel of a seed."""
    k = Kernel(seed)
    kind = k.random.choices([*KINDS], [*KINDS.values()])[0]
    k.features.append(kind.__name__)
    body = kind(k)
    bid = [k.name() for _ in range(3)]
    k.emit(f"{', '.join(bid)} = get_tile_block_id : tile<i32>")
    block = Tile(bid[0], (), "i32")
    if k.persistent:
        k.features.append("persistent")
        total = k.number(k.rows * k.columns)
        step = k.number(k.blocks, 0.2)
        if k.chance(0.5):
            counts = [k.name() for _ in range(3)]
            k.emit(f"{', '.join(counts)} = get_num_tile_blocks : tile<i32>")
            step = Tile(counts[0], (), "i32")
        tile = k.name()
        k.emit(f"for {tile} in ({block} to {total}, step {step}) : tile<i32> {{")
        k.part.depth += 1
        body(*_place(k, Tile(tile, (), "i32")))
        k.part.depth -= 1
        k.emit("}")
    else:
        body(*_place(k, block))
    k.emit("return")
    head = ", ".join(f"{p.name}: {p.type}" for p in k.parameters)
    entry = f"  entry @kernel({head}) {_hints(k)}{{"
    text = "\n".join(["cuda_tile.module @kernels {", entry, *k.part.lines, "  }", "}", ""])
    return Program(k.seed, text, k.parameters, (k.blocks, 1, 1), tuple(k.features))


def _place(k: Kernel, tile: Tile) -> tuple[Tile, Tile]:
    """The row and column of a tile of the result."""
    columns = k.number(k.columns, 0.3)
    row = k.let(f"divi {tile}, {columns} signed rounding<zero> : tile<i32>")
    column = k.let(f"remi {tile}, {columns} signed : tile<i32>")
    return row, column


def _hints(k: Kernel) -> str:
    if k.chance(0.6):
        return ""
    hint = k.random.choice(["occupancy = 2", "num_worker_warps_per_cta = 4", "num_worker_warps_per_cta = 8",
                            "num_cta_in_cga = 2", "num_cta_in_cga = 1", "num_cta_in_cga = 2"])  # fmt: skip
    target = k.random.choice(["sm_80", "sm_90", "sm_90", "sm_100", "sm_100", "sm_120"])
    k.features.append(hint)
    return f"optimization_hints=<{target} = {{{hint}}}> "
