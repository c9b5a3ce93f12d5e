# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`fuse-fma`: a multiplication whose only use is an addition or a subtraction becomes one `fma`.

This changes results: the product is no longer rounded before it is added.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.module_pass import ModulePass
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import create_before, defining, replace_op
from libtile.transforms.canonicalize import multiply_first
from libtile.transforms.greedy import Patterns, functions_in, rewrite_greedily

_MODIFIERS = ("rounding_mode", "flush_to_zero")
_REMARK = "FuseFma"


@dataclass(frozen=True)
class FuseFmaPass(ModulePass):
    """Fuse `a * b + c` and `a * b - c` into `fma`, where rounding mode and flush-to-zero of both ops agree."""

    name = "fuse-fma"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_fma(op)


def fuse_fma(root: Operation) -> bool:
    """Fuse in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = [rewrite_greedily(op, _PATTERNS) for op in functions_in(root)]
    return True in changed


def fuse_addition(op: CudaTileOp) -> bool:
    """`a * b + c` is `fma a, b, c`."""
    product = _fusible_product(op)
    if product is None:
        return False
    _fuse(op, product, op.operand("rhs"))
    return True


def fuse_subtraction(op: CudaTileOp) -> bool:
    """`a * b - c` is `fma a, b, -c`."""
    product = _fusible_product(op)
    if product is None:
        return False
    _fuse(op, product, create_before(op, "negf", {"source": op.operand("rhs")}, [op.operand("rhs").type]))
    return True


def _fusible_product(op: CudaTileOp) -> CudaTileOp | None:
    """The multiplication that gives the op's left side, when nothing else uses it and it rounds as the op does."""
    product = defining(op.operand("lhs"), "mulf")
    if product is None:
        return None
    reason = None
    if not product.results[0].has_one_use():
        reason = "something else uses the product as well"
    elif not all(product.attribute_value(name) == op.attribute_value(name) for name in _MODIFIERS):
        reason = "the two round, or flush numbers to zero, in different ways"
    if reason is not None:
        reporting.missed(op, _REMARK, "Product and sum are not one operation", reason)
        return None
    return product


def _fuse(op: CudaTileOp, product: CudaTileOp, acc: SSAValue) -> None:
    """Put an `fma` in the op's place; the product, which nothing uses any more, is left to the driver."""
    statistics.count("products fused")
    reporting.done(op, _REMARK, "Product and sum made one operation")
    lhs, rhs = product.operands
    modifiers = {name: op.properties.get(name) for name in _MODIFIERS}
    operands = {"lhs": lhs, "rhs": rhs, "acc": acc}
    replace_op(op, [create_before(op, "fma", operands, [op.results[0].type], modifiers)])


_PATTERNS: Patterns = {"addf": (multiply_first, fuse_addition), "subf": (fuse_subtraction,)}
