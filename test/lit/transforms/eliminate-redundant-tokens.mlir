// RUN: cuda-tile-opt %s --eliminate-redundant-tokens --canonicalize | FileCheck %s

cuda_tile.module @m {
  // A loop that only reads: its tokens order nothing, and the store behind it waits for the store before it.
  // CHECK-LABEL: entry @reads_in_a_loop
  // CHECK:       %[[S:.*]] = store_ptr_tko weak %{{.*}}, %{{.*}} : tile<ptr<i32>>, tile<i32> -> token
  // CHECK:       for
  // CHECK:         load_ptr_tko weak %{{.*}} token=%[[S]]
  // CHECK:       store_ptr_tko weak %{{.*}}, %{{.*}} token=%[[S]]
  entry @reads_in_a_loop(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %fresh = make_token : token
    %s = store_ptr_tko weak %p, %n token=%fresh : tile<ptr<i32>>, tile<i32> -> token
    %t = for %i in (%n to %n, step %n) : tile<i32> iter_values(%u = %s) -> (token) {
      %v, %l = load_ptr_tko weak %p token=%u : tile<ptr<i32>> -> tile<i32>, token
      print_tko "%d", %v : tile<i32> -> token
      continue %u : token
    }
    %e = store_ptr_tko weak %p, %n token=%t : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
