// Casts of block-scaled formats become the op that the target has; scaled products stay one op on every target.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa="gpu-name=sm_80" %s | FileCheck %s --check-prefix=OLD
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa="gpu-name=sm_100" %s | FileCheck %s --check-prefix=NEW
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @m {
  // OLD: nv_tileaa.func @casts
  // OLD: nv_tileaa.emulated_fp_to_fp {{.*}} -> tile<8xf8E8M0FNU>
  // OLD: nv_tileaa.fp_to_fp {{.*}} -> tile<8xf8E4M3FN>
  // NEW: nv_tileaa.func @casts
  // NEW: nv_tileaa.fp_to_fp {{.*}} -> tile<8xf8E8M0FNU>
  // NEW: nv_tileaa.fp_to_fp {{.*}} -> tile<8xf8E4M3FN>
  entry @casts(%x: tile<f32>) {
    %ones = reshape %x : tile<f32> -> tile<1xf32>
    %many = broadcast %ones : tile<1xf32> -> tile<8xf32>
    %scale = ftof %many rounding<zero> : tile<8xf32> -> tile<8xf8E8M0FNU>
    %small = ftof %many : tile<8xf32> -> tile<8xf8E4M3FN>
    return
  }
  // OLD: nv_tileaa.scaled_dot {{.*}} -> tile<16x8xf32>
  // NEW: nv_tileaa.scaled_dot {{.*}} -> tile<16x8xf32>
  entry @product() {
    %a = constant <f8E4M3FN: 1.0> : tile<16x32xf8E4M3FN>
    %b = constant <f8E4M3FN: 1.0> : tile<32x8xf8E4M3FN>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    %sa = constant <f8E8M0FNU: 1.0> : tile<16x1xf8E8M0FNU>
    %sb = constant <f8E8M0FNU: 1.0> : tile<1x8xf8E8M0FNU>
    %d = mmaf_scaled %a, %b, %c, %sa, %sb : tile<16x32xf8E4M3FN>, tile<32x8xf8E4M3FN>, tile<16x8xf32>, tile<16x1xf8E8M0FNU>, tile<1x8xf8E8M0FNU>
    return
  }
  // Twice the warps that a plain product of this size has: the factors and the operands' bytes take registers, too.
  // OLD: nv_tileaa.func @large{{.*}}num_warps=8
  // NEW: nv_tileaa.func @large{{.*}}num_warps=8
  entry @large() {
    %a = constant <f8E4M3FN: 1.0> : tile<128x32xf8E4M3FN>
    %b = constant <f8E4M3FN: 1.0> : tile<32x64xf8E4M3FN>
    %c = constant <f32: 0.0> : tile<128x64xf32>
    %sa = constant <f8E8M0FNU: 1.0> : tile<128x1xf8E8M0FNU>
    %sb = constant <f8E8M0FNU: 1.0> : tile<1x64xf8E8M0FNU>
    %d = mmaf_scaled %a, %b, %c, %sa, %sb : tile<128x32xf8E4M3FN>, tile<32x64xf8E4M3FN>, tile<128x64xf32>, tile<128x1xf8E8M0FNU>, tile<1x64xf8E8M0FNU>
    return
  }
}
