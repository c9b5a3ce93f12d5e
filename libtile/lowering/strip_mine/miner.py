# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cutting the large tiles of an entry: the loops over pieces in place of what has them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.ops import build
from libtile.dialects.cuda_tile.types import TokenType
from libtile.ir.locations import set_location
from libtile.ir.places import ops_in
from libtile.lowering.strip_mine.cuts import LOADS, Uncut, mnemonic
from libtile.lowering.strip_mine.loops import PieceLoop, Tokens
from libtile.lowering.strip_mine.plan import Plan
from libtile.lowering.strip_mine.slices import captured
from libtile.lowering.tile_registers import words_of
from libtile.support import statistics
from libtile.transforms import reporting

_REMARK = "StripMine"
_PURE_SOURCES = ("constant", "iota", "broadcast", "reshape", "permute", "assume")


class Miner:
    """Cuts the tiles of one entry of more than `limit` words, but for those that are `left` as they are."""

    def __init__(self, limit: int, piece_words: int, reasons: dict[Operation, str], left: set[SSAValue]):
        self.limit = limit
        self.left = left
        self.piece_words = piece_words
        self.reasons = reasons

    def is_huge(self, value: SSAValue) -> bool:
        return words_of(value.type) > self.limit and value not in self.left

    def region_op(self, op: Operation) -> None:
        """Cut in the blocks of an op, and in all below.

        The new loops get their turn as well: pieces along one dimension may have to be cut along another.
        """
        work = [region.block for region in op.regions if region.blocks]
        while work:
            block = work.pop()
            self._into_regions(block)
            if any(self.is_huge(v) for op in block.ops for v in (*op.operands, *op.results)):
                self._block(block)
            for inner in block.ops:
                if mnemonic(inner) in ("for", "loop", "if"):
                    work += [region.block for region in inner.regions if region.blocks]

    def _into_regions(self, block: Block) -> None:
        """Large tiles without a memory access are made again in the regions below that use them."""
        for op in reversed(ops_in(block)):
            if not (is_elementwise(op) or mnemonic(op) in _PURE_SOURCES) or not any(map(self.is_huge, op.results)):
                continue
            copies: dict[Block, Operation] = {}
            for result in op.results:
                for use in list(result.uses):
                    inside = use.operation.parent
                    if inside is None or inside is block:
                        continue
                    if inside not in copies:
                        copies[inside] = op.clone()
                        first = inside.first_op
                        assert first is not None
                        inside.insert_op_before(copies[inside], first)
                    use.operation.operands[use.index] = copies[inside].results[list(op.results).index(result)]

    def _block(self, block: Block) -> None:
        try:
            plan = Plan(block, self.is_huge, self.piece_words)
        except Uncut as refusal:
            self.reasons.setdefault(refusal.op, refusal.reason)
            reporting.missed(refusal.op, _REMARK, "Large tiles are held as a whole", refusal.reason)
            return
        _perform(plan)


def _perform(plan: Plan) -> None:
    """Put the loops of a plan in the place of what they do."""
    block, tokens = plan.block, Tokens()
    order = plan.order
    units: list[tuple[int, list[Operation]]] = []
    made = []
    for loop in plan.loops:
        last = max(loop.sinks, key=lambda sink: order[sink.op]).op
        reporting.done(last, _REMARK, "Large tiles are worked through in pieces", Op=last.name)
        done = PieceLoop(plan, loop, tokens)
        made.append(done)
        units.append((order[last], done.ops))
    statistics.count("loops made", len(made))
    for done in made:
        for old, new in done.results.items():
            old.replace_all_uses_with(new)
    for op in ops_in(block):
        if op in plan.accesses or (op not in plan.live and mnemonic(op) in LOADS):
            units += _token_unit(op, order[op], tokens, kept=op in plan.live)
    units += [(order[op], [op]) for op in block.ops if op in plan.live]
    dead = [op for op in block.ops if op not in plan.live]
    for op in ops_in(block):
        op.detach()
    for ops in _in_order(units):
        block.add_ops(ops)
    for op in reversed(dead):
        op.erase()
    for op in reversed(ops_in(block)):
        if mnemonic(op) in ("join_tokens", "make_token") and not op.results[0].first_use:
            op.detach()
            op.erase()


def _token_unit(op: Operation, order: int, tokens: Tokens, kept: bool) -> list[tuple[int, list[Operation]]]:
    """What stands for the token of an access that loops do (and that is `kept`, too, or done by none)."""
    old = op.results[-1]
    if not old.first_use:
        return []
    given = tokens.behind.get(op, [])
    if not given and not kept:
        given = [v for v in op.operands if isinstance(v.type, TokenType)]
    if len(given) == 1 and not kept:
        old.replace_all_uses_with(given[0])
        return []
    name, operands = ("join_tokens", {"tokens": given}) if given else ("make_token", {})
    new = build(name, operands, [TokenType()])
    set_location(new, op.location)
    old.replace_all_uses_with(new.results[0])
    if kept:
        new.operands = (*new.operands, old)
    return [(order, [new])]


def _in_order(units: list[tuple[int, list[Operation]]]) -> Iterator[list[Operation]]:
    """The units, each behind what it uses, and else in the order of their numbers."""
    home = {op: i for i, (_, ops) in enumerate(units) for op in ops}
    users: list[set[int]] = [set() for _ in units]
    missing = [0] * len(units)
    for i, (_, ops) in enumerate(units):
        needed = {home.get(v.owner, i) for op in ops for v in (*op.operands, *captured(op))}
        needed.discard(i)
        missing[i] = len(needed)
        for other in needed:
            users[other].add(i)
    ready = [(number, i) for i, (number, _) in enumerate(units) if not missing[i]]
    heapify(ready)
    placed = 0
    while ready:
        _, i = heappop(ready)
        placed += 1
        yield units[i][1]
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, (units[user][0], user))
    if placed < len(units):
        raise AssertionError("ops that wait for each other")
