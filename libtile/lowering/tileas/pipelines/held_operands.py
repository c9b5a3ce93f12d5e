# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of products that no turn of a loop changes, where threads have too few registers for them: they are kept in
shared memory, and products read them from there in each turn.

    %k1 = convert_layout %k                          %buffer = alloc_tensor     copy %k, %buffer
    for ... {                              ->        for ... {
      %s = dot %k1, %x, ...                            %k1 = copy %buffer
    }                                                  %s = dot %k1, %x, ...

A product that is cut along k (`stage_reads`) then reads a slice of the buffer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from libtile.atoms.cp_async import staged_layout
from libtile.atoms.shared_accesses import matrix_loads
from libtile.codegen.shapes import embedded
from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase, shape_of
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.parts import part_layout
from libtile.lowering.ranks import registers_of
from libtile.lowering.tile_registers import thread_registers
from libtile.lowering.tileas.ahead import is_inside
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import MMA_SYNC, Target

OTHER_REGISTERS = 64
"""Of a thread, beside the tiles that live through a turn: fragments that are read, and addresses."""
WORD_BYTES = 4


@dataclass(frozen=True)
class HeldOperand:
    """What brings an operand to a loop's products, which are all that use it."""

    convert: ConvertLayoutOp
    product: DotOp
    side: int

    @property
    def bytes(self) -> int:
        return tile_bytes(_tile(self.convert.result))

    def hold(self, loop: scf.ForOp, gpu: Target) -> None:
        """Keep it in shared memory."""
        convert = self.convert
        source, shape, depth = convert.source, shape_of(convert.result.type), self.product.atom.instruction.k
        dim = len(shape) - 1 - self.side
        part = part_layout(layout_of(convert.result), [depth if d == dim else n for d, n in enumerate(shape)])
        copied = layout_of(source)
        read = (embedded(part, layout_of(convert.result)),)
        name = NUMBER_NAMES[_tile(source).element_type]
        layout = LayoutAttr(staged_layout(copied, read, name, _first_dim(copied), matrix_loads(gpu)))
        assert convert.parent is not None
        at = Inserter(convert.parent, convert, convert.location)
        buffer = at.value(AllocTensorOp.make(results=[BufferType(shape, _tile(source).element_type, "shared", layout)]))
        at.add(CopyOp.make(source, buffer))
        for use in list(convert.result.uses):
            op = use.operation
            inside = Inserter(loop.body.block, op, op.location)
            op.operands[use.index] = inside.value(CopyOp.make(buffer, results=[convert.result.type]))
        erase(convert)


def operands_to_hold(
    loop: scf.ForOp, spec: KernelSpecAttr, gpu: Target, loaded: Collection[SSAValue]
) -> list[HeldOperand]:
    """The operands of a loop's products that have too few registers beside what the loop carries and its products make;
    none where there are enough of them. Tiles that are loaded in it are read slice by slice, and take none."""
    body = loop.body.block
    carried = sum(_words(v) for v in body.args)
    made = max((_words(op.result) for op in ops_of(body, DotOp) if not _is_carried(op, body)), default=0)
    used = (v for op in ops_of(body) for v in op.operands if not is_inside(v, body) and v not in loaded)
    before = list(dict.fromkeys(used))  # in order, so that of equal ones the same are held each time
    needed = OTHER_REGISTERS + carried + made + sum(map(_words, before))
    limit = min(thread_registers(spec.num_warps), gpu.registers_per_thread)
    found = sorted(_candidates(body, before), key=lambda held: -_words(held.convert.result))
    chosen = []
    for held in found:
        if needed <= limit:
            break
        chosen.append(held)
        needed -= _words(held.convert.result)
    return chosen


def _candidates(body: Block, before: Collection[SSAValue]) -> Iterator[HeldOperand]:
    for value in before:
        convert = value.owner
        if not isinstance(convert, ConvertLayoutOp) or _bytes(value) < 2:
            continue
        users = list(value.uses)
        products = [use.operation for use in users]
        if all(isinstance(op, DotOp) and op.atom.kind == MMA_SYNC and op.parent is body for op in products):
            sides = {use.index for use in users}
            product = products[0]
            if len(sides) == 1 and sides <= {0, 1} and isinstance(product, DotOp):
                yield HeldOperand(convert, product, sides.pop())


def _is_carried(op: DotOp, body: Block) -> bool:
    return any(use.operation is body.last_op for use in op.result.uses)


def _first_dim(layout: LinearLayout) -> int:
    """The dimension along which a thread's elements lie side by side, or, where it has a single one, those of lanes."""
    vectors = [vector for name in (REGISTER, LANE, WARP) for vector in layout.basis(name)]
    return next(d for vector in vectors for d, step in enumerate(vector) if step)


def _tile(value: SSAValue) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _words(value: SSAValue) -> int:
    """Registers of a thread that a tile takes; pointers are offsets from a base that they share."""
    if not isinstance(value.type, TensorType):
        return 0
    return -(-registers_of(value.type) * _bytes(value) // WORD_BYTES)


def _bytes(value: SSAValue) -> int:
    """Of an element."""
    return STORAGE_BYTES.get(NUMBER_NAMES.get(_tile(value).element_type, ""), WORD_BYTES)
