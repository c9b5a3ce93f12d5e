# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bitwise operations on integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.interpreter.rules import Run, Site, combine_masks, pure


def _absorbing(site: Site, bit: bool) -> Any:
    """An i1 result is known when one operand is known to be the value that decides it alone."""
    shape, width = site.shape("result"), site.element("result").width

    def mask(values: tuple, masks: tuple) -> Any:
        unknown = combine_masks(masks, shape)
        if width != 1 or unknown is None:
            return unknown
        for value, own in zip(values, masks):
            decided = np.asarray(value) == bit
            unknown &= ~(decided if own is None else decided & ~own)
        return unknown if unknown.any() else None

    return mask


@pure("andi", undefined=lambda site: _absorbing(site, False))
def andi(site: Site) -> Run:
    return np.bitwise_and


@pure("ori", undefined=lambda site: _absorbing(site, True))
def ori(site: Site) -> Run:
    return np.bitwise_or


@pure("xori")
def xori(site: Site) -> Run:
    return np.bitwise_xor
