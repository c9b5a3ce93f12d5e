// RUN: cuda-tile-opt %s --strength-reduce --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --strength-reduce --remarks=missed --pass-statistics 2>&1 | FileCheck %s --check-prefix=SAID
// RUN: cuda-tile-opt %s --pass-pipeline=tile-addresses | FileCheck %s

cuda_tile.module @m {
  // The distances do not change, and the pointer of the first element is computed of scalars.
  // CHECK-LABEL: entry @rows
  // CHECK:       %[[FAR:.*]] = addi %{{.*}} : tile<16x32xi32>
  // CHECK:       loop
  // CHECK-NOT:     tile<16x32xi32>
  // CHECK:         %[[P:.*]] = offset %arg0, %{{.*}} -> tile<ptr<f32>>
  // CHECK:         %[[R:.*]] = reshape %[[P]]
  // CHECK:         %[[B:.*]] = broadcast %[[R]]
  // CHECK:         %[[A:.*]] = offset %[[B]], %[[FAR]] : tile<16x32xptr<f32>>, tile<16x32xi32>
  // CHECK:         load_ptr_tko weak %[[A]]
  // CHECK:         break
  // SAID:        1  strength-reduce: tiles of addresses reduced
  entry @rows(%p: tile<ptr<f32>>, %pn: tile<ptr<i32>>, %n0: tile<i32>, %ld0: tile<i32>) {
    %n = assume bounded<0, 4096>, %n0 : tile<i32>
    %ld = assume bounded<1, 4096>, %ld0 : tile<i32>
    %i = iota : tile<16xi32>
    %i2 = reshape %i : tile<16xi32> -> tile<16x1xi32>
    %rows = broadcast %i2 : tile<16x1xi32> -> tile<16x32xi32>
    %j = iota : tile<32xi32>
    %j2 = reshape %j : tile<32xi32> -> tile<1x32xi32>
    %columns = broadcast %j2 : tile<1x32xi32> -> tile<16x32xi32>
    %l2 = reshape %ld : tile<i32> -> tile<1x1xi32>
    %stride = broadcast %l2 : tile<1x1xi32> -> tile<16x32xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %base = broadcast %p1 : tile<1x1xptr<f32>> -> tile<16x32xptr<f32>>
    %last = loop iter_values(%k0 = %n) : tile<i32> -> tile<i32> {
      %k = assume bounded<0, 4096>, %k0 : tile<i32>
      %k2 = reshape %k : tile<i32> -> tile<1x1xi32>
      %k3 = broadcast %k2 : tile<1x1xi32> -> tile<16x32xi32>
      %row = addi %rows, %k3 : tile<16x32xi32>
      %far = muli %row, %stride : tile<16x32xi32>
      %at = addi %far, %columns : tile<16x32xi32>
      %pointers = offset %base, %at : tile<16x32xptr<f32>>, tile<16x32xi32> -> tile<16x32xptr<f32>>
      %x, %t = load_ptr_tko weak %pointers : tile<16x32xptr<f32>> -> tile<16x32xf32>, token
      print_tko "%f", %x : tile<16x32xf32> -> token
      %next, %u = load_ptr_tko weak %pn : tile<ptr<i32>> -> tile<i32>, token
      %end = cmpi less_than %k, %ld, signed : tile<i32> -> tile<i1>
      if %end {
        break %k : tile<i32>
      }
      continue %next : tile<i32>
    }
    print_tko "%d", %last : tile<i32> -> token
    return
  }

  // What may wrap around, or count down, is as it was.
  // CHECK-LABEL: entry @stays
  // CHECK:       for
  // CHECK-COUNT-2: offset %{{.*}} : tile<32xptr<f32>>, tile<32xi32>
  // SAID:        reason: addi of 32 bits may wrap around
  // SAID:        reason: a stride is not known to be positive
  entry @stays(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %j = iota : tile<32xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %base = broadcast %p1 : tile<1xptr<f32>> -> tile<32xptr<f32>>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %i1 = reshape %i : tile<i32> -> tile<1xi32>
      %i2 = broadcast %i1 : tile<1xi32> -> tile<32xi32>
      %at = addi %j, %i2 : tile<32xi32>
      %up = offset %base, %at : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
      %x, %t = load_ptr_tko weak %up : tile<32xptr<f32>> -> tile<32xf32>, token
      %back = subi %i2, %j overflow<no_signed_wrap> : tile<32xi32>
      %down = offset %base, %back : tile<32xptr<f32>>, tile<32xi32> -> tile<32xptr<f32>>
      %y, %u = load_ptr_tko weak %down : tile<32xptr<f32>> -> tile<32xf32>, token
      print_tko "%f %f", %x, %y : tile<32xf32>, tile<32xf32> -> token
      continue
    }
    return
  }
}
