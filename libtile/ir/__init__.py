# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the dialects are made of, whichever they are: strings and locations of MLIR, forms of ops."""
