# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of all ops of the inner dialects: the table of `libtile.interpreter.inner_rules`, full."""

from __future__ import annotations

from libtile.interpreter import arith  # noqa: F401  # they enter the table when they are loaded, as do these
from libtile.interpreter.inner_rules import RULES as RULES
from libtile.interpreter.nv_tileaa import (  # noqa: F401
    arithmetic,
    collectives,
    convolutions,
    escapes,
    functions,
    memory,
    pointers,
    queues,
    shapes,
    tokens,
)
from libtile.interpreter.nv_tileas import async_products, pipeline, tiles, tma  # noqa: F401
from libtile.interpreter.nv_tileas import memory as operational  # noqa: F401
