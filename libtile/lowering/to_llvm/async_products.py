# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products that are under way while the program goes on, by wgmma."""

from __future__ import annotations

from xdsl.ir import SSAValue

from libtile.atoms import wgmma as atoms
from libtile.codegen import agents, wgmma
from libtile.codegen.builder import Value, integer
from libtile.codegen.constants import from_bits
from libtile.codegen.llvm_types import FLOAT, HALF, I32, LlvmType
from libtile.codegen.words import fills_words, of_words, words_of
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp, matrix_of, matrix_shape
from libtile.ir.tile_form import integer_of
from libtile.layouts import WARP
from libtile.lowering.errors import unsupported
from libtile.lowering.product_reasons import STEP_PARTS
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.storage import Buffer
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import MmaAtom

_FIRST_WORDS = 4
"""Of a tile that is narrowed ahead of a product: the assembler begins to do that in front of it by these, and needs
fewer registers."""
ZEROS: dict[LlvmType, Value] = {
    type_: from_bits(element, 0) for element, type_ in (("f32", FLOAT), ("i32", I32), ("f16", HALF))
}
"""The registers of a tile of zeros, by their type."""


@rule(AsyncDotOp)
def _dot(e: Emitter, op: AsyncDotOp) -> None:
    b, atom, accumulator = e.b, op.atom.instruction, e.tile(op.c)
    warps = b.threads // b.target.warp_size
    if 1 << len(accumulator.layout.basis(WARP)) != warps:
        raise unsupported(op, f"is run by {warps} warps, and its accumulator is not", b.target.name)
    _, columns = accumulator.shape
    _, depth = matrix_shape(op.a.type)
    shares = 1 << sum(bool(across) for _, across in accumulator.layout.basis(WARP))  # warpgroups beside each other
    groups, columns = warps // atoms.GROUP_WARPS // shares, columns // shares
    # A sum that begins with zeros needs no registers that hold them.
    empty = all(r == ZEROS.get(r.type) for r in accumulator.registers)
    words = [Value(w.type, "undef") if empty else w for w in words_of(e.b, accumulator)]
    fenced = op.fenced is not None
    held = None if isinstance(e.held[op.a], Buffer) else words_of(b, e.tile(op.a))
    if not fenced:
        tiles = {v: e.tile(v) for v in op.group("ahead")}
        ahead = {v: words_of(b, tile) for v, tile in tiles.items()}
        for v, own in ahead.items():
            if fills_words(tiles[v]):
                wgmma.hold(b, own[:_FIRST_WORDS])
        # Sums pass through: of ones that are equal copies are made, and these are not to be made behind the fence.
        sums = [v for v in ahead if not fills_words(tiles[v])]
        through = [*([] if empty else words), *(w for v in sums for w in ahead[v])]
        reads = [w for v in ahead if v not in sums for w in ahead[v]]
        made = iter(wgmma.fence(b, through, [*reads, *(held or ())]))
        words = words if empty else [next(made) for _ in words]
        for v in sums:
            e.bind(v, of_words(b, tiles[v], [next(made) for _ in ahead[v]]))
    in_parts = STEP_PARTS in op.attributes
    right = _descriptor(e, op.b, "b", atom, in_parts, columns, shares)
    if op.rematerialized_b is not None:
        right = right.made_here(b)
    left = _descriptor(e, op.a, "a", atom, in_parts, atoms.ROWS, groups) if held is None else None
    if op.rematerialized_a is not None and left is not None:
        left = left.made_here(b)
    flags = left is not None and left.operand.transposed, right.operand.transposed
    each = atoms.accumulator_registers(atom)
    steps = depth // atom.k
    for part in range(len(words) // each):
        # Registers count columns first, and then the rows that a warpgroup has beyond its first 64.
        row, column = divmod(part * atom.n, columns)
        column += integer_of(op.first_column)
        block = words[part * each : (part + 1) * each]
        for step in range(steps):
            k = step * atom.k
            if left is not None:
                a: Value | list[Value] = left.at(b, integer_of(op.first_row) + row * atoms.ROWS * groups, k)
            else:
                assert held is not None
                first = (row * steps + step) * 4
                a = held[first : first + 4]
            part_of_b = right.at(b, column, integer_of(op.first_depth) + k)
            block = wgmma.multiply(b, atom, block, a, part_of_b, transposed=flags, add=not (empty and not step))
        words[part * each : (part + 1) * each] = block
    wgmma.commit(b)
    e.bind(op.result, of_words(b, accumulator, words))


def _descriptor(
    e: Emitter, value: SSAValue, side: str, atom: MmaAtom, in_parts: bool, part: int, groups: int
) -> wgmma.Descriptor:
    """The descriptor of an operand; where so many warpgroups share its rows or columns, of the first ones of this
    thread's, a `part` behind those of the group before. Stages that hold a step `in_parts` follow each other at fixed
    distances."""
    b, buffer = e.b, e.held[value]
    assert isinstance(buffer, Buffer)
    size = STORAGE_BYTES[buffer.element]
    operand = atoms.shared_operand(matrix_of(buffer.layout), side, atom, size, atoms.transposed_atoms(b.target, atom))
    if isinstance(operand, str):
        raise LoweringError(f"has an operand that products do not read: {operand}")
    moved = None
    if groups > 1:
        distance = operand.start(part, 0)
        if any(operand.start(part << i, 0) != distance << i for i in range(groups.bit_length() - 1)):
            raise LoweringError(
                "has an operand of which the rows of warpgroups are not equally far apart in shared memory"
            )
        moved = b.mul(agents.warpgroup(b), integer(I32, distance))
    if buffer.first is None or buffer.moved is None:
        return wgmma.descriptor(b, operand, buffer.pointer, moved)
    if buffer.alone:
        return wgmma.descriptor(b, operand, buffer.first, moved)
    # The descriptor of the first stage stays the same in a loop, and that of another one is so much further.
    return wgmma.descriptor(b, operand, buffer.first, moved).behind(b, *buffer.moved, opaque=in_parts)


@rule(WaitDotOp)
def _wait(e: Emitter, op: WaitDotOp) -> None:
    accumulators, reads, pins = ([e.tile(v) for v in op.group(n)] for n in ("accumulators", "reads", "pins"))
    tiles = [*accumulators, *pins]
    words = [words_of(e.b, t) for t in tiles]
    for number in integers_of(op.held_pins):
        wgmma.hold(e.b, words[len(accumulators) + number], apart=op.apart is not None)
    if op.held is not None:
        wgmma.hold_all(e.b)
    through = wgmma.wait(
        e.b, integer_of(op.pending), [w for ws in words for w in ws], [w for t in reads for w in words_of(e.b, t)]
    )
    for result, tile, own in zip(op.results, tiles, words):
        e.bind(result, of_words(e.b, tile, through[: len(own)]))
        through = through[len(own) :]
