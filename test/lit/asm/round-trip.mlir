// The text is stable through the pretty and the generic form, with and without locations.
// RUN: cuda-tile-opt %s > %t.1
// RUN: cuda-tile-opt %t.1 | diff - %t.1
// RUN: cuda-tile-opt -mlir-print-op-generic %s | cuda-tile-opt | diff - %t.1
// RUN: cuda-tile-opt -mlir-print-debuginfo %s | cuda-tile-opt | diff - %t.1
// RUN: cuda-tile-opt -mlir-print-debuginfo -mlir-print-local-scope %s | cuda-tile-opt | diff - %t.1
// RUN: FileCheck %s < %t.1

!tile = !cuda_tile.tile<4x8xf32>

// CHECK-LABEL: cuda_tile.module @m
cuda_tile.module @m {
  // CHECK: entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) optimization_hints=<sm_100 = {occupancy = 2}> {
  entry @k(%p: tile<ptr<f32>>, %n: !cuda_tile.tile<i32>) optimization_hints=<sm_100 = {occupancy = 2}> {
    // CHECK: %cst_1_f32 = constant <f32: 1.000000e+00> : tile<4x8xf32>
    %one = constant <f32: 0x3F800000> : !tile
    // A name that is taken gets a number.
    // CHECK: %cst_1_f32_0 = constant
    %again = constant <f32: 1.0> : tile<4x8xf32>
    // Forms may be mixed, prefixes may stay away.
    // CHECK: %0 = addf %cst_1_f32, %cst_1_f32_0 : tile<4x8xf32>
    %sum = "cuda_tile.addf"(%one, %again) <{rounding_mode = #cuda_tile.rounding<nearest_even>}>
        : (!tile, !cuda_tile.tile<4x8xf32>) -> !tile
    // CHECK: %1 = cmpf less_than ordered %0, %cst_1_f32 : tile<4x8xf32> -> tile<4x8xi1>
    %less = cuda_tile.cmpf less_than ordered %sum, %one : tile<4x8xf32> -> tile<4x8xi1>
    // Results in groups, and uses by number.
    // CHECK: %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
    %id:3 = get_tile_block_id : tile<i32>
    // CHECK: %2 = addi %blockId_x, %blockId_z : tile<i32>
    %a = addi %id#0, %id#2 : tile<i32>
    // CHECK: %for = for %loopIdx in (%arg1 to %2, step %arg1) : tile<i32> iter_values(%iterArg0 = %0) -> (tile<4x8xf32>) {
    %r = for %i in (%n to %a, step %n) : tile<i32> iter_values(%acc = %sum) -> (!tile) {
      // CHECK: continue %iterArg0 : tile<4x8xf32>
      continue %acc : !tile
    }
    // An op without results that is not used needs no terminator written.
    // CHECK: loop {
    // CHECK-NEXT: break
    loop {
      break
    }
  // CHECK: return
  }
}

// The metadata of a reproducer, and resources, are read and dropped.
// CHECK-NOT: {-#
{-#
  dialect_resources: { builtin: { blob: "0x04000000" } },
  external_resources: {
    mlir_reproducer: { pipeline: "builtin.module()", disable_threading: true, verify_each: true }
  }
#-}
