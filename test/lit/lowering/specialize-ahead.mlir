// Where registers hold the results of two iterations, the first products of the next one are issued before the rest of
// what lies between the products of this one is computed: nothing waits for a product of its own iteration.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_90 --convert-tileaa-to-tileas=whole-rows=true --tileas-specialize %s | FileCheck %s
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_90 --convert-tileaa-to-tileas=whole-rows=true --tileas-specialize=run-ahead=false %s | FileCheck %s --check-prefix TURNED
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @kernels {
  // CHECK-LABEL: nv_tileaa.func @ahead
  // CHECK: agent_switch {agent_elected = [0, 1], agent_registers = [240, 24], agent_warps = [8, 4]}
  // CHECK-NOT: take_turn
  // CHECK: nv_tileas.async.dot
  // CHECK: nv_tileas.wait_dot {{.*}}pending = 0}
  // CHECK: scf.if
  // CHECK: nv_tileaa.maxf
  // CHECK: nv_tileas.async.dot
  // CHECK: nv_tileas.wait_dot {held, pending = 1}
  // CHECK: nv_tileaa.exp2
  // CHECK: nv_tileas.wait_dot {{.*}}pending = 0}
  // CHECK: nv_tileaa.fp_to_fp
  // CHECK: scf.for
  // CHECK-COUNT-2: nv_tileas.async.pipeline.consumer_wait
  // CHECK: nv_tileas.async.dot {{.*}}64x128x16
  // CHECK: nv_tileaa.maxf
  // CHECK: nv_tileas.async.dot {{.*}}64x64x16
  // CHECK: nv_tileas.wait_dot {held, pending = 2}
  // CHECK: nv_tileaa.exp2
  // CHECK: nv_tileas.wait_dot {{.*}}pending = 0}
  // CHECK-COUNT-2: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileaa.fp_to_fp
  // CHECK: scf.yield
  // The last trailing products but one, and in the other branch nothing, as there was one iteration only.
  // CHECK: nv_tileas.async.dot {{.*}}64x128x16
  // CHECK: scf.yield
  // CHECK: scf.yield
  // CHECK: nv_tileaa.maxf
  // CHECK: nv_tileaa.exp2
  // CHECK: nv_tileas.async.dot {{.*}}64x128x16

  // TURNED-LABEL: nv_tileaa.func @ahead
  // TURNED-NOT: held
  // TURNED: take_turn
  entry @ahead(%x0: tile<ptr<f16>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %y: tile<ptr<f32>>, %n0: tile<i32>) {
    %x1 = assume div_by<16>, %x0 : tile<ptr<f16>>
    %a1 = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b1 = assume div_by<16>, %b0 : tile<ptr<f16>>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %n = assume div_by<16>, %n1 : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x64xf32>
    %first = constant <f32: 0.5> : tile<128x128xf32>
    %tx = make_tensor_view %x1, shape = [128, 32], strides = [32, 1] : tensor_view<128x32xf16, strides=[32,1]>
    %ta = make_tensor_view %a1, shape = [32, %n], strides = [%n, 1] : tile<i32> -> tensor_view<32x?xf16, strides=[?,1]>
    %tb = make_tensor_view %b1, shape = [%n, 128], strides = [128, 1] : tile<i32> -> tensor_view<?x128xf16, strides=[128,1]>
    %ty = make_tensor_view %y, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vx = make_partition_view %tx : partition_view<tile=(128x32), tensor_view<128x32xf16, strides=[32,1]>>
    %va = make_partition_view %ta : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>
    %vy = make_partition_view %ty : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %dims:2 = get_index_space_shape %va : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>> -> tile<i32>
    %x, %tx0 = load_view_tko weak %vx[%0, %0] : partition_view<tile=(128x32), tensor_view<128x32xf16, strides=[32,1]>>, tile<i32> -> tile<128x32xf16>, token
    %x2 = addf %x, %x : tile<128x32xf16>
    %r = for %i in (%0 to %dims#1, step %1) : tile<i32> iter_values(%acc = %first) -> (tile<128x128xf32>) {
      %a, %t0 = load_view_tko weak %va[%0, %i] : partition_view<tile=(32x64), padding_value = zero, tensor_view<32x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %b, %t1 = load_view_tko weak %vb[%i, %0] : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
      %h = mmaf %x2, %a, %none : tile<128x32xf16>, tile<32x64xf16>, tile<128x64xf32>
      %z = maxf %h, %none : tile<128x64xf32>
      %e = exp2 %z : tile<128x64xf32>
      %w = ftof %e : tile<128x64xf32> -> tile<128x64xf16>
      %d = mmaf %w, %b, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }
    %s = store_view_tko weak %r, %vy[%0, %0] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
