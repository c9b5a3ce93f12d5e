// Two products of which one feeds the other, on a target with tensor memory: four warps load the scores, store the left
// operand of the second product, and rescale its sums in place.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_100 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize --tileas-legalize-tmem-copy --tileas-allocate-tensor-memory %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @kernels {
  // CHECK-LABEL: nv_tileaa.func @chain
  // CHECK: nv_tileas.alloc_tensor {tensor_columns = 256, tensor_offset = 0} : !nv_tileas.buffer<2x128x64xf32, tmem>
  // CHECK: %[[SUMS:.*]] = nv_tileas.alloc_tensor {tensor_offset = 128} : !nv_tileas.buffer<1x128x64xf32, tmem>
  // CHECK: %[[LEFT:.*]] = nv_tileas.alloc_tensor {tensor_offset = 192}
  // CHECK: nv_tileas.reinterpret %[[LEFT]] : {{.*}} -> !nv_tileas.buffer<2x128x64xf16, tmem>
  // CHECK: nv_tileas.async.pipeline.agent_switch {agent_elected = [0, 1, 1], agent_warps = [4, 1, 1]}
  // CHECK: scf.for
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_ld, bits=32>}
  // CHECK: nv_tileaa.exp2
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_st, bits=32>} : tile<128x64xf16,
  // CHECK: scf.if
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_ld, bits=32>} : !nv_tileas.buffer<128x32xf32, tmem,
  // CHECK: nv_tileaa.mulf {{.*}}in_pairs{{.*}} tile<128x32xf32
  // CHECK: nv_tileas.copy {{.*}} {atom = #nv_tileas.copy_atom<tcgen05_st, bits=32>} : tile<128x32xf32,
  // CHECK: nv_tileas.tiled_store
  // CHECK: nv_tileas.async.tiled_tma_load
  // CHECK: scf.if
  // CHECK: nv_tileas.async.dot_into {{.*}}mma_atom<tcgen05, 128x64x16, f16, f16, f32>
  // CHECK: scf.for
  // CHECK: scf.if
  // CHECK: nv_tileas.async.dot_into
  // CHECK: nv_tileas.async.dot_into {{.*}} : !nv_tileas.buffer<128x64xf16, tmem,
  // CHECK: nv_tileas.dealloc_tensor %[[SUMS]]
  entry @chain(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %vb = make_tensor_view %b, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %vc = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %pa = make_partition_view %va : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %4 = constant <i32: 4> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %half = constant <f32: 0.5> : tile<128x64xf32>
    %q, %t0 = load_view_tko weak %pa[%0, %0] : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
    %r = for %i in (%0 to %4, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<128x64xf32>) {
      %k, %t1 = load_view_tko weak %pb[%i, %0] : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %v, %t2 = load_view_tko weak %pb[%i, %0] : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %s = mmaf %q, %k, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %e = exp2 %s : tile<128x64xf32>
      %p = ftof %e : tile<128x64xf32> -> tile<128x64xf16>
      %less = mulf %acc, %half : tile<128x64xf32>
      %z = mmaf %p, %v, %less : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      continue %z : tile<128x64xf32>
    }
    %w = store_view_tko weak %r, %pc[%0, %0] : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
