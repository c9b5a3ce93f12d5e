// The documents' programming model: a producer acquires, writes and commits a stage, a consumer waits for, reads and
// releases it, and each moves its iterator on.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?xf32, 1>
!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?xf32, 1>, 64>
!stage = !nv_tileas.buffer<64xf32, shared>
!pipe = !nv_tileas.pipeline<3, (!nv_tileas.buffer<64xf32, shared>)>
!iter = !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (!nv_tileas.buffer<64xf32, shared>)>>
!written = !nv_tileas.producer_token<(!nv_tileas.buffer<64xf32, shared>)>
!ready = !nv_tileas.consumer_token<(!nv_tileas.buffer<64xf32, shared>)>
!tile = tensor<64xf32, #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[0]] : 64>>

nv_tileaa.func @turns(%from: !memref, %to: !memref, %items: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %v = nv_tileaa.block_tile %from {tileSizes = array<i64: 64>, dimGroups = [array<i64: 0>]} : !memref -> !view
  %w = nv_tileaa.block_tile %to {tileSizes = array<i64: 64>, dimGroups = [array<i64: 0>]} : !memref -> !view
  %pipe = nv_tileas.async.pipeline.create_pipeline : !pipe
  %first = nv_tileas.async.pipeline.create_iterator %pipe : !pipe -> !iter
  nv_tileas.async.pipeline.agent_switch {agent_warps = [4, 4]} ({
    %last = scf.for %i = %0 to %items step %1 iter_args(%it = %first) -> (!iter) {
      nv_tileas.async.pipeline.produce_one %pipe, %it ({
        %t0 = nv_tileas.async.pipeline.producer_acquire %pipe, %it : !pipe, !iter -> !written
        %t1 = nv_tileas.async.pipeline.producer_write %t0, %it ({
        ^bb0(%b: !stage):
          %x = nv_tileas.tiled_load %v[%i] : !view, index -> !tile
          nv_tileas.copy %x, %b : !tile, !stage
          nv_tileas.async.pipeline.yield
        }) : !written, !iter -> !written
        nv_tileas.async.pipeline.producer_commit %t1 : !written
        nv_tileas.async.pipeline.yield
      }) : !pipe, !iter
      %next = nv_tileas.async.pipeline.inc_iter %it : !iter -> !iter
      scf.yield %next : !iter
    }
    nv_tileas.async.pipeline.yield
  }, {
    %last = scf.for %i = %0 to %items step %1 iter_args(%it = %first) -> (!iter) {
      nv_tileas.async.pipeline.consume_one %pipe, %it ({
        %t0 = nv_tileas.async.pipeline.consumer_wait %pipe, %it : !pipe, !iter -> !ready
        %t1 = nv_tileas.async.pipeline.consumer_read %t0, %it ({
        ^bb0(%b: !stage):
          %x = nv_tileas.copy %b : !stage -> !tile
          %y = nv_tileaa.addf %x, %x : !tile, !tile -> !tile
          nv_tileas.tiled_store %w[%i], %y : !view, !tile, index
          nv_tileas.async.pipeline.yield
        }) : !ready, !iter -> !ready
        nv_tileas.async.pipeline.consumer_release %t1 : !ready
        nv_tileas.async.pipeline.yield
      }) : !pipe, !iter
      %next = nv_tileas.async.pipeline.inc_iter %it : !iter -> !iter
      scf.yield %next : !iter
    }
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}
