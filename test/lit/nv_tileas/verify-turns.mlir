// Turns of pipelines, storage, agents, atoms, shuffles, delayed waits: what has to fit what.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!buf = !nv_tileas.buffer<4x8xf32, shared>
!pipe = !nv_tileas.pipeline<2, (!nv_tileas.buffer<4x8xf32, shared>)>
!it = !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<4x8xf32, shared>)>>
!pt = !nv_tileas.producer_token<(!nv_tileas.buffer<4x8xf32, shared>)>
!ct = !nv_tileas.consumer_token<(!nv_tileas.buffer<4x8xf32, shared>)>
!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
#four = #nv_tileas.layout<register=[[1],[2]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256]] : 512>
#other = #nv_tileas.layout<register=[[1],[4]], lane=[[2],[8],[16],[32],[64]], warp=[[128],[256]] : 512>
#moved = #nv_tileas.layout<register=[[1],[2]], lane=[[4],[8],[16],[32],[128]], warp=[[64],[256]] : 512>

nv_tileaa.func @a_turn_is_written_and_ended_once(%x: tile<4x8xf32>) {
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %i = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %t = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_commit' op expects the token of a stage that was written, but it was only acquired}}
  nv_tileas.async.pipeline.producer_commit %t : !pt
  %t2 = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  %w = nv_tileas.async.pipeline.producer_write %t2, %i ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_commit' op expects a turn to be committed once, but it is 2 times}}
  nv_tileas.async.pipeline.producer_commit %w : !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_commit' op expects a turn to be committed once, but it is 2 times}}
  nv_tileas.async.pipeline.producer_commit %w : !pt
  %c = nv_tileas.async.pipeline.consumer_wait %p, %i : !pipe, !it -> !ct
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_release' op expects a turn to be released once, but it is 2 times}}
  nv_tileas.async.pipeline.consumer_release %c : !ct
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_release' op expects a turn to be released once, but it is 2 times}}
  nv_tileas.async.pipeline.consumer_release %c : !ct
  nv_tileaa.return
}

nv_tileaa.func @a_stage_is_written_once_and_committed(%x: tile<4x8xf32>, %both: i1) {
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %i = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %t = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects a turn to be written once, but it is 2 times}}
  %w = nv_tileas.async.pipeline.producer_write %t, %i ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects a turn to be written once, but it is 2 times}}
  %w2 = nv_tileas.async.pipeline.producer_write %w, %i ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  nv_tileas.async.pipeline.producer_commit %w2 : !pt
  %t3 = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects the turn to be committed, but its token goes to no commit}}
  %w3 = nv_tileas.async.pipeline.producer_write %t3, %i ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  %t4 = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  scf.if %both {
    %w4 = nv_tileas.async.pipeline.producer_write %t4, %i ({
    ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
      nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
      nv_tileas.async.pipeline.yield
    }) : !pt, !it -> !pt
    nv_tileas.async.pipeline.producer_commit %w4 : !pt
  } else {
    %w5 = nv_tileas.async.pipeline.producer_write %t4, %i ({
    ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
      nv_tileas.async.pipeline.yield
    }) : !pt, !it -> !pt
    nv_tileas.async.pipeline.producer_commit %w5 : !pt
  }
  nv_tileaa.return
}

nv_tileaa.func @a_stage_is_read_before_it_is_released(%n: index, %one: index) {
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %i = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %c = nv_tileas.async.pipeline.consumer_wait %p, %i : !pipe, !it -> !ct
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_release' op expects the token of a stage that was read, but it was only waited for}}
  nv_tileas.async.pipeline.consumer_release %c : !ct
  %first = nv_tileas.async.pipeline.consumer_wait %p, %i : !pipe, !it -> !ct
  %read = nv_tileas.async.pipeline.consumer_read %first, %i ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.async.pipeline.yield
  }) : !ct, !it -> !ct
  %last = scf.for %k = %n to %n step %one iter_args(%before = %read) -> (!ct) {
    nv_tileas.async.pipeline.consumer_release %before : !ct
    %d = nv_tileas.async.pipeline.consumer_wait %p, %i : !pipe, !it -> !ct
    %e = nv_tileas.async.pipeline.consumer_read %d, %i ({
    ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
      nv_tileas.async.pipeline.yield
    }) : !ct, !it -> !ct
    scf.yield %e : !ct
  }
  nv_tileas.async.pipeline.consumer_release %last : !ct
  %none = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, ()>
  %j = nv_tileas.async.pipeline.create_iterator %none
    : !nv_tileas.pipeline<2, ()> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, ()>>
  %f = nv_tileas.async.pipeline.consumer_wait %none, %j
    : !nv_tileas.pipeline<2, ()>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, ()>> -> !nv_tileas.consumer_token<()>
  nv_tileas.async.pipeline.consumer_release %f : !nv_tileas.consumer_token<()>
  nv_tileaa.return
}

