# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a pass may do with an op: erase it, merge it with an equal one, run it where it did not run before.

The facts come from the ops' traits (those of the inner dialects are in dialects/effect_traits.py, and in xDSL); the
tables below hold what a trait cannot say. Undefined behaviour is that of the
Tile IR specification's op pages (division by zero, an overflow that the op's flag rules out, an index out of range).
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects import arith
from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, Pure, is_side_effect_free
from xdsl.transforms.dead_code_elimination import is_trivially_dead, would_be_trivially_dead

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.transforms.canonical_values import constant_elements, is_op

__all__ = ["has_no_effects", "is_removable", "is_speculatable", "is_trivially_dead", "leaves_region"]

_MAY_BE_UNDEFINED = frozenset(
    {
        *("shli", "shri"),  # an amount not less than the width
        *("extract", "insert"),  # an index out of range
        "ftoi",  # a value that the result's type cannot hold
        *("offset", "make_tensor_view", "get_tensor_shape", "get_index_space_shape"),  # an address or a size too large
    }
)
"""Ops without effects that are still undefined for some operands."""

DIVISIONS = (
    arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp,
    arith.FloorDivSIOp,
)  # fmt: skip
"""Ops of arith that are undefined for a divisor of zero."""


@cache
def _inner_may_be_undefined() -> tuple[type[Operation], ...]:
    """The same of the dialects behind cuda_tile, which only their passes load."""
    from xdsl.dialects import tensor

    from libtile.dialects.nv_tileaa import pointers, shapes, tokens
    from libtile.dialects.nv_tileas import tiles

    return (
        *DIVISIONS,
        *(arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp),
        *(tensor.ExtractOp, shapes.ExtractOp, shapes.ExtractSliceOp, shapes.InsertSliceOp),
        *(tiles.ExtractSliceOp, tiles.InsertSliceOp),
        *(pointers.FpToIntOp, pointers.AddPtrOp, pointers.MakeMemRefOp, pointers.GetDimSizeOp),
        tokens.AssumeOp,  # what it says need not hold where it does not run
    )


_OVERFLOW = "overflowFlags"
"""The attribute of arith that rules an overflow out."""

_EXITS = ("return", "break", "continue")


def has_no_effects(op: Operation) -> bool:
    """Whether the op does nothing but compute its results from its operands."""
    return bool(would_be_trivially_dead(op)) and is_side_effect_free(op)


def is_removable(op: Operation) -> bool:
    """Whether the op can be erased when no result is used: it has no effect, or none that a program can observe.

    That takes in `assume` (it states a fact about its result only), weak loads, and counted loops (they end).
    """
    if is_op(op, "for", "if"):
        return all(_ends_here(inner, op) or is_removable(inner) for inner in _inner_ops(op))
    if would_be_trivially_dead(op):
        return True
    if not isinstance(op, CudaTileOp):
        return False
    if op.spec.name in ("load_ptr_tko", "load_view_tko"):
        return op.attribute_value("memory_ordering_semantics") == "weak"
    return op.spec.name == "assume"


def _inner_ops(op: Operation) -> list[Operation]:
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def _ends_here(op: Operation, parent: Operation) -> bool:
    """Whether the op ends a run of its own parent's region and nothing beyond it."""
    return is_op(op, "yield") or (is_op(op, "continue") and is_op(parent, "for"))


def leaves_region(op: Operation) -> bool:
    """Whether control can leave `op`'s region through it: it is an exit, or holds one that goes beyond `op` itself."""
    return any(is_op(inner, *_EXITS) and not _stays_within(inner, op) for inner in op.walk())


def _stays_within(exit_: Operation, op: Operation) -> bool:
    """Whether the loop that `break` or `continue` belongs to is `op` or inside of it."""
    if is_op(exit_, "return"):
        return False
    parent = exit_.parent_op()
    while parent is not None:
        if is_op(parent, "for", "loop"):
            return op.is_ancestor(parent)
        parent = parent.parent_op()
    return False


def is_speculatable(op: Operation) -> bool:
    """Whether the op can run where the program did not run it: it has no effects and is defined for all operands."""
    if op.has_trait(IsTerminator) or not has_no_effects(op):
        return False
    if not isinstance(op, CudaTileOp):
        return op.has_trait(Pure) and not isinstance(op, _inner_may_be_undefined()) and not _rules_overflow_out(op)
    name = op.spec.name
    if name in ("divi", "remi"):
        return _divides_safely(op)
    if name in ("reduce", "scan"):
        return all(is_op(inner, "yield") or is_speculatable(inner) for inner in _inner_ops(op))
    if name in _MAY_BE_UNDEFINED or op.regions:
        return False
    overflow = op.spec.attribute("overflow")
    return overflow is None or op.attribute_value("overflow") == "none"


def _rules_overflow_out(op: Operation) -> bool:
    flags = op.properties.get(_OVERFLOW)
    return isinstance(flags, IntegerOverflowAttr) and bool(flags.data)


def _divides_safely(op: CudaTileOp) -> bool:
    """Whether the divisor is a constant without a zero, and without -1 where that could overflow."""
    divisors = constant_elements(op.operand_group("rhs")[0])
    if divisors is None or 0 in divisors:
        return False
    return op.attribute_value("signedness") == "unsigned" or -1 not in divisors
