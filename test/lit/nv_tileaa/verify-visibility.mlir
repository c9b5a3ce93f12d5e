// A symbol has one of MLIR's visibilities.
// RUN: cuda-tile-opt -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{'nv_tileaa.func' op expects a sym_visibility of public, private, nested, but got 'zot'}}
nv_tileaa.func @k() attributes {sym_visibility = "zot", kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}

// -----

// expected-error @+1 {{'nv_tileaa.global' op expects a sym_visibility of public, private, nested, but got 'hidden'}}
nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "hidden"}

// -----

nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "private"}
nv_tileaa.global {sym_name = "h", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "nested"}
nv_tileaa.global {sym_name = "i", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "public"}
