# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What loops carry, and branches give, once where it was there twice.

Two arguments of a loop's body that begin with one value, and get one value from every iteration, are one; so are two
results that get the same from every exit. Ops keep their signature, so that every exit from them does, too: the other
argument is used no more, and every iteration hands it on as it is.
"""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.dialects.interfaces import edges, exit_of
from libtile.ir.places import ops_of
from libtile.support import statistics

_Source = tuple[Operation, int]
"""An op with control flow, or an exit to one, and the number of the operand that becomes the value."""


def merge_carried(function: Operation) -> int:
    """Use one of several equal arguments or results in a function; how many are used no more."""
    sources: dict[SSAValue, list[_Source]] = {}
    for op in ops_of(function):
        for number, value in edges(op) if op is not function else ():
            sources.setdefault(value, []).append((op, number))
    first: dict[tuple[Operation | Block, tuple[tuple[Operation, SSAValue], ...]], SSAValue] = {}
    merged = []
    for value, found in sources.items():
        given = tuple((op, op.operands[number]) for op, number in found)
        same = first.setdefault((value.owner, given), value)
        if same is not value and same.type == value.type and value.first_use is not None:
            value.replace_all_uses_with(same)
            merged.append(value)
    for value in merged:
        _hand_on(value, sources[value])
    if merged:
        statistics.count("carried values merged", len(merged))
    return len(merged)


def _hand_on(value: SSAValue, sources: list[_Source]) -> None:
    """An iteration computes nothing for the next one's argument that nobody uses: it hands on its own."""
    if not isinstance(value, BlockArgument):
        return
    for op, number in sources:
        if exit_of(op) is not None and all(other.first_use is None for n, other in edges(op) if n == number):
            op.operands[number] = value
