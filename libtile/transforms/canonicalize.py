# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`canonicalize`: simpler equivalent forms of cuda_tile ops, dead ops gone, equal constants shared.

Runs to a fixed point, within `max_iterations` sweeps over each function. A sweep visits inner regions first and tries
an op's patterns until none applies; then dead ops are erased, last first, so that one sweep clears whole chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, i1, is_integer
from libtile.transforms import canonical_if
from libtile.transforms.canonical_values import (
    constant_bool,
    constant_integer,
    constant_value,
    create_before,
    defining,
    is_op,
    negated,
    replace_op,
    stripped_not,
)

Pattern = Callable[[CudaTileOp], bool]


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Bring cuda_tile ops into canonical form."""

    name = "canonicalize"

    max_iterations: int = 10

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize(op, self.max_iterations)


def canonicalize(root: Operation, max_iterations: int = 10) -> bool:
    """Canonicalize every function in `root` (or `root` itself, when it is one); returns whether anything changed."""
    functions = [op for op in root.walk() if isinstance(op, CudaTileOp) and op.spec.has_trait("function")]
    changed = [_canonicalize_function(op, max_iterations) for op in functions]
    return True in changed


def _canonicalize_function(function: CudaTileOp, max_iterations: int) -> bool:
    changed = False
    for _ in range(max_iterations):
        now = _share_constants(function)
        for region in function.regions:
            for block in region.blocks:
                now |= _sweep(block)
        now |= _erase_dead(function)
        if not now:
            break
        changed = True
    return changed


def _sweep(block: Block) -> bool:
    changed = False
    op = block.first_op
    while op is not None:
        for region in op.regions:
            for inner in list(region.blocks):
                changed |= _sweep(inner)
        before = op.prev_op
        if isinstance(op, CudaTileOp) and any(pattern(op) for pattern in _PATTERNS.get(op.spec.name, ())):
            changed = True
            # What the pattern left behind, from its first op on, gets its turn as well.
            op = before.next_op if before is not None else block.first_op
        else:
            op = op.next_op
    return changed


# -- dead ops and constants -------------------------------------------------------------------------------------------


def _erase_dead(function: Operation) -> bool:
    dead = False
    for op in reversed(list(function.walk())):
        if op is not function and _is_dead(op):
            op.detach()
            op.erase()
            dead = True
    return dead


def _is_dead(op: Operation) -> bool:
    if any(result.first_use is not None for result in op.results):
        return False
    return isinstance(op, CudaTileOp) and not op.spec.has_trait("terminator") and _is_pure(op)


def _is_pure(op: Operation) -> bool:
    """Whether the op does nothing but make its results; an `if` is as pure as what it holds."""
    if not isinstance(op, CudaTileOp):
        return False
    if op.spec.has_trait("pure") and not op.regions:
        return True
    if not op.regions or not (op.spec.has_trait("recursive_memory_effects") or op.spec.has_trait("pure")):
        return False
    return all(_is_pure(inner) for region in op.regions for block in region.blocks for inner in block.ops)


def _share_constants(function: CudaTileOp) -> bool:
    """One op per constant, at the top of the function: those already there first, the others moved in front."""
    if not function.regions or not function.regions[0].blocks:
        return False
    entry = function.regions[0].blocks[0]
    known: dict[DenseElementsAttr, Operation] = {}
    settled: set[Operation] = set()
    changed = False
    constants: list[Operation] = [op for op in function.walk() if is_op(op, "constant")]
    for op in constants:
        value = op.properties.get("value")
        if not isinstance(value, DenseElementsAttr):
            continue
        same = known.get(value)
        if same is not None:
            replace_op(op, [same.results[0]])
            changed = True
            continue
        known[value] = op
        if not (op.parent is entry and (op.prev_op is None or op.prev_op in settled)):
            op.detach()
            first = entry.first_op
            if first is None:
                entry.add_op(op)
            else:
                entry.insert_op_before(op, first)
            changed = True
        settled.add(op)
    return changed


# -- patterns of single ops -------------------------------------------------------------------------------------------


def multiply_first(op: CudaTileOp) -> bool:
    """`addf c, a * b` is `addf a * b, c`, where the fusion into fma looks for it."""
    lhs, rhs = op.operands
    if defining(rhs, "mulf") is None or defining(lhs, "mulf") is not None:
        return False
    op.operands = [rhs, lhs]
    return True


def drop_repeated_assume(op: CudaTileOp) -> bool:
    producer = defining(op.operands[0], "assume")
    if producer is None or producer.properties["predicate"] != op.properties["predicate"]:
        return False
    replace_op(op, [producer.results[0]])
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
        if predicate in ("equal", "not_equal") and {*compare.operands[:2]} == {if_true, if_false}:
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
    condition = op.operands[0]
    for arm in (1, 2):
        inner = defining(op.operands[arm], "select")
        if inner is not None and inner.operands[0] is condition:
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


_PATTERNS: dict[str, tuple[Pattern, ...]] = {
    "addf": (multiply_first,),
    "assume": (drop_repeated_assume,),
    "if": canonical_if.PATTERNS,
    "select": (
        fold_select,
        select_of_negation,
        select_of_select,
        select_false_true,
        select_of_constants,
        select_to_extension,
    ),
}
