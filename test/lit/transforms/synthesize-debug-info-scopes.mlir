// RUN: cuda-tile-opt %s --pass-pipeline="builtin.module(cuda_tile.module(synthesize-debug-info-scopes))" --mlir-print-debuginfo | FileCheck %s

// CHECK-DAG: #[[FILE:.*]] = #cuda_tile.di_file<"kernel.py" in "/src">
// CHECK-DAG: #[[UNIT:.*]] = #cuda_tile.di_compile_unit<file = #{{.*}}>
// CHECK-DAG: #[[SP:.*]] = #cuda_tile.di_subprogram<file = #[[FILE]], line = 3, name = "kernel", linkageName = "kernel", compileUnit = #[[UNIT]], scopeLine = 3>
// CHECK-DAG: #[[AT:.*]] = loc("/src/kernel.py":5:7)
// CHECK-DAG: #cuda_tile.di_loc<#[[AT]] in #[[SP]]>
cuda_tile.module @m {
  entry @kernel() {
    print_tko "here" -> token loc(callsite("/src/lib.py":1:1 at "/src/kernel.py":5:7))
    return loc(unknown)
  } loc("/src/kernel.py":3:1)
} loc("/src/main.py":1:1)
