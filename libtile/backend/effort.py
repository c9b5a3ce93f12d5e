# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much LLVM should do for a module: less where its passes would take time that grows with the square of the input.

Measured with LLVM 22: InstCombine, LoopRotate, LoopUnroll, GVN and loop strength reduction follow the dominator tree
upwards for each block, or update what lies below it, and it is as deep as there are loops in a row; straight line
strength reduction and reassociation go through the whole chain of integer sums and products that a value ends.
"""

from __future__ import annotations

import re
from enum import Enum

MOST_BLOCKS = 1000
"""Basic blocks of a function that LLVM's pipeline is asked to optimize; kernels from frontends have up to a hundred."""

MOST_LOOPS = 48
"""Loops of a function, likewise: with more, in a row or in one another, InstCombine, LoopUnroll and LICM take time that
grows faster than they do; kernels from frontends have a handful."""

LONGEST_CHAIN = 1500
"""Integer sums and products of which each uses the one before."""

_FUNCTION = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^[\w.]+:", re.MULTILINE)
_LOOP = re.compile(r"^(?:for|while|loop)\.\d+:", re.MULTILINE)
_SUM = re.compile(r"^  (%\w+) = (?:add|sub|mul|shl) (?:n[us]w )*i\d+ (\S+), (\S+)", re.MULTILINE)


class Effort(Enum):
    """What LLVM does: all that the level of optimization asks for; the same, but then instructions are selected without
    passes over chains; or what takes time in proportion."""

    FULL = "full"
    PLAIN_SELECTION = "plain selection"
    LINEAR = "linear"


def effort(ir: str) -> Effort:
    """The effort for a module given as text."""
    found = Effort.FULL
    for function in _FUNCTION.findall(ir):
        if len(_BLOCK.findall(function)) > MOST_BLOCKS or len(_LOOP.findall(function)) > MOST_LOOPS:
            return Effort.LINEAR
        if function.count("\n") > LONGEST_CHAIN and _longest_chain(function) > LONGEST_CHAIN:
            found = Effort.PLAIN_SELECTION
    return found


def _longest_chain(function: str) -> int:
    depths: dict[str, int] = {}
    for name, *operands in _SUM.findall(function):
        depths[name] = 1 + max(depths.get(operand, 0) for operand in operands)
    return max(depths.values(), default=0)
