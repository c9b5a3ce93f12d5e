// RUN: cuda-tile-opt %s --if-to-select | FileCheck %s
// RUN: cuda-tile-opt %s --if-to-select="max-elements=1" | FileCheck %s --check-prefix=SMALL

cuda_tile.module @m {
  // CHECK-LABEL: entry @tiles
  // CHECK-NOT:   if
  // CHECK:       %[[C:.*]] = broadcast %{{.*}} : tile<1xi1> -> tile<4xi1>
  // CHECK:       select %[[C]], %{{.*}}, %{{.*}} : tile<4xi1>, tile<4xi32>
  // SMALL-LABEL: entry @tiles
  // SMALL:       if
  entry @tiles(%c: tile<i1>) {
    %x = iota : tile<4xi32>
    %r = if %c -> (tile<4xi32>) {
      %y = addi %x, %x : tile<4xi32>
      yield %y : tile<4xi32>
    } else {
      yield %x : tile<4xi32>
    }
    print_tko "%d", %r : tile<4xi32> -> token
    return
  }
}
