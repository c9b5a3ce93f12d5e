// A function that calls itself has no end to be inlined.
// RUN: cuda-tile-opt --inline-calls -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @again(%x: f32) -> f32 {
  // expected-error @+1 {{'nv_tileaa.call' op cannot be compiled: @again calls itself (types: f32, f32)}}
  %y = nv_tileaa.call %x {callee = @again} : f32 -> f32
  nv_tileaa.return %y : f32
}
nv_tileaa.func @k(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %y = nv_tileaa.call %x {callee = @again} : f32 -> f32
  nv_tileaa.print %y {format = "%f"} : f32
  nv_tileaa.return
}
