# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What random kernels do with a tile of their result: steps that change it, then stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from generators.tensor_writer import Kernel, Tile

Step = Callable[[Tile, Tile, Tile], Tile]
Store = Callable[[Tile, Tile, Tile], None]


@dataclass
class Results:
    """What is done with a tile of the result: steps that change it, then stores."""

    steps: list[Step]
    stores: list[Store]

    def of(self, row: Tile, column: Tile, total: Tile) -> None:
        """Write them for a tile at a place."""
        for step in self.steps:
            total = step(row, column, total)
        for store in self.stores:
            store(row, column, total)


def results_of(k: Kernel) -> Results:
    """Steps and stores of an epilogue; its tensors are made at the start of the kernel."""
    steps: list[Step] = []
    shape = (k.m, k.n)
    rows, columns = k.ragged(k.rows, k.m), k.ragged(k.columns, k.n)
    for _ in range(k.random.choice([0, 0, 1, 1, 2])):
        steps.append(k.random.choice([_bias, _residual, _relu, _times_row])(k, rows, columns))
    stores: list[Store] = []
    final = k.sum
    if k.sum != "i32" and k.chance(0.5):
        final = k.random.choice(["f16", "bf16", "f32", "f8E4M3FN"] if k.sum != "f64" else ["f64"])
    stores.append(store_to(k, final, (rows, columns), shape))
    if k.chance(0.2):
        stores.append(_store_sums(k, rows))
    if k.chance(0.15):
        stores.append(store_to(k, k.sum, (rows, columns), shape))
    return Results(steps, stores)


def _bias(k: Kernel, rows: int, columns: int) -> Step:
    tensor = k.tensor(k.sum, (1, columns))

    def step(row: Tile, column: Tile, tile: Tile) -> Tile:
        zero = k.constant(0)
        bias = k.load(k.view(tensor, (1, k.n), "zero"), (zero, column), (1, k.n))
        return k.binary("add", tile, k.spread(bias, tile.shape))

    return step


def _times_row(k: Kernel, rows: int, columns: int) -> Step:
    tensor = k.tensor(k.sum, (rows, 1), bounds=(-1, 1))

    def step(row: Tile, column: Tile, tile: Tile) -> Tile:
        zero = k.constant(0)
        factor = k.load(k.view(tensor, (k.m, 1), "zero"), (row, zero), (k.m, 1))
        return k.binary("mul", tile, k.spread(factor, tile.shape))

    return step


def _residual(k: Kernel, rows: int, columns: int) -> Step:
    element = "i32" if k.sum == "i32" else "f64" if k.sum == "f64" else k.random.choice(["f16", "f32"])
    tensor = k.tensor(element, (rows, columns))

    def step(row: Tile, column: Tile, tile: Tile) -> Tile:
        other = k.load(k.view(tensor, (k.m, k.n), "zero"), (row, column), (k.m, k.n))
        return k.binary("add", tile, k.cast(other, tile.element))

    return step


def _relu(k: Kernel, rows: int, columns: int) -> Step:
    return lambda row, column, tile: k.binary("max", tile, k.constant(0, tile.shape, tile.element))


def store_to(k: Kernel, element: str, sizes: tuple[int, int], shape: tuple[int, int]) -> Store:
    manner = k.random.choice(["plain", "plain", "plain", "dim_map", "permute", "batch"])
    order = sizes[::-1] if manner in ("dim_map", "permute") else (2, *sizes) if manner == "batch" else sizes
    tensor = k.tensor(element, order, written=True)

    def store(row: Tile, column: Tile, tile: Tile) -> None:
        if element.startswith("f8"):
            tile = k.clamped(tile)
        tile = k.cast(tile, element)
        if manner == "dim_map":
            k.store(tile, k.view(tensor, shape, "", (1, 0)), (row, column))
        elif manner == "permute":
            turned = Tile("", shape[::-1], element)
            made = k.let(f"permute {tile} [1, 0] : {tile.type} -> {turned.type}", turned.shape, element)
            k.store(made, k.view(tensor, shape[::-1]), (column, row))
        elif manner == "batch":
            wide = Tile("", (1, *shape), element)
            made = k.let(f"reshape {tile} : {tile.type} -> {wide.type}", wide.shape, element)
            k.store(made, k.view(tensor, wide.shape), (k.constant(1), row, column))
        else:
            k.store(tile, k.view(tensor, shape), (row, column))

    return store


def _store_sums(k: Kernel, rows: int) -> Store:
    """The sum of each row, by the first column of tiles: others write to places of their own."""
    tensor = k.tensor(k.sum, (k.columns, rows), written=True)

    def store(row: Tile, column: Tile, tile: Tile) -> None:
        if tile.element == "f16":  # whose sums may round
            tile = k.clamped(tile)
        sums = k.row_sums(tile)
        flat = Tile("", (1, k.m), sums.element)
        made = k.let(f"reshape {sums} : {sums.type} -> {flat.type}", flat.shape, sums.element)
        k.store(made, k.view(tensor, (1, k.m)), (column, row))

    return store
