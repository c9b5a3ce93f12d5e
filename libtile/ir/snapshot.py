# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether an op, and everything in it, is what it was: by identity of its parts, far cheaper than checking it again."""

from __future__ import annotations

from operator import is_

from xdsl.ir import Block, Operation


class Snapshot:
    """An op, all below it, and what each of them has: operands, types, attributes, successors, blocks and arguments.

    The parts are kept alive, so that no other object can have come to the place of one. Attributes are immutable: one
    that was made anew counts as a change, even if it is equal. Locations count, value names do not.
    """

    __slots__ = ("_parts",)

    def __init__(self, op: Operation):
        self._parts = _parts(op)

    def same_as(self, other: Snapshot) -> bool:
        """Whether nothing was changed between the two."""
        mine, theirs = self._parts, other._parts
        return len(mine) == len(theirs) and all(map(is_, mine, theirs))


_END = object()
"""Stands behind the last op of a block, and before attributes: what belongs to whom is part of what is compared."""


def _parts(root: Operation) -> list[object]:
    found: list[object] = []
    todo: list[object] = [root]
    while todo:
        item = todo.pop()
        found.append(item)
        if isinstance(item, Operation):
            found += item._operands
            found += [result.type for result in item.results]
            for held in (item.properties, item.attributes):
                found.append(_END)
                found += held
                found += held.values()
            found.append(item.location)
            found += item.successors
            for region in reversed(item.regions):
                for block in reversed(region.blocks):
                    todo += (_END, block)
                todo.append(region)
        elif isinstance(item, Block):
            for argument in item.args:
                found += (argument, argument.type, argument.location)
            todo += reversed(list(item.ops))
    return found


__all__ = ["Snapshot"]
