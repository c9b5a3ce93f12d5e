// The passes of Tile IR on functions of the inner dialects: by what their ops do, not by their names.
// RUN: cuda-tile-opt --cse %s | FileCheck %s --check-prefix=CSE
// RUN: cuda-tile-opt --dce %s | FileCheck %s --check-prefix=DCE
// RUN: cuda-tile-opt --canonicalize %s | FileCheck %s --check-prefix=CANON
// RUN: cuda-tile-opt --licm %s | FileCheck %s --check-prefix=LICM
// RUN: cuda-tile-opt --cse --dce --remarks=passed %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: cuda-tile-opt --fuse-fma %s 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// REMARK: in function: same
// REMARK: --> {{.*}}inner-dialects.mlir
// REMARK: name: CommonSubexpression
// REMARK: Op = nv_tileaa.addf
// REMARK: in function: dead
// REMARK: name: DeadCode
// REMARK: Op = nv_tileaa.load
// NONE: inner-dialects.mlir:27:1: warning: pass 'fuse-fma' leaves functions of nv_tileaa as they are: it works on those of cuda_tile

// CSE-LABEL: nv_tileaa.func @same
// CSE: %[[A:.*]] = nv_tileaa.addf
// CSE-NEXT: %[[L:.*]] = nv_tileaa.load
// CSE-NEXT: nv_tileaa.print %[[A]], %[[A]], %[[L]], %[[L]]
// DCE-LABEL: nv_tileaa.func @same
// DCE-COUNT-2: nv_tileaa.addf
// CANON-LABEL: nv_tileaa.func @same
// CANON-COUNT-2: nv_tileaa.addf
nv_tileaa.func @same(%x: tile<4xf32>, %p: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  %a = nv_tileaa.addf %x, %x : tile<4xf32>, tile<4xf32> -> tile<4xf32>
  %b = nv_tileaa.addf %x, %x : tile<4xf32>, tile<4xf32> -> tile<4xf32>
  %c = nv_tileaa.load %p : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  %d = nv_tileaa.load %p : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  nv_tileaa.print %a, %b, %c, %d {format = "%f %f %f %f"} : tile<4xf32>, tile<4xf32>, tile<4xf32>, tile<4xf32>
  nv_tileaa.return
}

// Values and weak loads that nobody wants go; loads that others can tell stay, and so does what is seen.
// CSE-LABEL: nv_tileaa.func @dead
// CSE-COUNT-2: nv_tileaa.load
// DCE-LABEL: nv_tileaa.func @dead
// DCE-NOT: nv_tileaa.mulf
// DCE-NOT: nv_tileaa.load
// DCE: nv_tileaa.load {{.*}}is_volatile
// DCE-NEXT: nv_tileaa.message
// DCE-NEXT: nv_tileaa.optimization_barrier
// DCE-NEXT: nv_tileaa.return
// CANON-LABEL: nv_tileaa.func @dead
// CANON-NOT: nv_tileaa.mulf
// CANON: nv_tileaa.load {{.*}}is_volatile
// CANON-NEXT: nv_tileaa.message
// CANON-NEXT: nv_tileaa.optimization_barrier
// CANON-NEXT: nv_tileaa.return
nv_tileaa.func @dead(%x: tile<4xf32>, %p: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  %a = nv_tileaa.mulf %x, %x : tile<4xf32>, tile<4xf32> -> tile<4xf32>
  %b = nv_tileaa.load %p : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  %c = nv_tileaa.load %p {is_volatile} : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  nv_tileaa.message {text = "kept"}
  %d = nv_tileaa.optimization_barrier %x : tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

// What cannot go wrong is computed once; a shift, a load and what depends on the loop stay in it.
// LICM-LABEL: nv_tileaa.func @invariant
// LICM: nv_tileaa.addf
// LICM-NEXT: scf.for
// LICM-NEXT: arith.shli
// LICM-NEXT: nv_tileaa.load
// LICM-NEXT: nv_tileaa.mulf
// LICM-NEXT: nv_tileaa.print
nv_tileaa.func @invariant(%x: tile<4xf32>, %n: i32, %k: i32, %p: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %a = nv_tileaa.addf %x, %x : tile<4xf32>, tile<4xf32> -> tile<4xf32>
    %s = arith.shli %n, %k : i32
    %b = nv_tileaa.load %p : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
    %c = nv_tileaa.mulf %a, %b : tile<4xf32>, tile<4xf32> -> tile<4xf32>
    nv_tileaa.print %c, %s {format = "%f %d"} : tile<4xf32>, i32
  }
  nv_tileaa.return
}

// A carried value that only feeds itself is left as it is, and what computed it goes; one that is printed stays.
// DCE-LABEL: nv_tileaa.func @carried
// DCE: scf.for {{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[DEAD:.*]] = %{{.*}})
// DCE-NEXT: %[[NEXT:.*]] = arith.addi %[[SUM]]
// DCE-NEXT: scf.yield %[[NEXT]], %[[DEAD]]
nv_tileaa.func @carried(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %sum, %product = scf.for %i = %zero to %n step %one iter_args(%s = %zero, %p = %one) -> (i32, i32) : i32 {
    %t = arith.addi %s, %i : i32
    %u = arith.muli %p, %i : i32
    scf.yield %t, %u : i32, i32
  }
  nv_tileaa.print %sum {format = "%d"} : i32
  nv_tileaa.return
}

// A division by what may be zero leaves a loop that runs for certain, up to the first op that may end the program.
// LICM-LABEL: nv_tileaa.func @certain
// LICM: arith.divsi %arg0, %arg1
// LICM: scf.for
// LICM-NEXT: nv_tileaa.assert
// LICM-NEXT: arith.remsi
// LICM-NEXT: nv_tileaa.print
nv_tileaa.func @certain(%n: i32, %k: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  scf.for %i = %zero to %two step %one : i32 {
    %a = arith.divsi %n, %k : i32
    nv_tileaa.assert %c {message = "no"} : i1
    %b = arith.remsi %n, %k : i32
    nv_tileaa.print %a, %b {format = "%d %d"} : i32, i32
  }
  nv_tileaa.return
}
