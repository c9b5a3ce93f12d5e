# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`eliminate-redundant-tokens`: fewer tokens that order the same accesses, and no order between reads.

- A token that holds nothing orders nothing: an access does without it.
- A `join_tokens` needs each operand once, none that holds nothing, and none that another one implies; with one operand
  left it is that operand.
- A token that a loop carries and hands on unchanged is the one that it starts with.
- Weak loads need no order among themselves: one waits for what the load before it waited for, not for that load, and
  whoever waits for the later one waits for both.
- A weak access does not wait for one that touches other memory, but for what that one waits for; whoever waits for the
  former waits for both. What an assembler makes of stores that wait for no store is another order of all that they
  store, which takes more registers or fewer; what is certain is the barrier that it saves (`every_store`). The more
  tiles it may reduce at once, the more it keeps.
- In a loop, accesses that only read, or touch in each iteration what no other iteration touches, wait for what came
  before the loop, and not for the iteration before: behind the loop all of them are waited for, wherever it ends.

What a token implies is `analysis.tokens`' to say, and what is disjoint `analysis.aliasing`'s. Two accesses of which one
writes stay ordered as they were where they may touch the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i32
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue, Use

from libtile.analysis import Facts
from libtile.analysis.aliasing import Aliasing
from libtile.analysis.counters import carried_number
from libtile.analysis.tokens import TokenGraph, before, is_fresh, iteration_ends, loop_ends
from libtile.dialects.cuda_tile.ops import SEGMENTS, CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, TokenType
from libtile.dialects.effect_traits import ReadsThrough, WritesThrough, accessed, is_weak
from libtile.dialects.interfaces import FreshToken, JoinsTokens, control_flow, edges, exit_of, loop_around
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import is_within, ops_of
from libtile.ir.tile_form import erase
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import create_before, is_op, replace_op
from libtile.transforms.greedy import functions_in

_MOST_COMPARED = 16
"""Operands of a join that are compared with each other."""
_MOST_PASSED = 16
"""Tokens that are looked at to find what one access has to wait for."""
_FEWEST_WAITS = 2
"""Waits of stores of single elements that are worth another order of the kernel."""
_MOST_REDUCED = 4
"""Tiles that may be reduced at once for these stores; beyond, what is known of all of them takes registers."""
_REMARK = "RedundantTokens"
_MAY_MEET = "an access of one iteration may touch what one of another iteration touches"
_NO_COUNT = "one of them writes, and nothing counts the iterations of the loop"
_NOT_WORTH_IT = "a barrier less is not worth another order of what is computed for them"


@dataclass(frozen=True)
class EliminateRedundantTokensPass(ModulePass):
    """Take out tokens, and edges between accesses, that order nothing which needs an order.

    `distinct_elements`: different positions of a tensor view are different memory, whatever its strides are.
    `every_store`: no store waits for one of other memory. Without it stores outside of loops still do, unless they are
    of single elements, two waits or more are saved, and what they store is reduced of few tiles.
    """

    name = "eliminate-redundant-tokens"

    distinct_elements: bool = False
    every_store: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_redundant_tokens(op, self.distinct_elements, self.every_store)


def eliminate_redundant_tokens(root: Operation, distinct_elements: bool = False, every_store: bool = True) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        ops = _ops(function)
        changed |= _unchanged_carried(ops)
        if _disjoint(function, distinct_elements, every_store):
            changed, ops = True, _ops(function)
        # Only these make tokens or take them without a loop or a branch around them.
        ops = [op for op in ops if op.results and isinstance(op.results[-1].type, TokenType) and not op.regions]
        while _sweep(function, ops):
            changed = True
    return changed


def _ops(function: CudaTileOp) -> list[CudaTileOp]:
    return ops_of(function, CudaTileOp)


def _sweep(function: CudaTileOp, ops: list[CudaTileOp]) -> bool:
    """Take out what can be, once; `ops` are those of the function that have a token as their last result, and are kept
    up to date."""
    changed = False
    joins = [op for op in ops if op.has_trait(JoinsTokens)]
    if joins:
        graph = TokenGraph(function)
        for op in joins:
            changed |= op.parent is not None and _join(op, graph)
        ops[:] = [op for op in ops if op.parent is not None]
    changed |= _reads_after_reads(ops)
    for op in ops:
        changed |= _drop_fresh(op)
    return changed


