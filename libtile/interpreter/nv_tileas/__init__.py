# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the ops of nv_tileas run: what `libtile.dialects.nv_tileas.x` declares, `x` here runs."""
