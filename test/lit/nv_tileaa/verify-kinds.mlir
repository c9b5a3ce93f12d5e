// Which kinds of values and attributes ops take: addresses, sizes, grids, globals, identities, predicates, agents, casts.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!m = !nv_tileaa.memref<?xf32, strides=[1], 1>
!m2 = !nv_tileaa.memref<?x?xf32, 1>
!v3 = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 2x2x2>
!image = !nv_tileaa.memref<?x?x?x?xf16, 1>
!window = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?x?x?xf16, 1>, 1x4x4x8>

nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<1xf32>, alignment = 16 : i64}
// expected-error @+1 {{'nv_tileaa.global' op expects alignment to be a power of two, but got 3}}
nv_tileaa.global {sym_name = "h", value = dense<1.0> : !cuda_tile.tile<1xf32>, alignment = 3 : i64}

nv_tileaa.func @kernel() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}

nv_tileaa.func @addresses_have_64_bits(%p: !nv_tileaa.ptr<f32, 1>, %a: i64, %b: i32) {
  // expected-error @+1 {{'nv_tileaa.int_to_ptr' op expects integers of 64 bits as source and pointers as result, but got i32 vs !nv_tileaa.ptr<f32, 1>}}
  %bad = nv_tileaa.int_to_ptr %b : i32 -> !nv_tileaa.ptr<f32, 1>
  %good = nv_tileaa.int_to_ptr %a : i64 -> !nv_tileaa.ptr<f32, 1>
  // expected-error @+1 {{'nv_tileaa.ptr_to_int' op expects pointers as source and integers of 64 bits as result, but got !nv_tileaa.ptr<f32, 1> vs i1}}
  %worse = nv_tileaa.ptr_to_int %p : !nv_tileaa.ptr<f32, 1> -> i1
  %better = nv_tileaa.ptr_to_int %p : !nv_tileaa.ptr<f32, 1> -> i64
  nv_tileaa.return
}

nv_tileaa.func @globals_are_what_they_hold() {
  // expected-error @+1 {{'nv_tileaa.get_global' op expects a pointer to f32 in global memory, but got !nv_tileaa.ptr<f64, 1>}}
  %bad = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f64, 1>
  // expected-error @+1 {{'nv_tileaa.get_global' op expects a pointer to f32 in global memory, but got !nv_tileaa.ptr<f32, 3>}}
  %worse = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f32, 3>
  %good = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return
}

nv_tileaa.func @sizes_are_numbers(%p: !nv_tileaa.ptr<f32, 1>, %n: index, %f: f32, %t: tile<4xindex>, %c: i1) {
  // expected-error @+1 {{'nv_tileaa.make_memref' op expects offset, sizes and strides to be numbers, but got f32}}
  %bad = nv_tileaa.make_memref %p, %f : !nv_tileaa.ptr<f32, 1>, f32 -> !m
  // expected-error @+1 {{'nv_tileaa.make_memref' op expects offset, sizes and strides to be numbers, but got tile<4xindex>}}
  %worse = nv_tileaa.make_memref %p, %t : !nv_tileaa.ptr<f32, 1>, tile<4xindex> -> !m
  // expected-error @+1 {{'nv_tileaa.make_memref' op expects offset, sizes and strides to be numbers, but got i1}}
  %worst = nv_tileaa.make_memref %p, %c, %n : !nv_tileaa.ptr<f32, 1>, i1, index -> !m
  %good = nv_tileaa.make_memref %p, %n : !nv_tileaa.ptr<f32, 1>, index -> !m
  // expected-error @+1 {{'nv_tileaa.get_dim_size' op expects a number as result, but got f32}}
  %size = nv_tileaa.get_dim_size %good {dim = 0} : !m -> f32
  nv_tileaa.return
}

nv_tileaa.func @tiles_have_no_more_dimensions_than_memory(%m: !m2) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects tiles of at most 2 dimensions, but got 3}}
  %bad = nv_tileaa.block_tile %m {tileSizes = array<i64: 2, 2, 2>, dimGroups = [array<i64: 0>, array<i64: 1>, array<i64: 2>]} : !m2 -> !v3
  nv_tileaa.return
}

nv_tileaa.func @a_grid_has_numbers(%n: index, %f: f32) {
  // expected-error @+1 {{'nv_tileaa.get_num_programs' op expects an integer as result, but got !nv_tileaa.program_id}}
  %bad = nv_tileaa.get_num_programs {axis = 0} : !nv_tileaa.program_id
  %good = nv_tileaa.get_num_programs {axis = 0} : index
  // expected-error @+1 {{'nv_tileaa.get_program_id' op expects an integer or a program_id as result, but got i1}}
  %worse = nv_tileaa.get_program_id {axis = 0} : i1
  // expected-error @+1 {{'nv_tileaa.get_cta_rank' op expects an integer as result, but got i1}}
  %worst = nv_tileaa.get_cta_rank : i1
  // expected-error @+1 {{'nv_tileaa.launch_func' op expects the sizes of the grid to be numbers, but got f32}}
  nv_tileaa.launch_func %f, %n, %n {kernel = @kernel} : f32, index, index
  nv_tileaa.launch_func %n, %n, %n {kernel = @kernel} : index, index, index
  nv_tileaa.return
}