def _unchanged_carried(ops: Sequence[CudaTileOp]) -> bool:
    """Tokens that a loop only passes along are used directly; the loop keeps its signature."""
    changed = False
    for op in ops:
        flow = control_flow(op)
        if flow is None or not flow.is_loop:
            continue
        starts = {value: op.operands[number] for number, value in flow.entry(op) if isinstance(value.type, TokenType)}
        if not starts:
            continue
        ends = iteration_ends(op)
        again: dict[SSAValue, list[SSAValue]] = {}
        for end in ends:
            for number, value in flow.back(op, end):
                again.setdefault(value, []).append(end.operands[number])
        for argument in op.regions[0].blocks[0].args:
            start = starts.get(argument)
            if start is None or any(value not in (argument, start) for value in again.get(argument, ())):
                continue
            # What an iteration ends with is also what a counted loop gives.
            same = [r for r in op.results if starts.get(r) is start and again.get(r) == again.get(argument)]
            uses = [use for use in argument.uses if use.operation not in ends]
            used = [result for result in same if result.first_use is not None]
            for use in uses:
                use.operation.operands[use.index] = start
            for result in used:
                result.replace_all_uses_with(start)
            if uses or used:
                statistics.count("carried tokens that never change")
                changed = True
    return changed


def _join(op: CudaTileOp, graph: TokenGraph) -> bool:
    operands = _flat(op)
    dropped = len(op.operands) - len(operands)
    kept: list[SSAValue] = []
    for index, token in enumerate(operands):
        others = [*kept, *operands[index + 1 :]]
        if is_fresh(token) and others:
            continue
        if len(operands) > _MOST_COMPARED or not any(graph.holds(other, token) for other in others):
            kept.append(token)
    dropped += len(operands) - len(kept)
    if kept == list(op.operands) and len(kept) != 1:
        return False
    if dropped > 0:
        statistics.count("operands of joins dropped", dropped)
    if len(kept) == 1:
        replace_op(op, kept)
    else:
        joined, op.operands = list(op.operands), kept
        _erase_unused_joins(joined)
    return True


def _erase_unused_joins(tokens: Sequence[SSAValue]) -> None:
    """Take out joins that nothing uses any more, of those that made tokens."""
    pending = list(tokens)
    while pending:
        maker = pending.pop().owner
        if not isinstance(maker, CudaTileOp) or not maker.has_trait(JoinsTokens) or maker.parent is None:
            continue
        if maker.results[0].first_use is None:
            pending += maker.operands
            erase(maker)


def _flat(op: CudaTileOp) -> list[SSAValue]:
    """What a join joins, with what those joins join of whose results nothing else is made, or that add nothing to the
    others."""
    found = dict.fromkeys(op.operands)
    if len(found) == 1:
        return list(found)
    seen: set[SSAValue] = {op.results[0]}
    pending = list(found)
    while pending:
        token = pending.pop()
        maker = token.owner
        if token in seen or not isinstance(maker, CudaTileOp) or not maker.has_trait(JoinsTokens):
            continue
        seen.add(token)
        new = [other for other in maker.operands if other not in found]
        alone = all(use.operation is op for use in token.uses)
        if len(found) + len(new) - 1 > (_MOST_COMPARED if alone else len(found)):
            continue
        place = list(found).index(token)
        found = dict.fromkeys([*list(found)[:place], *new, *list(found)[place + 1 :]])
        statistics.count("joins of joins")
        pending += new
    return list(found)


def _reads_after_reads(ops: list[CudaTileOp]) -> bool:
    """Let weak loads wait for what the weak loads before them wait for; whoever waits for the former waits for both.
    Adds the joins that it makes to the ops."""
    loads = [op for op in ops if op.has_trait(ReadsThrough) and is_weak(op)]
    behind: dict[Operation, SSAValue | None] = {}
    for op in loads:
        token = next(iter(before(op.results[-1])), None)
        behind[op] = behind.get(token.op, token) if isinstance(token, OpResult) else token
    changed = False
    for op in reversed(loads):  # what one stops to wait for may be free to wait for less itself
        token, earlier = next(iter(before(op.results[-1])), None), behind[op]
        kept = [] if earlier is None else [earlier]
        if token is not None and token is earlier:  # no read, but maybe a join of some
            kept, passed = _needed(token, lambda maker: maker.has_trait(ReadsThrough) and is_weak(maker))
            kept = kept if passed and len(kept) <= _MOST_COMPARED else [token]
        if token is None or kept == [token]:
            continue
        ops += filter(None, (_wait_for_both(op, token), _wait_for(op, kept)))
        reporting.done(op, _REMARK, "Read does not wait for reads")
        statistics.count("reads that wait for no read")
        changed = True
    return changed


