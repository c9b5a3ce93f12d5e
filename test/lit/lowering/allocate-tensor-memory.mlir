// What lies in tensor memory at the same time lies apart; the first op allocates for all, and all columns are given back at the end.
// RUN: cuda-tile-opt --tileas-allocate-tensor-memory --split-input-file %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: @together
// CHECK: alloc_tensor {tensor_columns = 256, tensor_offset = 0} : !nv_tileas.buffer<2x128x64xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 128} : !nv_tileas.buffer<1x128x4xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 136} : !nv_tileas.buffer<1x128x8xf32, tmem>
// CHECK-NOT: dealloc_tensor
// CHECK: agent_switch
// CHECK: dealloc_tensor
// CHECK-NOT: dealloc_tensor
nv_tileaa.func @together() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  %a = nv_tileas.alloc_tensor : !nv_tileas.buffer<2x128x64xf32, tmem>
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x4xf32, tmem>
  %c = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x8xf32, tmem>
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    %i = nv_tileas.reinterpret %a : !nv_tileas.buffer<2x128x64xf32, tmem> -> !nv_tileas.buffer<1x128x128xf32, tmem>
    %j = nv_tileas.reinterpret %b : !nv_tileas.buffer<1x128x4xf32, tmem> -> !nv_tileas.buffer<4x128x1xf32, tmem>
    nv_tileas.async.pipeline.yield
  })
  nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1x128x4xf32, tmem>
  nv_tileas.dealloc_tensor %c : !nv_tileas.buffer<1x128x8xf32, tmem>
  nv_tileaa.return
}

// -----

// Columns are used again behind the last use of what lay there, be it by what was made of it.
// CHECK-LABEL: @one_after_the_other
// CHECK: alloc_tensor {tensor_columns = 512, tensor_offset = 0} : !nv_tileas.buffer<1x256x128xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 256} : !nv_tileas.buffer<1x128x128xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 0} : !nv_tileas.buffer<1x128x256xf32, tmem>
nv_tileaa.func @one_after_the_other() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  %a = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x256x128xf32, tmem>
  %i = nv_tileas.reinterpret %a : !nv_tileas.buffer<1x256x128xf32, tmem> -> !nv_tileas.buffer<1x128x256xf32, tmem>
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x128xf32, tmem>
  %k = nv_tileas.reinterpret %i : !nv_tileas.buffer<1x128x256xf32, tmem> -> !nv_tileas.buffer<2x128x128xf32, tmem>
  %c = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x256xf32, tmem>
  nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1x128x128xf32, tmem>
  nv_tileas.dealloc_tensor %c : !nv_tileas.buffer<1x128x256xf32, tmem>
  nv_tileaa.return
}

// -----

// Two results of 64 rows lie in the same columns, each in half of the lanes; what takes all lanes lies behind both. An old
// lane goes with the old column.
// CHECK-LABEL: @halves
// CHECK: alloc_tensor {tensor_columns = 512, tensor_offset = 0} : !nv_tileas.buffer<1x64x256xf32, tmem>
// CHECK: alloc_tensor {tensor_lane = 16, tensor_offset = 0} : !nv_tileas.buffer<2x64x64xf32, tmem>
// CHECK: alloc_tensor {tensor_lane = 16, tensor_offset = 128} : !nv_tileas.buffer<1x64x64xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 256} : !nv_tileas.buffer<1x128x64xf32, tmem>
// CHECK: alloc_tensor {tensor_lane = 16, tensor_offset = 192} : !nv_tileas.buffer<1x64x64xf32, tmem>
// CHECK: alloc_tensor {tensor_offset = 320} : !nv_tileas.buffer<1x64x64xf32, tmem>
nv_tileaa.func @halves() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  %a = nv_tileas.alloc_tensor {tensor_lane = 16, tensor_offset = 7} : !nv_tileas.buffer<1x64x256xf32, tmem>
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2x64x64xf32, tmem>
  %c = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x64x64xf32, tmem>
  %d = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x64xf32, tmem>
  %e = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x64x64xf32, tmem>
  %f = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x64x64xf32, tmem>
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    %i = nv_tileas.reinterpret %a : !nv_tileas.buffer<1x64x256xf32, tmem> -> !nv_tileas.buffer<1x64x256xf32, tmem>
    %j = nv_tileas.reinterpret %b : !nv_tileas.buffer<2x64x64xf32, tmem> -> !nv_tileas.buffer<2x64x64xf32, tmem>
    %k = nv_tileas.reinterpret %c : !nv_tileas.buffer<1x64x64xf32, tmem> -> !nv_tileas.buffer<1x64x64xf32, tmem>
    %l = nv_tileas.reinterpret %d : !nv_tileas.buffer<1x128x64xf32, tmem> -> !nv_tileas.buffer<1x128x64xf32, tmem>
    %m = nv_tileas.reinterpret %e : !nv_tileas.buffer<1x64x64xf32, tmem> -> !nv_tileas.buffer<1x64x64xf32, tmem>
    nv_tileas.async.pipeline.yield
  })
  nv_tileas.dealloc_tensor %f : !nv_tileas.buffer<1x64x64xf32, tmem>
  nv_tileaa.return
}
