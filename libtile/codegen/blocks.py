# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Basic blocks of a kernel under construction, and which of them dominate which.

A block is started when all that lead to it from in front of it have ended, so that its dominator is known by then;
what leads back to it, at the end of a loop's turn, it dominates itself.
"""

from __future__ import annotations

from libtile.support.records import dataclass, field

Line = tuple[str, str]
"""A line of LLVM IR, and the name of its debug location, such as `!12`; empty for none."""


@dataclass(slots=True)
class Block:
    """A basic block under construction."""

    name: str
    hint: str = ""
    lines: list[Line] = field(default_factory=list)
    terminated: bool = False
    loops: tuple[Block, ...] = ()
    """For each loop that it is in, from the outermost on, the block that enters the loop."""
    behind: bool = False
    """Whether a loop is left to here."""
    dominator: Block | None = None
    """The nearest block that all ways here lead through; None for the first one, and where no way leads to."""
    level: int = 0
    """How many blocks dominate it."""
    passed: int = 0
    """How many loops end on the way here through these."""
    above: Block | None = None
    """One of these, as far up for all blocks of a level: a way up in few steps (a skew-binary list)."""

    def entered_from(self, source: Block) -> None:
        """Another way leads here, from the end of a block."""
        self.dominator = parent = source if self.dominator is None else _common_dominator(self.dominator, source)
        self.level, self.passed = parent.level + 1, parent.passed + self.behind
        near = parent.above
        far = None if near is None else near.above
        equal = near is not None and far is not None and parent.level - near.level == near.level - far.level
        self.above = far if equal else parent

    def dominates(self, other: Block) -> bool:
        """Whether all ways to another block lead through this one, or it is this one."""
        return other.dominator_at(self.level) is self

    def dominator_at(self, level: int) -> Block:
        """The block of a level among itself and those that dominate it; itself, where its level is no higher."""
        block = self
        while block.level > level:
            assert block.dominator is not None and block.above is not None  # as it has a level
            block = block.above if block.above.level >= level else block.dominator
        return block


def _common_dominator(a: Block, b: Block) -> Block:
    """The nearest block that dominates two blocks, which may be one of them."""
    level = min(a.level, b.level)
    a, b = a.dominator_at(level), b.dominator_at(level)
    while a is not b:
        assert a.dominator is not None and b.dominator is not None and a.above is not None and b.above is not None
        a, b = (a.dominator, b.dominator) if a.above is b.above else (a.above, b.above)
    return a
