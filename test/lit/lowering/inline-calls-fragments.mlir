// What a kernel cannot do with functions and fragments is refused by name.
// RUN: cuda-tile-opt --inline-calls -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @started(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
nv_tileaa.func @k(%x: f32, %n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  // expected-error @+1 {{'nv_tileaa.launch_func' op launches @started from a kernel: only host functions launch kernels, as a launch on the device needs the device runtime of CUDA, which modules of kernels are not linked with on sm_90 (types: index, index, index, f32)}}
  nv_tileaa.launch_func %n, %n, %n, %x {kernel = @started} : index, index, index, f32
  nv_tileaa.return
}

// -----

nv_tileaa.func @fragment(%x: f32) -> f32
nv_tileaa.func @k(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileaa.plugin' op names the fragment @fragment, which has no body: no plugins are loaded (types: f32, f32)}}
  %y = nv_tileaa.plugin %x {plugin = @fragment} : f32 -> f32
  nv_tileaa.return
}

// -----

nv_tileaa.func @fragment(%x: f32) -> f32 {
  nv_tileaa.return %x : f32
}
nv_tileaa.func @k(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileaa.plugin' op has 'named_barriers', which nobody gives a fragment: it is compiled as part of its kernel (types: f32, f32)}}
  %y = nv_tileaa.plugin %x {plugin = @fragment, named_barriers = 2} : f32 -> f32
  nv_tileaa.return
}

// -----

nv_tileaa.func @fragment(%x: f32) -> f32 {
  nv_tileaa.return %x : f32
}
nv_tileaa.func @k(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileaa.plugin' op has 'layouts', which nobody gives a fragment: it is compiled as part of its kernel (types: f32, f32)}}
  %y = nv_tileaa.plugin %x {plugin = @fragment, layouts = []} : f32 -> f32
  nv_tileaa.return
}
