// A symbol has one of MLIR's visibilities.
// RUN: cuda-tile-opt -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{'nv_tileaa.func' op expects a sym_visibility of public, private, nested, but got 'zot'}}
nv_tileaa.func @k() attributes {sym_visibility = "zot", kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
