# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One module per file of `cuda/`: the launches of its kernels and the results expected of them."""
