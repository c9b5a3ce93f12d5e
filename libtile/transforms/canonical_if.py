# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Canonical forms of `if`. Each pattern takes an `if` and tells whether it changed the IR around it.

A branch ends with `yield`, or leaves the parent region with `return`, `break` or `continue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_in
from libtile.transforms.canonical_values import (
    constant_bool,
    create_before,
    is_op,
    negated,
    replace_op,
    select_before,
    selectable,
    stripped_not,
)

Pattern = Callable[[CudaTileOp], bool]

_LEAVING = ("return", "break", "continue")


def _terminator(region: Region) -> Operation | None:
    return region.blocks[-1].last_op if region.blocks else None


def _yields(region: Region) -> bool:
    return is_op(_terminator(region), "yield")


def _leaves(region: Region) -> bool:
    return is_op(_terminator(region), *_LEAVING)


def _yielded(region: Region) -> list[SSAValue]:
    terminator = _terminator(region)
    return [] if terminator is None else list(terminator.operands)


def _is_bare(region: Region) -> bool:
    """Whether the region has a block that holds a terminator and nothing else."""
    return bool(region.blocks) and region.blocks[-1].first_op is _terminator(region)


def _new_if(
    like: Operation, condition: SSAValue, result_types: Sequence[Attribute], regions: list[Region]
) -> CudaTileOp:
    op = build("if", {"condition": condition}, result_types, regions=regions)
    op.location = like.location
    return op


def _replacement(op: CudaTileOp, result_types: Sequence[Attribute], regions: list[Region]) -> CudaTileOp:
    """An `if` in front of `op` over the same condition, with its discardable attributes."""
    new = _new_if(op, op.operand("condition"), result_types, regions)
    new.attributes.update(op.attributes)
    _insert_before(new, op)
    return new


def _taken(region: Region) -> Region:
    """The region's blocks in a region of their own; the old one stays behind empty."""
    fresh = Region()
    region.move_blocks(fresh)
    return fresh


def _set_yield(region: Region, values: Sequence[SSAValue]) -> None:
    terminator = _terminator(region)
    if terminator is not None:
        terminator.operands = values


def _inline(op: CudaTileOp, region: Region) -> None:
    """Replace an `if` by the contents of one of its branches; what follows a leaving branch is unreachable."""
    block = op.parent_block()
    source = region.blocks[0]
    terminator = _terminator(region)
    if block is None or terminator is None:
        return
    for inner in ops_in(source):
        if inner is terminator and is_op(inner, "yield"):
            break
        inner.detach()
        block.insert_op_before(inner, op)
    if is_op(terminator, "yield"):
        replace_op(op, list(terminator.operands))
        return
    while block.last_op is not terminator and block.last_op is not None:
        block.erase_op(block.last_op)


def _can_be_inlined(op: CudaTileOp, region: Region) -> bool:
    """Whether the branch's end may end the block around the `if`, too: an exit's declaration names its parents."""
    if not _leaves(region):
        return True
    terminator, parent = _terminator(region), op.parent_op()
    if not isinstance(terminator, CudaTileOp) or not isinstance(parent, CudaTileOp):
        return False
    allowed = terminator.spec.trait("parent")
    return allowed is None or parent.spec.name in allowed.arguments


# -- the patterns -----------------------------------------------------------------------------------------------------


def swap_negated_condition(op: CudaTileOp) -> bool:
    """`if (not c) A else B` is `if c B else A`."""
    then, otherwise = op.regions
    condition = stripped_not(op.operand("condition"))
    if not otherwise.blocks or condition is None:
        return False
    set_operand(op, "condition", condition)
    kept = _taken(then)
    otherwise.move_blocks(then)
    kept.move_blocks(otherwise)
    return True


def remove_unused_results(op: CudaTileOp) -> bool:
    then, otherwise = op.regions
    used = [result for result in op.results if result.first_use is not None]
    if len(used) == len(op.results) or not (_yields(then) or _yields(otherwise)):
        return False
    for region in (then, otherwise):
        if _yields(region):
            values = _yielded(region)
            _set_yield(region, [values[result.index] for result in used])
    new = _replacement(op, [r.type for r in used], [_taken(then), _taken(otherwise)])
    results: list[SSAValue | None] = [None] * len(op.results)
    for value, result in zip(new.results, used):
        results[result.index] = value
    replace_op(op, results)
    return True


def _insert_before(new: Operation, op: Operation) -> None:
    block = op.parent_block()
    if block is None:
        raise ValueError("an op outside of a block has no place before it")
    block.insert_op_before(new, op)


def replace_yielded_values(op: CudaTileOp) -> bool:
    """A result that both branches agree on, or that is the condition or its negation, needs no `if`."""
    then, otherwise = op.regions
    if not (_yields(then) and _yields(otherwise)):
        return False
    changed = False
    for result, if_true, if_false in zip(op.results, _yielded(then), _yielded(otherwise)):
        if result.first_use is None:
            continue
        replacement = _simple_value(op, if_true, if_false)
        if replacement is not None:
            result.replace_all_uses_with(replacement)
            changed = True
    return changed


def _simple_value(op: CudaTileOp, if_true: SSAValue, if_false: SSAValue) -> SSAValue | None:
    if if_true is if_false:
        return if_true
    match constant_bool(if_true), constant_bool(if_false):
        case True, False:
            return op.operand("condition")
        case False, True:
            return negated(op.operand("condition"), op)
    return None


def remove_static_condition(op: CudaTileOp) -> bool:
    condition = constant_bool(op.operand("condition"))
    if condition is None:
        return False
    region = op.regions[0 if condition else 1]
    if not _can_be_inlined(op, region):
        return False
    if region.blocks:
        _inline(op, region)
    else:
        replace_op(op, [])
    return True


def convert_to_select(op: CudaTileOp) -> bool:
    """Yielded values that are defined outside become selects; with one leaving branch, the other's values."""
    then, otherwise = op.regions
    if not op.results or not (_yields(then) or _yields(otherwise)):
        return False
    if not all(selectable(result.type) for result in op.results):
        return False
    true_region = then if _yields(then) else otherwise
    false_region = otherwise if _yields(otherwise) else then
    pairs = list(zip(_yielded(true_region), _yielded(false_region), strict=True))
    inner = [_region_of(t) is true_region or _region_of(f) is false_region for t, f in pairs]
    if all(inner):
        return False
    kept_types = [result.type for result, stays in zip(op.results, inner) if stays]
    for region in {id(r): r for r in (true_region, false_region)}.values():
        values = _yielded(region)
        _set_yield(region, [value for value, stays in zip(values, inner) if stays])
    condition = op.operand("condition")
    new = _replacement(op, kept_types, [_taken(then), _taken(otherwise)])
    kept = iter(new.results)
    results: list[SSAValue | None] = []
    for (if_true, if_false), stays in zip(pairs, inner):
        if stays:
            results.append(next(kept))
        else:
            results.append(if_true if if_true is if_false else select_before(new, condition, if_true, if_false))
    replace_op(op, results)
    return True


def _region_of(value: SSAValue) -> Region | None:
    """The region that defines the value."""
    owner = value.owner
    return owner.parent if isinstance(owner, Block) else owner.parent_region()


def remove_empty_else(op: CudaTileOp) -> bool:
    then, otherwise = op.regions
    if op.results or not _is_bare(otherwise) or not _yields(otherwise):
        return False
    _replacement(op, [], [_taken(then), Region()])
    replace_op(op, [])
    return True


def combine_with_next(op: CudaTileOp) -> bool:
    """Two neighbours over the same condition, or over it and its negation, become one."""
    other = op.next_op
    if not isinstance(other, CudaTileOp) or not is_op(other, "if"):
        return False
    then, otherwise = _matching_branches(op, other)
    if _leaves(op.regions[0]):
        then = None
    if _leaves(op.regions[1]):
        otherwise = None
    if then is None and otherwise is None:
        return False
    _use_yielded(op, then, otherwise)
    types = [r.type for r in (*op.results, *other.results)]
    merged = [_merged(_taken(op.regions[0]), then), _merged(_taken(op.regions[1]), otherwise)]
    new = _new_if(other, op.operand("condition"), types, merged)
    _insert_before(new, op)
    count = len(op.results)
    first, second = list(new.results[:count]), list(new.results[count:])
    replace_op(op, list(first))
    replace_op(other, list(second))
    return True


def _matching_branches(first: CudaTileOp, second: CudaTileOp) -> tuple[Region | None, Region | None]:
    """The branches of the second that run when the first's condition is true, and when it is false."""
    then, otherwise = (region if region.blocks else None for region in second.regions)
    one, two = first.operand("condition"), second.operand("condition")
    if one is two:
        return then, otherwise
    if stripped_not(two) is one or stripped_not(one) is two:
        return otherwise, then
    return None, None


def _use_yielded(op: CudaTileOp, then: Region | None, otherwise: Region | None) -> None:
    """Inside the branches of the second, the first's results are what its own branches yield."""
    for result in op.results:
        for use in list(result.uses):
            for region, source in ((then, op.regions[0]), (otherwise, op.regions[1])):
                if region is not None and _inside(use.operation, region):
                    use.operation.operands[use.index] = _yielded(source)[result.index]
                    break


def _inside(op: Operation, region: Region) -> bool:
    parent = op.parent_region()
    while parent is not None:
        if parent is region:
            return True
        above = parent.parent
        parent = above.parent_region() if above is not None else None
    return False


def _merged(first: Region, second: Region | None) -> Region:
    """The first branch's ops followed by the second's; both yields become one, a leaving end stays."""
    if second is None:
        return first
    if not first.blocks:
        return _taken(second)
    block = first.blocks[-1]
    before = _yielded(first) if _yields(first) else []
    if (terminator := block.last_op) is not None:
        terminator.detach()
        terminator.erase()
    for inner in list(second.blocks[-1].ops):
        inner.detach()
        block.add_op(inner)
    if _yields(first):
        _set_yield(first, [*before, *_yielded(first)])
    return first


def combine_nested(op: CudaTileOp) -> bool:
    """An `if` that holds nothing but an `if` tests both conditions at once."""
    nested = _only_nested(op)
    if nested is None:
        return False
    then_values, else_values = _yielded(op.regions[0]), _yielded(op.regions[1])
    upgraded = []
    for index, value in enumerate(then_values):
        if isinstance(value, OpResult) and value.op is nested:
            if _yielded(nested.regions[1])[value.index] is not else_values[index]:
                return False
            then_values[index] = _yielded(nested.regions[0])[value.index]
        elif _region_of(value) is op.regions[0] or not selectable(value.type):
            return False
        else:
            upgraded.append(index)
    both = create_before(
        op, "andi", {"lhs": op.operand("condition"), "rhs": nested.operand("condition")}, [op.operand("condition").type]
    )
    body = _taken(nested.regions[0])
    if _yields(body):
        _set_yield(body, then_values)
    tail = _taken(op.regions[1]) if else_values else Region()
    new = _new_if(op, both, [r.type for r in op.results], [body, tail])
    _insert_before(new, op)
    results: list[SSAValue | None] = list(new.results)
    for index in upgraded:
        results[index] = select_before(new, op.operand("condition"), then_values[index], else_values[index])
    replace_op(op, results)
    return True


def _only_nested(op: CudaTileOp) -> CudaTileOp | None:
    """The `if` that is all that the then-branch holds, when the other branches do nothing but yield."""
    then, otherwise = op.regions
    nested = then.blocks[-1].first_op if then.blocks else None
    if not isinstance(nested, CudaTileOp) or not is_op(nested, "if") or nested.next_op is not _terminator(then):
        return None
    if any(region.blocks and not _is_bare(region) for region in (otherwise, nested.regions[1])):
        return None
    if any(map(_leaves, (then, otherwise, nested.regions[1]))):
        return None
    if _leaves(nested.regions[0]) and (otherwise.blocks or nested.regions[1].blocks):
        return None
    return nested


def move_leaving_else_out(op: CudaTileOp) -> bool:
    """When both branches leave, the else-branch's ops take the place of what follows."""
    then, otherwise = op.regions
    if not (_leaves(then) and _leaves(otherwise) and _can_be_inlined(op, otherwise)):
        return False
    _replacement(op, [], [_taken(then), Region()])
    _inline(op, otherwise)
    return True


PATTERNS: tuple[Pattern, ...] = (
    swap_negated_condition,
    remove_unused_results,
    replace_yielded_values,
    remove_static_condition,
    convert_to_select,
    remove_empty_else,
    combine_with_next,
    combine_nested,
    move_leaving_else_out,
)
