# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of which classes an op is, for passes that ask it of every op about many classes."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Operation


@cache
def is_subclass(cls: type[Operation], classes: tuple[type[Operation], ...]) -> bool:
    """`issubclass`, which is remembered: xDSL's ops are abstract base classes, for each of which Python runs code of
    its own to answer this, and a pass asks it for every op, most often in vain."""
    return issubclass(cls, classes)
