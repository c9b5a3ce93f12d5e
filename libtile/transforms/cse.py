# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cse`: an op that computes what an op before it computed already is replaced by it.

Ops count as equal with the same name, operands, attributes and result types. Only ops without effects and without
regions are merged, and `assume`, whose result is its operand; of memory accesses only weak loads of one block with one
token, between which nothing may write what they read: by the ops' effects, by alias scopes, and in cuda_tile by
`analysis.aliasing`. A region sees what is available around it, unless it is isolated, and nothing of it is available
outside. What a loop carries twice, and a branch gives twice, is one value as well (`carried_twice`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from libtile.analysis.memory import MOST_WRITERS, Disjointness
from libtile.dialects.effect_traits import only_loads
from libtile.dialects.interfaces import is_isolated
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.support.scopes import ScopedTable
from libtile.transforms import reporting
from libtile.transforms.canonical_values import replace_op
from libtile.transforms.carried_twice import merge_carried
from libtile.transforms.effects import is_mergeable
from libtile.transforms.greedy import functions_in, inner_functions_in

_Attributes = frozenset[tuple[str, Attribute]]
Key = tuple[str, tuple[SSAValue, ...], tuple[Attribute, ...], _Attributes, _Attributes]
_REMARK = "CommonSubexpression"
_ELSEWHERE = "the one before it stands in a branch or a loop, and what it gives is not known here"


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
        changed |= _merge_ops(function)
        while merge_carried(function):
            changed = True
            _merge_ops(function)
    return changed


def _merge_ops(function: Operation) -> bool:
    merger, changed = _Merger(Disjointness(function)), False
    for region in function.regions:
        for block in region.blocks:
            with merger.available.scope():
                changed |= merger.run(block)
    return changed


class _Merger:
    """The computations of one function."""

    def __init__(self, memory: Disjointness) -> None:
        self.memory = memory
        self.available = ScopedTable[Key, Operation]()
        self.passed: dict[Key, Operation] = {}
        """Every op that stays, the last one of each sort. Only remarks are made of it: it is filled for nobody else."""
        self.watched = remarks.are_collected()

    def run(self, block: Block) -> bool:
        """Merge what is equal in a block and below it; whether anything was."""
        changed = False
        loads: dict[Key, tuple[Operation, int]] = {}
        others: list[Operation] = []
        """What may write. A load is kept with the number of those that it does not mind."""
        for op in ops_in(block):
            for region in op.regions:
                for inner in region.blocks:
                    with self._scope_in(op):
                        changed |= self.run(inner)
            is_load = only_loads(op)
            if not is_load and not is_mergeable(op):
                others.append(op)
                continue
            key = key_of(op)
            same: Operation | None
            if not is_load:
                same = self.available.first(key, op)
            else:
                same, seen = loads.get(key, (None, 0))
                if same is not None and (reason := self._reason_against(same, others[seen:])) is not None:
                    reporting.missed(op, _REMARK, "The same is loaded again", reason, Op=op.name)
                    same = None
                loads[key] = (op if same is None else same, len(others))
            if same is not None and same is not op:
                reporting.done(op, _REMARK, "Computation of what is there already is gone", Op=op.name)
                replace_op(op, list(same.results))
                statistics.count("ops merged")
                changed = True
            elif not is_load and self.watched and not op.has_trait(ConstantLike):
                self._note(key, op)
        return changed

    @contextmanager
    def _scope_in(self, op: Operation) -> Iterator[None]:
        """What is available in a region of an op."""
        around = self.available
        if is_isolated(op):
            self.available = ScopedTable()
        with self.available.scope():
            yield
        self.available = around

    def _reason_against(self, load: Operation, others: Sequence[Operation]) -> str | None:
        """Why what a load read may be no more what is there behind other ops; None where it is."""
        if len(others) > MOST_WRITERS:
            return f"there are more than {MOST_WRITERS} ops in between that may write"
        written = next((other for other in others if self.memory.may_write_what_is_read(other, load)), None)
        return None if written is None else f"'{written.name}' may write in between what both read"

    def _note(self, key: Key, op: Operation) -> None:
        """An op stays: say so where another one, which may have run before it, computed the same."""
        before = self.passed.get(key)
        self.passed[key] = op
        if before is not None and _may_precede(before, op):
            reporting.missed(op, _REMARK, "The same is computed again", _ELSEWHERE, Op=op.name)


def _may_precede(before: Operation, op: Operation) -> bool:
    """Whether one run may compute an op and another one of another block behind it: no `if` chooses between them."""
    block = op.parent_block()
    while block is not None:
        around = block.find_ancestor_op_in_block(before)
        if around is not None:
            return not around.is_ancestor(op)
        block = block.parent_block()
    return False


def key_of(op: Operation) -> Key:
    """What two ops have in common that compute the same."""
    types = tuple([result._type for result in op.results])
    return op.name, tuple(op._operands), types, frozenset(op.properties.items()), frozenset(op.attributes.items())
