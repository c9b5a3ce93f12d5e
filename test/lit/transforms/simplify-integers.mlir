// RUN: cuda-tile-opt %s --simplify-integers --canonicalize | FileCheck %s

cuda_tile.module @m {
  // The induction variable stays below the bound, so the guard of the last iteration is never needed.
  // CHECK-LABEL: entry @guard
  // CHECK-NOT:   cmpi
  // CHECK-NOT:   if
  // CHECK:       print_tko "inside"
  // CHECK-NOT:   print_tko "outside"
  entry @guard(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end = constant <i32: 16> : tile<i32>
    for %i in (%zero to %end, step %one) : tile<i32> {
      %c = cmpi less_than %i, %end, signed : tile<i32> -> tile<i1>
      if %c {
        print_tko "inside" -> token
      } else {
        print_tko "outside" -> token
      }
      continue
    }
    return
  }
}
