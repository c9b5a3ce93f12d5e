# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cse`: an op that computes what an op before it computed already is replaced by it.

Ops count as equal with the same name, operands, attributes and result types. Only ops without effects and without
regions are merged, and `assume`, whose result is its operand; of memory accesses only weak loads of one block with one
token, between which nothing may write what they read: by the ops' effects, by alias scopes, and in cuda_tile by
`analysis.aliasing`. A region sees what is available around it, and nothing of it is available outside.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from libtile.analysis.memory import Disjointness
from libtile.dialects.effect_traits import only_loads
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.support.scopes import ScopedTable
from libtile.transforms import reporting
from libtile.transforms.canonical_values import replace_op
from libtile.transforms.effects import is_mergeable
from libtile.transforms.greedy import functions_in, inner_functions_in

_Attributes = frozenset[tuple[str, Attribute]]
_Key = tuple[str, tuple[SSAValue, ...], tuple[Attribute, ...], _Attributes, _Attributes]


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Compute each value once."""

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_common_subexpressions(op)


def eliminate_common_subexpressions(root: Operation) -> bool:
    """Merge equal ops in every function in `root` (or in `root` itself); returns whether any were."""
    changed = False
    for function in (*functions_in(root), *inner_functions_in(root)):
        memory = Disjointness(function)
        for region in function.regions:
            for block in region.blocks:
                changed |= _merge_in(block, ScopedTable(), memory)
    return changed


def _merge_in(block: Block, available: ScopedTable[_Key, Operation], memory: Disjointness) -> bool:
    changed = False
    loads: dict[_Key, tuple[Operation, int]] = {}
    others: list[Operation] = []
    """What may write. A load is kept with the number of those that it does not mind."""
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                with available.scope():
                    changed |= _merge_in(inner, available, memory)
        is_load = only_loads(op)
        if not is_load and not is_mergeable(op):
            others.append(op)
            continue
        key = _key(op)
        same = available.get(key)
        if is_load:
            same, seen = loads.get(key, (None, 0))
            if same is not None and any(memory.may_write_what_is_read(other, same) for other in others[seen:]):
                same = None
            loads[key] = (op if same is None else same, len(others))
            if same is None:
                continue
        if same is None:
            available.add(key, op)
        else:
            reporting.done(op, "CommonSubexpression", "Computation of what is there already is gone", Op=op.name)
            replace_op(op, list(same.results))
            statistics.count("ops merged")
            changed = True
    return changed


def _key(op: Operation) -> _Key:
    types = tuple(result.type for result in op.results)
    return op.name, tuple(op.operands), types, frozenset(op.properties.items()), frozenset(op.attributes.items())
