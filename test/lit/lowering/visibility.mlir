// A hidden kernel that a function of the host launches is public once that function is gone.
// RUN: cuda-tile-opt --inline-calls %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: nv_tileaa.func @launched
// CHECK-NOT: sym_visibility
// CHECK: nv_tileaa.func @alone
// CHECK-SAME: sym_visibility = "private"
nv_tileaa.func @launched() attributes {sym_visibility = "private", kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
nv_tileaa.func @alone() attributes {sym_visibility = "private", kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
nv_tileaa.func @host(%n: index) {
  nv_tileaa.launch_func %n, %n, %n {kernel = @launched} : index, index, index
  nv_tileaa.return
}
