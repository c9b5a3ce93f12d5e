# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many ops were made: by it a pass manager sees that a pass made none, so that there is no sort of op that was not
there before.

Ops of the bases here (`DeferredOp`, `DeclaresOperands`) call `tick` when they are made or copied, in whatever way. What
passes change of ops that are there, moves or erases, is not counted. Who wants to know whether any were made ticks as
well: between two numbers of which one comes behind the other, nobody has made an op.
"""

from __future__ import annotations

from itertools import count

tick = count().__next__
"""The next number. One call of C's, between which and its effect no other thread comes."""

__all__ = ["tick"]
