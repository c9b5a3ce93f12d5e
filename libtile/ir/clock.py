# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many ops were made: by it a pass manager sees that a pass made none, so that there is no sort of op that was not
there before.

Ops of the bases here (`DeferredOp`, `DeclaresOperands`) call `tick` when they are made or copied, in whatever way. What
passes change of ops that are there, moves or erases, is not counted.
"""

from __future__ import annotations

from itertools import count

_CLOCK = count()

tick = _CLOCK.__next__
"""One call of C's, between which and its effect no other thread comes: of two numbers that are equal, one thread can
say that nobody has made an op in between."""


def ops_made() -> int:
    """A number that grows with each op that any thread makes."""
    text = repr(_CLOCK)
    return int(text[text.index("(") + 1 : -1])


__all__ = ["ops_made", "tick"]
