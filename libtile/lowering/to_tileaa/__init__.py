# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`convert-cuda-tile-to-tileaa`: public Tile IR to nv_tileaa, arith, math and scf."""
