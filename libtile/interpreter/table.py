# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of all ops of Tile IR: the table of `libtile.interpreter.rules`, full."""

from __future__ import annotations

from libtile.interpreter import (  # noqa: F401  # they enter the table when they are loaded
    atomics,
    bitwise,
    conversions,
    core,
    floating,
    integer,
    math_functions,
    memory,
    misc,
    mma,
    reduce_scan,
    views,
)
from libtile.interpreter.rules import RULES as RULES
