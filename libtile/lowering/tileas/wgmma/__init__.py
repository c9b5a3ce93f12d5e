# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents that multiply by wgmma: sums in registers, operands in stages."""
