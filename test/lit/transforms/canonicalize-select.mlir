// RUN: cuda-tile-opt %s --canonicalize | FileCheck %s

cuda_tile.module @m {
  // The same value on both sides.
  // CHECK-LABEL: testing$func @same
  // CHECK-SAME:  %[[X:[^ :]*]]: tile<4xf32>)
  // CHECK-NEXT:  return %[[X]]
  testing$func @same(%c: tile<4xi1>, %x: tile<4xf32>) -> tile<4xf32> {
    %r = select %c, %x, %x : tile<4xi1>, tile<4xf32>
    return %r : tile<4xf32>
  }

  // A constant condition, whatever its shape.
  // CHECK-LABEL: testing$func @constant_condition
  // CHECK-SAME:  (%{{.*}}: tile<4xf32>, %[[Y:[^ :]*]]: tile<4xf32>)
  // CHECK-NEXT:  return %[[Y]]
  testing$func @constant_condition(%x: tile<4xf32>, %y: tile<4xf32>) -> tile<4xf32> {
    %false = constant <i1: false> : tile<4xi1>
    %r = select %false, %x, %y : tile<4xi1>, tile<4xf32>
    return %r : tile<4xf32>
  }

  // Conditions as values.
  // CHECK-LABEL: testing$func @of_booleans
  // CHECK-SAME:  (%[[C:[^ :]*]]: tile<4xi1>)
  // CHECK:       %[[N:.*]] = xori %[[C]], %{{.*}} : tile<4xi1>
  // CHECK-NEXT:  return %[[C]], %[[N]]
  testing$func @of_booleans(%c: tile<4xi1>) -> (tile<4xi1>, tile<4xi1>) {
    %true = constant <i1: true> : tile<4xi1>
    %false = constant <i1: false> : tile<4xi1>
    %r = select %c, %true, %false : tile<4xi1>, tile<4xi1>
    %s = select %c, %false, %true : tile<4xi1>, tile<4xi1>
    return %r, %s : tile<4xi1>, tile<4xi1>
  }

  // Conditions as numbers.
  // CHECK-LABEL: testing$func @of_numbers
  // CHECK-SAME:  (%[[C:[^ :]*]]: tile<4xi1>)
  // CHECK:       %[[A:.*]] = exti %[[C]] unsigned : tile<4xi1> -> tile<4xi32>
  // CHECK-NEXT:  %[[N:.*]] = xori %[[C]], %{{.*}} : tile<4xi1>
  // CHECK-NEXT:  %[[B:.*]] = exti %[[N]] unsigned : tile<4xi1> -> tile<4xi32>
  // CHECK-NEXT:  return %[[A]], %[[B]]
  testing$func @of_numbers(%c: tile<4xi1>) -> (tile<4xi32>, tile<4xi32>) {
    %one = constant <i32: 1> : tile<4xi32>
    %zero = constant <i32: 0> : tile<4xi32>
    %r = select %c, %one, %zero : tile<4xi1>, tile<4xi32>
    %s = select %c, %zero, %one : tile<4xi1>, tile<4xi32>
    return %r, %s : tile<4xi32>, tile<4xi32>
  }

  // A comparison for equality of the two values themselves.
  // CHECK-LABEL: testing$func @of_compared_values
  // CHECK-SAME:  (%[[X:[^ :]*]]: tile<i32>, %[[Y:[^ :]*]]: tile<i32>)
  // CHECK-NEXT:  return %[[Y]], %[[X]]
  testing$func @of_compared_values(%x: tile<i32>, %y: tile<i32>) -> (tile<i32>, tile<i32>) {
    %eq = cmpi equal %x, %y, signed : tile<i32> -> tile<i1>
    %ne = cmpi not_equal %y, %x, signed : tile<i32> -> tile<i1>
    %r = select %eq, %x, %y : tile<i1>, tile<i32>
    %s = select %ne, %x, %y : tile<i1>, tile<i32>
    return %r, %s : tile<i32>, tile<i32>
  }

  // A negated condition, and a condition that an arm knows already.
  // CHECK-LABEL: testing$func @of_selects
  // CHECK-SAME:  (%[[C:[^ :]*]]: tile<i1>, %[[X:[^ :]*]]: tile<i32>, %[[Y:[^ :]*]]: tile<i32>, %[[Z:[^ :]*]]: tile<i32>)
  // CHECK-NEXT:  %[[A:.*]] = select %[[C]], %[[Y]], %[[X]]
  // CHECK-NEXT:  %[[B:.*]] = select %[[C]], %[[X]], %[[Z]]
  // CHECK-NEXT:  return %[[A]], %[[B]]
  testing$func @of_selects(%c: tile<i1>, %x: tile<i32>, %y: tile<i32>, %z: tile<i32>) -> (tile<i32>, tile<i32>) {
    %true = constant <i1: true> : tile<i1>
    %not = xori %c, %true : tile<i1>
    %r = select %not, %x, %y : tile<i1>, tile<i32>
    %inner = select %c, %x, %y : tile<i1>, tile<i32>
    %s = select %c, %inner, %z : tile<i1>, tile<i32>
    return %r, %s : tile<i32>, tile<i32>
  }

  // Constants throughout, element by element.
  // CHECK-LABEL: testing$func @of_constants
  // CHECK:       %[[R:.*]] = constant <f32: [1.000000e+00, -2.000000e+00]> : tile<2xf32>
  // CHECK-NEXT:  return %[[R]]
  testing$func @of_constants() -> tile<2xf32> {
    %c = constant <i1: [true, false]> : tile<2xi1>
    %x = constant <f32: 1.0> : tile<2xf32>
    %y = constant <f32: [-1.0, -2.0]> : tile<2xf32>
    %r = select %c, %x, %y : tile<2xi1>, tile<2xf32>
    return %r : tile<2xf32>
  }
}
