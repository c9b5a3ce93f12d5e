# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileas to LLVM IR: every thread's share of every tile as LLVM values."""
