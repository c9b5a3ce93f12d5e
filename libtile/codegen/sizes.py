# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large a module of LLVM IR is, counted while it is made: by what the time of LLVM's passes and of ptxas grows."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.support.records import dataclass

CHAINED = ("add", "sub", "mul", "shl")
"""Integer instructions, of scalars, that make a chain where each uses the one before."""

BARRIER = "llvm.nvvm.barrier."
"""What the names of the intrinsics begin with at which threads meet."""

LOOPS = ("for", "while", "loop")
"""The hints that blocks are made with at which a loop begins."""


@dataclass(frozen=True)
class FunctionSize:
    """A kernel: its basic blocks, loops, barriers and instructions, and the integer sums and products of the longest
    chain."""

    name: str
    blocks: int
    loops: int
    barriers: int
    chain: int
    instructions: int = 0


@dataclass(frozen=True)
class ModuleSize:
    """The kernels of a module, and the number of its variables."""

    functions: Sequence[FunctionSize] = ()
    variables: int = 0
