# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The large tiles beside the result of a product, which are computed part by part with it.

Where each element that is made of a loop's product goes into memory, `convert-tileaa-to-tileas` cuts the result, which
lies in registers, into parts, and whatever else is needed for an element is made for each part (`result_parts`). A loop
over pieces would have to put those tiles together whole: it cannot take pieces of registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.types import TokenType
from libtile.ir.places import ops_of
from libtile.lowering.strip_mine.cuts import mnemonic
from libtile.lowering.to_tileaa.functions import PRODUCTS

_RENAMES = ("reshape", "permute")
_MADE_AGAIN = ("constant", "iota", "broadcast", *_RENAMES)


def beside_results(entry: Operation) -> set[SSAValue]:
    """The tiles of an entry that are for nothing but what goes, element by element, from products of loops into memory,
    but for the products themselves."""
    found: set[SSAValue] = set()
    for loop in ops_of(entry):
        if mnemonic(loop) == "for":
            for result in _products(loop):
                found |= _beside(result)
    return found


def _products(loop: Operation) -> Iterator[SSAValue]:
    """The results of a loop that its last product gives."""
    last = loop.regions[0].block.last_op
    assert last is not None
    yield from (r for r, v in zip(loop.results, last.operands) if isinstance(v.owner, PRODUCTS))


def _beside(result: SSAValue) -> set[SSAValue]:
    """What only the accesses to elements made of a result need; nothing where anything else is done with those."""
    block = result.owner.parent if isinstance(result.owner, Operation) else None
    made, accesses, work = [result], set[Operation](), [result]
    while work:
        for use in work.pop().uses:
            op = use.operation
            if op.parent is not block:
                return set()
            if is_elementwise(op) or mnemonic(op) in _RENAMES:
                made += op.results
                work += op.results
            elif _takes(op):
                accesses.add(op)
            else:
                return set()
    users = accesses | {v.owner for v in made[1:] if isinstance(v.owner, Operation)}
    found = set(made[1:])
    work = [v for op in users for v in op.operands]
    while work:
        value = work.pop()
        op = value.owner
        if value in found or not isinstance(op, Operation) or op.parent is not block:
            continue
        again = is_elementwise(op) or mnemonic(op) in _MADE_AGAIN
        if again and all(use.operation in users for r in op.results for use in r.uses):
            users.add(op)
            found.update(op.results)
            work += op.operands
    return found


def _takes(op: Operation) -> bool:
    """Whether an op writes elements, or adds to them, and gives nothing that anybody wants."""
    if mnemonic(op) not in ("store_ptr_tko", "store_view_tko", "atomic_rmw_tko"):
        return False
    return all(isinstance(r.type, TokenType) or r.first_use is None for r in op.results)
