// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout --tileas-allocate-shared-memory --tileas-insert-shared-barriers | FileCheck %s

#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
#many = #nv_tileas.layout<register=[[1],[2],[4],[8]], lane=[[16],[32],[64],[128],[256]], warp=[[512],[1024]] : 2048>
#mixed = #nv_tileas.layout<register=[[128],[256],[512],[1024]], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 2048>
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>

// The barrier in the middle of each exchange ends the reads of the one before.
// CHECK-LABEL: nv_tileaa.func @in_turn
// CHECK:       exchanges<[0 : 512]
// CHECK:       exchanges<[512 : 512]
// CHECK:       exchanges<[0 : 512]
nv_tileaa.func @in_turn(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %b = nv_tileas.convert_layout %a : tile<128xf32, #warps> -> tile<128xf32, #lanes>
  %c = nv_tileas.convert_layout %b : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// At one place the second must wait for the first; a barrier that stands there anyway is enough.
// CHECK-LABEL: nv_tileaa.func @at_one_place
// CHECK:       exchanges<[0 : 8192]
// CHECK:       exchanges<[meet 0 : 8192]
// CHECK:       nv_tileas.barrier
// CHECK:       exchanges<[0 : 8192]
nv_tileaa.func @at_one_place(%x: tile<2048xf32, #many>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<2048xf32, #many> -> tile<2048xf32, #mixed>
  %b = nv_tileas.convert_layout %a : tile<2048xf32, #mixed> -> tile<2048xf32, #many>
  nv_tileas.barrier
  %c = nv_tileas.convert_layout %b : tile<2048xf32, #many> -> tile<2048xf32, #mixed>
  nv_tileaa.return
}

// The next iteration's writes come behind this one's reads; two exchanges in turn do not wait for each other.
// CHECK-LABEL: nv_tileaa.func @loops
// CHECK:       scf.for
// CHECK:       exchanges<[meet 0 : 512]
// CHECK:       scf.for
// CHECK:       exchanges<[512 : 512]
// CHECK:       exchanges<[0 : 512]
// CHECK:       exchanges<[512 : 512]
nv_tileaa.func @loops(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ten = arith.constant 10 : i32
  scf.for %i = %zero to %ten step %one : i32 {
    %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
    scf.yield
  }
  scf.for %i = %zero to %ten step %one : i32 {
    %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
    %b = nv_tileas.convert_layout %a : tile<128xf32, #warps> -> tile<128xf32, #lanes>
    scf.yield
  }
  %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// One arm may read what is written behind the branch.
// CHECK-LABEL: nv_tileaa.func @branch
// CHECK:       scf.if
// CHECK:       exchanges<[0 : 512]
// CHECK:       exchanges<[meet 0 : 512]
nv_tileaa.func @branch(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %yes = arith.constant true
  scf.if %yes {
    %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
    scf.yield
  }
  %b = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}
