// Comparisons of places in a tile become those of one number of a thread's with constants of its registers.
// RUN: cuda-tile-opt --tileas-compare-places --split-input-file %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#scores = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x32>
#rows = #nv_tileas.layout<register=[[8,0]], lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[] : 16x1>
#row = #nv_tileas.layout<register=[[8]], lane=[[0],[0],[1],[2],[4]], warp=[] : 16>
#columns = #nv_tileas.layout<register=[[0,1],[0,8],[0,16]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x32>
#column = #nv_tileas.layout<register=[[1],[8],[16]], lane=[[2],[4],[0],[0],[0]], warp=[] : 32>

// The difference of the two numbers, a quarter of which stands for it where it is far from zero.
// CHECK-LABEL: nv_tileaa.func @diagonal
// CHECK:       %[[A:.*]] = arith.muli %arg0
// CHECK:       %[[B:.*]] = arith.muli %arg1
// CHECK:       %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-DAG:   %[[HA:.*]] = arith.shrsi %[[A]], %[[ONE]]
// CHECK-DAG:   %[[HB:.*]] = arith.shrsi %[[B]], %[[ONE]]
// CHECK:       %[[HALF:.*]] = arith.subi %[[HA]], %[[HB]]
// CHECK:       arith.cmpi ult
// CHECK:       arith.select
// Lanes tell the lowest bits of rows (7 of 15), and two bits of columns (6 of 31), apart; registers the others.
// CHECK:       dense<7> : !cuda_tile.tile<16x1xi32>
// CHECK:       dense<8> : !cuda_tile.tile<16x1xi32>
// CHECK:       dense<6> : !cuda_tile.tile<1x32xi32>
// CHECK:       dense<25> : !cuda_tile.tile<1x32xi32>
// CHECK:       %[[SUM:.*]] = arith.addi
// CHECK:       %[[MINE:.*]] = arith.subi %[[SUM]]
// CHECK:       %[[KNOWN:.*]] = arith.subi
// CHECK:       %[[MASK:.*]] = arith.cmpi sge, %[[MINE]], %[[KNOWN]] : tensor<16x32xi32
// CHECK:       nv_tileaa.mark_for_reuse %[[MASK]]
nv_tileaa.func @diagonal(%i: i32, %j: i32) {
  %thirty_two = arith.constant 32 : i32
  %a0 = arith.muli %i, %thirty_two : i32
  %b0 = arith.muli %j, %thirty_two : i32
  %a1 = nv_tileaa.splat %a0 : i32 -> tile<16x1xi32, #rows>
  %a2 = nv_tileaa.make_range : tile<16xi32, #row>
  %a3 = nv_tileaa.view %a2 : tile<16xi32, #row> -> tile<16x1xi32, #rows>
  %a4 = arith.addi %a1, %a3 : tensor<16x1xi32, #rows>
  %a = nv_tileaa.broadcast %a4 : tile<16x1xi32, #rows> -> tile<16x32xi32, #scores>
  %b1 = nv_tileaa.splat %b0 : i32 -> tile<1x32xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<32xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<32xi32, #column> -> tile<1x32xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x32xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x32xi32, #columns> -> tile<16x32xi32, #scores>
  %m = arith.cmpi sge, %a, %b : tensor<16x32xi32, #scores>
  nv_tileaa.mark_for_reuse %m : tile<16x32xi1, #scores>
  nv_tileaa.return
}

// -----

#scores = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x32>
#columns = #nv_tileas.layout<register=[[0,1],[0,8],[0,16]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x32>
#column = #nv_tileas.layout<register=[[1],[8],[16]], lane=[[2],[4],[0],[0],[0]], warp=[] : 32>

