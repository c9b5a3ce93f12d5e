// RUN: cuda-tile-opt %s --loop-unroll --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --loop-unroll="factor=4 max-ops=8" --remarks=all 2>&1 | FileCheck %s --check-prefix=SAID

cuda_tile.module @m {
  // Whole groups of iterations, and a loop over the rest.
  // CHECK-LABEL: entry @groups
  // CHECK:       %[[END:.*]] = muli %{{.*}}, %[[STEP:.*]] : tile<i32>
  // CHECK:       %[[FIRST:.*]] = for %[[I:.*]] in (%[[ZERO:.*]] to %[[END]], step %[[STEP]]) {{.*}} iter_values(%[[S:.*]] = %[[ZERO]])
  // CHECK-NEXT:    %[[A:.*]] = addi %[[S]], %[[I]]
  // CHECK-NEXT:    %[[J:.*]] = addi %[[I]], %[[ONE:.*]] :
  // CHECK-NEXT:    %[[B:.*]] = addi %[[A]], %[[J]]
  // CHECK-NEXT:    continue %[[B]]
  // CHECK:       for {{.*}} in (%[[END]] to %arg0, step %[[ONE]]) {{.*}} iter_values({{.*}} = %[[FIRST]])
  // CHECK-NOT:   loop_unroll
  // SAID:        remark[passed]: Loop unrolled
  // SAID:        note: Factor = 2
  entry @groups(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      %a = addi %s, %i : tile<i32>
      continue %a : tile<i32>
    } {cuda_tile.loop_unroll = 2 : i32}
    print_tko "%d", %r : tile<i32> -> token
    return
  }

  // Three known iterations and no loop.
  // CHECK-LABEL: entry @all
  // CHECK-NOT:   for
  // CHECK-COUNT-3: print_tko "in"
  // CHECK-NOT:   print_tko "in"
  entry @all() {
    %low = constant <i8: 120> : tile<i8>
    %high = constant <i8: 127> : tile<i8>
    %step = constant <i8: 3> : tile<i8>
    for %i in (%low to %high, step %step) : tile<i8> {
      print_tko "in" -> token
      continue
    } {cuda_tile.loop_unroll = 3 : i32}
    return
  }

  // Two whole pairs of iterations, of which the last ends beyond the bound: 0 and 2, 4 and 6.
  // CHECK-LABEL: entry @pairs
  // CHECK:       %[[SEVEN:.*]] = constant <i32: 7>
  // CHECK:       for %{{.*}} in (%{{.*}} to %[[SEVEN]], step %{{.*}})
  // CHECK-COUNT-2: print_tko "%d"
  // CHECK-NOT:   for
  // CHECK-NOT:   print_tko
  entry @pairs() {
    %zero = constant <i32: 0> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %seven = constant <i32: 7> : tile<i32>
    for %i in (%zero to %seven, step %two) : tile<i32> {
      print_tko "%d", %i : tile<i32> -> token
      continue
    } {cuda_tile.loop_unroll = 2 : i32}
    return
  }

  // Each copy of an endless loop can leave it, or go on with the first one.
  // CHECK-LABEL: entry @endless
  // CHECK:       loop
  // CHECK:         break
  // CHECK:         continue
  // CHECK:         muli
  // CHECK:         break
  // CHECK:         continue
  // CHECK:         muli
  // CHECK:         continue
  // SAID:        remark[missed]: Loop is not unrolled
  // SAID:        Factor = 2
  // SAID:        reason: 2 copies of 7 ops are more than 8 ops
  entry @endless(%n: tile<i32>, %c: tile<i1>) {
    %r = loop iter_values(%s = %n) : tile<i32> -> tile<i32> {
      %end = cmpi less_than %s, %n, signed : tile<i32> -> tile<i1>
      if %end {
        break %s : tile<i32>
      }
      if %c {
        continue %n : tile<i32>
      }
      %m = muli %s, %s : tile<i32>
      continue %m : tile<i32>
    } {cuda_tile.loop_unroll = 2 : i32}
    print_tko "%d", %r : tile<i32> -> token
    return
  }

  // An iteration that may end early runs in a loop of its own; so many steps do not fit the counter.
  // CHECK-LABEL: entry @early
  // CHECK:       for
  // CHECK:         loop : tile<i32>
  // CHECK:           if
  // CHECK:             break
  // CHECK:         loop : tile<i32>
  // CHECK:         continue
  // SAID:        remark[missed]: Loop is not unrolled
  // SAID:        reason: so many steps are more than the type of the counter holds
  entry @early(%n: tile<i32>, %b: tile<i8>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      if %c {
        continue %i : tile<i32>
      }
      %a = addi %s, %i : tile<i32>
      continue %a : tile<i32>
    } {cuda_tile.loop_unroll = 2 : i32}
    %large = constant <i8: 100> : tile<i8>
    for %i in (%b to %large, step %large) : tile<i8> {
      print_tko "%d", %r : tile<i32> -> token
      continue
    } {cuda_tile.loop_unroll = 2 : i32}
    return
  }
}
