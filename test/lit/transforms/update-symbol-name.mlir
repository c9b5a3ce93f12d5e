// RUN: cuda-tile-opt %s --test-debuginfo-update-symbol-name="symbol-to-rename=m::kernel new-name=kernel_f32" --mlir-print-debuginfo | FileCheck %s
// RUN: not cuda-tile-opt %s --test-debuginfo-update-symbol-name="symbol-to-rename=m::missing new-name=x" 2>&1 | FileCheck %s --check-prefix=MISSING

// MISSING: error: could not find symbol op with name '@m::@missing'

// CHECK-DAG: entry @kernel_f32()
// CHECK-DAG: name = "kernel", linkageName = "kernel_f32"
// CHECK-DAG: name = "other", linkageName = "other"
#file = #cuda_tile.di_file<"kernel.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#sp = #cuda_tile.di_subprogram<file = #file, line = 1, name = "kernel", linkageName = "kernel", compileUnit = #unit, scopeLine = 1>
#other = #cuda_tile.di_subprogram<file = #file, line = 9, name = "other", linkageName = "other", compileUnit = #unit, scopeLine = 9>
cuda_tile.module @m {
  entry @kernel() {
    return loc(#cuda_tile.di_loc<loc("kernel.py":2:1) in #sp>)
  } loc(#cuda_tile.di_loc<loc("kernel.py":1:1) in #sp>)
  entry @other() {
    return loc(#cuda_tile.di_loc<loc("kernel.py":10:1) in #other>)
  } loc(#cuda_tile.di_loc<loc("kernel.py":9:1) in #other>)
}
