# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`canonicalize`: simpler equivalent forms of ops, dead ops gone, equal constants of cuda_tile shared.

The forms are those of the open dialect: its folds and its canonicalization patterns. `greedy` says in which order they
are applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, i1, is_integer
from libtile.ir.module_pass import ModulePass
from libtile.support.records import dataclass
from libtile.transforms.canonical_values import (
    constant_bool,
    constant_integer,
    constant_value,
    create_before,
    defining,
    negated,
    replace_op,
    stripped_not,
)
from libtile.transforms.canonicalize_tileaa import canonicalize_inner
from libtile.transforms.greedy import (
    DEFAULT_ITERATIONS,
    Pattern,
    Patterns,
    functions_in,
    inner_functions_in,
    rewrite_greedily,
)


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Bring ops into canonical form: those of cuda_tile, and (as canonicalize-tileaa does) of the inner dialects.

    `max_iterations` bounds the sweeps over a function; -1 stands for no bound.
    """

    name = "canonicalize"
    unbounded: ClassVar = ("max_iterations",)

    max_iterations: int = DEFAULT_ITERATIONS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize(op, self.max_iterations)


def canonicalize(root: Operation, max_iterations: int = DEFAULT_ITERATIONS) -> bool:
    """Canonicalize every function in `root` (or `root` itself, when it is one); returns whether anything changed."""
    changed = [rewrite_greedily(op, PATTERNS, max_iterations) for op in functions_in(root)]
    changed += [canonicalize_inner(op, max_iterations) for op in inner_functions_in(root)]
    return True in changed


class FormsOfIf(Sequence[Pattern]):
    """The patterns of `if`, which are loaded when there is one: many kernels have none."""

    def __getitem__(self, index: Any) -> Any:
        return self._patterns()[index]

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._patterns())

    def __len__(self) -> int:
        return len(self._patterns())

    def _patterns(self) -> Sequence[Pattern]:
        from libtile.transforms.canonical_if import PATTERNS

        return PATTERNS


# -- patterns of single ops -------------------------------------------------------------------------------------------


def multiply_first(op: CudaTileOp) -> bool:
    """`addf c, a * b` is `addf a * b, c`, where the fusion into fma looks for it."""
    lhs, rhs = op.operands
    if defining(rhs, "mulf") is None or defining(lhs, "mulf") is not None:
        return False
    op.operands = [rhs, lhs]
    return True


def drop_repeated_assume(op: CudaTileOp) -> bool:
    producer = defining(op.operand("value"), "assume")
    if producer is None or producer.properties["predicate"] != op.properties["predicate"]:
        return False
    replace_op(op, [producer.results[0]])
    return True


def drop_true_assert(op: CudaTileOp) -> bool:
    """An `assert` of what is true everywhere asks for nothing."""
    if constant_bool(op.operand("condition")) is not True:
        return False
    replace_op(op, [])
    return True


def fold_select(op: CudaTileOp) -> bool:
    """A select that is one of its operands."""
    condition, if_true, if_false = op.operands
    chosen: SSAValue | None = None
    if if_true is if_false:
        chosen = if_true
    elif (known := constant_bool(condition)) is not None:
        chosen = if_true if known else if_false
    elif constant_bool(if_true) is True and constant_bool(if_false) is False:
        chosen = condition
    elif (compare := defining(condition, "cmpi")) is not None:
        predicate = compare.attribute_value("comparison_predicate")
        if predicate in ("equal", "not_equal") and {compare.operand("lhs"), compare.operand("rhs")} == {
            if_true,
            if_false,
        }:
            chosen = if_true if predicate == "not_equal" else if_false
    if chosen is None:
        return False
    replace_op(op, [chosen])
    return True


def select_of_negation(op: CudaTileOp) -> bool:
    """`select (not c), a, b` is `select c, b, a`."""
    condition, if_true, if_false = op.operands
    inner = stripped_not(condition)
    if inner is None:
        return False
    op.operands = [inner, if_false, if_true]
    return True


def select_of_select(op: CudaTileOp) -> bool:
    """Inside of a select's arm, its condition is known."""
    condition = op.operand("cond")
    for arm in (1, 2):
        inner = defining(op.operands[arm], "select")
        if inner is not None and inner.operand("cond") is condition:
            op.operands[arm] = inner.operands[arm]
            return True
    return False


def select_false_true(op: CudaTileOp) -> bool:
    """`select c, false, true` is `not c`."""
    condition, if_true, if_false = op.operands
    if constant_bool(if_true) is not False or constant_bool(if_false) is not True:
        return False
    replace_op(op, [create_before(op, "xori", {"lhs": condition, "rhs": if_false}, [op.results[0].type])])
    return True


def select_of_constants(op: CudaTileOp) -> bool:
    condition, if_true, if_false = map(constant_value, op.operands)
    type_ = op.results[0].type
    if condition is None or if_true is None or if_false is None or not isinstance(type_, TileType):
        return False
    width, count = if_true.element_bytes, type_.num_elements
    choices = _spread(condition, count)
    arms = [_spread(if_false, count), _spread(if_true, count)]
    raw = b"".join(arms[choices[i] & 1][i * width : (i + 1) * width] for i in range(count))
    if raw == raw[:width] * count:
        raw = raw[:width]
    replace_op(op, [create_before(op, "constant", {}, [type_], {"value": DenseElementsAttr(type_, raw)})])
    return True


def _spread(attr: DenseElementsAttr, count: int) -> bytes:
    """The bytes of all elements, a splat's repeated."""
    return attr.raw * count if attr.is_splat else attr.raw


def select_to_extension(op: CudaTileOp) -> bool:
    """`select c, 1, 0` is c extended without sign; `select c, 0, 1` the same of its negation."""
    condition, if_true, if_false = op.operands
    type_ = op.results[0].type
    if not isinstance(type_, TileType) or not is_integer(type_.element_type) or type_.element_type == i1:
        return False
    match constant_integer(if_true), constant_integer(if_false):
        case 1, 0:
            source = condition
        case 0, 1:
            source = negated(condition, op)
        case _:
            return False
    replace_op(op, [create_before(op, "exti", {"from": source}, [type_], {"signedness": "unsigned"})])
    return True


PATTERNS: Patterns = {
    "addf": (multiply_first,),
    "assert": (drop_true_assert,),
    "assume": (drop_repeated_assume,),
    "if": FormsOfIf(),
    "select": (
        fold_select,
        select_of_negation,
        select_of_select,
        select_false_true,
        select_of_constants,
        select_to_extension,
    ),
}
