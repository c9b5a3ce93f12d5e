// Calls become what they call, of functions that call others as well; only kernels are left.
// RUN: cuda-tile-opt --inline-calls %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: nv_tileaa.func @k
// CHECK-NOT: nv_tileaa.call
// CHECK: %[[A:.*]] = nv_tileaa.addf %[[X:.*]], %[[X]] : f32, f32 -> f32
// CHECK-NEXT: %[[B:.*]] = nv_tileaa.mulf %[[A]], %[[X]] : f32, f32 -> f32
// CHECK-NEXT: nv_tileaa.print %[[B]]
// CHECK-NOT: nv_tileaa.func
nv_tileaa.func @twice(%x: f32) -> f32 {
  %y = nv_tileaa.addf %x, %x : f32, f32 -> f32
  nv_tileaa.return %y : f32
}
nv_tileaa.func @outer(%x: f32) -> f32 {
  %y = nv_tileaa.call %x {callee = @twice} : f32 -> f32
  %z = nv_tileaa.mulf %y, %x : f32, f32 -> f32
  nv_tileaa.return %z : f32
}
nv_tileaa.func @k(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %y = nv_tileaa.call %x {callee = @outer} : f32 -> f32
  nv_tileaa.print %y {format = "%f"} : f32
  nv_tileaa.return
}
