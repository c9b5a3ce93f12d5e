# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-remove-layout-conversions`: conversions leave loops, those of conversions, equal and unused ops go."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import is_speculatable

from libtile.dialects import scf
from libtile.dialects.arith import DIVISIONS
from libtile.dialects.effect_traits import only_computes
from libtile.dialects.interfaces import is_defined
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import EmulatedFpToFpOp, FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, Unary, ViewOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import is_of_block, ops_in
from libtile.ir.tile_form import erase
from libtile.layouts import REGISTER
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.lowering.to_tileas.types import layout_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.support.scopes import ScopedTable
from libtile.transforms.effects import is_unused

_Key = tuple[type[Operation], tuple[SSAValue, ...], tuple[Attribute, ...], frozenset[tuple[str, Attribute]]]


@dataclass(frozen=True)
class RemoveLayoutConversionsPass(ModulePass):
    """Take conversions out of loops, fold them into one another, merge equal pure ops, drop what nobody uses."""

    name = "tileas-remove-layout-conversions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp):
                clean_up(inner)


def clean_up(function: FuncOp) -> None:
    """Clean up one function in place."""
    for region in function.regions:
        for block in region.blocks:
            _hoist(block)
            _merge(block, ScopedTable())
            drop_unused(block)


def is_pure(op: Operation) -> bool:
    """Whether an op does nothing but compute its results from its operands, wherever it stands: a division does, too,
    where its divisor is a number that it is defined for."""
    return only_computes(op) and (is_speculatable(op) or (isinstance(op, DIVISIONS) and is_defined(op)))


def _hoist(block: Block) -> None:
    """Convert what a loop does not change in front of it, with the ops behind that which only rename or convert.

    Neither LLVM nor ptxas would: a trip through shared memory has barriers.
    """
    for loop in ops_in(block):
        for region in loop.regions:
            for body in region.blocks:
                _hoist(body)
                for op in ops_in(body) if isinstance(loop, LOOPS) else ():
                    if isinstance(op, _HOISTED) and not any(is_of_block(v, body) for v in op.operands) and _is_held(op):
                        body.detach_op(op)
                        block.insert_op_before(op, loop)
                        statistics.count("ops moved out of loops")


LOOPS = (scf.ForOp, scf.WhileOp)
_HOISTED = (ConvertLayoutOp, ViewOp, ExpandDimsOp, PermuteOp, FpToFpOp, EmulatedFpToFpOp)
HELD_REGISTERS = 64
"""Registers of a thread that a converted tile may take throughout a loop, if it takes more than the tile itself."""


def _is_held(op: Unary) -> bool:
    """Whether an op's result may stay in registers for as long as its operand does."""
    if not (_has_layout(op.result) and _has_layout(op.source)):
        return False  # in nv_tileaa, where nobody knows yet how many registers a tile takes
    after, before = (_registers(v) for v in (op.result, op.source))
    return after <= max(before, HELD_REGISTERS)


def _has_layout(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.encoding, LayoutAttr)


def _registers(value: SSAValue) -> int:
    """How many 32-bit registers of a thread a tile takes."""
    assert isinstance(value.type, TensorType)
    return layout_of(value).in_size(REGISTER) * element_bytes(value.type.element_type) // 4


def _merge(block: Block, known: ScopedTable[_Key, Operation]) -> None:
    for op in ops_in(block):
        for region in op.regions:
            for inner in region.blocks:
                with known.scope():
                    _merge(inner, known)
        if isinstance(op, ConvertLayoutOp):
            _fold(op)
            if op.parent is None:
                continue
        if not only_computes(op):
            continue
        key = (
            type(op),
            tuple(op._operands),
            tuple([r._type for r in op.results]),
            frozenset((*op.properties.items(), *op.attributes.items())),
        )
        same = known.first(key, op)
        if same is op:
            continue
        for old, new in zip(op.results, same.results):
            old.replace_all_uses_with(new)
        erase(op)
        statistics.count("ops merged")


def _fold(op: ConvertLayoutOp) -> None:
    """A conversion of a conversion is one, and none when it leads back."""
    before = op.source.owner
    if isinstance(before, ConvertLayoutOp):
        set_operand(op, "source", before.source)
    if op.source.type == op.result.type:
        op.result.replace_all_uses_with(op.source)
        erase(op)
        statistics.count("conversions folded")


def drop_unused(block: Block) -> None:
    """Erase the ops without effects of a block and below whose results nobody uses."""
    for op in reversed(ops_in(block)):
        for region in op.regions:
            for inner in region.blocks:
                drop_unused(inner)
        if is_unused(op) and only_computes(op):
            erase(op)
            statistics.count("ops erased")
