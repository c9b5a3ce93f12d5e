// RUN: cuda-tile-opt %s --sccp --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --sccp --mlir-pass-statistics -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNTS
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// COUNTS-DAG: 1  sccp: loops that never run
// COUNTS-DAG: sccp: values that are constants

cuda_tile.module @m {
  // The state stays 1 as long as only the first branch is taken, which it is as long as the state is 1; so what leaves
  // the loop by its break is 1, and the loop behind it never runs.
  // CHECK-LABEL: entry @state
  // CHECK:       loop
  // CHECK-NOT:     cmpi equal
  // CHECK:         addi %{{.*}}, %[[ONE:cst_1_i32]]
  // CHECK:         cmpi greater_than
  // CHECK:         break %[[ONE]], %{{.*}}
  // CHECK-NOT:   for
  // CHECK:       muli %{{.*}}#1, %[[ONE]]
  entry @state(%out: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    %r, %k = loop iter_values(%state = %one, %i = %zero) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %odd = cmpi equal %state, %one, signed : tile<i32> -> tile<i1>
      %next = if %odd -> (tile<i32>) {
        yield %one : tile<i32>
      } else {
        %t = addi %i, %n : tile<i32>
        yield %t : tile<i32>
      }
      %j = addi %i, %next : tile<i32>
      %done = cmpi greater_than %j, %n, signed : tile<i32> -> tile<i1>
      if %done {
        break %next, %j : tile<i32>, tile<i32>
      }
      continue %next, %j : tile<i32>, tile<i32>
    }
    %m = addi %r, %five : tile<i32>
    %s = for %a in (%m to %five, step %one) : tile<i32> iter_values(%b = %k) -> (tile<i32>) {
      continue %a : tile<i32>
    }
    %u = muli %s, %r : tile<i32>
    store_ptr_tko weak %out, %u : tile<ptr<i32>>, tile<i32> -> token
    return
  }

  // A way back that changes the value makes it another one; so do a return that is not taken for certain, and a loop
  // that may run no iteration. Division by zero is not computed.
  // CHECK-LABEL: entry @unknown
  // CHECK:       if %arg1
  // CHECK:       %[[FOR:.*]] = for
  // CHECK:       divi %{{.*}}, %cst_0_i32
  // CHECK:       print_tko "%d %d", %[[FOR]], %{{.*}}
  entry @unknown(%n: tile<i32>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    if %c {
      return
    }
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %zero) -> (tile<i32>) {
      continue %one : tile<i32>
    }
    %d = divi %one, %zero signed : tile<i32>
    print_tko "%d %d", %r, %d : tile<i32>, tile<i32> -> token
    return
  }

  // Tiles of equal elements, through shapes; a branch from which nothing comes back does not count.
  // CHECK-LABEL: entry @tiles
  // CHECK:       print_tko "%d", %cst_7_i32
  entry @tiles(%c: tile<i1>) {
    %three = constant <i32: 3> : tile<i32>
    %four = constant <i32: 4> : tile<2x4xi32>
    %t = reshape %three : tile<i32> -> tile<1x1xi32>
    %u = broadcast %t : tile<1x1xi32> -> tile<2x4xi32>
    %s = if %c -> (tile<2x4xi32>) {
      %v = addi %u, %four : tile<2x4xi32>
      yield %v : tile<2x4xi32>
    } else {
      return
    }
    print_tko "%d", %s : tile<2x4xi32> -> token
    return
  }
}

// In the inner dialects: what a while hands to its second region and behind it, and a branch.
// CHECK-LABEL: nv_tileaa.func @inner
// CHECK:       scf.while
// CHECK:         nv_tileaa.print %[[EIGHT:.*]] {format
// CHECK-NOT:   arith.addi
// CHECK:       nv_tileaa.splat
// CHECK:       nv_tileaa.print
nv_tileaa.func @inner(%n: i32, %c: i1) {
  %three = arith.constant 3 : i32
  %five = arith.constant 5 : i32
  %r = scf.while (%a = %three) : (i32) -> i32 {
    %b = arith.addi %a, %five : i32
    scf.condition(%c) %b : i32
  } do {
  ^bb0(%p: i32):
    nv_tileaa.print %p {format = "%d"} : i32
    scf.yield %three : i32
  }
  %t = nv_tileaa.splat %r : i32 -> tile<4xi32>
  nv_tileaa.print %t {format = "%d"} : tile<4xi32>
  nv_tileaa.return
}
