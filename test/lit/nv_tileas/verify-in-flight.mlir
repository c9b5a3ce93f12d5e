// Whose turns an iterator takes, and what is done with a buffer while a copy is under way: in loops, branches, by other names.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!buf = !nv_tileas.buffer<4x8xf32, shared>
!words = !nv_tileas.buffer<4x8xi32, shared>
!pipe = !nv_tileas.pipeline<2, (!nv_tileas.buffer<4x8xf32, shared>)>
!it = !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<4x8xf32, shared>)>>
!pt = !nv_tileas.producer_token<(!nv_tileas.buffer<4x8xf32, shared>)>
!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!token = !nv_tileas.async_token
#strided = #nv_tileas.layout<register=[[2]], lane=[[1],[0],[0],[0],[0]], warp=[[0],[0]] : 4>
#registers = #nv_tileas.layout<register=[[1],[2]], lane=[[0],[0],[0],[0],[0]], warp=[[0],[0]] : 4>
#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[0],[0],[0]], warp=[[0],[0]] : 4>
#warps = #nv_tileas.layout<register=[], lane=[[0],[0],[0],[0],[0]], warp=[[1],[2]] : 4>

nv_tileaa.func @an_iterator_is_its_pipelines(%i: index, %j: index, %b: i1) {
  %0 = arith.constant 0 : index
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %q = nv_tileas.async.pipeline.create_pipeline : !pipe
  %of_p = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %of_q = nv_tileas.async.pipeline.create_iterator %q : !pipe -> !it
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_acquire' op expects an iterator of the pipeline whose turn it takes, but got another one's}}
  %t = nv_tileas.async.pipeline.producer_acquire %p, %of_q : !pipe, !it -> !pt
  %e = scf.for %k = %0 to %i step %j iter_args(%it = %of_q) -> (!it) {
    // expected-error @+1 {{'nv_tileas.async.pipeline.producer_acquire' op expects an iterator of the pipeline whose turn it takes, but got another one's}}
    %u = nv_tileas.async.pipeline.producer_acquire %p, %it : !pipe, !it -> !pt
    %n = nv_tileas.async.pipeline.inc_iter %it : !it -> !it
    scf.yield %n : !it
  }
  %either = scf.if %b -> (!it) {
    scf.yield %of_p : !it
  } else {
    scf.yield %of_q : !it
  }
  // expected-error @+1 {{'nv_tileas.async.pipeline.consume_one' op expects an iterator of the pipeline whose turn it takes, but got another one's}}
  nv_tileas.async.pipeline.consume_one %p, %either ({
    nv_tileas.async.pipeline.yield
  }) : !pipe, !it
  nv_tileaa.return
}

nv_tileaa.func @storage_is_one_pipelines() {
  %s = nv_tileas.alloc_tensor : !nv_tileas.buffer<2x4x8xf32, shared>
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op expects storage of its own, but another pipeline has the same buffer}}
  %p = nv_tileas.async.pipeline.create_pipeline %s : !nv_tileas.buffer<2x4x8xf32, shared> -> !pipe
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op expects storage of its own, but another pipeline has the same buffer}}
  %q = nv_tileas.async.pipeline.create_pipeline %s : !nv_tileas.buffer<2x4x8xf32, shared> -> !pipe
  nv_tileaa.return
}

