// Passes by flag and by pipeline, in the order given, with what is printed between them.
// RUN: cuda-tile-opt %s --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s -p 'builtin.module(cuda_tile.module(cuda_tile.entry(canonicalize{max-iterations=4},cse)))' | FileCheck %s
// RUN: cuda-tile-opt %s --canonicalize="max-iterations=2" --print-ir-after=canonicalize 2> %t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=DUMP < %t.err
// RUN: cuda-tile-opt %s --canonicalize --dce --time-report -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: not cuda-tile-opt %s -p 'builtin.module(nothing)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not cuda-tile-opt %s --canonicalize=speed=9 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not cuda-tile-opt %s -p 'loop-unroll{factor=-5}' -o /dev/null 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not cuda-tile-opt %s -p 'cuda_tile.module(canonicalize)' 2>&1 | FileCheck %s --check-prefix=ANCHOR

// DUMP: // -----// IR Dump After canonicalize //----- //
// TIME: seconds    share  stage
// TIME: canonicalize
// TIME: dce
// UNKNOWN: error: 'nothing' does not refer to a registered pass or pass pipeline
// OPTION: no such option 'speed' in pass 'canonicalize'; its options are: max-iterations
// NEGATIVE: error: option 'factor' of pass 'loop-unroll' is -5, and cannot be negative
// ANCHOR: can't run 'cuda_tile.module' pass manager on 'builtin.module' op

cuda_tile.module @m {
  // CHECK: entry @k() {
  // CHECK-NEXT: return
  entry @k() {
    %dead = constant <i32: 1> : tile<i32>
    return
  }
}
