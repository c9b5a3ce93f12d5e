// What copies of threads and the waits for them are checked for.
// RUN: cuda-tile-opt %s --verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!buffer = !nv_tileas.buffer<4xf32, shared>
!pipe = !nv_tileas.pipeline<3, (!nv_tileas.buffer<4xf32, shared>)>
!iterator = !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (!nv_tileas.buffer<4xf32, shared>)>>
!token = !nv_tileas.consumer_token<(!nv_tileas.buffer<4xf32, shared>)>

nv_tileaa.func @fewer_turns_are_pending_than_there_are_stages(%pipe: !pipe, %it: !iterator) {
  // expected-error @+1 {{'nv_tileas.async.pipeline.consumer_wait' op expects pending to be less than the 3 stages, but got 3}}
  %bad = nv_tileas.async.pipeline.consumer_wait %pipe, %it {pending = 3} : !pipe, !iterator -> !token
  %good = nv_tileas.async.pipeline.consumer_wait %pipe, %it {pending = 2} : !pipe, !iterator -> !token
  nv_tileaa.return
}

nv_tileaa.func @the_buffer_is_for_what_pointers_point_to(%p: tile<4x!nv_tileaa.ptr<f32, 1>>, %q: tile<8x!nv_tileaa.ptr<f32, 1>>, %b: !buffer) {
  // expected-error @+1 {{'nv_tileas.async.load' op expects a buffer for what the pointers point to, but got !nv_tileas.buffer<4xf32, shared>}}
  %bad = nv_tileas.async.load %q, %b : tile<8x!nv_tileaa.ptr<f32, 1>>, !buffer -> !nv_tileas.async_token
  %good = nv_tileas.async.load %p, %b : tile<4x!nv_tileaa.ptr<f32, 1>>, !buffer -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @the_mask_is_the_pointers(%p: tile<4x!nv_tileaa.ptr<f32, 1>>, %b: !buffer, %m: tile<8xi1>, %n: tile<4xi1>) {
  // expected-error @+1 {{'nv_tileas.async.load' op expects a mask of i1 for the pointers, but got tile<8xi1>}}
  %bad = nv_tileas.async.load %p, %b, %m : tile<4x!nv_tileaa.ptr<f32, 1>>, !buffer, tile<8xi1> -> !nv_tileas.async_token
  %good = nv_tileas.async.load %p, %b, %n : tile<4x!nv_tileaa.ptr<f32, 1>>, !buffer, tile<4xi1> -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @an_asynchronous_load_has_pointers(%v: tile<4xf32>, %b: !buffer) {
  // expected-error @+1 {{'nv_tileas.async.load' op expects pointers, but got tile<4xf32>}}
  %bad = nv_tileas.async.load %v, %b : tile<4xf32>, !buffer -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @a_part_is_one_of_a_buffer_in_shared_memory(%b: !nv_tileas.buffer<4x8xf32, shared>, %t: tile<4x4xf32>) {
  nv_tileas.copy %t, %b {offsets = array<i64: 0, 4>} : tile<4x4xf32>, !nv_tileas.buffer<4x8xf32, shared>
  // expected-error @+1 {{'nv_tileas.copy' op expects a slice inside of [4, 8], but it leaves it}}
  nv_tileas.copy %t, %b {offsets = array<i64: 0, 8>} : tile<4x4xf32>, !nv_tileas.buffer<4x8xf32, shared>
  // expected-error @+1 {{'nv_tileas.copy' op expects offsets that are multiples of the part's shape [4, 4]}}
  nv_tileas.copy %t, %b {offsets = array<i64: 0, 2>} : tile<4x4xf32>, !nv_tileas.buffer<4x8xf32, shared>
  // expected-error @+1 {{'nv_tileas.copy' op expects offsets where a part of a buffer in shared memory goes to registers, or comes from them}}
  nv_tileas.copy %b, %b {offsets = array<i64: 0, 0>} : !nv_tileas.buffer<4x8xf32, shared>, !nv_tileas.buffer<4x8xf32, shared>
  nv_tileaa.return
}
