// RUN: cuda-tile-opt %s --licm | FileCheck %s

cuda_tile.module @m {
  // Chains of invariant ops move together, out of both loops.
  // CHECK-LABEL: entry @nest
  // CHECK:       %[[A:.*]] = muli
  // CHECK-NEXT:  %[[B:.*]] = absi %[[A]]
  // CHECK-NEXT:  for
  // CHECK-NEXT:    for
  // CHECK-NEXT:      print_tko "%d", %[[B]]
  entry @nest(%n: tile<i32>, %x: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      for %j in (%zero to %n, step %one) : tile<i32> {
        %a = muli %x, %x : tile<i32>
        %b = absi %a : tile<i32>
        print_tko "%d", %b : tile<i32> -> token
        continue
      }
      continue
    }
    return
  }

  // A loop that may run no iteration keeps what is undefined for some operands.
  // CHECK-LABEL: entry @division
  // CHECK:       %[[SAFE:.*]] = divi %{{.*}}, %{{.*}} unsigned : tile<i32>
  // CHECK-NEXT:  for
  // CHECK-NEXT:    %[[D:.*]] = divi
  // CHECK-NEXT:    %[[W:.*]] = addi %{{.*}} overflow<no_signed_wrap>
  // CHECK-NEXT:    print_tko "%d %d %d", %[[D]], %[[SAFE]], %[[W]]
  entry @division(%n: tile<i32>, %x: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %d = divi %x, %n signed : tile<i32>
      %s = divi %x, %one unsigned : tile<i32>
      %w = addi %x, %x overflow<no_signed_wrap> : tile<i32>
      print_tko "%d %d %d", %d, %s, %w : tile<i32>, tile<i32>, tile<i32> -> token
      continue
    }
    return
  }

  // The first iteration of a `loop` runs; what it does before it can leave may be done before it.
  // CHECK-LABEL: entry @first_iteration
  // CHECK:       divi
  // CHECK-NEXT:  loop
  // CHECK-NEXT:    if
  // CHECK-NEXT:      break
  // CHECK-NEXT:    }
  // CHECK-NEXT:    remi
  entry @first_iteration(%x: tile<i32>, %y: tile<i32>, %c: tile<i1>) {
    loop {
      %a = divi %x, %y signed : tile<i32>
      if %c {
        break
      }
      %b = remi %x, %y signed : tile<i32>
      print_tko "%d %d", %a, %b : tile<i32>, tile<i32> -> token
      continue
    }
    return
  }

  // Loads, prints and assumptions stay where they are, and so does what depends on the iteration.
  // CHECK-LABEL: entry @stays
  // CHECK:       for
  // CHECK-NEXT:    assume
  // CHECK-NEXT:    load_ptr_tko
  // CHECK-NEXT:    addi
  // CHECK-NEXT:    print_tko
  entry @stays(%n: tile<i32>, %p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %q = assume div_by<16>, %p : tile<ptr<i32>>
      %v, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
      %s = addi %i, %one : tile<i32>
      print_tko "%d %d", %v, %s : tile<i32>, tile<i32> -> token
      continue
    }
    return
  }

  // A load that the first iteration runs for certain is done once, if its token is the same in all iterations and nothing
  // in the loop may write what it reads, in no iteration: the first load reads the words in front of those that are
  // written, the second one the first of these.
  // CHECK-LABEL: entry @loads
  // CHECK:       %[[A:.*]], %{{.*}} = load_ptr_tko weak
  // CHECK-NEXT:  for
  // CHECK:         load_ptr_tko weak
  // CHECK:         store_ptr_tko
  entry @loads(%p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %first = offset %p, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    for %i in (%zero to %four, step %one) : tile<i32> {
      %a, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
      %b, %u = load_ptr_tko weak %first : tile<ptr<i32>> -> tile<i32>, token
      %q = offset %first, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %s = addi %a, %b : tile<i32>
      store_ptr_tko weak %q, %s token=%u : tile<ptr<i32>>, tile<i32> -> token
      continue
    }
    return
  }

  // It stays where there may be no iteration, where it waits for what an iteration does, where it is ordered, and where
  // something in the loop orders what it reads.
  // CHECK-LABEL: entry @loads_that_stay
  // CHECK:       for
  // CHECK-NEXT:    load_ptr_tko weak
  // CHECK:       for
  // CHECK:         load_ptr_tko weak
  // CHECK:         load_ptr_tko relaxed
  // CHECK:       for
  // CHECK:         load_ptr_tko acquire
  // CHECK:         load_ptr_tko weak
  entry @loads_that_stay(%p: tile<ptr<i32>>, %f: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %start = make_token : token
    for %i in (%zero to %n, step %one) : tile<i32> {
      %a, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
      print_tko "%d", %a : tile<i32> -> token
      continue
    }
    for %i in (%zero to %four, step %one) : tile<i32> iter_values(%k = %start) -> (token) {
      %a, %t = load_ptr_tko weak %p token=%k : tile<ptr<i32>> -> tile<i32>, token
      %b, %u = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token
      %v = print_tko "%d %d", %a, %b token=%t : tile<i32>, tile<i32> -> token
      continue %v : token
    }
    for %i in (%zero to %four, step %one) : tile<i32> {
      %g, %t = load_ptr_tko acquire device %f : tile<ptr<i32>> -> tile<i32>, token
      %a, %u = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
      print_tko "%d %d", %g, %a : tile<i32>, tile<i32> -> token
      continue
    }
    return
  }
}