// The edge of a matrix: the sum of a multiple of 16 and an index below 32 may wrap around, unless the addition says that
// it does not.
// CHECK-LABEL: nv_tileaa.func @edge
// CHECK:       arith.cmpi slt, %{{.*}}, %arg1
// CHECK:       %[[MINE:.*]] = arith.subi %{{.*}}, %{{.*}} : tensor<16x32xi32
// CHECK:       %[[KNOWN:.*]] = arith.subi %{{.*}}, %{{.*}} : tensor<16x32xi32
// CHECK:       arith.cmpi slt, %[[MINE]], %[[KNOWN]]
nv_tileaa.func @edge(%j: i32, %end: tile<16x32xi32, #scores>, %last: i32) {
  %sixteen = arith.constant 16 : i32
  %b0 = arith.muli %j, %sixteen : i32
  %b1 = nv_tileaa.splat %b0 : i32 -> tile<1x32xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<32xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<32xi32, #column> -> tile<1x32xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x32xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x32xi32, #columns> -> tile<16x32xi32, #scores>
  %m = arith.cmpi slt, %b, %end : tensor<16x32xi32, #scores>
  %b5 = arith.addi %b1, %b3 overflow<nsw> : tensor<1x32xi32, #columns>
  %c = nv_tileaa.broadcast %b5 : tile<1x32xi32, #columns> -> tile<16x32xi32, #scores>
  %l = nv_tileaa.splat %last : i32 -> tile<16x32xi32, #scores>
  %n = arith.cmpi slt, %c, %l : tensor<16x32xi32, #scores>
  nv_tileaa.mark_for_reuse %m, %n : tile<16x32xi1, #scores>, tile<16x32xi1, #scores>
  nv_tileaa.return
}

// -----

#scores = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x64>
#rows = #nv_tileas.layout<register=[[8,0]], lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[] : 16x1>
#row = #nv_tileas.layout<register=[[8]], lane=[[0],[0],[1],[2],[4]], warp=[] : 16>
#columns = #nv_tileas.layout<register=[[0,1],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x64>
#column = #nv_tileas.layout<register=[[1],[8],[16],[32]], lane=[[2],[4],[0],[0],[0]], warp=[] : 64>

// Elements that a mask chooses between: a thread counts how many of the places it compares with its number reaches. Rows
// that are 8 apart, and columns that are 8 apart, are one step; a step has two places. Less than is the other of the two.
// CHECK-LABEL: nv_tileaa.func @chosen
// CHECK:       %[[PLACES:.*]] = arith.constant 2 : i32
// CHECK:       %[[A:.*]] = arith.shrsi %{{.*}}, %[[PLACES]] : i32
// CHECK:       %[[SPLAT_A:.*]] = nv_tileaa.splat %[[A]]
// CHECK:       %[[B:.*]] = arith.shrsi %{{.*}}, %[[PLACES]] : i32
// CHECK:       %[[SPLAT_B:.*]] = nv_tileaa.splat %[[B]]
// CHECK:       %[[ADDED:.*]] = arith.addi %{{.*}}, %[[SPLAT_A]]
// CHECK:       %[[APART:.*]] = arith.subi %[[ADDED]], %[[SPLAT_B]]
// CHECK:       %[[REACHED:.*]] = arith.maxsi %[[APART]],
// CHECK:       %[[MASK:.*]] = arith.cmpi sgt, %[[REACHED]], %{{.*}} : tensor<16x64xi32
// CHECK:       arith.select %[[MASK]], %arg3, %arg2 {ranks = array<i64: 2, 3, 0, 1, 4, 5, 2, 3, 6, 7, 4, 5, 8, 9, 6, 7, 10, 11, 8, 9, 12, 13, 10, 11, 14, 15, 12, 13, 16, 17, 14, 15>}
nv_tileaa.func @chosen(%i: i32, %j: i32, %x: tile<16x64xf32, #scores>, %y: tile<16x64xf32, #scores>) {
  %size = arith.constant 64 : i32
  %a0 = arith.muli %i, %size : i32
  %b0 = arith.muli %j, %size : i32
  %a1 = nv_tileaa.splat %a0 : i32 -> tile<16x1xi32, #rows>
  %a2 = nv_tileaa.make_range : tile<16xi32, #row>
  %a3 = nv_tileaa.view %a2 : tile<16xi32, #row> -> tile<16x1xi32, #rows>
  %a4 = arith.addi %a1, %a3 : tensor<16x1xi32, #rows>
  %a = nv_tileaa.broadcast %a4 : tile<16x1xi32, #rows> -> tile<16x64xi32, #scores>
  %b1 = nv_tileaa.splat %b0 : i32 -> tile<1x64xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<64xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<64xi32, #column> -> tile<1x64xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x64xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x64xi32, #columns> -> tile<16x64xi32, #scores>
  %m = arith.cmpi slt, %a, %b : tensor<16x64xi32, #scores>
  %c = arith.select %m, %x, %y : tensor<16x64xi1, #scores>, tensor<16x64xf32, #scores>
  nv_tileaa.mark_for_reuse %c : tile<16x64xf32, #scores>
  nv_tileaa.return
}

