// Of a step of 96 KB two stages fit shared memory: it comes in halves along k, of which four fit.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_90 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize %s | FileCheck %s
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_90 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize=in-parts=false %s | FileCheck --check-prefix=WHOLE %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @kernels {
  // CHECK-LABEL: nv_tileaa.func @product
  // CHECK: nv_tileas.async.pipeline.create_pipeline {{.*}}pipeline<4, (!nv_tileas.buffer<128x64xf16, {{.*}}buffer<64x256xf16
  // CHECK: nv_tileas.async.dot {{.*}}step_parts = 2
  // CHECK: nv_tileas.async.pipeline.inc_iter {{.*}} {within}
  // CHECK: nv_tileas.async.dot {{.*}}step_parts = 2
  // CHECK: nv_tileas.wait_dot {{.*}}{pending = 1}
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: scf.for
  // CHECK: nv_tileas.async.dot
  // CHECK: nv_tileas.wait_dot {{.*}}{pending = 1}
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileas.async.pipeline.inc_iter {{.*}} {within}
  // CHECK: nv_tileas.async.dot
  // CHECK: nv_tileas.wait_dot {{.*}}{pending = 1}
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: scf.yield
  // The producer begins the second half 64 elements further along k.
  // CHECK: nv_tileas.async.pipeline.producer_acquire
  // CHECK-COUNT-2: nv_tileas.async.tiled_tma_load
  // CHECK: nv_tileas.async.pipeline.producer_commit
  // CHECK: nv_tileas.async.pipeline.inc_iter {{.*}} {within}
  // CHECK: nv_tileas.async.pipeline.producer_acquire
  // CHECK: [[HALF:%[0-9]+]] = arith.constant 64 : index
  // CHECK: arith.addi {{.*}}, [[HALF]]
  // CHECK-COUNT-2: nv_tileas.async.tiled_tma_load
  // CHECK: nv_tileas.async.pipeline.producer_commit
  // WHOLE-NOT: step_parts
  // WHOLE: nv_tileas.async.pipeline.create_pipeline {{.*}}pipeline<2, (!nv_tileas.buffer<128x128xf16, {{.*}}buffer<128x256xf16
  // WHOLE-NOT: within
  entry @product(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [128, 1024], strides = [1024, 1] : tensor_view<128x1024xf16, strides=[1024,1]>
    %vb = make_tensor_view %b, shape = [1024, 256], strides = [256, 1] : tensor_view<1024x256xf16, strides=[256,1]>
    %vc = make_tensor_view %c, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %pa = make_partition_view %va : partition_view<tile=(128x128), tensor_view<128x1024xf16, strides=[1024,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(128x256), tensor_view<1024x256xf16, strides=[256,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %8 = constant <i32: 8> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x256xf32>
    %r = for %i in (%0 to %8, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<128x256xf32>) {
      %x, %t = load_view_tko weak %pa[%0, %i] : partition_view<tile=(128x128), tensor_view<128x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x128xf16>, token
      %y, %u = load_view_tko weak %pb[%i, %0] : partition_view<tile=(128x256), tensor_view<1024x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x256xf16>, token
      %z = mmaf %x, %y, %acc : tile<128x128xf16>, tile<128x256xf16>, tile<128x256xf32>
      continue %z : tile<128x256xf32>
    }
    %s = store_view_tko weak %r, %pc[%0, %0] : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
