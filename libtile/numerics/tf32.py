# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""f32 rounded to tf32, which has 13 bits less, as a copy by TMA does where the tensor map says so."""

from __future__ import annotations

import numpy as np

LOW_BITS = np.uint32((1 << 13) - 1)
_EXPONENT = np.uint32(0x7F800000)


def nearest(words: np.ndarray) -> np.ndarray:
    """The patterns of f32 (uint32) rounded to the nearest tf32, of two equally near ones to the even one; in an f32's
    place, with zeros in the low 13 bits. A NaN stays one. Which of two equally near ones hardware takes where TMA
    rounds is not published."""
    half = LOW_BITS >> np.uint32(1)
    rounded = words + half + (words >> np.uint32(13) & np.uint32(1)) & ~LOW_BITS
    special = words & _EXPONENT == _EXPONENT
    kept = words & ~LOW_BITS | np.where(words & LOW_BITS, LOW_BITS + np.uint32(1), np.uint32(0))
    return np.where(special, kept, rounded).astype(np.uint32)
