# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents around products of registers (mma.sync): a producer that copies, and the kernel's warps."""
