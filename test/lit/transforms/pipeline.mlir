// RUN: cuda-tile-opt %s --pass-pipeline='builtin.module(cuda_tile.module(cuda_tile.entry(fuse-fma,canonicalize,cse,licm,dce)))' | FileCheck %s

// One pass makes work for the next: the equal products are fused apart, then the sums merge and leave the loop.
// CHECK-LABEL: entry @kernel
// CHECK-SAME:  %[[X:[^ :]*]]: tile<f32>)
// CHECK:       %[[F:.*]] = fma %[[X]], %[[X]], %[[X]] : tile<f32>
// CHECK-NEXT:  for
// CHECK-NEXT:    print_tko "%f %f", %[[F]], %[[F]]
cuda_tile.module @m {
  entry @kernel(%n: tile<i32>, %x: tile<f32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a = mulf %x, %x : tile<f32>
      %b = addf %a, %x : tile<f32>
      %c = mulf %x, %x : tile<f32>
      %d = addf %x, %c : tile<f32>
      %dead = muli %i, %i : tile<i32>
      print_tko "%f %f", %b, %d : tile<f32>, tile<f32> -> token
      continue
    }
    return
  }
}
