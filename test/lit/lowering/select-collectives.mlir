// RUN: cuda-tile-opt %s --tileas-select-collectives | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-select-collectives | cuda-tile-opt - --tileas-select-collectives | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-select-collectives --tileas-materialize-convert-layout --tileas-allocate-shared-memory | FileCheck %s --check-prefix=PLACES

#rows = #nv_tileas.layout<register=[[0,1],[0,2],[4,0],[8,0]], lane=[[0,4],[0,8],[0,16],[1,0],[2,0]], warp=[[16,0],[0,32]] : 32x64>
#kept = #nv_tileas.layout<register=[[4],[8]], lane=[[0],[0],[0],[1],[2]], warp=[[16],[0]] : 32>
#mixed = #nv_tileas.layout<register=[[3]], lane=[[2],[4],[8],[16],[32]], warp=[[64],[0]] : 128>
#inner = #nv_tileas.layout<register=[], lane=[[],[],[],[],[]], warp=[[],[]] : scalar>
#lanes = #nv_tileas.layout<register=[[32],[64]], lane=[[1],[2],[4],[8],[16]], warp=[[0],[0]] : 128>

// A sum is taken in the cheapest order: registers, lanes, and warps last, which go through shared memory. What follows
// them is in further registers.
// CHECK-LABEL: nv_tileaa.func @sum
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<commutative, registers [0,1], lanes [0,1,2], warps [1] by {{\[\[}}#nv_tileas.layout<offset={{.*}} : 32x2>, store = #nv_tileas.copy_atom<sts, bits=128>, load = #nv_tileas.copy_atom<lds, bits=128>]], registers [4]>
// CHECK-NOT:   convert_layout
// PLACES-LABEL: nv_tileaa.func @sum
// PLACES:       nv_tileas.reduce {{.*}}exchanges = #nv_tileas.exchanges<[0 : 256]>
nv_tileaa.func @sum(%x: tile<32x64xf32, #rows>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %r = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.0 : f32]} ({
  ^bb0(%a: tensor<f32, #inner>, %b: tensor<f32, #inner>):
    %s = nv_tileaa.addf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    nv_tileaa.yield %s : tile<f32, #inner>
  }) : tile<32x64xf32, #rows> -> tile<32xf32, #kept>
  nv_tileaa.print %r {format = "%f"} : tile<32xf32, #kept> -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// A body that does not commute combines neighbours: a lane's bit before a register's changes places with it. Tiles of
// f32 and i8 go to other warps together.
// CHECK-LABEL: nv_tileaa.func @in_order
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<exchange [0] with 1, exchange [1] with 0, lanes [2,3,4,1,0]>
nv_tileaa.func @in_order(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %r = nv_tileas.reduce %x {dim = 0 : i64, identities = [0.0 : f32]} ({
  ^bb0(%a: tensor<f32, #inner>, %b: tensor<f32, #inner>):
    %s = nv_tileaa.subf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    nv_tileaa.yield %s : tile<f32, #inner>
  }) : tile<128xf32, #lanes> -> tile<f32, #inner>
  nv_tileaa.print %r {format = "%f"} : tile<f32, #inner> -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// A scan takes the bits of the index from the lowest up, and two tiles share an exchange. Where bits of a place move
// several bits of the index, it is done in a layout where they do not.
// CHECK-LABEL: nv_tileaa.func @running
// CHECK:       convert_layout
// CHECK:       convert_layout
// CHECK:       nv_tileas.scan {{.*}}steps = #nv_tileas.steps<registers [0], lanes [0,1,2,3,4], warps [0] by {{\[\[}}#nv_tileas.layout<offset={{.*}} : 2>, store = #nv_tileas.copy_atom<sts, bits={{.*}}>, load = #nv_tileas.copy_atom<lds, bits={{.*}}>, #nv_tileas.layout<offset={{.*}} : 2>, store = #nv_tileas.copy_atom<sts, bits={{.*}}>, load = #nv_tileas.copy_atom<lds, bits={{.*}}>]]>
// CHECK:       convert_layout
// CHECK:       convert_layout
nv_tileaa.func @running(%x: tile<128xf32, #mixed>, %y: tile<128xi8, #mixed>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %r, %q = nv_tileas.scan %x, %y {dim = 0 : i64, identities = [0.0 : f32, 0 : i8]} ({
  ^bb0(%a: tensor<f32, #inner>, %c: tensor<i8, #inner>, %b: tensor<f32, #inner>, %d: tensor<i8, #inner>):
    %s = nv_tileaa.addf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    %t = arith.addi %c, %d : tensor<i8, #inner>
    nv_tileaa.yield %s, %t : tile<f32, #inner>, tile<i8, #inner>
  }) : tile<128xf32, #mixed>, tile<128xi8, #mixed> -> tile<128xf32, #mixed>, tile<128xi8, #mixed>
  nv_tileaa.print %r, %q {format = "%f %d"} : tile<128xf32, #mixed>, tile<128xi8, #mixed> -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// Where a warp's lanes have different elements, one instruction combines them if the target has it: sums of 32-bit
// integers everywhere, the largest of floats from sm_100 on, and sums of floats nowhere.
// CHECK-LABEL: nv_tileaa.func @by_warps
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<commutative, registers [0,1], redux [0,1,2,3,4]>
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<commutative, registers [0,1], lanes [0,1,2,3,4]>
nv_tileaa.func @by_warps(%x: tile<128xi32, #lanes>, %y: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %r = nv_tileas.reduce %x {dim = 0 : i64, identities = [0 : i32]} ({
  ^bb0(%a: tensor<i32, #inner>, %b: tensor<i32, #inner>):
    %s = arith.addi %a, %b : tensor<i32, #inner>
    nv_tileaa.yield %s : tile<i32, #inner>
  }) : tile<128xi32, #lanes> -> tile<i32, #inner>
  %q = nv_tileas.reduce %y {dim = 0 : i64, identities = [0xFF800000 : f32]} ({
  ^bb0(%a: tensor<f32, #inner>, %b: tensor<f32, #inner>):
    %s = nv_tileaa.maxf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    nv_tileaa.yield %s : tile<f32, #inner>
  }) : tile<128xf32, #lanes> -> tile<f32, #inner>
  nv_tileaa.print %r, %q {format = "%d %f"} : tile<i32, #inner>, tile<f32, #inner> -> !nv_tileaa.mem_token
  nv_tileaa.return
}
// CHECK-LABEL: nv_tileaa.func @floats_by_warps
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<commutative, registers [0,1], redux [0,1,2,3,4]>
// CHECK:       nv_tileas.reduce {{.*}}steps = #nv_tileas.steps<commutative, registers [0,1], lanes [0,1,2,3,4]>
nv_tileaa.func @floats_by_warps(%y: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  %q = nv_tileas.reduce %y {dim = 0 : i64, identities = [0xFF800000 : f32]} ({
  ^bb0(%a: tensor<f32, #inner>, %b: tensor<f32, #inner>):
    %s = nv_tileaa.maxf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    nv_tileaa.yield %s : tile<f32, #inner>
  }) : tile<128xf32, #lanes> -> tile<f32, #inner>
  %r = nv_tileas.reduce %y {dim = 0 : i64, identities = [0.0 : f32]} ({
  ^bb0(%a: tensor<f32, #inner>, %b: tensor<f32, #inner>):
    %s = nv_tileaa.addf %a, %b : tile<f32, #inner>, tile<f32, #inner> -> tile<f32, #inner>
    nv_tileaa.yield %s : tile<f32, #inner>
  }) : tile<128xf32, #lanes> -> tile<f32, #inner>
  nv_tileaa.print %q, %r {format = "%f %f"} : tile<f32, #inner>, tile<f32, #inner> -> !nv_tileaa.mem_token
  nv_tileaa.return
}
