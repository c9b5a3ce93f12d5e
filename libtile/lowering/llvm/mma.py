# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products: tensor-core atoms of mma.sync on register fragments, or multiply-add where no atom takes the types.

A product's operands and accumulator live in the fragment layouts of `libtile.layouts.builders`, tiled over a grid of
warps. Which registers an atom takes follows from the layouts themselves: the inverse of a layout names the register
that holds an element, and every lane's registers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libtile.layouts import REGISTER, LinearLayout, builders
from libtile.lowering.errors import LoweringError
from libtile.lowering.llvm import conversions, floats, integers, scratch
from libtile.lowering.llvm.builder import KernelBuilder, Value, integer
from libtile.lowering.llvm.control import for_loop
from libtile.lowering.llvm.convert_layout import convert_all
from libtile.lowering.llvm.shared_tiles import store_shared
from libtile.lowering.llvm.tile import LLVM_TYPES, REGISTER_BYTES, Tile, index
from libtile.targets import MmaAtom, Target

PTX_TYPES = {
    "f16": "f16",
    "bf16": "bf16",
    "tf32": "tf32",
    "f32": "f32",
    "f64": "f64",
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
    "i32": "s32",
}
ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}


@dataclass(frozen=True)
class DotLayouts:
    """Where a product wants its operands and accumulator, and the instruction that it uses."""

    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    atom: MmaAtom | None


def _ptx_type(element: str, signed: bool) -> str:
    if element == "i8":
        return "s8" if signed else "u8"
    found = PTX_TYPES.get(element)
    if found is None:
        raise LoweringError(f"no matrix product takes elements of type {element}")
    return found


def _operand_type(target: Target, element: str, signed: bool) -> str:
    """The PTX type that an operand has in an atom: 8-bit floats become f16, exactly, where no atom takes them."""
    found = _ptx_type(element, signed)
    if found in ("e4m3", "e5m2") and not target.mma(found, found, "f32"):
        return "f16"
    return found


def choose_atom(
    target: Target, a: str, b: str, c: str, shape: Sequence[int], signed_a: bool = True, signed_b: bool = True
) -> MmaAtom | None:
    """The atom for element types (Tile IR keywords) that divides (M, N, K); None when there is none."""
    if a == "f32" or b == "f32":
        return None
    types = _operand_type(target, a, signed_a), _operand_type(target, b, signed_b)
    for atom in target.mma(*types, _ptx_type(c, True)):
        sizes = (atom.m, atom.n, atom.k)
        if not atom.kind and all(x % y == 0 for x, y in zip(shape, sizes)) and _has_fragments(atom):
            return atom
    return None


def _has_fragments(atom: MmaAtom) -> bool:
    if atom.a == "f64":
        return (atom.m, atom.n, atom.k) == (8, 8, 4)
    return atom.m == 16 and atom.k == 256 // ELEMENT_BITS[atom.a]


def _operand_fragment(atom: MmaAtom, operand: str) -> LinearLayout:
    if atom.a == "f64":
        return builders.mma_f64(operand)
    bits = ELEMENT_BITS[atom.a]
    return builders.mma_operand_a(bits) if operand == "a" else builders.mma_operand_b(bits)


