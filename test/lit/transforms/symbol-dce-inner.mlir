// Hidden globals and functions of the inner dialects that nothing refers to go, and what only they referred to.
// RUN: cuda-tile-opt --symbol-dce %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-NOT: "alone"
// CHECK-NOT: "by-dead"
// CHECK-NOT: "nested"
// CHECK: nv_tileaa.global {sym_name = "used"
// CHECK: nv_tileaa.global {sym_name = "seen"
// CHECK-NOT: @dead
// CHECK: nv_tileaa.func @called
// CHECK: nv_tileaa.func @k
nv_tileaa.global {sym_name = "alone", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "private"}
nv_tileaa.global {sym_name = "by-dead", value = dense<1.0> : !cuda_tile.tile<4xf32>, sym_visibility = "private"}
nv_tileaa.global {sym_name = "used", value = dense<2.0> : !cuda_tile.tile<4xf32>, sym_visibility = "private"}
nv_tileaa.global {sym_name = "seen", value = dense<3.0> : !cuda_tile.tile<4xf32>}
nv_tileaa.global {sym_name = "nested", value = dense<3.0> : !cuda_tile.tile<4xf32>, sym_visibility = "nested"}
nv_tileaa.func @dead() -> !nv_tileaa.ptr<f32, 1> attributes {sym_visibility = "private"} {
  %g = nv_tileaa.get_global {name = @"by-dead"} : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return %g : !nv_tileaa.ptr<f32, 1>
}
nv_tileaa.func @called() -> !nv_tileaa.ptr<f32, 1> attributes {sym_visibility = "private"} {
  %g = nv_tileaa.get_global {name = @used} : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return %g : !nv_tileaa.ptr<f32, 1>
}
nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %g = nv_tileaa.call {callee = @called} : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.mark_for_reuse %g : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return
}
