// RUN: cuda-tile-opt -split-input-file -mlir-print-debuginfo %s | FileCheck %s
// RUN: cuda-tile-opt -split-input-file -mlir-print-debuginfo -mlir-print-local-scope %s | FileCheck %s --check-prefix=LOCAL

// Aliases that only locations use are defined at the end, each behind what it needs.
// CHECK-NOT: #di_file =
// CHECK: entry @k(
#file = #cuda_tile.di_file<"k.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#sub = #cuda_tile.di_subprogram<line = 3, file = #file, name = "k", linkageName = "k", compileUnit = #unit, scopeLine = 4>
cuda_tile.module @m {
  entry @k(%a: tile<i32>) {
    // CHECK: absi %arg0 : tile<i32> loc(#[[CALL:loc[0-9]*]])
    // LOCAL: absi %arg0 : tile<i32> loc(callsite("inner" at "k.py":7:9))
    %0 = absi %a : tile<i32> loc(#later)
    // CHECK: absi %arg0 : tile<i32> loc(#[[DI:loc[0-9]*]])
    // LOCAL: loc(#cuda_tile.di_loc<loc("k.py":5:6) in #cuda_tile.di_subprogram<file = #cuda_tile.di_file<"k.py" in "/src">, line = 3, name = "k", linkageName = "k", compileUnit = #cuda_tile.di_compile_unit<file = #cuda_tile.di_file<"k.py" in "/src">>, scopeLine = 4>>)
    %1 = absi %a : tile<i32> loc(#cuda_tile.di_loc<loc("k.py":5:6) in #sub>)
    return
  } loc(#cuda_tile.di_loc<loc("k.py":3:1) in #sub>)
} loc(unknown)
#at = loc("k.py":7:9)
#later = loc(callsite("inner" at #at))

// CHECK: #di_file = #cuda_tile.di_file<"k.py" in "/src">
// CHECK-DAG: #[[INNER:loc[0-9]*]] = loc("inner")
// CHECK-DAG: #[[AT:loc[0-9]*]] = loc("k.py":7:9)
// CHECK-DAG: #[[POS:loc[0-9]*]] = loc("k.py":5:6)
// CHECK: #di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
// CHECK: #[[CALL]] = loc(callsite(#[[INNER]] at #[[AT]]))
// CHECK: #[[DI]] = #cuda_tile.di_loc<#[[POS]] in #di_subprogram>

// -----

// A range of positions, on one line or on several; one without extent is a position, and so is a line alone.
// CHECK-LABEL: entry @ranges(
cuda_tile.module @ranges {
  entry @ranges(%a: tile<i32>) {
    // LOCAL: absi %arg0 : tile<i32> loc("k.py":1:2 to :9)
    %0 = absi %a : tile<i32> loc("k.py":1:2 to :9)
    // LOCAL: absi %arg0 : tile<i32> loc("k.py":1:2 to 3:4)
    %1 = absi %a : tile<i32> loc("k.py":1:2 to 3:4)
    // LOCAL: absi %arg0 : tile<i32> loc("k.py":1:2 to :9)
    %2 = absi %a : tile<i32> loc("k.py":1:2 to 1:9)
    // LOCAL: absi %arg0 : tile<i32> loc("k.py":1:2)
    %3 = absi %a : tile<i32> loc("k.py":1:2 to :2)
    // LOCAL: absi %arg0 : tile<i32> loc("k.py":7:0)
    %4 = absi %a : tile<i32> loc("k.py":7)
    return
  }
}
