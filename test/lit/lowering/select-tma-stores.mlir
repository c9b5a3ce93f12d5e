// A tile that an agent computes is stored by TMA, from stages of a pipeline that are free.
// RUN: cuda-tile-opt --tileas-select-tma-stores %s | FileCheck %s
// RUN: cuda-tile-opt --tileas-select-tma-stores --lower-tma-load-store-to-async %s | FileCheck %s --check-prefix=LOWER
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#rows = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0]] : 64x64>
!stage = !nv_tileas.buffer<64x64xf16, shared, #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]] : 64x64>>
!pipe = !nv_tileas.pipeline<2, (!stage), mbarrier>
!memref = !nv_tileaa.memref<64x64xf16, strides=[64,1], 1>
!view = !nv_tileaa.tiled_view<!memref, 64x64>

// CHECK-LABEL: nv_tileaa.func @k
// LOWER-LABEL: nv_tileaa.func @k
// LOWER: %[[PIPE:.*]] = nv_tileas.async.pipeline.create_pipeline
// LOWER: %[[DESC:.*]] = nv_tileas.make_tiled_tma_desc {{.*}}<tma_store, box=[64,64]>, layout = {{.*}}tmaIdx = 0
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f16, 1>, %x: tile<64x64xf16, #rows>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  %pipe = nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained} : !pipe
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    %i = nv_tileas.async.pipeline.create_iterator %pipe : !pipe -> !nv_tileas.pipeline_iterator<!pipe>
    %t = nv_tileas.async.pipeline.consumer_wait %pipe, %i : !pipe, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    %r = nv_tileas.async.pipeline.consumer_read %t, %i ({
    ^bb0(%s: !stage):
      nv_tileas.async.pipeline.yield
    }) : !nv_tileas.consumer_token<(!stage)>, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    nv_tileas.async.pipeline.consumer_release %r : !nv_tileas.consumer_token<(!stage)>
    // CHECK: nv_tileas.tiled_store {{.*}}{allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[64,64]>
    // LOWER: nv_tileas.async.pipeline.consumer_release
    // LOWER-NEXT: %[[BUFFER:.*]] = nv_tileas.alloc_tensor %[[PIPE]] {alignment = 1024}
    // LOWER-NEXT: nv_tileas.copy %{{.*}}, %[[BUFFER]]
    // LOWER-NEXT: nv_tileas.fence_proxy {proxy = "async.shared"}
    // LOWER-NEXT: nv_tileas.barrier
    // LOWER: %[[T:.*]] = nv_tileas.async.tiled_tma_store %[[DESC]]{{.*}}, %[[BUFFER]]
    // LOWER-NEXT: %[[G:.*]] = nv_tileas.async.commit_group %[[T]]
    // LOWER-NEXT: nv_tileas.async.wait %[[G]] {pending = 0, read}
    nv_tileas.tiled_store %v[%0, %0], %x {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}

