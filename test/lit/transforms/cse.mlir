// RUN: cuda-tile-opt %s --cse | FileCheck %s

cuda_tile.module @m {
  // CHECK-LABEL: testing$func @same_op
  // CHECK:       %[[A:.*]] = addi %{{.*}}, %{{.*}} : tile<i32>
  // CHECK-NEXT:  %[[M:.*]] = muli %[[A]], %[[A]] : tile<i32>
  // CHECK-NEXT:  return %[[M]]
  testing$func @same_op(%x: tile<i32>, %y: tile<i32>) -> tile<i32> {
    %a = addi %x, %y : tile<i32>
    %b = addi %x, %y : tile<i32>
    %m = muli %a, %b : tile<i32>
    return %m : tile<i32>
  }

  // Another attribute is another op.
  // CHECK-LABEL: testing$func @other_attribute
  // CHECK:       addf %{{.*}} : tile<f32>
  // CHECK:       addf %{{.*}} rounding<zero> : tile<f32>
  testing$func @other_attribute(%x: tile<f32>) -> (tile<f32>, tile<f32>) {
    %a = addf %x, %x : tile<f32>
    %b = addf %x, %x rounding<zero> : tile<f32>
    return %a, %b : tile<f32>, tile<f32>
  }

  // What is known around a region is known inside of it, but not the other way round, nor from branch to branch.
  // CHECK-LABEL: testing$func @regions
  // CHECK:       %[[A:.*]] = negi
  // CHECK-NEXT:  if
  // CHECK-NEXT:    %[[S:.*]] = absi
  // CHECK-NEXT:    print_tko "%d %d", %[[A]], %[[S]]
  // CHECK-NEXT:  } else {
  // CHECK-NEXT:    absi
  testing$func @regions(%c: tile<i1>, %x: tile<i32>) {
    %a = negi %x : tile<i32>
    if %c {
      %b = negi %x : tile<i32>
      %s = absi %x : tile<i32>
      print_tko "%d %d", %b, %s : tile<i32>, tile<i32> -> token
    } else {
      %t = absi %x : tile<i32>
      print_tko "%d", %t : tile<i32> -> token
    }
    return
  }

  // Two loads may see different values.
  // CHECK-LABEL: testing$func @loads
  // CHECK-COUNT-2: load_ptr_tko
  testing$func @loads(%p: tile<ptr<i32>>) -> (tile<i32>, tile<i32>) {
    %a, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %b, %u = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    return %a, %b : tile<i32>, tile<i32>
  }
}