// -----

#scores = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32],[0,64]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0],[64,0]] : 128x128>
#rows = #nv_tileas.layout<register=[[8,0]], lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0],[64,0]] : 128x1>
#row = #nv_tileas.layout<register=[[8]], lane=[[0],[0],[1],[2],[4]], warp=[[16],[32],[64]] : 128>
#columns = #nv_tileas.layout<register=[[0,1],[0,8],[0,16],[0,32],[0,64]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[[0,0],[0,0],[0,0]] : 1x128>
#column = #nv_tileas.layout<register=[[1],[8],[16],[32],[64]], lane=[[2],[4],[0],[0],[0]], warp=[[0],[0],[0]] : 128>

// The tile on the diagonal, where both numbers are one: a thread's number is its row of warps and lanes, less its column.
// Rows from 8 on reach the first columns in all threads (-1), and rows below 8 the last ones in none (the largest number).
// CHECK-LABEL: nv_tileaa.func @one_number
// CHECK-NOT:   arith.subi %{{.*}} : i32
// CHECK:       arith.cmpi sgt
// CHECK:       arith.select %{{.*}}, %arg2, %arg1 {ranks = array<i64: 0, 1, -1, -1, 2, 3, 0, 1, 4, 5, 2, 3, 6, 7, 4, 5, 8, 9, 6, 7, 10, 11, 8, 9, 12, 13, 10, 11, 14, 15, 12, 13, 16, 17, 14, 15, 18, 19, 16, 17, 20, 21, 18, 19, 22, 23, 20, 21, 24, 25, 22, 23, 26, 27, 24, 25, 28, 29, 26, 27, 2147483647, 2147483647, 28, 29>}
nv_tileaa.func @one_number(%i: i32, %x: tile<128x128xf32, #scores>, %y: tile<128x128xf32, #scores>) {
  %size = arith.constant 128 : i32
  %a0 = arith.muli %i, %size : i32
  %a1 = nv_tileaa.splat %a0 : i32 -> tile<128x1xi32, #rows>
  %a2 = nv_tileaa.make_range : tile<128xi32, #row>
  %a3 = nv_tileaa.view %a2 : tile<128xi32, #row> -> tile<128x1xi32, #rows>
  %a4 = arith.addi %a1, %a3 : tensor<128x1xi32, #rows>
  %a = nv_tileaa.broadcast %a4 : tile<128x1xi32, #rows> -> tile<128x128xi32, #scores>
  %b1 = nv_tileaa.splat %a0 : i32 -> tile<1x128xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<128xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<128xi32, #column> -> tile<1x128xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x128xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x128xi32, #columns> -> tile<128x128xi32, #scores>
  %m = arith.cmpi slt, %a, %b : tensor<128x128xi32, #scores>
  %c = arith.select %m, %x, %y : tensor<128x128xi1, #scores>, tensor<128x128xf32, #scores>
  nv_tileaa.mark_for_reuse %c : tile<128x128xf32, #scores>
  nv_tileaa.return
}

// -----

#scores = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x64>
#rows = #nv_tileas.layout<register=[[8,0]], lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[] : 16x1>
#row = #nv_tileas.layout<register=[[8]], lane=[[0],[0],[1],[2],[4]], warp=[] : 16>
#columns = #nv_tileas.layout<register=[[0,1],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x64>
#column = #nv_tileas.layout<register=[[1],[8],[16],[32]], lane=[[2],[4],[0],[0],[0]], warp=[] : 64>

