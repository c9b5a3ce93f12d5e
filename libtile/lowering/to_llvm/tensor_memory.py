# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor memory: its allocation, products into it, and copies between it and registers (tcgen05)."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from libtile.atoms import tcgen05 as atoms
from libtile.atoms import tcgen05_factors as factors
from libtile.codegen import tcgen05, wgmma
from libtile.codegen.builder import SharedBuffer, Value, integer
from libtile.codegen.llvm_types import FLOAT, HALF, I16, I32, I64
from libtile.codegen.tile import Tile
from libtile.codegen.words import words_of
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp, DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, CopyOp, ExtractSliceOp, ReinterpretOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import stored_shape
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory import allocate_tensor_memory as tensor
from libtile.lowering.tileas.memory.storage_lives import OFFSET, TENSOR_ADDRESS_BYTES
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.lowering.to_llvm.storage import Buffer, TensorMemory
from libtile.numerics.elements import STORAGE_BYTES, memory_bits
from libtile.support.diagnostics import LoweringError
from libtile.support.records import replace
from libtile.targets import MmaAtom

FRAGMENT_REGISTERS = 4
"""Of a thread, for each fragment."""


def allocate(e: Emitter, op: AllocTensorOp) -> TensorMemory:
    """The storage that an op makes for results of products, of which the first dimension counts the stages."""
    type_, offset, lane = op.result.type, op.attributes.get(tensor.OFFSET), op.attributes.get(tensor.LANE)
    assert isinstance(type_, BufferType)
    if not e.b.target.has("tcgen05"):
        raise unsupported(op, "lies in tensor memory, which is not there", e.b.target.name)
    if len(type_.shape) != 3 or not isinstance(offset, IntegerAttr):
        raise unsupported(op, f"is no storage for stages with '{tensor.OFFSET}', its first column", e.b.target.name)
    _, *shape = type_.shape
    ctas = 1 if op.pair is None else 2
    if isinstance(given := op.attributes.get(tensor.COLUMNS), IntegerAttr):
        place, columns = op.attributes.get(OFFSET), given.value.data
        if not isinstance(place, IntegerAttr):
            raise unsupported(op, f"has no '{OFFSET}' for its address", e.b.target.name)
        slot = SharedBuffer(place.value.data, TENSOR_ADDRESS_BYTES)
        e.tensor_memory = tcgen05.allocate(e.b, columns, slot, ctas), columns
    if e.tensor_memory is None:
        raise unsupported(op, "stands in front of the op that allocates tensor memory", e.b.target.name)
    start, _ = e.tensor_memory
    first = lane.value.data if isinstance(lane, IntegerAttr) else 0
    if first and (first != atoms.FRAGMENT_LANES or shape[0] != atoms.HALF_LANES):
        raise unsupported(op, f"lies from lane {first} on, where {shape[0]} rows do not", e.b.target.name)
    address = e.b.add(start, integer(I32, first << tcgen05.LANE_SHIFT | offset.value.data))
    return TensorMemory(address, element_name(type_.element_type), atoms.result_columns(shape), ctas)


@rule(DeallocTensorOp)
def _deallocate(e: Emitter, op: DeallocTensorOp) -> None:
    assert e.tensor_memory is not None  # its storage has been allocated
    start, columns = e.tensor_memory
    tcgen05.deallocate(e.b, start, columns, _held(e, op.storage).ctas)


def _held(e: Emitter, value: SSAValue) -> TensorMemory:
    held = e.held[value]
    assert isinstance(held, TensorMemory)
    return held


