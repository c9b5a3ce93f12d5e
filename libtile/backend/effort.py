# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much LLVM and ptxas should do for a module: less where their time would grow with the square of the input.

Measured with LLVM 22: InstCombine, LoopRotate, LoopUnroll, GVN and loop strength reduction follow the dominator tree
upwards for each block, or update what lies below it, and it is as deep as there are loops in a row; straight line
strength reduction and reassociation go through the whole chain of integer sums and products that a value ends.
ptxas 13.5 takes time with the square of the blocks, of the barriers and of the variables at -O2 and -O3.
"""

from __future__ import annotations

from enum import Enum

from libtile.codegen.sizes import ModuleSize
from libtile.support.records import dataclass

MOST_BLOCKS = 1000
"""Basic blocks of a function that LLVM's pipeline is asked to optimize; kernels from frontends have up to a hundred."""

MOST_LOOPS = 48
"""Loops of a function, likewise: with more, in a row or in one another, InstCombine, LoopUnroll and LICM take time that
grows faster than they do; kernels from frontends have a handful."""

MOST_BLOCKS_OF_LIGHT, MOST_LOOPS_OF_LIGHT = 5000, 128
"""Blocks and loops of a function that instructions are selected for with the passes which belong to that: of those,
loop strength reduction takes 0.2 seconds for 100 loops in a row, and 6 for 300."""

LONGEST_CHAIN = 1500
"""Integer sums and products of which each uses the one before."""

MOST_BARRIERS = 1000
"""Barriers of a function; kernels from frontends have up to a hundred."""

MOST_VARIABLES = 1000
"""Variables of a module; modules from frontends have a handful."""

MOST_TO_SINK = 4000
"""Instructions of a function in which LLVM moves those that one branch alone needs into it, so that they take no
register elsewhere. Its time grows with the square: 0.01 seconds for 4,000, and 1.3 for 13,000."""

ASSEMBLER_LEVEL_OF_LARGE = 1
"""What ptxas is given for -O2 and -O3 beyond one of these limits, save that of chains."""


class Effort(Enum):
    """What LLVM does: all that the level of optimization asks for; the same, but then instructions are selected without
    passes over chains; few passes, but those that belong to the selection of instructions; or those few passes alone,
    which take time in proportion."""

    FULL = 0
    PLAIN_SELECTION = 1
    LIGHT = 2
    LINEAR = 3


@dataclass(frozen=True)
class Excess:
    """A limit that a function goes beyond, the effort that is left for it, and whether ptxas does less, too."""

    function: str
    what: str
    effort: Effort
    assembled: bool = True


@dataclass(frozen=True)
class Plan:
    """What LLVM and ptxas do for a module whose functions go beyond these limits: none, for every ordinary one."""

    excesses: tuple[Excess, ...] = ()
    sinks: bool = False
    """Whether LLVM moves instructions into the branches that need them."""

    @property
    def effort(self) -> Effort:
        """What LLVM does. Passes of the selection of instructions are among those that a chain is too long for."""
        found = {excess.effort for excess in self.excesses}
        if found >= {Effort.PLAIN_SELECTION, Effort.LIGHT}:
            return Effort.LINEAR
        return max(found, key=lambda effort: effort.value, default=Effort.FULL)

    def assembler_level(self, opt_level: int) -> int:
        """The level of optimization that ptxas is given for this one."""
        return min(opt_level, ASSEMBLER_LEVEL_OF_LARGE) if any(e.assembled for e in self.excesses) else opt_level


def plan(size: ModuleSize) -> Plan:
    """The plan for a module of this size."""
    found: list[Excess] = []
    for function in size.functions:
        name = function.name
        if not found and size.variables > MOST_VARIABLES:
            what = f"{size.variables} variables in the module, more than {MOST_VARIABLES}"
            found.append(Excess(name, what, Effort.LIGHT))
        blocks, loops = function.blocks, function.loops
        effort = Effort.LINEAR if blocks > MOST_BLOCKS_OF_LIGHT or loops > MOST_LOOPS_OF_LIGHT else Effort.LIGHT
        if blocks > MOST_BLOCKS:
            found.append(Excess(name, f"{blocks} basic blocks, more than {MOST_BLOCKS}", effort))
        elif loops > MOST_LOOPS:
            found.append(Excess(name, f"{loops} loops, more than {MOST_LOOPS}", effort))
        if function.barriers > MOST_BARRIERS:
            found.append(Excess(name, f"{function.barriers} barriers, more than {MOST_BARRIERS}", Effort.LIGHT))
        if function.chain > LONGEST_CHAIN:
            what = f"{function.chain} dependent integer sums and products, more than {LONGEST_CHAIN}"
            found.append(Excess(name, what, Effort.PLAIN_SELECTION, assembled=False))
    return Plan(tuple(found), all(function.instructions <= MOST_TO_SINK for function in size.functions))
