# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of memory and control share: building a kernel of a few tiles and running it in the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from libtile.atoms.shared_accesses import accesses, matrix_loads, reduced
from libtile.backend import nvptx, ptx
from libtile.codegen import memory, shared_tiles
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.exchange import Exchange, Exchanges
from libtile.codegen.llvm_types import GLOBAL_POINTER, I32
from libtile.codegen.memory import offset_pointers, store
from libtile.codegen.sharing import Handed
from libtile.codegen.tile import Tile, index, scalar
from libtile.layouts import builders
from libtile.layouts.linear import LinearLayout
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel
from libtile.lowering.tileas.exchanges.explicit_conversions import handed_out
from libtile.numerics.elements import STORAGE_BYTES
from libtile.simulator import RunResult, parse_ptx, run_ptx
from libtile.targets import target

__all__ = ["Value", "builders", "parse_ptx"]

DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip

LAYOUTS = {
    "rows of 8": builders.blocked((16, 64), (1, 8), (4, 8), (4, 1), (1, 0)),
    "rows of 2": builders.blocked((16, 64), (1, 2), (2, 16), (4, 1), (1, 0)),
    "columns": builders.blocked((16, 64), (4, 1), (4, 8), (1, 4), (0, 1)),
    "mma": builders.mma_result((16, 64), (1, 4)),
    "copies": LinearLayout.of(
        {"register": [(0, 1), (0, 0), (1, 0)], "lane": [(0, 2), (0, 0), (2, 0), (0, 4), (4, 0)], "warp": [(0, 0)]},
        {"dim0": 8, "dim1": 8},
    ),
}
"""Layouts for tiles: with vectors along rows or columns, scattered ones, and one with copies at every level."""

SMALL = builders.blocked((128,), (1,), (32,), (4,), (0,))
"""One element for each thread."""

SMALL_ROWS = builders.blocked((8, 64), (1, 4), (2, 16), (4, 1), (1, 0))
"""Four neighbours for each thread."""

SCALAR = LinearLayout.of({"register": [], "lane": [()] * 5, "warp": [()] * 2}, {})
"""A rank-0 tile: every thread holds it."""


class OneAfterTheOther(Exchanges):
    """Exchanges of a kernel that no pass has placed: all at one place, each behind a barrier if not the first."""

    def __init__(self, b: KernelBuilder, room: int):
        super().__init__()
        self.room = room
        self.b = b
        self.most = 0

    def take(self, size: int) -> Exchange:
        assert size <= self.room
        meet = self.most > 0 or self.b.block.name != "entry"
        self.most = max(self.most, size)
        self.b.shared_size = self.most
        return Exchange(0, size, meet)


def exchange_at(b: KernelBuilder, room: int | None = None) -> OneAfterTheOther:
    """Let the kernel's threads exchange elements, in up to `room` bytes of shared memory."""
    made = OneAfterTheOther(b, b.target.shared_per_block if room is None else room)
    b.exchanges = made
    return made


def kernel(gpu: str = "sm_90", threads: int = 128, parameters: int = 2) -> tuple[KernelBuilder, list[Value]]:
    b = KernelBuilder("k", target(gpu), threads)
    exchange_at(b)
    return b, [b.add_parameter(GLOBAL_POINTER) for _ in range(parameters)]


def handed(b: KernelBuilder, layout: LinearLayout, element: str) -> Handed:
    """How owners hand out elements in a layout, as the passes have it."""
    return handed_out(layout, STORAGE_BYTES[element], Kernel(b.target, b.threads // b.target.warp_size))


def load(b: KernelBuilder, pointers: Tile, element: str, **options: Any) -> Tile:
    """`libtile.codegen.memory.load`, where what owners saw is handed out."""
    return memory.load(b, pointers, element, handed=handed(b, pointers.layout, element), **options)


def load_shared(b: KernelBuilder, base: Value, shared: LinearLayout, target: LinearLayout, element: str) -> Tile:
    """A tile from shared memory, by the cheapest instructions."""
    size, warps = STORAGE_BYTES[element], (b.threads // b.target.warp_size).bit_length() - 1
    by = accesses(reduced(target, warps), shared, size, matrix_loads(b.target), storing=False).instruction(size)
    return shared_tiles.load_shared(b, base, shared, target, element, by)


def positions(b: KernelBuilder, layout: LinearLayout, strides: tuple[int, ...] | None = None) -> Tile:
    """The row-major position (or another linear function of the index) of each element, as an i32 tile."""
    if strides is None:
        strides = tuple(int(np.prod(layout.shape[d + 1 :])) for d in range(len(layout.shape)))
    registers = []
    for r in range(layout.in_size("register")):
        value = integer(I32, 0)
        for d, stride in enumerate(strides):
            value = b.add(value, b.mul(index(b, layout, r, d), integer(I32, stride)))
        registers.append(value)
    return Tile(layout, "i32", tuple(registers))


def pointers(b: KernelBuilder, base: Value, layout: LinearLayout, element: str, strides: Any = None) -> Tile:
    """Pointers to the elements of an array of the layout's shape."""
    return offset_pointers(b, scalar(base, "ptr", layout), positions(b, layout, strides), element)


def put(b: KernelBuilder, base: Value, tile: Tile) -> None:
    """Store a tile to a row-major array, plainly."""
    store(b, pointers(b, base, tile.layout, tile.element), tile)


def ptx_of(b: KernelBuilder) -> str:
    if not b.block.terminated:
        b.return_()
    text = nvptx.to_ptx(b.module_text(), b.target)
    return ptx.finish(text, b.target, {b.name: ptx.EntryDirectives(b.threads, language=None)})


def run_text(text: Any, b: KernelBuilder, *args: Any, grid: int = 1, order: int | None = None) -> RunResult:
    """Run a kernel's PTX (text, or parsed) on the block size it was built for, with all of the simulator's checks.

    `order` is the seed of a random schedule of the threads.
    """
    block = (b.threads, 1, 1)
    return run_ptx(text, b.name, grid=(grid, 1, 1), block=block, args=list(args), checks="full", order=order)


def run(b: KernelBuilder, *args: Any, grid: int = 1) -> RunResult:
    return run_text(ptx_of(b), b, *args, grid=grid)


def random_array(element: str, shape: Any, seed: int = 0) -> np.ndarray:
    """Random values of an element type, NaNs left out."""
    rng = np.random.default_rng(seed)
    if element == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if element.startswith("i"):
        info = np.iinfo(DTYPES[element])
        return rng.integers(info.min, info.max, shape, DTYPES[element], endpoint=True)
    return rng.normal(size=shape).astype(DTYPES[element])


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
