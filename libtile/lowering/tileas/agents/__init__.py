# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What agents have in common, whoever multiplies: their loops, feeds, operands that warps make, registers."""
