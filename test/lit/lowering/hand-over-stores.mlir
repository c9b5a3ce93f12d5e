// Tiles of a loop are stored by an agent of its own: one thread of a warp that had nothing to do.
// RUN: cuda-tile-opt --tileas-select-tma-stores --tileas-hand-over-stores %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#rows = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[16,0],[32,0]] : 64x64>
!memref = !nv_tileaa.memref<64x64xf16, strides=[64,1], 1>
!view = !nv_tileaa.tiled_view<!memref, 64x64>

// CHECK-LABEL: nv_tileaa.func @tiles
// CHECK: %[[PIPE:.*]] = nv_tileas.async.pipeline.create_pipeline {alignment = 1024} : !nv_tileas.pipeline<1, (!nv_tileas.buffer<64x64xf16, shared
// CHECK-NEXT: %[[DESC:.*]] = nv_tileas.make_tiled_tma_desc {{.*}}<tma_store, box=[64,64]>
// CHECK-NEXT: nv_tileas.async.pipeline.agent_switch {agent_elected = [0, 1, 1], agent_warps = [4, 3, 1]}
nv_tileaa.func @tiles(%p: !nv_tileaa.ptr<f16, 1>, %x: tile<64x64xf16, #rows>, %n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  %first = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  nv_tileas.async.pipeline.agent_switch {agent_elected = [0, 1], agent_warps = [4, 4]} ({
    // CHECK-NEXT: %[[START:.*]] = nv_tileas.async.pipeline.create_iterator %[[PIPE]]
    // CHECK-NEXT: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[PLACE:.*]] = %[[START]])
    // CHECK-NEXT: %[[A:.*]] = nv_tileas.async.pipeline.producer_acquire %[[PIPE]], %[[PLACE]]
    // CHECK-NEXT: %[[W:.*]] = nv_tileas.async.pipeline.producer_write %[[A]], %[[PLACE]]
    // CHECK-NEXT: ^bb0(%[[BUFFER:.*]]: !nv_tileas.buffer
    // CHECK-NEXT: nv_tileas.copy %{{.*}}, %[[BUFFER]]
    // CHECK-NEXT: nv_tileas.fence_proxy {proxy = "async.shared"}
    // CHECK: nv_tileas.async.pipeline.producer_commit %[[W]]
    // CHECK-NEXT: nv_tileas.async.pipeline.inc_iter %[[PLACE]]
    // CHECK-NEXT: scf.yield
    %end = scf.for %i = %0 to %n step %1 iter_args(%before = %first) -> (!nv_tileaa.mem_token) {
      %j = arith.addi %i, %1 : index
      %t = nv_tileas.tiled_store %v[%j, %0], %x, %before {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
      scf.yield %t : !nv_tileaa.mem_token
    }
    nv_tileas.async.pipeline.yield
  }, {
    nv_tileas.async.pipeline.yield
  })
  // CHECK: nv_tileas.async.pipeline.create_iterator %[[PIPE]]
  // CHECK-NEXT: %[[NONE:.*]] = nv_tileas.async.commit_group {stores}
  // CHECK-NEXT: scf.for {{.*}} iter_args(%[[AT:.*]] = %{{.*}}, %[[BEFORE:.*]] = %[[NONE]])
  // CHECK-NEXT: %[[J:.*]] = arith.addi
  // CHECK-NEXT: nv_tileas.async.wait %[[BEFORE]] {pending = 0} :
  // CHECK: %[[X:.*]] = arith.muli %[[J]]
  // CHECK: %[[F:.*]] = nv_tileas.async.pipeline.consumer_wait %[[PIPE]], %[[AT]]
  // CHECK-NEXT: %[[R:.*]]:2 = nv_tileas.async.pipeline.consumer_read %[[F]], %[[AT]]
  // CHECK-NEXT: ^bb0(%[[FULL:.*]]: !nv_tileas.buffer
  // CHECK-NEXT: %[[C:.*]] = nv_tileas.async.tiled_tma_store %[[DESC]][%[[X]], %{{.*}}], %[[FULL]]
  // CHECK-NEXT: %[[G:.*]] = nv_tileas.async.commit_group %[[C]]
  // CHECK-NEXT: nv_tileas.async.pipeline.yield %[[G]]
  // CHECK: nv_tileas.async.pipeline.inc_iter %[[AT]]
  // CHECK-NEXT: nv_tileas.async.wait %[[R]]#1 {pending = 0, read}
  // CHECK-NEXT: nv_tileas.async.pipeline.consumer_release %[[R]]#0
  nv_tileaa.return
}

// Nobody's warp is left for it: who computes stores.
// CHECK-LABEL: nv_tileaa.func @no_warp
// CHECK: agent_warps = [4]
// CHECK: nv_tileas.tiled_store
nv_tileaa.func @no_warp(%p: !nv_tileaa.ptr<f16, 1>, %x: tile<64x64xf16, #rows>, %n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %m = nv_tileaa.make_memref %p {divisibility = array<i64: 16>} : !nv_tileaa.ptr<f16, 1> -> !memref
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !memref -> !view
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4]} ({
    scf.for %i = %0 to %n step %1 {
      nv_tileas.tiled_store %v[%i, %0], %x {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !view, tile<64x64xf16, #rows>, index, index
    }
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}