// What holds the pins of a wait is its own where a branch beside it has ranks, which take all predicates, and else it is
// shared: the first wait has no pin that is held, and no branch stands beside the last one.
// CHECK-LABEL: nv_tileaa.func @waits
// CHECK:       nv_tileas.wait_dot %arg3 {pending = 0}
// CHECK:       nv_tileas.wait_dot %arg3 {apart, held_pins = array<i64: 0>
// CHECK:       scf.if
// CHECK:       ranks =
// CHECK-LABEL: nv_tileaa.func @shared
// CHECK:       nv_tileas.wait_dot %arg3 {held_pins = array<i64: 0>
nv_tileaa.func @waits(%i: i32, %j: i32, %x: tile<16x64xf32, #scores>, %y: tile<16x64xf32, #scores>, %masked: i1) {
  %w = nv_tileas.wait_dot %y {pending = 0} : tile<16x64xf32, #scores> -> tile<16x64xf32, #scores>
  %p = nv_tileas.wait_dot %y {held_pins = array<i64: 0>, operandSegmentSizes = array<i32: 0, 0, 1>, pending = 0} : tile<16x64xf32, #scores> -> tile<16x64xf32, #scores>
  %size = arith.constant 64 : i32
  %a0 = arith.muli %i, %size : i32
  %b0 = arith.muli %j, %size : i32
  %a1 = nv_tileaa.splat %a0 : i32 -> tile<16x1xi32, #rows>
  %a2 = nv_tileaa.make_range : tile<16xi32, #row>
  %a3 = nv_tileaa.view %a2 : tile<16xi32, #row> -> tile<16x1xi32, #rows>
  %a4 = arith.addi %a1, %a3 : tensor<16x1xi32, #rows>
  %a = nv_tileaa.broadcast %a4 : tile<16x1xi32, #rows> -> tile<16x64xi32, #scores>
  %b1 = nv_tileaa.splat %b0 : i32 -> tile<1x64xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<64xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<64xi32, #column> -> tile<1x64xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x64xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x64xi32, #columns> -> tile<16x64xi32, #scores>
  %r = scf.if %masked -> (tensor<16x64xf32, #scores>) {
    %m = arith.cmpi slt, %a, %b : tensor<16x64xi32, #scores>
    %c = arith.select %m, %x, %y : tensor<16x64xi1, #scores>, tensor<16x64xf32, #scores>
    scf.yield %c : tensor<16x64xf32, #scores>
  } else {
    scf.yield %x : tensor<16x64xf32, #scores>
  }
  nv_tileaa.mark_for_reuse %r, %w, %p : tile<16x64xf32, #scores>, tile<16x64xf32, #scores>, tile<16x64xf32, #scores>
  nv_tileaa.return
}
nv_tileaa.func @shared(%i: i32, %j: i32, %x: tile<16x64xf32, #scores>, %y: tile<16x64xf32, #scores>) {
  %p = nv_tileas.wait_dot %y {held_pins = array<i64: 0>, operandSegmentSizes = array<i32: 0, 0, 1>, pending = 0} : tile<16x64xf32, #scores> -> tile<16x64xf32, #scores>
  %size = arith.constant 64 : i32
  %a0 = arith.muli %i, %size : i32
  %b0 = arith.muli %j, %size : i32
  %a1 = nv_tileaa.splat %a0 : i32 -> tile<16x1xi32, #rows>
  %a2 = nv_tileaa.make_range : tile<16xi32, #row>
  %a3 = nv_tileaa.view %a2 : tile<16xi32, #row> -> tile<16x1xi32, #rows>
  %a4 = arith.addi %a1, %a3 : tensor<16x1xi32, #rows>
  %a = nv_tileaa.broadcast %a4 : tile<16x1xi32, #rows> -> tile<16x64xi32, #scores>
  %b1 = nv_tileaa.splat %b0 : i32 -> tile<1x64xi32, #columns>
  %b2 = nv_tileaa.make_range : tile<64xi32, #column>
  %b3 = nv_tileaa.view %b2 : tile<64xi32, #column> -> tile<1x64xi32, #columns>
  %b4 = arith.addi %b1, %b3 : tensor<1x64xi32, #columns>
  %b = nv_tileaa.broadcast %b4 : tile<1x64xi32, #columns> -> tile<16x64xi32, #scores>
  %m = arith.cmpi slt, %a, %b : tensor<16x64xi32, #scores>
  %c = arith.select %m, %x, %y : tensor<16x64xi1, #scores>, tensor<16x64xf32, #scores>
  nv_tileaa.mark_for_reuse %c, %p : tile<16x64xf32, #scores>, tile<16x64xf32, #scores>
  nv_tileaa.return
}
