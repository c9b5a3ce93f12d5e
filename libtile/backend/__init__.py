# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From LLVM IR to a cubin: LLVM's NVPTX backend, the finishing of its PTX, ptxas, and what a cubin holds."""
