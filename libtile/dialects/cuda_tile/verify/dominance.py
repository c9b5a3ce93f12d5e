# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dominance between the blocks of a region, by the algorithm of Cooper, Harvey and Kennedy (2001)."""

from __future__ import annotations

from libtile.ir.forms import Block, Region


class Dominators:
    """The dominator tree of a region with several blocks; built in near-linear time."""

    def __init__(self, region: Region):
        order = _reverse_postorder(region)
        self._number = {block: i for i, block in enumerate(order)}
        self._parent = [0] * len(order)
        predecessors: list[list[int]] = [[] for _ in order]
        for number, block in enumerate(order):
            for successor in _successors(block):
                if successor in self._number:
                    predecessors[self._number[successor]].append(number)
        self._solve(predecessors)

    def _solve(self, predecessors: list[list[int]]) -> None:
        parent: list[int | None] = [None] * len(predecessors)
        if parent:
            parent[0] = 0
        changed = True
        while changed:
            changed = False
            for number in range(1, len(parent)):
                found: int | None = None
                for other in predecessors[number]:
                    if parent[other] is not None:
                        found = other if found is None else _meet(parent, found, other)
                if parent[number] != found:
                    parent[number] = found
                    changed = True
        self._parent = [p or 0 for p in parent]

    def is_reachable(self, block: Block) -> bool:
        """Whether control can come to the block."""
        return block in self._number

    def dominates(self, block: Block, other: Block) -> bool:
        """Whether every path to `other` goes through `block`; False when one of them cannot be reached."""
        if block not in self._number or other not in self._number:
            return False
        target, number = self._number[block], self._number[other]
        while number > target:
            number = self._parent[number]
        return number == target


def _meet(parent: list[int | None], a: int, b: int) -> int:
    while a != b:
        if a < b:
            a, b = b, a
        a = parent[a] or 0
    return a


def _successors(block: Block) -> tuple[Block, ...]:
    return block.last_op._successors if block.last_op is not None else ()


def _reverse_postorder(region: Region) -> list[Block]:
    entry = region.first_block
    if entry is None:
        return []
    seen = {entry}
    postorder: list[Block] = []
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            postorder.append(block)
            stack.pop()
        elif following.parent is region:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
        else:
            seen.add(following)
    return postorder[::-1]
