# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that a loop that counts carries and never changes, a part of `canonicalize-tileaa`.

    %r:2 = for ... iter_args(%s = %zero, %p = %base)         %r = for ... iter_args(%s = %zero)
      ...                                               ->     ...
      yield %t, %p                                             yield %t

What an iteration hands on as it got it is in each what the loop began with, and so is the result. `dce` leaves dead
values like that where loops keep their signature: pointers that moved on, of loads that became ones through views.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Operation

from libtile.dialects import scf
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.support import statistics


def drop_handed_on(root: Operation) -> bool:
    """Have the loops in `root` carry nothing that they never change; returns whether one did."""
    changed = False
    for loop in ops_of(root, scf.ForOp):
        body, last = loop.body.block, loop.body.block.last_op
        assert last is not None
        same = [n for n, given in enumerate(last.operands) if given is body.args[1 + n] or given is loop.iter_args[n]]
        if same:
            for n in same:
                body.args[1 + n].replace_all_uses_with(loop.iter_args[n])
                loop.results[n].replace_all_uses_with(loop.iter_args[n])
            carry_less(loop, same)
            statistics.count("carried values dropped", len(same))
            changed = True
    return changed


def carry_less(loop: scf.ForOp, numbers: Collection[int]) -> scf.ForOp:
    """The loop again, without some of the values that it carries, which nothing uses but the end of its body. The old
    one is gone."""
    body = loop.body.block
    last = body.last_op
    assert last is not None and loop.parent is not None
    kept = [n for n in range(len(loop.results)) if n not in numbers]
    yielded = scf.YieldOp(*(last.operands[n] for n in kept))
    yielded.location = last.location
    body.insert_op_before(yielded, last)
    erase(last)
    for n in sorted(numbers, reverse=True):
        body.erase_arg(body.args[1 + n])
    region = loop.detach_region(loop.body)
    new = scf.ForOp.create(
        operands=[loop.lb, loop.ub, loop.step, *(loop.iter_args[n] for n in kept)],
        result_types=[loop.results[n].type for n in kept],
        attributes=dict(loop.attributes),
        properties=dict(loop.properties),
        regions=[region],
    )
    new.location = loop.location
    loop.parent.insert_op_before(new, loop)
    for n, after in zip(kept, new.results):
        after.name_hint = loop.results[n].name_hint
        loop.results[n].replace_all_uses_with(after)
    erase(loop)
    return new
