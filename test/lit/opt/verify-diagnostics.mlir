// RUN: cuda-tile-opt %s -split-input-file -verify-diagnostics
// RUN: not cuda-tile-opt %s -split-input-file > %t.out 2> %t.err
// RUN: FileCheck %s < %t.err

// CHECK: verify-diagnostics.mlir:{{[0-9]+}}:19: error: use of undeclared SSA value name
// CHECK-NEXT: %0 = absi %a : tile<i32>
cuda_tile.module @m { entry @k() {
        // expected-error @below {{use of undeclared}}
        %0 = absi %a : tile<i32>
} }

// -----

cuda_tile.module @m {
  // expected-note @+1 {{prior use here}}
  entry @k(%a: tile<i32>) {
    // expected-error-re @below {{expects different type than {{[a-z]+}} uses}}
    %0 = absi %a : tile<i64>
  }
}

// -----

cuda_tile.module @fine {
}
