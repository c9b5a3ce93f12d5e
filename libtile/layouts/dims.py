# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of a layout's input dimensions: a register, lane and warp of a CTA of a cluster, or an offset in memory."""

REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"
