# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the ops of nv_tileaa run: what `libtile.dialects.nv_tileaa.x` declares, `x` here runs."""
