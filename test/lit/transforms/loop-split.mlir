// RUN: cuda-tile-opt %s --pass-pipeline='builtin.module(cuda_tile.module(cuda_tile.entry(loop-split)))' --split-input-file | FileCheck %s
// RUN: cuda-tile-opt %s --pass-pipeline='builtin.module(cuda_tile.module(cuda_tile.entry(loop-split{split-threshold=0})))' --split-input-file | FileCheck %s --check-prefix=OFF

// Unit step: the bound itself is the point.
// CHECK-LABEL: entry @unit_step
// CHECK-SAME:  (%[[B:[^ :]*]]: tile<i32>)
// CHECK:       %[[LB:.*]] = constant <i32: 0>
// CHECK:       %[[UB:.*]] = constant <i32: 8>
// CHECK:       %[[END:.*]] = mini %[[B]], %[[UB]] signed : tile<i32>
// CHECK-NEXT:  %[[START:.*]] = maxi %[[B]], %[[LB]] signed : tile<i32>
// CHECK-NEXT:  for %{{.*}} in (%[[LB]] to %[[END]], step %{{.*}}) : tile<i32> {
// CHECK-NEXT:    print_tko "low"
// CHECK-NEXT:  }
// CHECK-NEXT:  for %{{.*}} in (%[[START]] to %[[UB]], step %{{.*}}) : tile<i32> {
// CHECK-NEXT:    print_tko "high"
// CHECK-NEXT:  }
// CHECK-NEXT:  return
// OFF-LABEL:   entry @unit_step
// OFF:         if %
cuda_tile.module @m {
  entry @unit_step(%b: tile<i32>) {
    %lb = constant <i32: 0> : tile<i32>
    %ub = constant <i32: 8> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%lb to %ub, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        print_tko "low" -> token
      } else {
        print_tko "high" -> token
      }
      continue
    }
    return
  }
}

// -----

// Any step, with a bound of which nothing is known: it is brought into the loop's range before it is aligned.
// CHECK-LABEL: entry @any_step
// CHECK-SAME:  (%[[LB:[^ :]*]]: tile<i32>, %[[UB:[^ :]*]]: tile<i32>, %[[S:[^ :]*]]: tile<i32>, %[[B:[^ :]*]]: tile<i32>)
// CHECK:       %[[ONE:.*]] = constant <i32: 1>
// CHECK-NEXT:  %[[LAST:.*]] = subi %[[UB]], %[[ONE]]
// CHECK-NEXT:  %[[LOW:.*]] = mini %[[B]], %[[LAST]] signed
// CHECK:       %[[NEXT:.*]] = addi %[[LOW]], %{{.*}} : tile<i32>
// CHECK-NEXT:  %[[MAX:.*]] = maxi %[[NEXT]], %[[LB]] signed
// CHECK-NEXT:  %[[IN:.*]] = mini %[[MAX]], %[[UB]] signed
// CHECK-NEXT:  %[[D:.*]] = subi %[[IN]], %[[LB]]
// CHECK-NEXT:  %[[K:.*]] = divi %[[D]], %[[S]] unsigned rounding<positive_inf>
// CHECK-NEXT:  %[[KS:.*]] = muli %[[K]], %[[S]]
// CHECK-NEXT:  %[[GAP:.*]] = subi %[[KS]], %[[D]]
// CHECK-NEXT:  %[[LEFT:.*]] = subi %[[UB]], %[[IN]]
// CHECK-NEXT:  %[[ON:.*]] = mini %[[GAP]], %[[LEFT]] unsigned
// CHECK-NEXT:  %[[P:.*]] = addi %[[IN]], %[[ON]]
// CHECK-NEXT:  mini %[[P]], %[[UB]] signed
// CHECK-NEXT:  maxi %[[P]], %[[LB]] signed
// OFF-LABEL:   entry @any_step
// OFF-NOT:     divi
cuda_tile.module @m {
  entry @any_step(%lb: tile<i32>, %ub: tile<i32>, %s: tile<i32>, %b: tile<i32>) {
    for %i in (%lb to %ub, step %s) : tile<i32> {
      %c = cmpi greater_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        print_tko "high" -> token
      }
      continue
    }
    return
  }
}

// -----

// A hint on the `if` overrules the option, and a comparison of the other signedness says nothing about the order.
// CHECK-LABEL: entry @not_split
// CHECK-COUNT-2: for %
// CHECK-NOT:   for %
// CHECK:       return
// OFF-LABEL:   entry @not_split
cuda_tile.module @m {
  entry @not_split(%b: tile<i32>) {
    %lb = constant <i32: 0> : tile<i32>
    %ub = constant <i32: 8> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%lb to %ub, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        print_tko "low" -> token
      } {cuda_tile.loop_split = 0 : i32}
      continue
    }
    for %i in (%lb to %ub, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, unsigned : tile<i32> -> tile<i1>
      if %c {
        print_tko "low" -> token
      }
      continue
    }
    return
  }
}