def _wait_for_both(op: CudaTileOp, token: SSAValue) -> CudaTileOp | None:
    """Let whoever waits for an access wait for another token as well, which the access is about to do without; returns
    the join of both."""
    own, block = op.results[-1], op.parent_block()
    uses = list(own.uses)
    if not uses:
        return None
    assert block is not None
    both = build("join_tokens", {"tokens": [own, token]}, [TokenType()])
    both.location = op.location
    block.insert_op_after(both, op)
    for use in uses:
        use.operation.operands[use.index] = both.results[0]
    return both


# -- accesses of different memory -------------------------------------------------------------------------------------


def _disjoint(function: CudaTileOp, distinct_elements: bool, every_store: bool) -> bool:
    """Take out the order between accesses that are known to touch different memory."""
    accesses = [op for op in ops_of(function, CudaTileOp) if accessed(op) is not None and is_weak(op)]
    if not any(op.optional_operand("token") is not None for op in accesses):
        return False
    aliasing = Aliasing(Facts(function), distinct_elements)
    changed = False
    for op in reversed(_ops(function)):  # inner loops first
        flow = control_flow(op)
        if flow is not None and flow.is_loop:
            changed |= _between_iterations(op, aliasing)
    waiting = frozenset() if every_store else _waiting_stores(accesses, aliasing)
    for op in accesses:
        changed |= _past_disjoint(op, aliasing, past_stores=op not in waiting)
    if remarks.are_collected():
        _say_who_waits(function, aliasing)
    return changed


def _say_who_waits(function: CudaTileOp, aliasing: Aliasing) -> None:
    """Say why accesses wait for others, of which one writes, as far as there is something to know about them."""
    for op in _ops(function):
        token = op.optional_operand("token") if accessed(op) is not None else None
        pending, seen = [] if token is None else [token], set[SSAValue]()
        while pending and len(seen) < _MOST_PASSED:
            value = pending.pop()
            maker = value.owner
            if value in seen or not isinstance(maker, CudaTileOp):
                continue
            seen.add(value)
            if maker.has_trait(JoinsTokens):
                pending += maker.operands
            elif accessed(maker) is not None and (reason := _why_it_waits(maker, op, aliasing)):
                reporting.missed(op, _REMARK, "Access waits for another", reason)
                break


def _why_it_waits(first: CudaTileOp, second: CudaTileOp, aliasing: Aliasing) -> str:
    """Why an order of two accesses stays; empty where both read, or touch other memory, or the same for certain."""
    if not is_weak(first) or not is_weak(second):
        return "one of them is not weak"
    if first.has_trait(ReadsThrough) and second.has_trait(ReadsThrough):
        return ""
    a, b = aliasing.access(first), aliasing.access(second)
    if a is None or b is None:
        return "the places of one of them are not known"
    if a == b or aliasing.are_disjoint(first, second):
        return ""  # there is nothing to know of the same places
    unknown = "places" if a.base is b.base else "pointers, that they count from,"
    return f"one writes, and their {unknown} may be the same"


def _waiting_stores(accesses: Sequence[CudaTileOp], aliasing: Aliasing) -> frozenset[CudaTileOp]:
    """The stores that go on waiting for stores of other memory."""
    once = [op for op in accesses if op.has_trait(WritesThrough) and loop_around(op) is None]
    in_vain = [op for op in once if _passes_stores(op, aliasing)]
    free = {op for op in in_vain if _is_of_one_element(op)}
    if len(free) < _FEWEST_WAITS or _tiles_reduced(in_vain) > _MOST_REDUCED:
        free = set()
    for op in in_vain:
        if op not in free:
            reporting.missed(op, _REMARK, "Store waits for stores of other memory", _NOT_WORTH_IT)
    return frozenset(once).difference(free)


def _stored(store: CudaTileOp) -> SSAValue:
    (value,) = store.operand_group("value" if is_op(store, "store_ptr_tko") else "tile")
    return value


def _tiles_reduced(stores: Sequence[CudaTileOp]) -> int:
    """How many tiles are reduced to what these store: several by one op, where it finds out a place, say."""
    seen: set[Operation] = set()
    count, pending = 0, [_stored(store) for store in stores]
    while pending:
        op = pending.pop().owner
        if not isinstance(op, CudaTileOp) or op in seen:
            continue
        seen.add(op)
        if is_op(op, "reduce", "scan"):
            count += len(op.operands)
        else:
            pending += op.operands
    return count


