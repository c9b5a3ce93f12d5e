# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layouts over F2: one algebra for registers, shared memory and tensor-core fragments."""

from libtile.layouts.linear import BLOCK, LANE, OFFSET, REGISTER, WARP, LinearLayout

__all__ = ["BLOCK", "LANE", "OFFSET", "REGISTER", "WARP", "LinearLayout"]
