// What is put into a queue is copied by TMA where a tensor map describes it: one descriptor of the host's, stages aligned for swizzles.
// RUN: cuda-tile-opt --lower-tileaa-queues --convert-tileaa-to-tileas --tileas-assign-stage-layouts %s | FileCheck %s --check-prefix=TMA
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// TMA: %[[MEMREF:.*]] = nv_tileaa.make_memref
// TMA-NEXT: %[[DESC:.*]] = nv_tileas.make_tiled_tma_desc %[[MEMREF]] {atom = #nv_tileas.copy_atom<tma_load, box=[64,8]>
// TMA-NOT: make_tiled_tma_desc
// TMA: create_pipeline {alignment = 1024
// TMA: producer_write
// TMA: nv_tileas.async.tiled_tma_load %[[DESC]]
// TMA-NOT: nv_tileas.tiled_load
// TMA: producer_write
// TMA: nv_tileas.async.tiled_tma_load %[[DESC]]
// TMA-NOT: nv_tileas.tiled_load
!m = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 8x64>
!q = !nv_tileaa.queue<(tile<8x64xf16>)>
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f16, 1>, %m: index, %n: index, %s: index, %i: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %memref = nv_tileaa.make_memref %p, %m, %n, %s {divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>} : !nv_tileaa.ptr<f16, 1>, index, index, index -> !m
  %v = nv_tileaa.block_tile %memref {tileSizes = array<i64: 8, 64>, dimGroups = [array<i64: 0>, array<i64: 1>]} : !m -> !v
  %q = nv_tileaa.create_queue {depth = 2} : !q
  nv_tileaa.execute {agent_warps = [1, 4]} ({
    nv_tileaa.queue.put %q ({
      %x = nv_tileaa.tiled_load %v[%i, %i] : !v, index, index -> tile<8x64xf16>
      nv_tileaa.queue.yield %x : tile<8x64xf16>
    }) : !q
    nv_tileaa.queue.put %q ({
      %x = nv_tileaa.tiled_load %v[%i, %i] : !v, index, index -> tile<8x64xf16>
      nv_tileaa.queue.yield %x : tile<8x64xf16>
    }) : !q
    nv_tileaa.yield
  }, {
    %c:2 = nv_tileaa.queue.get %q ({
    ^bb0(%x: tensor<8x64xf16>):
      nv_tileaa.queue.yield %x, %x : tile<8x64xf16>, tile<8x64xf16>
    }) : !q -> tile<8x64xf16>, tile<8x64xf16>
    nv_tileaa.yield
  })
  nv_tileaa.return
}