def _is_of_one_element(store: CudaTileOp) -> bool:
    value = _stored(store)
    return isinstance(value.type, TileType) and value.type.num_elements == 1


def _passes_stores(op: CudaTileOp, aliasing: Aliasing) -> bool:
    token = op.optional_operand("token")
    if token is None:
        return False
    _, passed = _needed(token, lambda access: _is_passed(access, op, aliasing, True))
    return any(access.has_trait(WritesThrough) for access in passed)


def _between_iterations(loop: CudaTileOp, aliasing: Aliasing) -> bool:
    """Let what is ordered by a token that a loop carries wait for what came before the loop only, where no access
    touches what one of them writes in another iteration. What comes behind the loop waits for all of them."""
    flow = control_flow(loop)
    assert flow is not None
    carried = [
        (number, value)
        for number, value in flow.entry(loop)
        if isinstance(value, BlockArgument) and isinstance(value.type, TokenType)
    ]
    graph = TokenGraph(loop) if carried else None
    changed = False
    for number, argument in carried:
        assert graph is not None
        chain = _Chain(loop, argument, loop.operands[number], graph)
        if not chain.accesses or not chain.waiting:
            continue
        accesses = chain.accesses
        first = [op for op in accesses if op.optional_operand("token") is argument] or accesses[-1:]
        if not aliasing.are_disjoint_in_loop(accesses, loop):
            writes = not all(op.has_trait(ReadsThrough) for op in accesses)
            unknown = writes and aliasing.forms.step_of(loop) is None
            reporting.missed(
                first[0], _REMARK, "Access waits for the iteration before", _NO_COUNT if unknown else _MAY_MEET
            )
            continue
        chain.drop_order()
        for op in first:
            reporting.done(op, _REMARK, "Access does not wait for itself in the iteration before")
        statistics.count("accesses that wait for no other iteration", len(first))
        changed, graph = True, TokenGraph(loop)
    return changed


class _Chain:
    """What is ordered by a token that a loop carries: `accesses` are the weak accesses of its body, at any depth, that
    stand between the token and what an iteration hands on, or leaves the loop with. None where something else stands
    there, or waits for one of them. `waiting` are the uses of the token that order something."""

    def __init__(self, loop: CudaTileOp, carried: BlockArgument, start: SSAValue, graph: TokenGraph) -> None:
        self.carried, self.start = carried, start
        self._loop, self._graph = loop, graph
        self._ends, self._leaves = iteration_ends(loop), loop_ends(loop)
        self._number = carried_number(carried, loop) or 0
        self._tokens: set[SSAValue] = set()
        exits = {*self._ends, *self._leaves}
        self.waiting = [use for use in carried.uses if use.operation not in exits and not _only_gathers(use, graph)]
        self.accesses = self._found() if self.waiting and self._ends else []

    def _found(self) -> list[CudaTileOp]:
        ops: dict[CudaTileOp, None] = {}
        behind = self._behind()
        pending = [end.operands[self._number] for end in self._ends]
        pending += [token for op in self._leaves for token in op.operands if token in behind]
        self._tokens = seen = {self.carried, self.start}
        while pending:
            token = pending.pop()
            if token in seen:
                continue
            seen.add(token)
            if not is_within(token, self._loop):
                return []
            sources = self._graph.sources(token)
            if sources is not None:
                pending += sources
                continue
            op = token.owner
            if not isinstance(op, CudaTileOp):
                return []
            orders = not op.has_trait(JoinsTokens) and not op.has_trait(FreshToken)
            if orders and (accessed(op) is None or not is_weak(op)):
                return []
            ops[op] = None
            pending += before(token)
        if any(self._is_elsewhere(use, ops) for token in seen if token is not self.start for use in token.uses):
            return []
        return [op for op in ops if accessed(op) is not None]

    def _behind(self) -> set[SSAValue]:
        """The tokens of the body that hold the carried one, or may stand for one that does."""
        found: set[SSAValue] = {self.carried}
        pending: list[SSAValue] = [self.carried]
        while pending:
            for use in pending.pop().uses:
                if use.operation in self._ends or use.operation in self._leaves:
                    continue
                led = [value for number, value in edges(use.operation) if number == use.index]
                made = [value for value in use.operation.results if isinstance(value.type, TokenType)]
                new = [value for value in (led or ([] if use.operation.regions else made)) if value not in found]
                found.update(new)
                pending += new
        return found

    def _is_elsewhere(self, use: Use, ops: Container[Operation]) -> bool:
        """Whether a token of the chain goes to something that is no part of it."""
        op = use.operation
        if op in ops or op in self._leaves or (op in self._ends and use.index == self._number):
            return False
        led = [value for number, value in edges(op) if number == use.index]
        return not led or any(value not in self._tokens and value.first_use is not None for value in led)

    def drop_order(self) -> None:
        """Let nothing wait for the iteration before, and what the loop hands on and gives hold all iterations."""
        for use in self.waiting:
            use.operation.operands[use.index] = self.start
        held = [(end, self._number) for end in self._ends]
        inside = self._tokens - {self.start}
        held += [(op, n) for op in self._leaves for n, token in enumerate(op.operands) if token in inside]
        for op, number in held:
            last = op.operands[number]
            if last is not self.carried:
                op.operands[number] = create_before(op, "join_tokens", {"tokens": [self.carried, last]}, [TokenType()])


