// What does not fit tensor memory together is refused.
// RUN: cuda-tile-opt --tileas-allocate-tensor-memory --split-input-file --verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @too_much() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  %a = nv_tileas.alloc_tensor : !nv_tileas.buffer<2x128x160xf32, tmem>
  // expected-error @below {{needs 256 columns of tensor memory from 320 on, which has 512}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x256xf32, tmem>
  nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<2x128x160xf32, tmem>
  nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1x128x256xf32, tmem>
  nv_tileaa.return
}

// -----

nv_tileaa.func @of_one_and_of_two() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=2, target=sm_100>} {
  %a = nv_tileas.alloc_tensor {pair} : !nv_tileas.buffer<1x128x64xf32, tmem>
  // expected-error @below {{is storage of a pair of CTAs, or of one, and the kernel's other storage is not}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x64xf32, tmem>
  nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<1x128x64xf32, tmem>
  nv_tileaa.return
}