nv_tileaa.func @only_numbers_and_pointers_have_bits(%i: index, %b: tile<4x4xi8>, %c: tile<16xi8>, %t: !nv_tileaa.mem_token) {
  // expected-error @+1 {{'nv_tileaa.bitcast' op expects numbers or pointers, but got index}}
  %bad = nv_tileaa.bitcast %i : index -> i64
  // expected-error @+1 {{'nv_tileaa.bitcast' op expects numbers or pointers, but got !nv_tileaa.mem_token}}
  %worse = nv_tileaa.bitcast %t : !nv_tileaa.mem_token -> i64
  // expected-error @+1 {{'nv_tileaa.bitcast' op expects packed elements in tiles of rank 1, but got tile<4x4xi8>}}
  %worst = nv_tileaa.bitcast %b {packed} : tile<4x4xi8> -> tile<4xi32>
  %good = nv_tileaa.bitcast %c {packed} : tile<16xi8> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @identities_are_elements(%x: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.reduce' op expects an identity of the element type of tile<4xf32>, but got "none"}}
  %bad = nv_tileaa.reduce %x {identities = ["none"], dim = 0 : i64} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    nv_tileaa.yield %a : tile<f32>
  }) : tile<4xf32> -> tile<f32>
  nv_tileaa.return
}

nv_tileaa.func @facts_are_predicates(%i: index) {
  // expected-error @+1 {{'nv_tileaa.assume' op expects predicates, but got "positive"}}
  %bad = nv_tileaa.assume %i {predicates = ["positive"]} : index -> index
  nv_tileaa.return
}

nv_tileaa.func @windows_move_on(%x: !image) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects a stride of at least 1, but got [1, 0]}}
  %bad = nv_tileaa.conv_tile %x {tileSizes = array<i64: 1, 4, 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>, array<i64: 2>, array<i64: 3>], filterSizes = array<i64: 3, 3>, channelAxis = 3, conv_params = #nv_tileaa.conv_params<pad_lower=[1,1], pad_upper=[1,1], stride=[1,0], dilation=[1,1]>} : !image -> !window
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects a dilation of at least 1, but got [0, 1]}}
  %worse = nv_tileaa.conv_tile %x {tileSizes = array<i64: 1, 4, 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>, array<i64: 2>, array<i64: 3>], filterSizes = array<i64: 3, 3>, channelAxis = 3, conv_params = #nv_tileaa.conv_params<pad_lower=[1,1], pad_upper=[1,1], stride=[1,1], dilation=[0,1]>} : !image -> !window
  nv_tileaa.return
}

nv_tileaa.func @agents_have_code() {
  // expected-error @+1 {{'nv_tileaa.execute' op expects one agent at least}}
  nv_tileaa.execute
  // expected-error @+1 {{'nv_tileaa.execute' op expects region #0 to have 1 block}}
  nv_tileaa.execute ({
  })
  // expected-error @+1 {{'nv_tileaa.execute' op expects integers in agent_warps, but got ["two"]}}
  nv_tileaa.execute {agent_warps = ["two"]} ({
    nv_tileaa.yield
  })
  nv_tileaa.return
}

nv_tileaa.func @casts_are_between_integers(%a: i64, %b: i32, %f: f32, %i: index) {
  // expected-error @+1 {{'arith.extsi' op expects integers as operand and wider ones as result, but got i64 and i32}}
  %0 = arith.extsi %a : i64 to i32
  // expected-error @+1 {{'arith.extui' op expects integers as operand and wider ones as result, but got f32 and i64}}
  %1 = arith.extui %f : f32 to i64
  // expected-error @+1 {{'arith.trunci' op expects integers as operand and narrower ones as result, but got index and i32}}
  %2 = arith.trunci %i : index to i32
  // expected-error @+1 {{'arith.index_cast' op expects indices as operand or result, and integers as the other, but got i64 and i32}}
  %3 = arith.index_cast %a : i64 to i32
  %4 = arith.extsi %b : i32 to i64
  %5 = arith.trunci %a : i64 to i32
  %6 = arith.index_cast %i : index to i32
  nv_tileaa.return
}

nv_tileaa.func @comparisons_have_predicates(%a: i32, %b: i64, %f: f32) {
  // expected-error @+1 {{'arith.cmpi' op expects operands of cmpi to be integers of one type, but got f32 and f32}}
  %0 = arith.cmpi slt, %f, %f : f32
  // expected-error @+1 {{'arith.cmpi' op expects operands of cmpi to be integers of one type, but got i32 and i64}}
  %1 = "arith.cmpi"(%a, %b) {predicate = 1 : i64} : (i32, i64) -> i1
  // expected-error @+1 {{'arith.cmpf' op expects operands of cmpf to be floats of one type, but got i32 and i32}}
  %2 = arith.cmpf olt, %a, %a : i32
  // expected-error @+1 {{'arith.cmpi' op expects a predicate from 0 to 9 of cmpi, but got 17}}
  %3 = "arith.cmpi"(%a, %a) {predicate = 17 : i64} : (i32, i32) -> i1
  // expected-error @+1 {{'arith.cmpi' op expects a result of i1 for each comparison, but got i32}}
  %4 = "arith.cmpi"(%a, %a) {predicate = 0 : i64} : (i32, i32) -> i32
  %5 = arith.cmpi slt, %a, %a : i32
  %6 = arith.cmpf olt, %f, %f : f32
  nv_tileaa.return
}
