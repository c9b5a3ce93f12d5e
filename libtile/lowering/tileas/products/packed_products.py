# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with scale factors whose operands of 4 bits come as bytes that hold two each: `packed`, on the bytes.

In registers an element of 4 bits takes a byte, and instructions want two in one. Where a frontend has unpacked bytes,
and renamed what came of that, to operands whose bytes are neighbours along k, and an instruction of the target takes
them so, the product is one of the bytes:

    bytes -> view -> bitcast {packed} -> view -> scaled_dot     =>     bytes -> scaled_dot {packed}
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from libtile.atoms import mma_block_scale
from libtile.atoms.operand_types import ptx_type
from libtile.dialects.nv_tileaa.collectives import ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.builders import row_major
from libtile.layouts.renaming import halved, joined, permuted, reshaped
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import ELEMENTS
from libtile.support.records import dataclass
from libtile.targets import Target

ELEMENT = "f4E2M1FN"


@dataclass(frozen=True)
class _Bytes:
    """A tile of bytes that becomes an operand, and whether its rows are the operand's."""

    value: SSAValue
    shape: tuple[int, ...]
    straight: bool

    def operand(self, at: Inserter) -> SSAValue:
        """The operand, of bytes."""
        seen = self.shape if self.straight else tuple(reversed(self.shape))
        value = self.value
        while shape_of(value.type) != seen and isinstance(value.owner, ViewOp):
            value = value.owner.source  # a frontend makes rows of bytes flat to unpack them
        if shape_of(value.type) != seen:
            value = at.value(ViewOp.make(value, results=[_tile(value, seen)]))
        if self.straight:
            return value
        return at.value(PermuteOp.make(value, results=[_tile(value, self.shape)], permutation=[1, 0]))


def pack_products(function: FuncOp, gpu: Target) -> None:
    """Make products of bytes of those of a function that an instruction of the target takes so."""
    for op in ops_of(function, ScaledDotOp):
        found = [_bytes(op.a, 1), _bytes(op.b, 0)] if _is_taken(op, gpu) else []
        operands = [x for x in found if x is not None]
        block = op.parent
        if len(operands) != 2 or block is None:
            continue
        at = Inserter(block, op, op.location)
        a, b = (x.operand(at) for x in operands)
        set_operand(op, "a", a)
        set_operand(op, "b", b)
        op.packed = UnitAttr()
        drop_unused(block)


def _is_taken(op: ScaledDotOp, gpu: Target) -> bool:
    """Whether an instruction takes operands of 4 bits and their factors."""
    if op.packed is not None or {element_of(op.a), element_of(op.b)} != {ELEMENT}:
        return False
    (*batches, rows, depth), (_, columns), (_, blocks) = (
        shape_of(v.type)[-3 if v is op.a else -2 :] for v in (op.a, op.b, op.sfa)
    )
    name = ptx_type(ELEMENT, signed=True)
    shape, element = (rows, columns, depth), element_of(op.sfa)
    return not batches and mma_block_scale.choose_scaled(gpu, (name, name, "f32"), shape, element, blocks) is not None


def _bytes(value: SSAValue, depth: int) -> _Bytes | None:
    """The bytes that an operand is made of, two neighbours along k in each, which is dimension `depth`.

    None for another one, and for one whose bytes hold neighbours along its other dimension.
    """
    ops: list[Operation] = []
    shape = shape_of(value.type)
    while isinstance(op := value.owner, ViewOp | PermuteOp | ExpandDimsOp | BitcastOp):
        ops.insert(0, op)
        value = op.source
        if isinstance(op, BitcastOp):
            break
    if not ops or not isinstance(ops[0], BitcastOp) or ELEMENTS[element_of(value)].bits != 8:
        return None
    source = shape_of(value.type)
    layout: LinearLayout = halved(row_major(source, list(reversed(range(len(source))))))
    for op in ops[1:]:
        if isinstance(op, PermuteOp):
            layout = permuted(layout, integers_of(op.permutation))
        else:
            layout = reshaped(layout, shape_of(op.results[0].type))
    whole = joined(layout)
    if whole is None or element_of(value) != "i8" or len(shape) != 2:
        return None
    # The halves are neighbours along k where that is contiguous.
    if whole == row_major(whole.shape, (depth, 1 - depth)) and whole.shape[1 - depth] == shape[1 - depth]:
        return _Bytes(value, whole.shape, depth == 1)
    return None


def _tile(value: SSAValue, shape: tuple[int, ...]) -> TensorType:
    assert isinstance(value.type, TensorType)
    return TensorType(value.type.element_type, shape)