def warp_grid(rows: int, columns: int, warps: int, atom: MmaAtom) -> tuple[int, int]:
    """How many warps to put along M and N: as square as the tile's fragments allow."""
    grid = [1, 1]
    while grid[0] * grid[1] < warps:
        room = [rows // (atom.m * grid[0]), columns // (atom.n * grid[1])]
        axis = 0 if (room[0] * 2 >= room[1] and room[0] > 1) or room[1] <= 1 else 1
        grid[axis] *= 2
    return grid[0], grid[1]


def dot_layouts(
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    a_element: str,
    b_element: str,
    acc_element: str,
    target: Target,
    warps: int,
    *,
    grid: tuple[int, int] | None = None,
    signed_a: bool = True,
    signed_b: bool = True,
) -> DotLayouts:
    """The layouts of a product's operands and accumulator, of rank 2 or 3 (batches first).

    Without an atom for the types or the shape (f32, tiles smaller than an atom) the layouts are spread ones, for
    multiply-add. LoweringError for element types that no product has.
    """
    m, k = a_shape[-2:]
    n = b_shape[-1]
    batches = a_shape[0] if len(a_shape) == 3 else 0
    atom = choose_atom(target, a_element, b_element, acc_element, (m, n, k), signed_a, signed_b)
    if atom is None:
        layouts = [_spread(shape, warps) for shape in ((m, k), (k, n), (m, n))]
    else:
        shape_of_grid = grid or warp_grid(m, n, warps, atom)
        layouts = [
            _over_warps(_operand_fragment(atom, "a"), (m, k), shape_of_grid, 0),
            _over_warps(_operand_fragment(atom, "b"), (k, n), shape_of_grid, 1),
            builders.over_warps(_result_fragment(atom), (m, n), shape_of_grid),
        ]
    if batches:
        layouts = [_batched(layout, batches) for layout in layouts]
    return DotLayouts(layouts[0], layouts[1], layouts[2], atom)


def _result_fragment(atom: MmaAtom) -> LinearLayout:
    return builders.mma_f64("c") if atom.a == "f64" else builders.mma_accumulator()


def _spread(shape: tuple[int, int], warps: int) -> LinearLayout:
    """A tile over all threads, neighbouring lanes along the last dimension."""
    lanes = min(shape[1], 32)
    return builders.blocked(shape, (1, 1), (32 // lanes, lanes), (warps, 1), (1, 0))


def _batched(layout: LinearLayout, batches: int) -> LinearLayout:
    """Each thread holds its part of every batch's matrix; the batch is dimension 0."""
    moved = layout.rename_outs({"dim0": "dim1", "dim1": "dim2"})
    return (moved * LinearLayout.identity(batches, REGISTER, "dim0")).transpose_outs(["dim0", "dim1", "dim2"])


def _over_warps(fragment: LinearLayout, shape: Sequence[int], grid: tuple[int, int], kept: int) -> LinearLayout:
    """An operand's fragment over the warp grid; warps along the other operand's dimension hold copies."""
    layout = fragment
    for d in (1, 0):
        own = LinearLayout.identity(grid[d], "warp", f"dim{d}")
        layout = layout * (own if d == kept else LinearLayout.zeros(grid[d], "warp", "dim0"))
    return builders.fit_to_shape(layout.transpose_outs(["dim0", "dim1"]), shape)


def _at(layout: LinearLayout, batch: int | None, row: int, column: int) -> dict[str, int]:
    """An element's index in a matrix or in a batch of them."""
    place = (row, column) if batch is None else (batch, row, column)
    return dict(zip(layout.out_dims, place))


def _places(tile: Tile, fragment: LinearLayout, batch: int | None, origin: tuple[int, int]) -> list[int]:
    """The registers that hold a fragment whose corner lies at `origin` (the same for every thread)."""
    inverse = tile.layout.inverse()
    elements = (fragment(register=r) for r in range(fragment.in_size(REGISTER)))
    return [
        inverse(**_at(tile.layout, batch, e["dim0"] + origin[0], e["dim1"] + origin[1]))[REGISTER] for e in elements
    ]


def _words(b: KernelBuilder, values: Sequence[Value], bits: int) -> list[Value]:
    """Neighbouring narrow values as 32-bit words."""
    if bits >= 32:
        return [b.cast("bitcast", v, "i32") if v.type == "float" else v for v in values]
    per = 32 // bits
    return [b.cast("bitcast", b.vector(values[i : i + per]), "i32") for i in range(0, len(values), per)]


def dot(
    b: KernelBuilder,
    a: Tile,
    b_: Tile,
    c: Tile,
    *,
    signed_a: bool = True,
    signed_b: bool = True,
    layouts: DotLayouts | None = None,
) -> Tile:
    """`a @ b + c` in the accumulator's layout; operands in other layouts are converted. All threads come here."""
    warps = b.threads // b.target.warp_size
    wanted = layouts or dot_layouts(
        a.shape, b_.shape, a.element, b_.element, c.element, b.target, warps, signed_a=signed_a, signed_b=signed_b
    )
    a, b_, c = convert_all(b, [a, b_, c], [wanted.a, wanted.b, wanted.c])
    batches: list[int | None] = list(range(a.shape[0])) if len(a.shape) == 3 else [None]
    if wanted.atom is None:
        return _by_multiply_add(b, a, b_, c, signed_a, signed_b)
    atom = wanted.atom
    if atom.a == "f16":
        a, b_ = (_as_f16(b, t) for t in (a, b_))
    accumulators = list(c.registers)
    inverse = c.layout.inverse()
    rows, columns = c.shape[-2:]
    for batch in batches:
        for row in range(0, rows, atom.m):
            for column in range(0, columns, atom.n):
                if inverse(**_at(c.layout, batch, row, column))["warp"] == 0:  # other warps' are at the same registers
                    _one_result(b, atom, (a, b_, c), accumulators, batch, (row, column))
    return c.with_registers(accumulators)


def _as_f16(b: KernelBuilder, tile: Tile) -> Tile:
    if tile.element == "f16":
        return tile
    return tile.with_registers(conversions.ftof_all(b, tile.registers, tile.element, "f16"), "f16")


def _one_result(
    b: KernelBuilder,
    atom: MmaAtom,
    tiles: tuple[Tile, Tile, Tile],
    accumulators: list[Value],
    batch: int | None,
    corner: tuple[int, int],
) -> None:
    """All the atoms of one fragment of the result, along K."""
    a, b_, c = tiles
    places = _places(c, _result_fragment(atom), batch, corner)
    sums = [accumulators[p] for p in places]
    for k in range(0, a.shape[-1], atom.k):
        left = [a.registers[p] for p in _places(a, _operand_fragment(atom, "a"), batch, (corner[0], k))]
        right = [b_.registers[p] for p in _places(b_, _operand_fragment(atom, "b"), batch, (k, corner[1]))]
        sums = _mma(b, atom, left, right, sums)
    for place, value in zip(places, sums):
        accumulators[place] = value


def _mma(b: KernelBuilder, atom: MmaAtom, a: Sequence[Value], b_: Sequence[Value], c: Sequence[Value]) -> list[Value]:
    """One mma.sync; the accumulator's values in and out, as the layouts have them."""
    bits = ELEMENT_BITS[atom.a]
    left, right = (list(a), list(b_)) if bits == 64 else (_words(b, a, bits), _words(b, b_, bits))
    half = atom.d == "f16"
    sums = _words(b, c, 16) if half else list(c)
    letter = "d" if bits == 64 else "r"
    acc = {"f32": "f", "f64": "d", "s32": "r", "f16": "r"}[atom.d]
    acc_type = {"f32": "float", "f64": "double", "s32": "i32", "f16": "i32"}[atom.d]
    groups, first = [], 0
    for count in (len(sums), len(left), len(right), len(sums)):
        groups.append("{" + ", ".join(f"${first + i}" for i in range(count)) + "}")
        first += count
    text = (
        f"mma.sync.aligned.m{atom.m}n{atom.n}k{atom.k}.row.col.{atom.d}.{atom.a}.{atom.b}.{atom.d} "
        f"{groups[0]}, {groups[1]}, {groups[2]}, {groups[3]};"
    )
    constraints = [f"={acc}"] * len(sums) + [letter] * (len(left) + len(right)) + [acc] * len(sums)
    struct = "{ " + ", ".join([acc_type] * len(sums)) + " }"
    made = b.asm(text, ",".join(constraints), struct, [*left, *right, *sums])
    out = [b.extract(made, i, acc_type) for i in range(len(sums))]
    if not half:
        return out
    pairs = [b.cast("bitcast", w, "<2 x half>") for w in out]
    return [b.extract(p, i, "half") for p in pairs for i in range(2)]


# -- without tensor cores -------------------------------------------------------------------------------------------


def _accumulating(b: KernelBuilder, tile: Tile, element: str, signed: bool) -> Tile:
    """An operand in the type that the sum is computed in: exact, but for wider operands of a narrower sum."""
    if element == "i32":
        return tile.map(lambda v: b.cast("sext" if signed else "zext", v, "i32"), "i32")
    if tile.element == element:
        return tile
    return tile.with_registers(conversions.ftof_all(b, tile.registers, tile.element, element), element)


def _by_multiply_add(b: KernelBuilder, a: Tile, b_: Tile, c: Tile, signed_a: bool, signed_b: bool) -> Tile:
    """The operands go to shared memory whole; each thread then sums its own elements, in f32 where the sum is f16."""
    element = {"f16": "f32", "bf16": "f32"}.get(c.element, c.element)
    operands = (_accumulating(b, a, element, signed_a), _accumulating(b, b_, element, signed_b))
    sums = c if c.element == element else _accumulating(b, c, element, True)
    size = REGISTER_BYTES[LLVM_TYPES[element]]
    bytes_of = [size << t.layout.out_bits for t in operands]
    region = scratch.begin(b, sum(bytes_of))
    bases = [scratch.pointer(b, region), scratch.pointer(b, region, bytes_of[0])]
    for tile, base in zip(operands, bases):
        store_shared(b, base, builders.row_major(tile.shape), tile)
    b.barrier()

    def at(base: Value, offset: Value) -> Value:
        place = b.emit(base.type, f"getelementptr {LLVM_TYPES[element]}, {base.typed}, {offset.typed}")
        return b.emit(LLVM_TYPES[element], f"load {LLVM_TYPES[element]}, {place.typed}, align {size}")

    rank, (rows, columns), depth = len(c.shape), c.shape[-2:], a.shape[-1]
    places = [[index(b, sums.layout, r, d) for d in range(rank)] for r in range(len(sums.registers))]

    def flat(batch: Value | None, line: Value, lines: int, width: int) -> Value:
        within = b.mul(line, integer("i32", width))
        return within if batch is None else b.add(within, b.mul(batch, integer("i32", lines * width)))

    starts = []
    for place in places:
        batch = place[0] if rank == 3 else None
        base_b = integer("i32", 0) if batch is None else b.mul(batch, integer("i32", depth * columns))
        starts.append((flat(batch, place[-2], rows, depth), b.add(base_b, place[-1])))

    def step(k: Value, carried: list[Tile | Value]) -> list[Tile | Value]:
        line = b.mul(k, integer("i32", columns))
        out: list[Tile | Value] = []
        for (start_a, start_b), value in zip(starts, carried):
            x, y = at(bases[0], b.add(start_a, k)), at(bases[1], b.add(start_b, line))
            if not isinstance(value, Value):
                raise TypeError("sums are carried one by one")
            out.append(
                integers.add(b, integers.mul(b, x, y), value) if element == "i32" else floats.fma(b, x, y, value)
            )
        return out

    ends = for_loop(b, integer("i32", 0), integer("i32", depth), integer("i32", 1), list(sums.registers), step)
    scratch.end(b, region)
    made = sums.with_registers([v for v in ends if isinstance(v, Value)])
    if element == c.element:
        return made
    return made.with_registers(conversions.ftof_all(b, made.registers, element, c.element), c.element)