nv_tileaa.func @turns_end_once_in_loops_and_branches(%i: index, %b: i1) {
  %0 = arith.constant 0 : index
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %it = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %t = nv_tileas.async.pipeline.producer_acquire %p, %it : !pipe, !it -> !pt
  %w = nv_tileas.async.pipeline.producer_write %t, %it ({
  ^bb0(%s: !buf):
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  scf.for %k = %0 to %i step %i {
    // expected-error @+1 {{'nv_tileas.async.pipeline.producer_commit' op expects a turn to be committed once, but it is in a loop that does not begin it}}
    nv_tileas.async.pipeline.producer_commit %w : !pt
  }
  %t2 = nv_tileas.async.pipeline.producer_acquire %p, %it : !pipe, !it -> !pt
  %some = scf.if %b -> (!pt) {
    %w2 = nv_tileas.async.pipeline.producer_write %t2, %it ({
    ^bb0(%s: !buf):
      nv_tileas.async.pipeline.yield
    }) : !pt, !it -> !pt
    scf.yield %w2 : !pt
  } else {
    scf.yield %t2 : !pt
  }
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_commit' op expects the token of a stage that was written, but it was only acquired}}
  nv_tileas.async.pipeline.producer_commit %some : !pt
  nv_tileaa.return
}

nv_tileaa.func @stores_are_awaited(%d: !desc, %i: index, %x: tile<4x8xf32>, %b: !buf, %f: i1) {
  %0 = arith.constant 0 : index
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects a wait before 'nv_tileas.copy' writes the buffer that is stored}}
  %s = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {delay_wait, atom = #nv_tileas.copy_atom<tma_store, box=[8,4], mode=store>} : !desc, index, index, !buf -> !token
  scf.if %f {
    nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
  }
  %g = nv_tileas.async.commit_group %s : !token -> !token
  nv_tileas.async.wait %g {pending = 0 : i64} : !token
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects a wait before 'nv_tileas.copy' writes the buffer that is stored}}
  %s2 = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {delay_wait, atom = #nv_tileas.copy_atom<tma_store, box=[8,4], mode=store>} : !desc, index, index, !buf -> !token
  %g2 = nv_tileas.async.commit_group %s2 : !token -> !token
  nv_tileas.async.wait %g2 {pending = 1 : i64} : !token
  %v = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<4x8xi32, shared>
  %y = nv_tileaa.bitcast %x : tile<4x8xf32> -> tile<4x8xi32>
  nv_tileas.copy %y, %v : tile<4x8xi32>, !nv_tileas.buffer<4x8xi32, shared>
  nv_tileas.async.wait %g2 {pending = 0 : i64} : !token
  scf.for %k = %0 to %i step %i {
    nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
    // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects a wait before 'nv_tileas.copy' writes the buffer that is stored}}
    %s3 = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {delay_wait, atom = #nv_tileas.copy_atom<tma_store, box=[8,4], mode=store>} : !desc, index, index, !buf -> !token
    %g3 = nv_tileas.async.commit_group %s3 : !token -> !token
  }
  nv_tileaa.return
}

nv_tileaa.func @dimensions_that_are_compared(%v: !view, %i: index, %b: !buf) {
  // expected-error @+1 {{'nv_tileas.async.tiled_load' op expects dimensions of the tile as 'masked', in order, but got [2]}}
  %t = nv_tileas.async.tiled_load %v[%i, %i], %b {masked = array<i64: 2>} : !view, !buf, index, index -> !token
  nv_tileas.async.wait %t : !token
  nv_tileaa.return
}

nv_tileaa.func @loads_are_awaited(%v: !view, %i: index, %b: !buf) {
  // expected-error @+1 {{'nv_tileas.async.tiled_load' op expects a wait before 'nv_tileas.copy' uses the buffer that is loaded}}
  %t = nv_tileas.async.tiled_load %v[%i, %i], %b : !view, !buf, index, index -> !token
  %early = nv_tileas.copy %b : !buf -> tile<4x8xf32>
  nv_tileas.async.wait %t : !token
  %late = nv_tileas.copy %b : !buf -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @copies_are_awaited_by_every_name(%d: !desc, %v: !view, %i: index, %x: tile<4x8xf32>, %c: !words) {
  %b = nv_tileas.reinterpret %c : !words -> !buf
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects a wait before 'nv_tileas.copy' writes the buffer that is stored}}
  %s = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {delay_wait, atom = #nv_tileas.copy_atom<tma_store, box=[8,4], mode=store>} : !desc, index, index, !buf -> !token
  %g = nv_tileas.async.commit_group %s : !token -> !token
  %y = nv_tileaa.bitcast %x : tile<4x8xf32> -> tile<4x8xi32>
  nv_tileas.copy %y, %c : tile<4x8xi32>, !words
  nv_tileas.async.wait %g : !token
  // expected-error @+1 {{'nv_tileas.async.tiled_load' op expects a wait before 'nv_tileas.copy' uses the buffer that is loaded}}
  %t = nv_tileas.async.tiled_load %v[%i, %i], %b : !view, !buf, index, index -> !token
  %early = nv_tileas.copy %c : !words -> tile<4x8xi32>
  nv_tileas.async.wait %t : !token
  %upper = nv_tileas.extract_slice %c {offsets = array<i64: 0, 0>} : !words -> !nv_tileas.buffer<2x8xi32, shared>
  %lower = nv_tileas.extract_slice %c {offsets = array<i64: 2, 0>} : !words -> !nv_tileas.buffer<2x8xi32, shared>
  %floats = nv_tileas.reinterpret %upper : !nv_tileas.buffer<2x8xi32, shared> -> !nv_tileas.buffer<2x8xf32, shared>
  %u = nv_tileas.async.tiled_load %v[%i, %i], %floats : !view, !nv_tileas.buffer<2x8xf32, shared>, index, index -> !token
  %other = nv_tileas.copy %lower : !nv_tileas.buffer<2x8xi32, shared> -> tile<2x8xi32>
  nv_tileas.async.wait %u : !token
  nv_tileaa.return
}

nv_tileaa.func @elements_lie_side_by_side(%p: tensor<4x!nv_tileaa.ptr<f32, 1>, #strided>) {
  // expected-error @+1 {{'nv_tileas.load' op expects an atom of at most 32 bits, which a thread has side by side along dimension 0 of tile<4xf32, #nv_tileas.layout<register=[[2]], lane=[[1],[0],[0],[0],[0]], warp=[[0],[0]] : 4>>, but got 64}}
  %r = nv_tileas.load %p {atom = #nv_tileas.copy_atom<ldg, bits=64, dim=0>} : tensor<4x!nv_tileaa.ptr<f32, 1>, #strided> -> tensor<4xf32, #strided>
  nv_tileaa.return
}

nv_tileaa.func @elements_stay_where_the_way_says(%x: tensor<4xf32, #registers>, %y: tensor<4xf32, #warps>, %z: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileas.convert_layout' op expects layouts whose elements stay in their warps}}
  %a = nv_tileas.convert_layout %y {way = #nv_tileas.conversion<shuffle>} : tensor<4xf32, #warps> -> tensor<4xf32, #lanes>
  // expected-error @+1 {{'nv_tileas.convert_layout' op expects layouts whose elements stay in their threads}}
  %b = nv_tileas.convert_layout %y {way = #nv_tileas.conversion<registers>} : tensor<4xf32, #warps> -> tensor<4xf32, #registers>
  // expected-error-re @+1 {{'nv_tileas.shuffle' op expects tiles with layouts, but got tile<4xf32> and {{.*}}}}
  %c = nv_tileas.shuffle %z : tile<4xf32> -> tensor<4xf32, #lanes>
  nv_tileaa.return
}

nv_tileaa.func @what_gives_nothing_is_not_used(%v: !view, %x: tile<4x8xf32>, %i: index, %t: !nv_tileaa.mem_token) {
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op expects an atom that gives the old value, which is used, but got red}}
  %r = nv_tileas.tiled_atomic_rmw %v[%i, %i], %x {atom = #nv_tileas.copy_atom<red, bits=32, dim=1>, rmw_mode = #nv_tileaa.rmw_mode<add>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  nv_tileas.tiled_store %v[%i, %i], %r : !view, tile<4x8xf32>, index, index
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects offsets that are integers, but got tile<4x8xf32>}}
  %o = nv_tileas.tiled_load %v[%i, %i], %x : !view, index, index, tile<4x8xf32> -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.fence' op expects a token result with a token operand}}
  nv_tileas.fence %t {mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.mem_token
  // expected-error @+1 {{'nv_tileas.barrier' op expects id of at most 15, but got 16}}
  nv_tileas.barrier {id = 16 : i64, num_warps = 4 : i64}
  nv_tileaa.return
}

nv_tileaa.func @what_is_said_twice_is_the_same(%p: !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, %it: !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>>, %i: index, %b: !buf, %m: !nv_tileas.mbarrier) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.consume_one' op expects a turn of consumer 1, but got a wait of consumer 0}}
  nv_tileas.async.pipeline.consume_one %p, %it {consumer_idx = 1} ({
    %w = nv_tileas.async.pipeline.consumer_wait %p, %it : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.consumer_token<(tile<4xf32>)>
    nv_tileas.async.pipeline.yield
  }) : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>>
  %d = nv_tileas.get_tma_desc {tmaIdx = 3} : !desc
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op expects the tmaIdx of its descriptor, 3, but got 2}}
  %x = nv_tileas.async.tiled_tma_load %d[%i, %i], %b, %m {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4]>, tmaIdx = 2} : !desc, index, index, !buf, !nv_tileas.mbarrier -> !token
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op expects num_multicast of a multicast TMA load, but got 2 without}}
  %y = nv_tileas.async.tiled_tma_load %d[%i, %i], %b, %m {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4]>, num_multicast = 2} : !desc, index, index, !buf, !nv_tileas.mbarrier -> !token
  nv_tileaa.return
}
