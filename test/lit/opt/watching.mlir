// What can be seen of passes at work, and asked of them.
// RUN: cuda-tile-opt %s --cse --dce --print-ir-before=cse --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: cuda-tile-opt %s --licm --cse --cse --print-ir-after-change -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: cuda-tile-opt %s -p 'any(any(any(cse)))' --print-ir-before-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: rm -rf %t.tree && cuda-tile-opt %s --cse -p 'any(any(any(dce)))' --print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o /dev/null
// RUN: FileCheck %s --check-prefix=CSE < %t.tree/builtin_module_no-symbol-name/0_cse.mlir
// RUN: FileCheck %s --check-prefix=DCE < %t.tree/builtin_module_no-symbol-name/cuda_tile_module_m/cuda_tile_entry_k/0_0_0_dce.mlir
// RUN: cuda-tile-opt %s --cse --canonicalize --mlir-pass-statistics -o /dev/null 2>&1 | FileCheck %s --check-prefix=STATISTICS
// RUN: cuda-tile-opt %s --canonicalize --cse --dce --opt-bisect-limit=1 2> %t.err | FileCheck %s --check-prefix=BISECTED
// RUN: FileCheck %s --check-prefix=BISECT < %t.err
// RUN: cuda-tile-opt %s --dce --convert-cuda-tile-to-tileaa --opt-bisect-limit=0 2>&1 | FileCheck %s --check-prefix=REQUIRED
// RUN: not cuda-tile-opt %s --cse --print-ir-after=dce -o /dev/null 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: not cuda-tile-opt %s --cse --print-ir-after=nothing -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOPASS
// RUN: cuda-tile-opt --list-passes | FileCheck %s --check-prefix=LIST
// RUN: not cuda-tile-opt %s --cse --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --convert-tileaa-to-tileas --print-ir-after-failure --mlir-pass-pipeline-crash-reproducer=%t.repro.mlir 2>&1 | FileCheck %s --check-prefix=FAILED
// RUN: FileCheck %s --check-prefix=REPRODUCER < %t.repro.mlir
// RUN: not cuda-tile-opt --run-reproducer %t.repro.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --convert-tileaa-to-tileas --mlir-pass-pipeline-crash-reproducer=%t.local.mlir --mlir-pass-pipeline-local-reproducer 2>&1 | FileCheck %s --check-prefix=FAILED
// RUN: FileCheck %s --check-prefix=LOCAL < %t.local.mlir
// RUN: not cuda-tile-opt --run-reproducer %t.local.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not cuda-tile-opt --run-reproducer %s 2>&1 | FileCheck %s --check-prefix=NOREPRODUCER

// ALL: IR Dump Before cse //
// ALL: IR Dump After cse //
// ALL: IR Dump After dce //
// CHANGE-NOT: IR Dump After licm
// CHANGE: IR Dump After cse //
// CHANGE-NOT: IR Dump
// NESTED: IR Dump Before cse ('cuda_tile.entry' operation: @k) //
// CSE: IR Dump After cse
// CSE: cuda_tile.module @m
// DCE: IR Dump After dce ('cuda_tile.entry' operation: @k)
// STATISTICS: count  pass: statistic
// STATISTICS: 8  cse: ops before
// STATISTICS: 1  cse: ops merged
// STATISTICS: 7  cse: ops behind
// STATISTICS: 7  canonicalize: ops before
// BISECT: running pass (1) canonicalize on 'builtin.module'
// BISECT-NEXT: {{BISECT: }}NOT running pass (2) cse on 'builtin.module'
// BISECT-NEXT: {{BISECT: }}NOT running pass (3) dce on 'builtin.module'
// BISECTED-COUNT-2: muli
// REQUIRED: {{BISECT}}: NOT running pass (1) dce
// REQUIRED-NOT: {{BISECT}}
// REQUIRED: nv_tileaa.func @k
// IDLE: error: no pass 'dce' was run; there were cse
// NOPASS: error: there is no pass 'nothing': --list-passes lists those that there are
// LIST: canonicalize {{.*}} Bring ops into canonical form
// LIST-NEXT: max-iterations {{.*}} default 10
// LIST: O3 {{.*}} what a compilation runs at -O3
// FAILED: note: pass 'convert-tileaa-to-tileas' failed; a reproducer is in '{{.*}}.mlir'
// FAILED: error: 'nv_tileaa.func' op is in nv_tileas already
// REPRODUCER: "cuda_tile.muli"
// REPRODUCER: mlir_reproducer: {
// REPRODUCER-NEXT: pipeline: "builtin.module(cse,convert-cuda-tile-to-tileaa,convert-tileaa-to-tileas,convert-tileaa-to-tileas)",
// REPRODUCER: verify_each: true
// LOCAL: #nv_tileas.layout
// LOCAL: pipeline: "builtin.module(convert-tileaa-to-tileas)",
// AGAIN: error: 'nv_tileaa.func' op is in nv_tileas already
// NOREPRODUCER: error: the input is no reproducer
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %a = muli %x, %x : tile<i32>
    %b = muli %x, %x : tile<i32>
    %c = addi %a, %b : tile<i32>
    store_ptr_tko weak %p, %c : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