nv_tileaa.func @a_stage_is_written_through_its_iterator(%x: tile<4x8xf32>) {
  %p = nv_tileas.async.pipeline.create_pipeline : !pipe
  %q = nv_tileas.async.pipeline.create_pipeline : !pipe
  %i = nv_tileas.async.pipeline.create_iterator %p : !pipe -> !it
  %j = nv_tileas.async.pipeline.create_iterator %q : !pipe -> !it
  %t = nv_tileas.async.pipeline.producer_acquire %p, %i : !pipe, !it -> !pt
  // expected-error @+1 {{'nv_tileas.async.pipeline.producer_write' op expects the iterator by which the stage was granted}}
  %w = nv_tileas.async.pipeline.producer_write %t, %j ({
  ^bb0(%b: !nv_tileas.buffer<4x8xf32, shared>):
    nv_tileas.async.pipeline.yield
  }) : !pt, !it -> !pt
  nv_tileaa.return
}

nv_tileaa.func @storage_fits_the_stages(%s: !nv_tileas.buffer<3x4x8xf32, shared>, %g: !nv_tileas.buffer<2x4x8xf32, shared>, %h: !nv_tileas.buffer<2x4x8xf32, shared>) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op expects storage of shape [2, 4, 8] for !nv_tileas.buffer<4x8xf32, shared>, but got !nv_tileas.buffer<3x4x8xf32, shared>}}
  %bad = nv_tileas.async.pipeline.create_pipeline %s : !nv_tileas.buffer<3x4x8xf32, shared> -> !pipe
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op expects storage for 1 values of a stage, but got 2 buffers}}
  %two = nv_tileas.async.pipeline.create_pipeline %g, %g : !nv_tileas.buffer<2x4x8xf32, shared>, !nv_tileas.buffer<2x4x8xf32, shared> -> !pipe
  %good = nv_tileas.async.pipeline.create_pipeline %h : !nv_tileas.buffer<2x4x8xf32, shared> -> !pipe
  nv_tileaa.return
}

nv_tileaa.func @agents_have_warps_and_ids() {
  // expected-error @+1 {{'nv_tileas.async.pipeline.agent_switch' op expects agent_elected to be 0 or 1, but got 2}}
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4], agent_elected = [2]} ({
    nv_tileas.async.pipeline.yield
  })
  // expected-error @+1 {{'nv_tileas.async.pipeline.agent_switch' op expects agents of at least one warp, but got -3}}
  nv_tileas.async.pipeline.agent_switch {agent_warps = [-3]} ({
    nv_tileas.async.pipeline.yield
  })
  // expected-error @+1 {{'nv_tileas.async.pipeline.agent_switch' op expects a region with arguments (), but got (index)}}
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
  ^bb0(%given: index):
    nv_tileas.async.pipeline.yield
  })
  // expected-error @+1 {{'nv_tileas.async.pipeline.agent_switch' op expects agents with ids of their own, but got [1, 1]}}
  nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4], agent_ids = [1, 1]} ({
    nv_tileas.async.pipeline.yield
  }, {
    nv_tileas.async.pipeline.yield
  })
  nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4], agent_ids = [1, 0]} ({
    nv_tileas.async.pipeline.yield
  }, {
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}

nv_tileaa.func @an_atom_is_no_wider_than_a_thread_s_part(%p: tile<512x!nv_tileaa.ptr<f32, 1>, #four>) {
  // expected-error-re @+1 {{'nv_tileas.load' op expects an atom of at most 128 bits, which a thread has of tile<512xf32, {{.*}}>, but got 256}}
  %bad = nv_tileas.load %p {atom = #nv_tileas.copy_atom<ldg, bits=256>} : tile<512x!nv_tileaa.ptr<f32, 1>, #four> -> tile<512xf32, #four>
  %good = nv_tileas.load %p {atom = #nv_tileas.copy_atom<ldg, bits=128>} : tile<512x!nv_tileaa.ptr<f32, 1>, #four> -> tile<512xf32, #four>
  nv_tileaa.return
}

nv_tileaa.func @a_shuffle_stays_in_its_warp(%x: tile<512xf32, #four>) {
  // expected-error @+1 {{'nv_tileas.shuffle' op expects layouts whose elements stay in their warps}}
  %bad = nv_tileas.shuffle %x : tile<512xf32, #four> -> tile<512xf32, #moved>
  %good = nv_tileas.shuffle %x : tile<512xf32, #four> -> tile<512xf32, #other>
  nv_tileaa.return
}

nv_tileaa.func @a_wait_comes_before_the_next_write(%d: !desc, %i: index, %b: !buf, %x: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects a wait before 'nv_tileas.copy' writes the buffer that is stored}}
  %t = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>, delay_wait} : !desc, index, index, !buf -> !nv_tileas.async_token
  %g = nv_tileas.async.commit_group %t : !nv_tileas.async_token -> !nv_tileas.async_token
  nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
  nv_tileas.async.wait %g : !nv_tileas.async_token
  %u = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>, delay_wait} : !desc, index, index, !buf -> !nv_tileas.async_token
  nv_tileas.async.wait %u : !nv_tileas.async_token
  nv_tileas.copy %x, %b : tile<4x8xf32>, !buf
  nv_tileaa.return
}

