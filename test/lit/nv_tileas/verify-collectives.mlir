// The steps of reductions and scans combine all elements along the dimension, in order, on their way to the results.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#rows = #nv_tileas.layout<register=[[0,1],[4,0]], lane=[[0,2],[0,4],[0,8],[1,0],[2,0]], warp=[[8,0],[0,16]] : 16x32>
#sums = #nv_tileas.layout<register=[[4]], lane=[[0],[0],[0],[1],[2]], warp=[[8],[0]] : 16>
#other = #nv_tileas.layout<register=[], lane=[[4],[0],[0],[1],[2]], warp=[[8],[0]] : 16>
#mixed = #nv_tileas.layout<register=[[3]], lane=[[2],[4],[8],[16],[32]], warp=[] : 64>
#shared = #nv_tileas.layout<offset=[[1,0],[2,0],[4,0],[8,0],[0,1]] : 16x2>
#half = #nv_tileas.layout<offset=[[1,0],[2,0],[4,0],[0,1]] : 8x2>
#twice = #nv_tileas.layout<offset=[[1,0],[2,0],[4,0],[8,0],[8,0]] : 16x2>
!rows = tensor<16x32xf32, #rows>
!sums = tensor<16xf32, #sums>

nv_tileaa.func @good(%x: !rows) {
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @any_order(%x: !rows) {
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<commutative, lanes [2,1], registers [0], lanes [0], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @order(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects steps from the lowest bit of the index up, but lane bit 0 moves it by 2 before 1 is folded}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<lanes [0,1,2], registers [0], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @left(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects steps for all of dimension 1, but bits [16] of its index are left}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @along(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects bits along dimension 1, which register bit 1 is not}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [1,0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @gone(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects register bits among [1]}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0,0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @beyond(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects bits of lanes below 5}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [5], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @not_along(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects bits along dimension 1, which lane bit 3 is not}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<commutative, registers [0], redux [0,1,2,3,4]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.maxf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @some_lanes(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects redux of lane bits [0, 1, 2, 3, 4], but got [0, 1, 2]}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<commutative, registers [0], redux [0,1,2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.maxf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @ordered(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects steps that keep an order where arguments are not exchanged, but got redux}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], redux [0,1,2,3,4]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.maxf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @warps(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects warp bits [1] in one step, but got [0, 1]}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [0,1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @pieces(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects 32 elements to go in pieces, but got 4 of 16}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#half, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32> in 4]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @place(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects a layout of offsets, one for each element, but got #nv_tileas.layout<offset=[[1,0],[2,0],[4,0],[8,0],[8,0]] : 16x2>}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#twice, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @tiles(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects layouts in shared memory for 1 tiles, but got 2}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>, #shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !sums
  nv_tileaa.return
}
nv_tileaa.func @result(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects results in the layout #nv_tileas.layout<register=[[4]], lane=[[0],[0],[0],[1],[2]], warp=[[8],[0]] : 16>, but got tile<16xf32, #nv_tileas.layout<register=[], lane=[[4],[0],[0],[1],[2]], warp=[[8],[0]] : 16>>}}
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]], registers [2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> tile<16xf32, #other>
  nv_tileaa.return
}
nv_tileaa.func @unit(%x: tile<64xf32, #mixed>) {
  // expected-error @+1 {{'nv_tileas.reduce' op expects a layout in which each bit of a place moves one bit of an index, and no two the same one}}
  %r = nv_tileas.reduce %x {dim = 0 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<none>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : tile<64xf32, #mixed> -> tile<f32>
  nv_tileaa.return
}
nv_tileaa.func @good_scan(%x: !rows) {
  %r = nv_tileas.scan %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !rows
  nv_tileaa.return
}
nv_tileaa.func @scan_order(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.scan' op expects registers [0] as the next bit of the index, but got lanes [0]}}
  %r = nv_tileas.scan %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<lanes [0,1,2], registers [0], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !rows
  nv_tileaa.return
}
nv_tileaa.func @scan_left(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.scan' op expects steps of 5 bits, as dimension 1 has, but got 4}}
  %r = nv_tileas.scan %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<registers [0], lanes [0,1,2]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !rows
  nv_tileaa.return
}
nv_tileaa.func @scan_any(%x: !rows) {
  // expected-error @+1 {{'nv_tileas.scan' op expects a scan that combines elements in order}}
  %r = nv_tileas.scan %x {dim = 1 : i64, identities = [0.0 : f32], steps = #nv_tileas.steps<commutative, registers [0], lanes [0,1,2], warps [1] by [[#shared, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>]]>} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = nv_tileaa.addf %a, %b : tile<f32>, tile<f32> -> tile<f32>
    nv_tileaa.yield %s : tile<f32>
  }) : !rows -> !rows
  nv_tileaa.return
}
