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

  // A minimum or maximum, as a conditional expression writes it: signed or not, either way round, or of tiles. One that
  // is known to be one of the two is that one.
  // CHECK-LABEL: testing$func @chosen(%{{.*}}: tile<i32>, %{{.*}}: tile<i32>, %{{.*}}: tile<8xi32>)
  // CHECK:       %[[A:.*]] = mini %[[N:.*]], %[[M:.*]] signed
  // CHECK:       %[[B:.*]] = maxi %[[N]], %[[M]] unsigned
  // CHECK:       %[[D:.*]] = maxi %[[T:.*]], %{{.*}} signed : tile<8xi32>
  // CHECK:       %[[F:.*]] = select
  // CHECK:       return %[[A]], %[[B]], %[[D]], %{{.*}}, %[[F]]
  testing$func @chosen(%n: tile<i32>, %m: tile<i32>, %t: tile<8xi32>) -> (tile<i32>, tile<i32>, tile<8xi32>, tile<i32>, tile<i32>) {
    %c = cmpi less_than %n, %m, signed : tile<i32> -> tile<i1>
    %a = select %c, %n, %m : tile<i1>, tile<i32>
    %d = cmpi less_than_or_equal %n, %m, unsigned : tile<i32> -> tile<i1>
    %b = select %d, %m, %n : tile<i1>, tile<i32>
    %zeros = constant <i32: 0> : tile<8xi32>
    %e = cmpi greater_than %t, %zeros, signed : tile<8xi32> -> tile<8xi1>
    %p = select %e, %t, %zeros : tile<8xi1>, tile<8xi32>
    %two = constant <i32: 2> : tile<i32>
    %i = remi %n, %two signed : tile<i32>
    %big = constant <i32: 9> : tile<i32>
    %g = cmpi greater_than %i, %big, signed : tile<i32> -> tile<i1>
    %q = select %g, %big, %i : tile<i1>, tile<i32>
    %f = select %c, %two, %m : tile<i1>, tile<i32>
    return %a, %b, %p, %q, %f : tile<i32>, tile<i32>, tile<8xi32>, tile<i32>, tile<i32>
  }
}
