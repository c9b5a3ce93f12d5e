# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of which classes an op or an attribute is, for who asks it of every one about many classes."""

from __future__ import annotations

from functools import cache


@cache
def is_subclass(cls: type, classes: tuple[type, ...]) -> bool:
    """`issubclass`, which is remembered: classes of xDSL's ops and attributes are abstract, for each of which Python
    runs code of its own to answer this, and a pass asks it for every op, most often in vain."""
    return issubclass(cls, classes)
