// RUN: cuda-tile-opt %s --canonicalize | FileCheck %s

cuda_tile.module @m {
  // Equal constants become one, at the top; dead ops go, chain by chain.
  // CHECK-LABEL: testing$func @constants_and_dead_ops
  // CHECK-NEXT:  %[[ONE:.*]] = constant <i32: 1> : tile<i32>
  // CHECK-NEXT:  %[[TWO:.*]] = constant <i32: 2> : tile<i32>
  // CHECK-NEXT:  %[[A:.*]] = addi %{{.*}}, %[[TWO]]
  // CHECK-NEXT:  %[[B:.*]] = addi %[[A]], %[[ONE]]
  // CHECK-NEXT:  %[[C:.*]] = addi %[[B]], %[[TWO]]
  // CHECK-NEXT:  return %[[C]]
  testing$func @constants_and_dead_ops(%x: tile<i32>) -> tile<i32> {
    %two = constant <i32: 2> : tile<i32>
    %a = addi %x, %two : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %b = addi %a, %one : tile<i32>
    %again = constant <i32: 2> : tile<i32>
    %c = addi %b, %again : tile<i32>
    %dead = muli %c, %c : tile<i32>
    %deader = divi %dead, %x signed : tile<i32>
    return %c : tile<i32>
  }

  // Bit patterns count: the two zeros of a float are different constants.
  // CHECK-LABEL: testing$func @zeros
  // CHECK:       constant <f32: {{-?0.*}}>
  // CHECK-NEXT:  constant <f32: {{-?0.*}}>
  testing$func @zeros() -> (tile<f32>, tile<f32>) {
    %a = constant <f32: 0.0> : tile<f32>
    %b = constant <f32: -0.0> : tile<f32>
    return %a, %b : tile<f32>, tile<f32>
  }

  // Products stand on the left of a sum.
  // CHECK-LABEL: testing$func @product_first
  // CHECK:       %[[M:.*]] = mulf
  // CHECK-NEXT:  addf %[[M]], %{{.*}} rounding<zero> flush_to_zero : tile<f32>
  testing$func @product_first(%x: tile<f32>) -> tile<f32> {
    %m = mulf %x, %x : tile<f32>
    %r = addf %x, %m rounding<zero> flush_to_zero : tile<f32>
    return %r : tile<f32>
  }

  // The same fact twice in a row is one fact; another fact stays.
  // CHECK-LABEL: testing$func @assumptions
  // CHECK:       %[[A:.*]] = assume div_by<16>, %{{.*}} : tile<i32>
  // CHECK-NEXT:  %[[B:.*]] = assume div_by<8>, %[[A]] : tile<i32>
  // CHECK-NEXT:  return %[[B]]
  testing$func @assumptions(%x: tile<i32>) -> tile<i32> {
    %a = assume div_by<16>, %x : tile<i32>
    %b = assume div_by<16>, %a : tile<i32>
    %c = assume div_by<8>, %b : tile<i32>
    return %c : tile<i32>
  }
}
