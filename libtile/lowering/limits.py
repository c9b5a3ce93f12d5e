# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large what is compiled may be. Beyond a limit a lowering refuses, and names the place in the source."""

from __future__ import annotations

MAX_TILE_REGISTERS = 512
"""32-bit registers that one tile may take of each thread. Every one of them is straight-line code: four times what a
thread can have still compiles in seconds, and spills."""
