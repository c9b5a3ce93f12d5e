# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lowering stack: cuda_tile -> nv_tileaa -> nv_tileas -> LLVM IR."""
