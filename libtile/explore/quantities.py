# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers and times as people read them."""

from __future__ import annotations

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def quantity(number: float) -> str:
    """A number with three digits and a decimal prefix."""
    for size, prefix in _PREFIXES:
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


def duration(seconds: float) -> str:
    """Seconds with three digits, in the unit that fits."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
