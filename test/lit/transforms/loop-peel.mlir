// RUN: cuda-tile-opt %s --loop-peel --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --loop-peel --remarks=missed 2>&1 | FileCheck %s --check-prefix=SAID

cuda_tile.module @m {
  // The loop has iterations for certain: the first one and the last two stand there as they are.
  // CHECK-LABEL: entry @certain
  // CHECK-NOT:   if
  // CHECK:       print_tko "%d", %[[L:.*]] :
  // CHECK-NEXT:  for %{{.*}} in (%[[A:.*]] to %[[B:.*]], step
  // CHECK:       print_tko "%d", %[[B]] :
  // CHECK-NEXT:  print_tko "%d", %{{.*}} :
  entry @certain() {
    %low = constant <i32: 0> : tile<i32>
    %high = constant <i32: 20> : tile<i32>
    %step = constant <i32: 3> : tile<i32>
    for %i in (%low to %high, step %step) : tile<i32> {
      print_tko "%d", %i : tile<i32> -> token
      continue
    } {cuda_tile.loop_peel_front = 1 : i32, cuda_tile.loop_peel_back = 2 : i32}
    return
  }

  // Nobody knows whether there is one; the number behind the first one need not fit the type.
  // CHECK-LABEL: entry @uncertain
  // CHECK:       %[[C:.*]] = cmpi less_than %arg0, %arg1, unsigned
  // CHECK:       %[[R:.*]] = if %[[C]] -> (tile<i32>)
  // CHECK:         %[[SPAN:.*]] = subi %arg1, %arg0
  // CHECK:         %[[ONE:.*]] = addi %arg3, %arg0
  // CHECK:         %[[STEP:.*]] = mini %arg2, %[[SPAN]] unsigned
  // CHECK:         %[[SECOND:.*]] = addi %arg0, %[[STEP]]
  // CHECK:         for unsigned %{{.*}} in (%[[SECOND]] to %arg1, step %arg2) {{.*}} iter_values({{.*}} = %[[ONE]])
  // CHECK:       } else {
  // CHECK:         yield %arg3
  // CHECK:       print_tko "%d", %[[R]]
  entry @uncertain(%low: tile<i32>, %high: tile<i32>, %step: tile<i32>, %x: tile<i32>) {
    %r = for unsigned %i in (%low to %high, step %step) : tile<i32> iter_values(%s = %x) -> (tile<i32>) {
      %a = addi %s, %i : tile<i32>
      continue %a : tile<i32>
    } {cuda_tile.loop_peel_front = 1 : i32}
    print_tko "%d", %r : tile<i32> -> token
    return
  }

  // CHECK-LABEL: entry @endless
  // CHECK:       loop {
  // SAID:        remark[missed]: Loop is not peeled
  // SAID:        reason: nobody knows how many iterations a 'loop' has
  entry @endless(%c: tile<i1>) {
    loop {
      if %c {
        break
      }
      continue
    } {cuda_tile.loop_peel_front = 1 : i32}
    return
  }
}
