# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products that are under way while the program goes on, by wgmma."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from libtile.atoms import wgmma as atoms
from libtile.codegen import agents, wgmma
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import FLOAT, I32, VectorType
from libtile.codegen.memory import as_integer
from libtile.codegen.packing import join
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp, matrix_of, matrix_shape
from libtile.ir.tile_form import integer_of
from libtile.layouts import WARP
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.storage import Buffer
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import MmaAtom

_WORD_BYTES = 4


def _words(e: Emitter, tile: Tile) -> list[Value]:
    """The registers of a tile, as many of them side by side in one of 32 bits as fit."""
    size = STORAGE_BYTES[tile.element]
    if size == _WORD_BYTES:
        return [r if r.type in (FLOAT, I32) else as_integer(e.b, r) for r in tile.registers]
    per, bits = _WORD_BYTES // size, [as_integer(e.b, r) for r in tile.registers]
    if size > _WORD_BYTES or len(bits) % per:
        raise LoweringError(f"has registers of {tile.element}, which do not fill words of 32 bits")
    return [join(e.b, bits[i : i + per], 8 * size) for i in range(0, len(bits), per)]


def _tile(e: Emitter, like: Tile, words: Sequence[Value]) -> Tile:
    """The tile of the same kind in other words."""
    b, size = e.b, STORAGE_BYTES[like.element]
    if size == _WORD_BYTES:
        made = [b.cast("bitcast", w, r.type) for w, r in zip(words, like.registers)]
        return like.with_registers(made)
    kind = like.registers[0].type
    vector = VectorType(_WORD_BYTES // size, kind)
    parts = [b.cast("bitcast", w, vector) for w in words]
    return like.with_registers([b.extract(p, i, kind) for p in parts for i in range(vector.count)])


@rule(AsyncDotOp)
def _dot(e: Emitter, op: AsyncDotOp) -> None:
    b, atom, accumulator = e.b, op.atom.instruction, e.tile(op.c)
    warps = b.threads // b.target.warp_size
    if 1 << len(accumulator.layout.basis(WARP)) != warps:
        raise unsupported(op, f"is run by {warps} warps, and its accumulator is not", b.target.name)
    _, columns = accumulator.shape
    _, depth = matrix_shape(op.a.type)
    groups = warps // atoms.GROUP_WARPS
    words = wgmma.fence(b, _words(e, accumulator))
    right = _descriptor(e, op.b, "b", atom)
    left = _descriptor(e, op.a, "a", atom) if isinstance(e.held[op.a], Buffer) else None
    held = None if left is not None else wgmma.fence(b, _words(e, e.tile(op.a)))
    flags = left is not None and left.operand.transposed, right.operand.transposed
    each = atoms.accumulator_registers(atom)
    steps = depth // atom.k
    for part in range(len(words) // each):
        # Registers count columns first, and then the rows that a warpgroup has beyond its first 64.
        row, column = divmod(part * atom.n, columns)
        block = words[part * each : (part + 1) * each]
        for step in range(steps):
            k = step * atom.k
            if left is not None:
                a: Value | list[Value] = left.at(b, row * atoms.ROWS * groups, k)
            else:
                assert held is not None
                first = (row * steps + step) * 4
                a = held[first : first + 4]
            block = wgmma.multiply(b, atom, block, a, right.at(b, column, k), transposed=flags)
        words[part * each : (part + 1) * each] = block
    wgmma.commit(b)
    e.bind(op.result, _tile(e, accumulator, words))


def _descriptor(e: Emitter, value: SSAValue, side: str, atom: MmaAtom) -> wgmma.Descriptor:
    """The descriptor of an operand; of A, of the rows of this thread's warpgroup."""
    b, buffer = e.b, e.held[value]
    assert isinstance(buffer, Buffer)
    size = STORAGE_BYTES[buffer.element]
    operand = atoms.shared_operand(matrix_of(buffer.layout), side, atom, size, atoms.can_transpose(b.target, atom))
    if isinstance(operand, str):
        raise LoweringError(f"has an operand that products do not read: {operand}")
    moved = None
    groups = b.threads // b.target.warp_size // atoms.GROUP_WARPS
    if side == "a" and groups > 1:
        distance = operand.start(atoms.ROWS, 0)
        if any(operand.start(atoms.ROWS << i, 0) != distance << i for i in range(groups.bit_length() - 1)):
            raise LoweringError(
                "has an operand of which the rows of warpgroups are not equally far apart in shared memory"
            )
        moved = b.mul(agents.warpgroup(b), integer(I32, distance))
    if buffer.first is None or buffer.moved is None:
        return wgmma.descriptor(b, operand, buffer.pointer, moved)
    # The descriptor of the first stage stays the same in a loop, and that of another one is so much further.
    return wgmma.descriptor(b, operand, buffer.first, moved).behind(b, *buffer.moved)


@rule(WaitDotOp)
def _wait(e: Emitter, op: WaitDotOp) -> None:
    accumulators, reads, pins = ([e.tile(v) for v in op.group(n)] for n in ("accumulators", "reads", "pins"))
    tiles = [*accumulators, *pins, *reads]
    words = [_words(e, t) for t in tiles]
    through = wgmma.wait(e.b, integer_of(op.pending), [w for ws in words for w in ws])
    for result, tile, own in zip(op.results, tiles, words):
        e.bind(result, _tile(e, tile, through[: len(own)]))
        through = through[len(own) :]
