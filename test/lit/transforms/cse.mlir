// RUN: cuda-tile-opt %s --cse | FileCheck %s

cuda_tile.module @m {
  // CHECK-LABEL: testing$func @same_op
  // CHECK:       %[[A:.*]] = addi %{{.*}}, %{{.*}} : tile<i32>
  // CHECK-NEXT:  %[[M:.*]] = muli %[[A]], %[[A]] : tile<i32>
  // CHECK-NEXT:  return %[[M]]
  testing$func @same_op(%x: tile<i32>, %y: tile<i32>) -> tile<i32> {
    %a = addi %x, %y : tile<i32>
    %b = addi %x, %y : tile<i32>
    %m = muli %a, %b : tile<i32>
    return %m : tile<i32>
  }

  // Another attribute is another op.
  // CHECK-LABEL: testing$func @other_attribute
  // CHECK:       addf %{{.*}} : tile<f32>
  // CHECK:       addf %{{.*}} rounding<zero> : tile<f32>
  testing$func @other_attribute(%x: tile<f32>) -> (tile<f32>, tile<f32>) {
    %a = addf %x, %x : tile<f32>
    %b = addf %x, %x rounding<zero> : tile<f32>
    return %a, %b : tile<f32>, tile<f32>
  }

  // What is known around a region is known inside of it, but not the other way round, nor from branch to branch.
  // CHECK-LABEL: testing$func @regions
  // CHECK:       %[[A:.*]] = negi
  // CHECK-NEXT:  if
  // CHECK-NEXT:    %[[S:.*]] = absi
  // CHECK-NEXT:    print_tko "%d %d", %[[A]], %[[S]]
  // CHECK-NEXT:  } else {
  // CHECK-NEXT:    absi
  testing$func @regions(%c: tile<i1>, %x: tile<i32>) {
    %a = negi %x : tile<i32>
    if %c {
      %b = negi %x : tile<i32>
      %s = absi %x : tile<i32>
      print_tko "%d %d", %b, %s : tile<i32>, tile<i32> -> token
    } else {
      %t = absi %x : tile<i32>
      print_tko "%d", %t : tile<i32> -> token
    }
    return
  }

  // Weak loads of one block that read the same, and have one token, give the same: nobody may write there meanwhile.
  // CHECK-LABEL: testing$func @loads
  // CHECK:       %[[A:.*]], %{{.*}} = load_ptr_tko
  // CHECK-NOT:   load_ptr_tko
  // CHECK:       return %[[A]], %[[A]]
  testing$func @loads(%p: tile<ptr<i32>>) -> (tile<i32>, tile<i32>) {
    %a, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %b, %u = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    return %a, %b : tile<i32>, tile<i32>
  }

  // Others may see what somebody else has written, and so may loads behind another token, or in another block.
  // CHECK-LABEL: testing$func @ordered_loads
  // CHECK-COUNT-5: load_ptr_tko
  testing$func @ordered_loads(%p: tile<ptr<i32>>, %c: tile<i1>) -> (tile<i32>, tile<i32>, tile<i32>, tile<i32>) {
    %a, %t = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token
    %b, %u = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token
    %d, %v = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %e, %w = load_ptr_tko weak %p token=%u : tile<ptr<i32>> -> tile<i32>, token
    if %c {
      %f, %x = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
      print_tko "%d", %f : tile<i32> -> token
    }
    return %a, %b, %d, %e : tile<i32>, tile<i32>, tile<i32>, tile<i32>
  }

  // A store of other memory, and an atomic there, does not matter: the word behind, or another global. One of memory that
  // may be the same does, and so does what orders accesses.
  // CHECK-LABEL: entry @writes_between
  // CHECK:       %[[A:.*]], %{{.*}} = load_ptr_tko weak %[[P:.*]] :
  // CHECK-NOT:   load_ptr_tko
  // CHECK:       print_tko "%d %d", %[[A]], %[[A]]
  // CHECK:       load_ptr_tko
  // CHECK:       store_ptr_tko
  // CHECK:       load_ptr_tko
  // CHECK:       atomic_rmw_tko acq_rel
  // CHECK:       load_ptr_tko
  entry @writes_between(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %x: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    %next = offset %p, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %a, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    store_ptr_tko weak %next, %x : tile<ptr<i32>>, tile<i32> -> token
    %old, %o = atomic_rmw_tko relaxed device %next, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %b, %u = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    print_tko "%d %d", %a, %b : tile<i32>, tile<i32> -> token
    %c, %v = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    store_ptr_tko weak %q, %c : tile<ptr<i32>>, tile<i32> -> token
    %d, %w = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %older, %r = atomic_rmw_tko acq_rel device %next, add, %d : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %e, %z = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    store_ptr_tko weak %q, %e : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // Two carried values with one start and one next value are one, in a loop inside too, and so are results that get the
  // same from every exit.
  // CHECK-LABEL: testing$func @carried_twice
  // CHECK:       %[[A:.*]]:2 = for {{.*}} iter_values(%[[X:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
  // CHECK:         %[[B:.*]]:2 = for {{.*}} iter_values(%[[Y:.*]] = %[[X]], %{{.*}} = %[[X]])
  // CHECK:           %[[SUM:.*]] = addi %[[Y]], %[[Y]]
  // CHECK-NOT:       addi
  // CHECK:           continue %[[SUM]], %{{.*}}
  // CHECK:         continue %[[B]]#0, %{{.*}}
  // CHECK:       %[[C:.*]]:3 = if
  // CHECK:       return %[[A]]#0, %[[A]]#0, %[[C]]#0, %[[C]]#0, %[[C]]#2
  testing$func @carried_twice(%n: tile<i32>, %one: tile<i32>, %c: tile<i1>) -> (tile<i32>, tile<i32>, tile<i32>, tile<i32>, tile<i32>) {
    %a:2 = for %i in (%one to %n, step %one) : tile<i32> iter_values(%x = %n, %y = %n) -> (tile<i32>, tile<i32>) {
      %b:2 = for %j in (%one to %n, step %one) : tile<i32> iter_values(%z = %x, %w = %y) -> (tile<i32>, tile<i32>) {
        %s = addi %z, %w : tile<i32>
        %t = addi %w, %z : tile<i32>
        %u = addi %z, %z : tile<i32>
        continue %s, %s : tile<i32>, tile<i32>
      }
      continue %b#0, %b#0 : tile<i32>, tile<i32>
    }
    %d:3 = if %c -> (tile<i32>, tile<i32>, tile<i32>) {
      yield %n, %n, %n : tile<i32>, tile<i32>, tile<i32>
    } else {
      yield %one, %one, %n : tile<i32>, tile<i32>, tile<i32>
    }
    return %a#0, %a#1, %d#0, %d#1, %d#2 : tile<i32>, tile<i32>, tile<i32>, tile<i32>, tile<i32>
  }

  // One start, but other next values; and the same next values behind other starts.
  // CHECK-LABEL: testing$func @carried_apart
  // CHECK:       return %[[A:.*]]#0, %[[A]]#1, %[[A]]#2
  testing$func @carried_apart(%n: tile<i32>, %one: tile<i32>) -> (tile<i32>, tile<i32>, tile<i32>) {
    %a:3 = for %i in (%one to %n, step %one) : tile<i32> iter_values(%x = %n, %y = %n, %z = %one) -> (tile<i32>, tile<i32>, tile<i32>) {
      %s = addi %x, %y : tile<i32>
      %t = subi %s, %z : tile<i32>
      continue %s, %t, %t : tile<i32>, tile<i32>, tile<i32>
    }
    return %a#0, %a#1, %a#2 : tile<i32>, tile<i32>, tile<i32>
  }
}
