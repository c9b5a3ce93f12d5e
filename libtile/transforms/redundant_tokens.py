# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`eliminate-redundant-tokens`: fewer tokens that order the same accesses, and no order between reads.

- A token that holds nothing orders nothing: an access does without it.
- A `join_tokens` needs each operand once, none that holds nothing, and none that another one implies; with one operand
  left it is that operand.
- A token that a loop carries and hands on unchanged is the one that it starts with.
- Weak loads need no order among themselves: one whose own token nothing takes waits for what the load before it waited
  for, not for that load.

What a token implies is `analysis.tokens`' to say. Two accesses of which one writes stay ordered as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from libtile.analysis.tokens import TokenGraph, before, exits, is_fresh
from libtile.dialects.cuda_tile.ops import SEGMENTS, CudaTileOp
from libtile.dialects.cuda_tile.types import TokenType
from libtile.support import statistics
from libtile.transforms.canonical_values import is_op, replace_op
from libtile.transforms.greedy import functions_in

_LOADS = ("load_ptr_tko", "load_view_tko")
_MOST_COMPARED = 16
"""Operands of a join that are compared with each other."""


@dataclass(frozen=True)
class EliminateRedundantTokensPass(ModulePass):
    """Take out tokens, and edges between accesses, that order nothing which needs an order."""

    name = "eliminate-redundant-tokens"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_redundant_tokens(op)


def eliminate_redundant_tokens(root: Operation) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        changed |= _unchanged_carried(function)
        while _sweep(function):
            changed = True
    return changed


def _sweep(function: CudaTileOp) -> bool:
    changed = False
    graph = TokenGraph(function)
    for op in list(function.walk()):
        if not isinstance(op, CudaTileOp) or op.parent is None:
            continue
        if is_op(op, "join_tokens"):
            changed |= _join(op, graph)
    changed |= _reads_after_reads(function)
    for op in function.walk():
        if isinstance(op, CudaTileOp):
            changed |= _drop_fresh(op)
    return changed


def _unchanged_carried(function: CudaTileOp) -> bool:
    """Tokens that a loop only passes along are used directly; the loop keeps its signature."""
    changed = False
    for op in function.walk():
        if not isinstance(op, CudaTileOp) or not is_op(op, "for", "loop"):
            continue
        block = op.regions[0].blocks[0]
        carried = block.args[1:] if is_op(op, "for") else block.args
        initial = op.operand_group("initValues")
        ends = [exit_ for exit_ in exits(block) if is_op(exit_, "continue")]
        for index, (argument, start) in enumerate(zip(carried, initial)):
            if not isinstance(argument.type, TokenType) or start is argument:
                continue
            if any(end.operands[index] not in (argument, start) for end in ends):
                continue
            uses = [use for use in argument.uses if use.operation not in ends]
            results = [op.results[index]] if is_op(op, "for") and op.results[index].first_use is not None else []
            for use in uses:
                use.operation.operands[use.index] = start
            for result in results:
                result.replace_all_uses_with(start)
            if uses or results:
                statistics.count("carried tokens that never change")
                changed = True
    return changed


def _join(op: CudaTileOp, graph: TokenGraph) -> bool:
    operands = list(dict.fromkeys(op.operands))
    dropped = len(op.operands) - len(operands)
    kept: list[SSAValue] = []
    for index, token in enumerate(operands):
        others = [*kept, *operands[index + 1 :]]
        if is_fresh(token) and others:
            continue
        if len(operands) > _MOST_COMPARED or not any(graph.holds(other, token) for other in others):
            kept.append(token)
    dropped += len(operands) - len(kept)
    if not dropped and len(kept) != 1:
        return False
    statistics.count("operands of joins dropped", dropped)
    if len(kept) == 1:
        replace_op(op, kept)
    else:
        op.operands = kept
    return True


def _reads_after_reads(function: CudaTileOp) -> bool:
    """Let weak loads whose token nothing takes wait for what the weak loads before them wait for."""
    loads = [op for op in function.walk() if isinstance(op, CudaTileOp) and is_op(op, *_LOADS) and _is_weak(op)]
    behind: dict[Operation, SSAValue | None] = {}
    for op in loads:
        token = next(iter(before(op.results[-1])), None)
        behind[op] = behind.get(token.op, token) if isinstance(token, OpResult) else token
    changed = False
    for op in reversed(loads):  # what one stops to wait for may be free to wait for less itself
        token, earlier = next(iter(before(op.results[-1])), None), behind[op]
        if token is None or token is earlier or op.results[-1].first_use is not None:
            continue
        if earlier is None:
            _without_token(op)
        else:
            op.operands[list(op.operands).index(token)] = earlier
        statistics.count("reads that wait for no read")
        changed = True
    return changed


def _is_weak(op: Operation) -> bool:
    return isinstance(op, CudaTileOp) and op.attribute_value("memory_ordering_semantics") == "weak"


def _drop_fresh(op: CudaTileOp) -> bool:
    """Leave out an optional token operand that holds nothing."""
    if not op.spec.has_segments or not any(spec.name == "token" and spec.is_optional for spec in op.spec.operands):
        return False
    group = op.operand_group("token")
    if not group or not is_fresh(group[0]):
        return False
    _without_token(op)
    statistics.count("tokens that order nothing")
    return True


def _without_token(op: CudaTileOp) -> None:
    sizes = list(op.segment_sizes())
    number = next(i for i, spec in enumerate(op.spec.operands) if spec.name == "token")
    start = sum(sizes[:number])
    op.operands = [*op.operands[:start], *op.operands[start + sizes[number] :]]
    sizes[number] = 0
    op.properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
