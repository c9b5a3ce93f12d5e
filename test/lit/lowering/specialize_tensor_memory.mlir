// On targets with tensor memory one thread issues the products of a loop, and the kernel's warps load the result part by part.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_100 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize --tileas-legalize-tmem-copy %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @kernels {
  // CHECK-LABEL: nv_tileaa.func @product
  // CHECK: nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained}
  // CHECK: %[[MEMORY:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x64xf32, tmem>
  // CHECK: nv_tileas.async.pipeline.create_pipeline %[[MEMORY]]
  // CHECK: nv_tileas.async.pipeline.agent_switch {agent_elected = [0, 1, 1], agent_warps = [4, 1, 1]}
  // CHECK: nv_tileas.async.pipeline.consumer_wait
  // CHECK: scf.if
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_st, bits=256>}
  // CHECK: nv_tileas.extract_slice {{.*}} {offsets = array<i64: 0, 0>} : !nv_tileas.buffer<128x64xf32, tmem,
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_ld, bits=256>}
  // CHECK: nv_tileas.tiled_store {{.*}} tile<128x32xf32
  // CHECK: nv_tileas.extract_slice {{.*}} {offsets = array<i64: 0, 32>}
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileas.tiled_store
  // CHECK: nv_tileas.async.tiled_tma_load
  // CHECK: nv_tileas.async.tiled_tma_load
  // CHECK: scf.for
  // CHECK: nv_tileas.async.dot_into {{.*}}mma_atom<tcgen05, 128x64x16, f16, f16, f32>
  // CHECK: nv_tileas.async.pipeline.consumer_release {{.*}} {after_products}
  // CHECK: nv_tileas.async.pipeline.producer_commit {{.*}} {after_products}
  // CHECK: nv_tileas.dealloc_tensor %[[MEMORY]]
  entry @product(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf16, strides=[256,1]>
    %vb = make_tensor_view %b, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %vc = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %pa = make_partition_view %va : partition_view<tile=(128x64), tensor_view<128x256xf16, strides=[256,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %4 = constant <i32: 4> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %r = for %i in (%0 to %4, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<128x64xf32>) {
      %x, %t = load_view_tko weak %pa[%0, %i] : partition_view<tile=(128x64), tensor_view<128x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %u = load_view_tko weak %pb[%i, %0] : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %z = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %z : tile<128x64xf32>
    }
    %s = store_view_tko weak %r, %pc[%0, %0] : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
