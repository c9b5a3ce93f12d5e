// RUN: cuda-tile-opt %s --pass-pipeline='builtin.module(cuda_tile.module(cuda_tile.testing$func(fuse-fma)))' | FileCheck %s

cuda_tile.module @m {
  // CHECK-LABEL: testing$func @sum
  // CHECK-SAME:  (%[[A:[^ :]*]]: tile<4xf16>, %[[B:[^ :]*]]: tile<4xf16>, %[[C:[^ :]*]]: tile<4xf16>)
  // CHECK-NEXT:  %[[R:.*]] = fma %[[A]], %[[B]], %[[C]] : tile<4xf16>
  // CHECK-NEXT:  return %[[R]]
  testing$func @sum(%a: tile<4xf16>, %b: tile<4xf16>, %c: tile<4xf16>) -> tile<4xf16> {
    %p = mulf %a, %b : tile<4xf16>
    %r = addf %c, %p : tile<4xf16>
    return %r : tile<4xf16>
  }

  // CHECK-LABEL: testing$func @difference
  // CHECK-SAME:  (%[[A:[^ :]*]]: tile<f32>, %[[B:[^ :]*]]: tile<f32>, %[[C:[^ :]*]]: tile<f32>)
  // CHECK-NEXT:  %[[N:.*]] = negf %[[C]] : tile<f32>
  // CHECK-NEXT:  %[[R:.*]] = fma %[[A]], %[[B]], %[[N]] rounding<zero> flush_to_zero : tile<f32>
  // CHECK-NEXT:  return %[[R]]
  testing$func @difference(%a: tile<f32>, %b: tile<f32>, %c: tile<f32>) -> tile<f32> {
    %p = mulf %a, %b rounding<zero> flush_to_zero : tile<f32>
    %r = subf %p, %c rounding<zero> flush_to_zero : tile<f32>
    return %r : tile<f32>
  }

  // A product that is used twice, or rounded in another way, or subtracted, stays.
  // CHECK-LABEL: testing$func @not_fused
  // CHECK-COUNT-3: mulf
  // CHECK-NOT:   fma
  // CHECK:       return
  testing$func @not_fused(%a: tile<f32>, %b: tile<f32>) -> (tile<f32>, tile<f32>, tile<f32>) {
    %p = mulf %a, %b : tile<f32>
    %r = addf %p, %p : tile<f32>
    %q = mulf %a, %b rounding<zero> : tile<f32>
    %s = addf %q, %a : tile<f32>
    %o = mulf %b, %b : tile<f32>
    %t = subf %a, %o : tile<f32>
    return %r, %s, %t : tile<f32>, tile<f32>, tile<f32>
  }
}
