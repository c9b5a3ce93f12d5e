// What ops ask of one another: factors of products, masked elements, tokens, yields, numbers, captures, launches, agents.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!pp = tensor<4x!nv_tileaa.ptr<f32, 1>>
!queue = !nv_tileaa.queue<(tile<4xf32>)>
!alone = !nv_tileaa.queue<(tile<4xf32>), isolated>
#gpu = #nv_tileaa.mem_scope<gpu>
#s = #nv_tileaa.signedness<signed>

nv_tileaa.func @factors_of_one_type(%h: tile<4x8xf16>, %e: tile<8x4xf8E4M3FN>, %g: tile<8x4xf16>, %c: tile<4x4xf32>,
                                    %m: tile<4x8xf8E5M2>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #A and #B of a legal pair of element types, but got f16 and f8E4M3FN}}
  %bad = nv_tileaa.dot %h, %e, %c : tile<4x8xf16>, tile<8x4xf8E4M3FN>, tile<4x4xf32> -> tile<4x4xf32>
  %good = nv_tileaa.dot %h, %g, %c : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  %mixed = nv_tileaa.dot %m, %e, %c : tile<4x8xf8E5M2>, tile<8x4xf8E4M3FN>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @integer_factors_are_narrow(%a: tile<4x8xi64>, %b: tile<8x4xi64>, %c: tile<4x4xi1>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #A and #B of integers of 4 or 8 bits, but got 64 bits}}
  %bad = nv_tileaa.dot %a, %b, %c {signedness_a = #s, signedness_b = #s} : tile<4x8xi64>, tile<8x4xi64>, tile<4x4xi1> -> tile<4x4xi1>
  nv_tileaa.return
}

nv_tileaa.func @integer_sums_are_i32(%a: tile<4x8xi8>, %b: tile<8x4xi8>, %c: tile<4x4xi1>, %d: tile<4x4xi32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #C element type to be i32, but got i1}}
  %bad = nv_tileaa.dot %a, %b, %c {signedness_a = #s, signedness_b = #s} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi1> -> tile<4x4xi1>
  %good = nv_tileaa.dot %a, %b, %d {signedness_a = #s, signedness_b = #s} : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  nv_tileaa.return
}

nv_tileaa.func @the_result_is_of_the_type_of_c(%a: tile<4x8xf16>, %b: tile<8x4xf16>, %c: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects the result to have the element type of #C, but got f16 and f32}}
  %bad = nv_tileaa.dot %a, %b, %c : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf16>
  nv_tileaa.return
}

nv_tileaa.func @scales_stand_for_blocks(%a: tile<16x64xf8E4M3FN>, %b: tile<64x16xf8E4M3FN>, %c: tile<16x16xf32>,
    %s: tile<8x4xf8E8M0FNU>, %u: tile<16x2xf8E8M0FNU>, %t: tile<2x16xf8E8M0FNU>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>} {
  // expected-error @+1 {{'nv_tileaa.dot' op expects the shape of SFA to be that of #A with one element for each block}}
  %bad = nv_tileaa.dot %a, %b, %c, %s, %t : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>, tile<8x4xf8E8M0FNU>, tile<2x16xf8E8M0FNU> -> tile<16x16xf32>
  // expected-error @+1 {{'nv_tileaa.dot' op expects the shape of SFB to be that of #B with one element for each block}}
  %worse = nv_tileaa.dot %a, %b, %c, %u, %u : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>, tile<16x2xf8E8M0FNU>, tile<16x2xf8E8M0FNU> -> tile<16x16xf32>
  %good = nv_tileaa.dot %a, %b, %c, %u, %t : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>, tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU> -> tile<16x16xf32>
  nv_tileaa.return
}

nv_tileaa.func @other_is_like_the_value(%pp: !pp, %m: tile<4xi1>, %o: tile<8xf32>, %g: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.load' op expects a mask with 'other', which stands where the mask is false}}
  %alone = nv_tileaa.load %pp, %g {operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>} : !pp, tile<4xf32> -> tile<4xf32>
  // expected-error @+1 {{'nv_tileaa.load' op expects other to have the shape of tile<4xf32>, but got tile<8xf32>}}
  %bad = nv_tileaa.load %pp, %m, %o : !pp, tile<4xi1>, tile<8xf32> -> tile<4xf32>
  %good = nv_tileaa.load %pp, %m, %g : !pp, tile<4xi1>, tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @no_xor_of_floats(%pp: !pp, %v: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.atomic_rmw' op rmw_mode 'xor' needs integers, but got f32}}
  %bad = nv_tileaa.atomic_rmw %pp, %v {rmw_mode = #nv_tileaa.rmw_mode<xor>} : !pp, tile<4xf32> -> tile<4xf32>
  %good = nv_tileaa.atomic_rmw %pp, %v {rmw_mode = #nv_tileaa.rmw_mode<xchg>} : !pp, tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @no_addf_of_integers(%p: tile<4x!nv_tileaa.ptr<i32, 1>>, %v: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.atomic_rmw' op rmw_mode 'addf' needs floats, but got i32}}
  %bad = nv_tileaa.atomic_rmw %p, %v {rmw_mode = #nv_tileaa.rmw_mode<addf>} : tile<4x!nv_tileaa.ptr<i32, 1>>, tile<4xi32> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @what_orders_gives_a_token(%pp: !pp, %v: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.store' op expects a token result with mem_semantic release}}
  nv_tileaa.store %pp, %v {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu} : !pp, tile<4xf32>
  %t = nv_tileaa.store %pp, %v {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu} : !pp, tile<4xf32> -> !nv_tileaa.mem_token
  // expected-error @+1 {{'nv_tileaa.print' op expects a token result with a token operand}}
  nv_tileaa.print %v, %t {format = "%f"} : tile<4xf32>, !nv_tileaa.mem_token
  // expected-error @+1 {{'nv_tileaa.gdc_wait' op expects a token result with a token operand}}
  nv_tileaa.gdc_wait %t : !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @reductions_work_on_elements(%x: tile<8xf32>) {
  // expected-error @+1 {{'nv_tileaa.reduce' op expects a region that works on single elements of the tiles, but got (tile<f16>)}}
  %bad = nv_tileaa.reduce %x {dim = 0, identities = [0.0 : f32]} ({
  ^bb0(%a: tensor<f32>, %b: tensor<f16>):
    nv_tileaa.yield %a : tile<f32>
  }) : tile<8xf32> -> tile<f32>
  nv_tileaa.return
}

nv_tileaa.func @a_generated_tile_is_made_of_elements() {
  // expected-error @+1 {{'nv_tileaa.generate' op expects a region that yields one element of the result, but got (index)}}
  %bad = nv_tileaa.generate ({
  ^bb0(%i: index):
    nv_tileaa.yield %i : index
  }) : tile<8xi32>
  nv_tileaa.return
}

nv_tileaa.func @agents_yield_nothing(%x: tile<8xf32>) {
  // expected-error @+1 {{'nv_tileaa.execute' op expects the region to yield (), but got (tile<8xf32>)}}
  nv_tileaa.execute ({
    nv_tileaa.yield %x : tile<8xf32>
  })
  // expected-error @+1 {{'nv_tileaa.execute' op expects the regions to yield (tile<8xf32>, index) together, but got (tile<8xf32>)}}
  %y, %n = nv_tileaa.execute ({
    nv_tileaa.yield %x : tile<8xf32>
  }, {
    nv_tileaa.yield
  }) : tile<8xf32>, index
  // expected-error @+1 {{'nv_tileaa.execute' op expects a region with arguments (tile<8xf32>), but got ()}}
  nv_tileaa.execute %x ({
    nv_tileaa.yield
  }) : tile<8xf32>
  // expected-error @+1 {{'nv_tileaa.execute' op expects a region with arguments (), but got (index)}}
  nv_tileaa.execute ({
  ^bb0(%i: index):
    nv_tileaa.yield
  })
  nv_tileaa.return
}

nv_tileaa.func @resources_are_not_negative() {
  // expected-error @+1 {{'nv_tileaa.execute' op expects registers of at least 0, but got -8}}
  nv_tileaa.execute {registers = -8} ({
    nv_tileaa.yield
  })
  // expected-error @+1 {{'nv_tileaa.create_queue' op expects num_consumers of at least 1, but got 0}}
  %q = nv_tileaa.create_queue {depth = 1, num_consumers = 0} : !queue
  // expected-error @+1 {{'nv_tileaa.alloca' op expects count of at least 0, but got -4}}
  %a = nv_tileaa.alloca {count = -4} : tile<!nv_tileaa.ptr<f32, 1>>
  nv_tileaa.return
}

nv_tileaa.func @a_consumer_is_one_of_the_queue() {
  %q = nv_tileaa.create_queue {depth = 1, num_consumers = 2} : !queue
  // expected-error @+1 {{'nv_tileaa.queue.get' op expects consumer_idx to identify a consumer in a group of 2, but got 2}}
  nv_tileaa.queue.get %q {consumer_idx = 2} ({
  ^bb0(%x: tensor<4xf32>):
    nv_tileaa.queue.yield
  }) : !queue
  nv_tileaa.return
}

nv_tileaa.func @isolated_regions_capture_nothing(%v: tile<4xf32>) {
  %q = nv_tileaa.create_queue {depth = 1} : !alone
  // expected-error @+1 {{'nv_tileaa.queue.put' op expects the region of an isolated queue to capture no values, but 'nv_tileaa.queue.yield' uses one}}
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %v : tile<4xf32>
  }) : !alone
  nv_tileaa.queue.put %q ({
    %c = nv_tileaa.constant {value = dense<1.0> : !cuda_tile.tile<4xf32>} : tile<4xf32>
    %d = nv_tileaa.addf %c, %c : tile<4xf32>, tile<4xf32> -> tile<4xf32>
    nv_tileaa.queue.yield %d : tile<4xf32>
  }) : !alone
  nv_tileaa.return
}

nv_tileaa.func @helper(%x: index) {
  nv_tileaa.return
}

nv_tileaa.func @started(%x: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}

nv_tileaa.func @only_kernels_are_launched(%i: index, %f: tile<f32>) {
  // expected-error @+1 {{'nv_tileaa.launch_func' op 'helper' is no kernel: only kernels are launched}}
  nv_tileaa.launch_func %i, %i, %i, %i {kernel = @helper} : index, index, index, index
  // expected-error @+1 {{'nv_tileaa.launch_func' op expects arguments of the kernel's types (index), but got (tile<f32>)}}
  nv_tileaa.launch_func %i, %i, %i, %f {kernel = @started} : index, index, index, tile<f32>
  nv_tileaa.launch_func %i, %i, %i, %i {kernel = @started} : index, index, index, index
  nv_tileaa.return
}

nv_tileaa.func @agents_have_warps_and_registers() {
  // expected-error @+1 {{'nv_tileaa.execute' op expects agents of 32 warps at most, which a CTA has, but got 36}}
  nv_tileaa.execute {agent_warps = [32, 4]} ({
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  // expected-error @+1 {{'nv_tileaa.execute' op expects agents of at least one warp, but got 0}}
  nv_tileaa.execute {agent_warps = [0]} ({
    nv_tileaa.yield
  })
  // expected-error @+1 {{'nv_tileaa.execute' op expects agents of at least one warp, but got -3}}
  nv_tileaa.execute {agent_warps = [-3]} ({
    nv_tileaa.yield
  })
  // expected-error @+1 {{'nv_tileaa.execute' op expects agent_registers that are a multiple of 8 from 24 to 256, but got 30}}
  nv_tileaa.execute {agent_warps = [4], agent_registers = [30]} ({
    nv_tileaa.yield
  })
  nv_tileaa.execute {agent_warps = [4], agent_registers = [240]} ({
    nv_tileaa.yield
  })
  nv_tileaa.return
}

nv_tileaa.func @alias_scopes_have_32_bits(%p: !nv_tileaa.ptr<f32, 1>, %n: index) {
  // expected-error @+1 {{'nv_tileaa.make_memref' op expects an alias scope of 32 bits, but got -7}}
  %0 = nv_tileaa.make_memref %p, %n {alias_scope = -7} : !nv_tileaa.ptr<f32, 1>, index -> !nv_tileaa.memref<?xf32, strides=[1], 1>
  nv_tileaa.return
}

nv_tileaa.func @tilings_lie_on_their_source(%m: !nv_tileaa.memref<?x?xf32, 1>) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects a dim_map of 2 dimensions of the source, but got [0, 0]}}
  %a = nv_tileaa.block_tile %m {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]} : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<dim_map=[0,0]>>
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects 2 positive traversal_strides, but got [4, -8]}}
  %b = nv_tileaa.block_tile %m {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]} : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<traversal_strides=[4,-8]>>
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects sparse_dim in range 0 to 1, but got -1}}
  %c = nv_tileaa.block_tile %m {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]} : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<sparse_dim=-1>>
  nv_tileaa.return
}