def _only_gathers(use: Use, graph: TokenGraph) -> bool:
    """Whether a token is used as the start of one that an inner loop carries, on which nothing in that loop waits: its
    iterations add to it what others may wait for."""
    flow = control_flow(use.operation)
    if flow is None or not flow.is_loop:
        return False
    carried = [value for number, value in flow.entry(use.operation) if number == use.index]
    pending: list[SSAValue] = [value for value in carried if isinstance(value, BlockArgument)]
    seen = set(pending)
    while pending:
        for inner in pending.pop().uses:
            if inner.operation.has_trait(JoinsTokens):
                value = inner.operation.results[0]
                if value not in seen:
                    seen.add(value)
                    pending.append(value)
            elif exit_of(inner.operation) is None and not _only_gathers(inner, graph):
                return False
    return True


def _past_disjoint(op: CudaTileOp, aliasing: Aliasing, past_stores: bool = True) -> bool:
    """Let an access wait for what those before it wait for, as long as these touch other memory."""
    token = op.optional_operand("token")
    if token is None:
        return False
    kept, passed = _needed(token, lambda access: _is_passed(access, op, aliasing, past_stores))
    if not passed or len(kept) > _MOST_COMPARED:
        return False
    _wait_for_both(op, token)
    _wait_for(op, kept)
    reporting.done(op, _REMARK, "Access does not wait for those of other memory", Accesses=len(passed))
    statistics.count("accesses of other memory that are not waited for", len(passed))
    return True


def _needed(token: SSAValue, is_passed: Callable[[CudaTileOp], bool]) -> tuple[list[SSAValue], list[CudaTileOp]]:
    """The tokens that somebody has to wait for, of those that `token` stands for; and the accesses that it need not,
    with joins taken apart."""
    needed: dict[SSAValue, None] = {}
    seen: set[SSAValue] = set()
    passed: list[CudaTileOp] = []
    pending = [token]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = value.owner
        if len(seen) > _MOST_PASSED or not isinstance(maker, CudaTileOp) or not isinstance(value, OpResult):
            needed[value] = None
        elif maker.has_trait(JoinsTokens):
            pending += reversed(maker.operands)
        elif is_passed(maker):
            passed.append(maker)
            pending += before(value)
        elif not maker.has_trait(FreshToken):
            needed[value] = None
    return list(needed), passed


def _is_passed(access: CudaTileOp, op: CudaTileOp, aliasing: Aliasing, past_stores: bool) -> bool:
    if accessed(access) is None or not is_weak(access) or (access.has_trait(WritesThrough) and not past_stores):
        return False
    return aliasing.are_disjoint(access, op)


def _wait_for(op: CudaTileOp, tokens: Sequence[SSAValue]) -> CudaTileOp | None:
    """Let an access wait for these tokens, and nothing else; returns the join of several."""
    if len(tokens) < 2:
        _set_token(op, next(iter(tokens), None))
        return None
    joined = create_before(op, "join_tokens", {"tokens": tokens}, [TokenType()])
    _set_token(op, joined)
    return joined.owner if isinstance(joined.owner, CudaTileOp) else None


def _set_token(op: CudaTileOp, token: SSAValue | None) -> None:
    if token is None:
        _without_token(op)
        return
    sizes = op.segment_sizes()
    number = next(i for i, spec in enumerate(op.spec.operands) if spec.name == "token")
    op.operands[sum(sizes[:number])] = token


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
