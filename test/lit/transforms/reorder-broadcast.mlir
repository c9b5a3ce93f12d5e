// RUN: cuda-tile-opt %s --reorder-broadcast --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --reorder-broadcast --remarks=missed --pass-statistics 2>&1 | FileCheck %s --check-prefix=SAID

cuda_tile.module @m {
  // A row's part, a column's, and only their sum on all elements.
  // CHECK-LABEL: entry @addresses
  // CHECK:       muli %{{.*}} : tile<16x1xi32>
  // CHECK:       cmpi less_than %{{.*}} : tile<1x32xi32> -> tile<1x32xi1>
  // CHECK:       addi %{{.*}} : tile<16x32xi32>
  // CHECK:       offset %{{.*}} : tile<16x32xptr<f32>>
  entry @addresses(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %i = iota : tile<16xi32>
    %i2 = reshape %i : tile<16xi32> -> tile<16x1xi32>
    %rows = broadcast %i2 : tile<16x1xi32> -> tile<16x32xi32>
    %j = iota : tile<32xi32>
    %j2 = reshape %j : tile<32xi32> -> tile<1x32xi32>
    %columns = broadcast %j2 : tile<1x32xi32> -> tile<16x32xi32>
    %n2 = reshape %n : tile<i32> -> tile<1x1xi32>
    %size = broadcast %n2 : tile<1x1xi32> -> tile<16x32xi32>
    %row = muli %rows, %size : tile<16x32xi32>
    %mask = cmpi less_than %columns, %size, signed : tile<16x32xi32> -> tile<16x32xi1>
    %at = addi %row, %columns : tile<16x32xi32>
    %p2 = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %base = broadcast %p2 : tile<1x1xptr<f32>> -> tile<16x32xptr<f32>>
    %pointers = offset %base, %at : tile<16x32xptr<f32>>, tile<16x32xi32> -> tile<16x32xptr<f32>>
    %x, %t = load_ptr_tko weak %pointers, %mask : tile<16x32xptr<f32>>, tile<16x32xi1> -> tile<16x32xf32>, token
    %u = store_ptr_tko weak %pointers, %x, %mask token=%t : tile<16x32xptr<f32>>, tile<16x32xf32>, tile<16x32xi1> -> token
    return
  }

  // Through reshapes and transpositions of what is spread; floats too.
  // CHECK-LABEL: entry @moved
  // CHECK:       exp %{{.*}} : tile<8x1xf32>
  // CHECK-NEXT:  broadcast %{{.*}} : tile<8x1xf32> -> tile<8x4xf32>
  // CHECK-NEXT:  print_tko
  entry @moved(%x: tile<f32>) {
    %x1 = reshape %x : tile<f32> -> tile<1xf32>
    %row = broadcast %x1 : tile<1xf32> -> tile<8xf32>
    %two = constant <f32: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tile<8xf32>
    %sum = addf %row, %two : tile<8xf32>
    %sum2 = reshape %sum : tile<8xf32> -> tile<1x8xf32>
    %wide = broadcast %sum2 : tile<1x8xf32> -> tile<4x8xf32>
    %turned = permute %wide [1, 0] : tile<4x8xf32> -> tile<8x4xf32>
    %e = exp %turned : tile<8x4xf32>
    print_tko "%f", %e : tile<8x4xf32> -> token
    return
  }

  // What a loop carries stays a tile.
  // CHECK-LABEL: entry @carried
  // CHECK:       addi %{{.*}} : tile<8xi32>
  // SAID:        ops computed before they are spread
  // SAID:        remark[missed]: Op is computed for equal elements
  // SAID:        reason: an operand is the same along a dimension and is not made by spreading
  entry @carried(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<8xi32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %spread = broadcast %n1 : tile<1xi32> -> tile<8xi32>
    %sum = for %i in (%n to %n, step %n) : tile<i32> iter_values(%s = %zero) -> (tile<8xi32>) {
      %next = addi %s, %spread : tile<8xi32>
      continue %next : tile<8xi32>
    }
    print_tko "%d", %sum : tile<8xi32> -> token
    return
  }

  // Two f4 elements share a byte: a tile of one cannot be.
  // CHECK-LABEL: entry @packed
  // CHECK:       ftof %{{.*}} : tile<4xf4E2M1FN> -> tile<4xf32>
  entry @packed() {
    %half = constant <f4E2M1FN: -0.5> : tile<4xf4E2M1FN>
    %wide = ftof %half : tile<4xf4E2M1FN> -> tile<4xf32>
    print_tko "%f", %wide : tile<4xf32> -> token
    return
  }
}