// A tile that is not aligned, and one for which no stages are free, since a turn comes behind it.
// CHECK-LABEL: nv_tileaa.func @threads
nv_tileaa.func @threads(%p: !nv_tileaa.ptr<f16, 1>, %q: !nv_tileaa.ptr<f16, 1>, %x: tile<64x64xf16, #rows>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 8>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  %n = nv_tileaa.make_memref %q {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %w = nv_tileaa.block_tile %n {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  %pipe = nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained} : !pipe
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    %i = nv_tileas.async.pipeline.create_iterator %pipe : !pipe -> !nv_tileas.pipeline_iterator<!pipe>
    // CHECK: nv_tileas.tiled_store {{.*}}not_tma = "base pointer not 16-byte aligned"
    nv_tileas.tiled_store %v[%0, %0], %x {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index
    // CHECK: nv_tileas.tiled_store {{.*}}not_tma = "no pipeline has stages that are free for 8192 bytes or parts of them"
    nv_tileas.tiled_store %w[%0, %0], %x {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index
    %t = nv_tileas.async.pipeline.consumer_wait %pipe, %i : !pipe, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    %r = nv_tileas.async.pipeline.consumer_read %t, %i ({
    ^bb0(%s: !stage):
      nv_tileas.async.pipeline.yield
    }) : !nv_tileas.consumer_token<(!stage)>, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    nv_tileas.async.pipeline.consumer_release %r : !nv_tileas.consumer_token<(!stage)>
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}

// Tiles that a loop stores one behind the other go through a buffer of its own. It is written again when the tile before
// has been stored; nothing but its last read is waited for at the end.
// CHECK-LABEL: nv_tileaa.func @tiles
// LOWER-LABEL: nv_tileaa.func @tiles
nv_tileaa.func @tiles(%p: !nv_tileaa.ptr<f16, 1>, %x: tile<64x64xf16, #rows>, %n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  %first = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %pipe = nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained} : !pipe
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    // LOWER: %[[BUFFER:.*]] = nv_tileas.alloc_tensor {alignment = 1024} : !nv_tileas.buffer<64x64xf16, shared
    // LOWER-NEXT: %[[NONE:.*]] = nv_tileas.async.commit_group {stores}
    // LOWER-NEXT: %[[LAST:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[BEFORE:.*]] = %[[NONE]])
    %end = scf.for %i = %0 to %n step %1 iter_args(%before = %first) -> (!nv_tileaa.mem_token) {
      // CHECK: nv_tileas.tiled_store {{.*}}{allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[64,64]>{{.*}}staging = array<i64: 1, 64, 64>
      // LOWER: nv_tileas.async.wait %[[BEFORE]] {pending = 0}
      // LOWER-NEXT: nv_tileas.barrier
      // LOWER-NEXT: nv_tileas.copy %{{.*}}, %[[BUFFER]]
      // LOWER-NEXT: nv_tileas.fence_proxy {proxy = "async.shared"}
      // LOWER-NEXT: nv_tileas.barrier
      // LOWER: %[[T:.*]] = nv_tileas.async.tiled_tma_store {{.*}}, %[[BUFFER]]
      // LOWER-NEXT: %[[G:.*]] = nv_tileas.async.commit_group %[[T]]
      // LOWER-NEXT: scf.yield %{{.*}}, %[[G]]
      %t = nv_tileas.tiled_store %v[%i, %0], %x, %before {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
      scf.yield %t : !nv_tileaa.mem_token
    }
    // LOWER: nv_tileas.async.wait %[[LAST]]#1 {pending = 0, read}
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}

// A tile of which several warps compute the same is stored as it was converted for threads: where its parts would lie in
// other threads' registers then, it does not go in parts.
#again = #nv_tileas.layout<register=[[0,1],[8,0],[16,0],[0,16],[0,32],[0,64],[32,0],[64,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[0,8],[0,0]] : 128x128>
#spread = #nv_tileas.layout<register=[[0,1],[0,2],[4,0],[8,0],[16,0],[32,0],[64,0]], lane=[[0,4],[0,8],[0,16],[0,32],[0,64]], warp=[[1,0],[2,0]] : 128x128>
!large = !nv_tileaa.memref<128x128xf16, strides=[128,1], 1>
!whole = !nv_tileaa.tiled_view<!large, 128x128>

// CHECK-LABEL: nv_tileaa.func @computed_again
// LOWER-LABEL: nv_tileaa.func @computed_again
nv_tileaa.func @computed_again(%p: !nv_tileaa.ptr<f16, 1>, %x: tile<128x128xf16, #again>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !large
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 128, 128>} : !large -> !whole
  %pipe = nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained} : !pipe
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    %i = nv_tileas.async.pipeline.create_iterator %pipe : !pipe -> !nv_tileas.pipeline_iterator<!pipe>
    %t = nv_tileas.async.pipeline.consumer_wait %pipe, %i : !pipe, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    %r = nv_tileas.async.pipeline.consumer_read %t, %i ({
    ^bb0(%s: !stage):
      nv_tileas.async.pipeline.yield
    }) : !nv_tileas.consumer_token<(!stage)>, !nv_tileas.pipeline_iterator<!pipe> -> !nv_tileas.consumer_token<(!stage)>
    nv_tileas.async.pipeline.consumer_release %r : !nv_tileas.consumer_token<(!stage)>
    %y = nv_tileas.convert_layout %x : tile<128x128xf16, #again> -> tile<128x128xf16, #spread>
    // CHECK: nv_tileas.tiled_store {{.*}}not_tma = "no pipeline has stages that are free for 32768 bytes or parts of them"
    // LOWER: nv_tileas.convert_layout
    // LOWER: nv_tileas.tiled_store
    nv_tileas.tiled_store %v[%0, %0], %y {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !whole, tile<128x128xf16, #spread>, index, index
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}
