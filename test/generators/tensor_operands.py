# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrices in memory of random kernels, and how tiles of them become operands of products."""

from __future__ import annotations

from generators.tensor_writer import Kernel, Tile

CAST_FROM = {"f16": ("f32", "f8E4M3FN", "i8"), "bf16": ("f32", "f16"), "tf32": ("f32",)}
"""What an operand may be in memory, and is converted from."""


def operand(k: Kernel, sizes: tuple[int, int], tile: tuple[int, int]) -> Operand:
    """A matrix of the operands' type, in memory in one of many manners."""
    element = k.element
    if k.plain:
        return Operand(k, element, sizes, tile, k.random.choice(["plain", "plain", "dim_map", "permute", "batch"]))
    if element in CAST_FROM and k.chance(0.15):
        element = k.random.choice(CAST_FROM[element])
    manners = ["plain", "dim_map", "permute", "strides", "batch", "pointers", "gathered"]
    return Operand(k, element, sizes, tile, k.random.choices(manners, [6, 2, 2, 2, 2, 1, 1])[0])


class Operand:
    """A matrix in memory, and how a tile of it is read."""

    def __init__(self, kernel: Kernel, element: str, sizes: tuple[int, int], tile: tuple[int, int], manner: str):
        self.kernel, self.tile, self.manner = kernel, tile, manner
        self.double = kernel.chance(0.08) and not kernel.plain
        if manner in ("dim_map", "permute"):
            self.tensor = kernel.tensor(element, sizes[::-1])
        elif manner == "strides":
            self.tensor = kernel.tensor(element, sizes, (1, 0))
        elif manner == "batch":
            self.tensor = kernel.tensor(element, (2, *sizes))
        else:
            self.tensor = kernel.tensor(element, sizes)
        if manner == "pointers":
            self.memory, self.limits = _by_pointers(kernel, element, sizes), sizes
        if manner == "gathered":
            self.rows = kernel.tensor("i32", (-(-sizes[0] // tile[0]) * tile[0],), bounds=(0, sizes[0] - 1))

    def load(self, row: Tile, column: Tile, token: str = "") -> Tile:
        """The tile at a place, as an operand."""
        k, shape = self.kernel, self.tile
        if self.manner == "dim_map":
            tile = k.load(k.view(self.tensor, shape, "zero", (1, 0)), (row, column), shape, token)
        elif self.manner == "permute":
            loaded = k.load(k.view(self.tensor, shape[::-1], "zero"), (column, row), shape[::-1], token)
            turned = Tile("", shape, loaded.element)
            tile = k.let(f"permute {loaded} [1, 0] : {loaded.type} -> {turned.type}", shape, loaded.element)
        elif self.manner == "batch":
            one = k.constant(1)
            loaded = k.load(k.view(self.tensor, (1, *shape), "zero"), (one, row, column), (1, *shape), token)
            flat = Tile("", shape, loaded.element)
            tile = k.let(f"reshape {loaded} : {loaded.type} -> {flat.type}", shape, loaded.element)
        elif self.manner == "pointers":
            tile = self._through_pointers(row, column, token)
        elif self.manner == "gathered":
            tile = self._gathered(row, column, token)
        else:
            tile = k.load(k.view(self.tensor, shape, "zero"), (row, column), shape, token)
        tile = k.cast(tile, k.element)
        if self.double and tile.element in ("f16", "bf16", "f32", "f64"):
            tile = k.binary("max", tile, k.constant(0, shape, tile.element))
        return tile

    def _gathered(self, row: Tile, column: Tile, token: str) -> Tile:
        """The rows that an array names."""
        k, shape = self.kernel, self.tile
        rows = k.load(k.view(self.rows, shape[:1], "zero"), (row,), shape[:1])
        first = k.binary("mul", column, k.constant(shape[1]))
        members = f"tile=({shape[0]}x{shape[1]}), padding_value = zero, {self.tensor.type}, sparse_dim=0"
        type_ = f"gather_scatter_view<{members}>"
        view, tile = k.name(), Tile(k.name(), shape, self.tensor.element)
        k.emit(f"{view} = make_gather_scatter_view {self.tensor.name} : {type_}")
        order = f" token = {token}" if token else ""
        k.emit(f"{tile}, {k.name()} = load_view_tko weak {view}[{rows}, {first}]{order} : "
               f"{type_}, {rows.type}, tile<i32> -> {tile.type}, token")  # fmt: skip
        return tile

    def _through_pointers(self, row: Tile, column: Tile, token: str) -> Tile:
        """By pointers that are computed of the places of elements, with a mask for what is outside."""
        k, shape = self.kernel, self.tile
        base, step = self.memory
        places, inside = [], []
        for dim, index in enumerate((row, column)):
            count = shape[dim]
            numbers = k.let(f"iota : tile<{count}xi32>", (count,))
            start = k.spread(k.binary("mul", index, k.constant(count)), (count,))
            along = (count, 1) if dim == 0 else (1, count)
            place = k.binary("add", numbers, start)
            place = k.let(f"reshape {place} : {place.type} -> {Tile('', along, 'i32').type}", along)
            limit = k.spread(k.number(self.limits[dim]), along)
            flag = Tile("", along, "i1")
            held = k.let(f"cmpi less_than {place}, {limit}, signed : {place.type} -> {flag.type}", along, "i1")
            places.append(place)
            inside.append(k.spread(held, shape))
        far = k.binary("mul", places[0], k.spread(step, places[0].shape))
        offsets = k.binary("add", k.spread(far, shape), k.spread(places[1], shape))
        mask = k.let(f"andi {inside[0]}, {inside[1]} : {inside[0].type}", shape, "i1")
        bases = k.spread(base, shape)
        pointers = k.let(
            f"offset {bases}, {offsets} : {bases.type}, {offsets.type} -> {bases.type}", shape, base.element
        )
        tile = Tile(k.name(), shape, self.tensor.element)
        zeros = k.constant(0, shape, self.tensor.element)
        order = f" token={token}" if token else ""
        k.emit(f"{tile}, {k.name()} = load_ptr_tko weak {pointers}, {mask}, {zeros}{order} : "
               f"{pointers.type}, {mask.type}, {zeros.type} -> {tile.type}, token")  # fmt: skip
        return tile


def _by_pointers(k: Kernel, element: str, sizes: tuple[int, int]) -> tuple[Tile, Tile]:
    """The first element of the array that was made last, and how far apart its rows lie."""
    array = next(p for p in reversed(k.parameters) if p.size)
    step = k.pitch
    base = k.let(f"assume div_by<16>, {array.name} : {array.type}", (), f"ptr<{element}>") if step % 16 == 0 else None
    count = k.scalar(step)
    if step % 16 == 0:
        count = k.let(f"assume div_by<16>, {count} : tile<i32>")
    return base or Tile(array.name, (), f"ptr<{element}>"), count
