// RUN: cuda-tile-opt %s --canonicalize --split-input-file | FileCheck %s

// An `if` over a negated condition swaps its branches.
// CHECK-LABEL: entry @negated_condition
// CHECK:       if %{{.*}} {
// CHECK-NEXT:    print_tko "no
// CHECK-NEXT:  } else {
// CHECK-NEXT:    print_tko "yes
cuda_tile.module @m {
  entry @negated_condition(%c: tile<i1>) {
    %true = constant <i1: true> : tile<i1>
    %not = xori %c, %true : tile<i1>
    if %not {
      print_tko "yes" -> token
    } else {
      print_tko "no" -> token
    }
    return
  }
}

// -----

// Results that nothing uses go, and with them what computed them.
// CHECK-LABEL: entry @unused_result
// CHECK-NOT:   muli
// CHECK:       %[[R:.*]] = if %{{.*}} -> (tile<i32>) {
// CHECK-NEXT:    %[[A:.*]] = addi
// CHECK-NEXT:    yield %[[A]] : tile<i32>
// CHECK:       } else {
// CHECK-NEXT:    %[[S:.*]] = subi
// CHECK-NEXT:    yield %[[S]] : tile<i32>
// CHECK:       store_ptr_tko weak %{{.*}}, %[[R]]
cuda_tile.module @m {
  entry @unused_result(%c: tile<i1>, %x: tile<i32>, %out: tile<ptr<i32>>) {
    %r, %unused = if %c -> (tile<i32>, tile<i32>) {
      %a = addi %x, %x : tile<i32>
      %m = muli %x, %x : tile<i32>
      yield %a, %m : tile<i32>, tile<i32>
    } else {
      %s = subi %x, %x : tile<i32>
      yield %s, %x : tile<i32>, tile<i32>
    }
    store_ptr_tko weak %out, %r : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}

// -----

// A branch of a constant condition takes the `if`'s place.
// CHECK-LABEL: entry @constant_condition
// CHECK-NOT:   if
// CHECK:       print_tko "taken"
// CHECK-NOT:   print_tko
// CHECK:       return
cuda_tile.module @m {
  entry @constant_condition() {
    %false = constant <i1: false> : tile<i1>
    if %false {
      print_tko "dropped" -> token
    } else {
      print_tko "taken" -> token
    }
    if %false {
      print_tko "dropped" -> token
    }
    return
  }
}

// -----

// A branch that leaves takes what follows it along.
// CHECK-LABEL: entry @constant_condition_in_a_loop
// CHECK:       loop
// CHECK:         break
// CHECK-NOT:     print_tko
// CHECK:       return
cuda_tile.module @m {
  entry @constant_condition_in_a_loop() {
    %true = constant <i1: true> : tile<i1>
    loop {
      if %true {
        break
      }
      print_tko "never" -> token
      continue
    }
    return
  }
}

// -----

// Values from outside need no branch.
// CHECK-LABEL: testing$func @select_of_outer_values
// CHECK-SAME:  (%[[C:[^ :]*]]: tile<i1>, %[[X:[^ :]*]]: tile<2xi32>, %[[Y:[^ :]*]]: tile<2xi32>
// CHECK-NOT:   if %
// CHECK:       %[[R:.*]] = reshape %[[C]] : tile<i1> -> tile<1xi1>
// CHECK-NEXT:  %[[B:.*]] = broadcast %[[R]] : tile<1xi1> -> tile<2xi1>
// CHECK-NEXT:  select %[[B]], %[[X]], %[[Y]]
cuda_tile.module @m {
  testing$func @select_of_outer_values(%c: tile<i1>, %x: tile<2xi32>, %y: tile<2xi32>, %out: tile<2xptr<i32>>) {
    %r = if %c -> (tile<2xi32>) {
      yield %x : tile<2xi32>
    } else {
      yield %y : tile<2xi32>
    }
    store_ptr_tko weak %out, %r : tile<2xptr<i32>>, tile<2xi32> -> token
    return
  }
}

// -----

// Two neighbours over one condition become one; the second sees what the first yields.
// CHECK-LABEL: entry @neighbours
// CHECK:       %[[C:.*]] = cmpi
// CHECK-NEXT:  if %[[C]] {
// CHECK-NEXT:    %[[T:.*]] = print_tko "one"
// CHECK-NEXT:    print_tko "two" token=%[[T]]
// CHECK-NEXT:  } else {
// CHECK-NEXT:    %[[U:.*]] = print_tko "three"
// CHECK-NEXT:  }
// CHECK-NEXT:  return
cuda_tile.module @m {
  entry @neighbours(%x: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %c = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>
    %t = if %c -> (token) {
      %1 = print_tko "one" -> token
      yield %1 : token
    } else {
      %1 = print_tko "three" -> token
      yield %1 : token
    }
    if %c {
      print_tko "two" token=%t -> token
    }
    return
  }
}

// -----

// An `if` that holds nothing but an `if` tests both conditions at once.
// CHECK-LABEL: entry @nested
// CHECK-SAME:  (%[[A:[^ :]*]]: tile<i1>, %[[B:[^ :]*]]: tile<i1>)
// CHECK:       %[[BOTH:.*]] = andi %[[A]], %[[B]] : tile<i1>
// CHECK-NEXT:  if %[[BOTH]] {
// CHECK-NEXT:    print_tko
// CHECK-NEXT:  }
// CHECK-NEXT:  return
cuda_tile.module @m {
  entry @nested(%a: tile<i1>, %b: tile<i1>) {
    if %a {
      if %b {
        print_tko "both" -> token
      }
    }
    return
  }
}

// -----

// When both branches leave, nothing behind the `if` is left.
// CHECK-LABEL: entry @both_leave
// CHECK:       if %{{.*}} {
// CHECK-NEXT:    print_tko "yes"
// CHECK-NEXT:    return
// CHECK-NEXT:  }
// CHECK-NEXT:  print_tko "no"
// CHECK-NEXT:  return
// CHECK-NEXT:  }
cuda_tile.module @m {
  entry @both_leave(%c: tile<i1>) {
    if %c {
      print_tko "yes" -> token
      return
    } else {
      print_tko "no" -> token
      return
    }
    print_tko "never" -> token
    return
  }
}