nv_tileaa.func @numbers_are_not_negative(%d: !desc, %i: index, %b: !buf) {
  // expected-error @+1 {{'nv_tileas.barrier' op expects num_warps of at least 1, but got 0}}
  nv_tileas.barrier {id = 1, num_warps = 0}
  // expected-error @+1 {{'nv_tileas.create_mbarrier' op expects arrivals of at least 1, but got 0}}
  %m = nv_tileas.create_mbarrier {arrivals = 0} : !nv_tileas.mbarrier
  // expected-error @+1 {{'nv_tileas.get_tma_desc' op expects tmaIdx of at least 0, but got -2}}
  %none = nv_tileas.get_tma_desc {tmaIdx = -2} : !desc
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expects tmaIdx of at least 0, but got -1}}
  %t = nv_tileas.async.tiled_tma_store %d[%i, %i], %b {atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>, tmaIdx = -1} : !desc, index, index, !buf -> !nv_tileas.async_token
  nv_tileaa.return
}

// Warpgroups take turns from two on, at barriers from 1 on.
nv_tileaa.func @turns_of_warpgroups() {
  // expected-error @+1 {{'nv_tileas.take_turn' op expects groups of at least 2, but got 1}}
  nv_tileas.take_turn {groups = 1, id = 3}
  // expected-error @+1 {{'nv_tileas.hand_on_turn' op expects id of at least 1, but got 0}}
  nv_tileas.hand_on_turn {first, groups = 2, id = 0}
  nv_tileas.take_turn {groups = 2, id = 3, last}
  nv_tileaa.return
}

nv_tileaa.func @turns_are_drawn_for_one_side() {
  %p = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_iterator' op expects consumer_idx where turns are drawn only}}
  %a = nv_tileas.async.pipeline.create_iterator %p {consumer_idx = 0} : !nv_tileas.pipeline<2, (tile<4xf32>), mbarrier> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>>
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_iterator' op expects consumer_idx to identify a consumer in a group of 1, but got 1}}
  %b = nv_tileas.async.pipeline.create_iterator %p {consumer_idx = 1, drawn} : !nv_tileas.pipeline<2, (tile<4xf32>), mbarrier> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>>
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_iterator' op expects turns of consumer 0, which are drawn, but got one of producers}}
  %c = nv_tileas.async.pipeline.create_iterator %p {consumer_idx = 0, drawn} : !nv_tileas.pipeline<2, (tile<4xf32>), mbarrier> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>>
  %t = nv_tileas.async.pipeline.producer_acquire %p, %c : !nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (tile<4xf32>), mbarrier>> -> !nv_tileas.producer_token<(tile<4xf32>)>
  nv_tileaa.return
}