@rule(AsyncDotIntoOp)
def _dot(e: Emitter, op: AsyncDotIntoOp) -> None:
    if not e.one_thread:
        raise unsupported(op, "is issued by one thread, and this agent is not elected", e.b.target.name)
    if op.sfa is not None and op.sfb is not None:
        _scaled_dot(e, op, op.sfa, op.sfb)
        return
    b, atom, result = e.b, op.atom.instruction, _held(e, op.d)
    rows, columns = stored_shape(op.d.type)
    kind = atoms.kind(b.target, atom)
    right, stored = _descriptor(e, op.b, "b", atom), e.held[op.a]
    left = stored if isinstance(stored, TensorMemory) else _descriptor(e, op.a, "a", atom)
    transposed = not isinstance(left, TensorMemory) and left.operand.transposed, right.operand.transposed
    instruction = atoms.instruction(kind, atom, transposed)
    depth = right.operand.layout.shape[0]
    more, always = b.cast("zext", e.scalar(op.accumulate), I32), integer(I32, 1)
    ctas = atoms.ctas_of(atom)
    if ctas != result.ctas:
        raise unsupported(
            op, "multiplies for a pair of CTAs, and its storage is one CTA's, or the reverse", b.target.name
        )
    for row in range(0, rows, atom.m // ctas):
        for column in range(0, columns, atom.n):
            to = b.add(result.address, integer(I32, row // atoms.LANES * columns + column))
            for k in range(0, depth, atom.k):
                add = always if k else more
                if isinstance(left, TensorMemory):
                    place = (row // atoms.LANES * depth + k) * memory_bits(left.element) // atoms.COLUMN_BITS
                    a = b.add(left.address, integer(I32, place))
                else:
                    a = left.at(b, row, k)
                tcgen05.multiply(b, kind, to, a, right.at(b, column // ctas, k), instruction, add, ctas)


def _scaled_dot(e: Emitter, op: AsyncDotIntoOp, sfa: SSAValue, sfb: SSAValue) -> None:
    """Products of operands with scale factors, which this thread has had copied to tensor memory."""
    b, atom, result = e.b, op.atom.instruction, _held(e, op.d)
    rows, columns = stored_shape(op.d.type)
    stored = factors.in_bytes(atom)
    left, right = _descriptor(e, op.a, "a", stored), _descriptor(e, op.b, "b", stored)
    steps, blocks = right.operand.layout.shape[0] // stored.k, stored_shape(sfa.type)[1]
    scales = _held(e, sfa), _held(e, sfb)
    block, each = steps * atom.k // blocks, blocks // steps
    kind = factors.kind(b.target, atom, scales[0].element, block)
    transposed = left.operand.transposed, right.operand.transposed
    more, always = b.cast("zext", e.scalar(op.accumulate), I32), integer(I32, 1)
    for row in range(0, rows, atom.m):
        for column in range(0, columns, atom.n):
            to = b.add(result.address, integer(I32, row // atoms.LANES * columns + column))
            for step in range(steps):
                first = step * each
                byte = first % factors.WORD_BLOCKS
                places = [
                    b.add(held.address, integer(I32, _signed(byte << _BYTE_SHIFT | factors.column(lines, line, first))))
                    for held, lines, line in zip(scales, (rows, columns), (row, column))
                ]
                tcgen05.multiply_scaled(
                    b, kind, block, to, (left.at(b, row, step * stored.k), right.at(b, column, step * stored.k)),
                    (places[0], places[1]), factors.instruction(kind, atom, transposed, scales[0].element, byte),
                    always if step else more,
                )  # fmt: skip


_BYTE_SHIFT = 30
"""Of the byte of a word of factors in their address."""


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def copy_factors(e: Emitter, op: CopyOp, held: TensorMemory) -> None:
    """Issue the copies of scale factors from shared memory to their columns."""
    b, source = e.b, e.held[op.source]
    if not e.one_thread or not isinstance(source, Buffer):
        raise unsupported(op, "is issued by one thread, for factors in shared memory", b.target.name)
    start = _described(e, source, factors.DESCRIPTOR)
    for offset, column in factors.chunks(source.layout):
        place = b.add(held.address, integer(I32, column))
        tcgen05.copy_factors(b, place, b.add(start, integer(I64, offset // factors.UNIT)))


def _descriptor(e: Emitter, value: SSAValue, side: str, atom: MmaAtom) -> wgmma.Descriptor:
    b, buffer = e.b, e.held[value]
    assert isinstance(buffer, Buffer)
    size = STORAGE_BYTES[buffer.element]
    transposed = atoms.transposed_atoms(b.target, atom)
    operand = atoms.shared_operand(matrix_of(buffer.layout), side, atom, size, transposed)
    if isinstance(operand, str):
        raise LoweringError(f"has an operand that products do not read: {operand}")
    return wgmma.Descriptor(operand, _described(e, buffer, atoms.fields(operand)), opaque=True)


def _described(e: Emitter, buffer: Buffer, fields: int) -> Value:
    """A descriptor (i64) of what lies in shared memory: `fields` and its address. Those of one stage are at fixed
    distances from the first one of such fields."""
    b = e.b
    if buffer.first is None or buffer.moved is None:
        return wgmma.described(b, buffer.pointer, fields)
    stage, size = buffer.moved
    fixed, offset = stage.constant, buffer.offset
    if fixed is not None:
        # It stays where it is: without this, each of its steps would be two registers across a loop, and made uniform
        # in each turn.
        stage, size, offset = integer(I32, 0), 0, offset + fixed * size
    key = b.block.name, stage, size, fields
    if key not in e.descriptors:
        if fixed is not None:
            start = wgmma.described(b, buffer.pointer, fields)
        else:
            moved = b.mul(b.cast("zext", stage, I64), integer(I64, size // factors.UNIT))
            start = b.add(wgmma.described(b, buffer.first, fields), moved)
        e.descriptors[key] = tcgen05.opaque(b, start), offset
    start, first = e.descriptors[key]
    return b.add(start, integer(I64, (offset - first) // factors.UNIT))


def load(e: Emitter, op: CopyOp, held: TensorMemory) -> None:
    """A result, or a part of it, in registers, as fragments or rows: each warp loads what it reaches."""
    assert op.result is not None
    words: list[Value] = []
    if _by_rows(e, op, op.result):
        columns, split = stored_shape(op.result.type)[1], _split(e.layout(op.result))
        words = tcgen05.load_rows(e.b, _rows(e, op, op.source, held), columns, split)
    else:
        for address, count in _runs(e, op, op.result, held):
            words += tcgen05.load_fragments(e.b, address, count)
    loaded = tcgen05.wait_loads(e.b, words)
    e.bind(op.result, Tile(e.layout(op.result), held.element, tuple(_typed(e, loaded, held.element))))


def store(e: Emitter, op: CopyOp, held: TensorMemory) -> None:
    """Fragments or rows in registers to where a result lies, or rows to where a left operand does."""
    if _by_rows(e, op, op.source):
        tile = e.tile(op.source)
        packed = op.destination is not None and _is_packed(op.destination)
        words = words_of(e.b, tile) if packed else [_word(e, w, held.element) for w in tile.registers]
        split = _split(tile.layout) * (memory_bits(held.element) if packed else atoms.COLUMN_BITS) // atoms.COLUMN_BITS
        assert op.destination is not None
        tcgen05.store_rows(e.b, _rows(e, op, op.destination, held), words, split)
        tcgen05.wait_stores(e.b)
        return
    words = list(e.tile(op.source).registers)
    words = [_word(e, w, held.element) for w in words]
    done = 0
    for address, count in _runs(e, op, op.source, held):
        registers = count * FRAGMENT_REGISTERS
        tcgen05.store_fragments(e.b, address, words[done : done + registers])
        done += registers
    tcgen05.wait_stores(e.b)


def _runs(e: Emitter, op: CopyOp, tile: SSAValue, held: TensorMemory) -> Iterator[tuple[Value, int]]:
    """The addresses from which on a warp has fragments side by side, and how many there are, in the order of a thread's
    registers: all columns, or of two groups of four warps every other run of columns."""
    b, layout, warps = e.b, e.layout(tile), e.b.threads // e.b.target.warp_size
    rows, columns = shape = stored_shape(tile.type)
    if not atoms.are_loaded_by(shape, warps) or layout != atoms.register_layout(shape, warps):
        raise unsupported(op, f"has no tile that {warps} warps have of tensor memory", b.target.name)
    address = _quarter(e, op, held)
    groups, run = warps // atoms.GROUP_WARPS, columns
    if groups > 1:
        run = layout.basis(WARP)[-1][1]
        group = b.binary("lshr", b.warp(), integer(I32, atoms.GROUP_WARPS.bit_length() - 1))
        address = b.add(address, b.mul(group, integer(I32, run)))
    for below in range(atoms.row_blocks(rows)):
        for half in range(min(rows, atoms.LANES) // (atoms.GROUP_WARPS * atoms.FRAGMENT_LANES)):
            for first in range(0, columns, run * groups):
                place = below * columns + first + (half * atoms.FRAGMENT_LANES << tcgen05.LANE_SHIFT)
                yield b.add(address, integer(I32, place)), run // atoms.FRAGMENT_COLUMNS


def _quarter(e: Emitter, op: CopyOp, held: TensorMemory) -> Value:
    """The address of the lanes that a warp reaches."""
    b = e.b
    if b.agent is not None and b.agent.first_warp % atoms.GROUP_WARPS:
        raise unsupported(op, "is run by warps that do not begin with the first lanes", b.target.name)
    quarter = b.and_(b.warp(), integer(I32, atoms.GROUP_WARPS - 1))
    lane_bits = tcgen05.LANE_SHIFT + (atoms.WARP_LANES.bit_length() - 1)
    return b.add(held.address, b.binary("shl", quarter, integer(I32, lane_bits)))


def _by_rows(e: Emitter, op: CopyOp, tile: SSAValue) -> bool:
    """Whether a copy is by rows, and not as fragments."""
    assert op.atom is not None
    if op.atom.bits == atoms.FRAGMENT_BITS:
        return False
    warps, shape = e.b.threads // e.b.target.warp_size, stored_shape(tile.type)
    if warps != atoms.row_warps(shape[0]) or e.layout(tile) != atoms.row_layout(shape, warps):
        raise unsupported(op, f"has no tile that {warps} warps have by rows of tensor memory", e.b.target.name)
    return True


def _rows(e: Emitter, op: CopyOp, buffer: SSAValue, held: TensorMemory) -> Value:
    """The address of the rows that a warp has: of each block of 128 rows four warps."""
    b, address = e.b, _quarter(e, op, held)
    if stored_shape(buffer.type)[0] <= atoms.LANES:
        return address
    assert isinstance(buffer.type, BufferType) and buffer.type.layout is not None  # the copy has an atom
    block = b.binary("lshr", b.warp(), integer(I32, atoms.GROUP_WARPS.bit_length() - 1))
    return b.add(address, b.mul(block, integer(I32, atoms.block_columns(buffer.type.layout.layout))))


def _split(layout: LinearLayout) -> int:
    """How many columns side by side each of the two threads with a row has; 0 where one has all of them."""
    return layout.basis(LANE)[-1][1]


def _is_packed(buffer: SSAValue) -> bool:
    """Whether a column of a buffer in tensor memory holds several elements."""
    type_ = buffer.type
    return isinstance(type_, BufferType) and type_.layout is not None and atoms.PACKED in type_.layout.layout.in_dims


def seen_as(e: Emitter, op: ReinterpretOp, held: TensorMemory) -> None:
    """Storage in tensor memory as that of stages of another type, which take the same columns."""
    type_, source = op.result.type, op.source.type
    if isinstance(type_, BufferType) and type_.layout is not None and len(type_.shape) == 2:
        e.bind(op.result, replace(held, element=element_name(type_.element_type)))  # the layout says the rest
        return
    if not isinstance(type_, BufferType) or len(type_.shape) != 3 or not isinstance(source, BufferType):
        raise unsupported(op, "sees tensor memory as other things than stages", e.b.target.name)
    stages, *shape = source.shape
    columns = stages * atoms.result_columns(shape)
    e.bind(op.result, replace(held, element=element_name(type_.element_type), each=columns // type_.shape[0]))


def part(e: Emitter, op: ExtractSliceOp, held: TensorMemory) -> None:
    """A box of a result in tensor memory, of its rows of all lanes, or of all columns."""
    (*stages, _, columns), (*_, rows, width) = stored_shape(op.source.type), stored_shape(op.result.type)
    *first, row, column = integers_of(op.offsets)
    if any(first) or any(n != 1 for n in stages):
        raise unsupported(op, "is a part of one of several stages", e.b.target.name)
    if op.indices or row % atoms.LANES or (rows > atoms.LANES and width != columns and not _is_spaced(op, columns)):
        raise unsupported(op, "is no part of a result that lies side by side", e.b.target.name)
    place = integer(I32, row // atoms.LANES * columns + column)
    e.bind(op.result, replace(held, address=e.b.add(held.address, place), each=atoms.result_columns((rows, width))))


def _is_spaced(op: ExtractSliceOp, columns: int) -> bool:
    """Whether a part says that its blocks of 128 rows lie so many columns apart."""
    type_ = op.result.type
    return (
        isinstance(type_, BufferType)
        and type_.layout is not None
        and (atoms.block_columns(type_.layout.layout) == columns)
    )


def _typed(e: Emitter, words: list[Value], element: str) -> list[Value]:
    """Words of tensor memory as the elements that they hold, one each."""
    if element == "f16":
        return [e.b.cast("bitcast", e.b.cast("trunc", w, I16), HALF) for w in words]
    return [e.b.cast("bitcast", w, FLOAT) for w in words] if element == "f32" else words


def _word(e: Emitter, value: Value, element: str) -> Value:
    """An element as a word of tensor memory."""
    if element == "f16":
        return e.b.cast("zext", e.b.cast("bitcast", value, I16), I32)
    return e.b.cast("bitcast", value, I32) if element == "f32" else value
