// RUN: cuda-tile-opt %s --dce | FileCheck %s

cuda_tile.module @m {
  // A weak load that nothing uses, and the facts stated about its address, are gone; a store is not.
  // CHECK-LABEL: entry @unused_load
  // CHECK-NEXT:  %[[V:.*]] = constant
  // CHECK-NEXT:  store_ptr_tko weak %{{.*}}, %[[V]]
  // CHECK-NEXT:  return
  entry @unused_load(%p: tile<ptr<i32>>) {
    %v = constant <i32: 1> : tile<i32>
    %a = assume div_by<16>, %p : tile<ptr<i32>>
    %b, %t = load_ptr_tko weak %a : tile<ptr<i32>> -> tile<i32>, token
    store_ptr_tko weak %p, %v : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // A load that others may synchronise with stays, and so does one that a store waits for.
  // CHECK-LABEL: entry @loads_that_stay
  // CHECK:       load_ptr_tko relaxed device
  // CHECK:       %{{.*}}, %[[T:.*]] = load_ptr_tko weak
  // CHECK:       store_ptr_tko weak %{{.*}} token=%[[T]]
  entry @loads_that_stay(%p: tile<ptr<i32>>) {
    %v = constant <i32: 1> : tile<i32>
    %a, %s = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token
    %b, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    store_ptr_tko weak %p, %v token=%t : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // A counted loop that computes nothing of use is gone; an endless one may never end.
  // CHECK-LABEL: entry @loops
  // CHECK-NOT:   for
  // CHECK:       loop
  entry @loops(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      %t = addi %s, %i : tile<i32>
      continue %t : tile<i32>
    }
    loop {
      continue
    }
    return
  }

  // A value that a loop carries only to compute itself is no longer computed.
  // CHECK-LABEL: entry @carried_for_itself
  // CHECK:       for %{{.*}} iter_values(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}})
  // CHECK-NOT:     muli
  // CHECK:         %[[S:.*]] = addi %[[A]]
  // CHECK:         continue %[[S]], %[[B]]
  entry @carried_for_itself(%n: tile<i32>, %p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %sum, %product = for %i in (%zero to %n, step %one) : tile<i32>
        iter_values(%s = %zero, %q = %one) -> (tile<i32>, tile<i32>) {
      %t = addi %s, %i : tile<i32>
      %u = muli %q, %i : tile<i32>
      continue %t, %u : tile<i32>, tile<i32>
    }
    store_ptr_tko weak %p, %sum : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // The last value of a `for` is its result, though no iteration reads it.
  // CHECK-LABEL: entry @last_value
  // CHECK:         %[[M:.*]] = muli
  // CHECK:         continue %[[M]]
  entry @last_value(%n: tile<i32>, %p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %last = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      %m = muli %i, %i : tile<i32>
      continue %m : tile<i32>
    }
    store_ptr_tko weak %p, %last : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
