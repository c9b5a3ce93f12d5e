// One turn of a producer and of a consumer, in the shape that queues become.
// RUN: cuda-tile-opt %s | FileCheck %s
// RUN: cuda-tile-opt %s | cuda-tile-opt - | FileCheck %s
// RUN: cuda-tile-opt -mlir-print-op-generic %s | cuda-tile-opt - | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: nv_tileaa.func @turns
nv_tileaa.func @turns(%v: tile<4xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK: %[[P:.*]] = nv_tileas.async.pipeline.create_pipeline {consumer_group = 1, producer_group = 0} : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>
  %pipe = nv_tileas.async.pipeline.create_pipeline {producer_group = 0, consumer_group = 1} : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>
  // CHECK: %[[I:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]]
  %it = nv_tileas.async.pipeline.create_iterator %pipe : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>>
  // CHECK: nv_tileas.async.pipeline.agent_switch {agent_registers = [40, 232], agent_warps = [1, 4]} ({
  nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4], agent_registers = [40, 232]} ({
    // CHECK: nv_tileas.async.pipeline.produce_one %[[P]], %[[I]] ({
    nv_tileas.async.pipeline.produce_one %pipe, %it ({
      // CHECK: %[[T:.*]] = nv_tileas.async.pipeline.producer_acquire
      %t0 = nv_tileas.async.pipeline.producer_acquire %pipe, %it : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.producer_token<(tile<4xf32>)>
      // CHECK: %[[W:.*]] = nv_tileas.async.pipeline.producer_write %[[T]], %[[I]] ({
      // CHECK-NEXT: ^bb0(%{{.*}}: tensor<4xf32>):
      %t1 = nv_tileas.async.pipeline.producer_write %t0, %it ({
      ^bb0(%slot: tensor<4xf32>):
        nv_tileas.async.pipeline.yield
      }) : !nv_tileas.producer_token<(tile<4xf32>)>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.producer_token<(tile<4xf32>)>
      // CHECK: nv_tileas.async.pipeline.producer_commit %[[W]]
      nv_tileas.async.pipeline.producer_commit %t1 : !nv_tileas.producer_token<(tile<4xf32>)>
      nv_tileas.async.pipeline.yield
    }) : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>>
    nv_tileas.async.pipeline.yield
  }, {
    // CHECK: nv_tileas.async.pipeline.consume_one %[[P]], %[[I]] {consumer_idx = 1} ({
    %r = nv_tileas.async.pipeline.consume_one %pipe, %it {consumer_idx = 1} ({
      %c0 = nv_tileas.async.pipeline.consumer_wait %pipe, %it {consumer_idx = 1} : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.consumer_token<(tile<4xf32>)>
      // CHECK: %[[R:.*]]:2 = nv_tileas.async.pipeline.consumer_read
      %c1, %x = nv_tileas.async.pipeline.consumer_read %c0, %it ({
      ^bb0(%slot: tensor<4xf32>):
        nv_tileas.async.pipeline.yield %slot : tile<4xf32>
      }) : !nv_tileas.consumer_token<(tile<4xf32>)>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.consumer_token<(tile<4xf32>)>, tile<4xf32>
      // CHECK: nv_tileas.async.pipeline.consumer_release %[[R]]#0
      nv_tileas.async.pipeline.consumer_release %c1 : !nv_tileas.consumer_token<(tile<4xf32>)>
      // CHECK: nv_tileas.async.pipeline.yield %[[R]]#1 : tile<4xf32>
      nv_tileas.async.pipeline.yield %x : tile<4xf32>
    }) : !nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>, !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> tile<4xf32>
    nv_tileas.async.pipeline.yield
  })
  // CHECK: nv_tileas.async.pipeline.inc_iter %[[I]]
  %next = nv_tileas.async.pipeline.inc_iter %it : !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<3, (tile<4xf32>), consumers=2>>
  nv_tileaa.return
}
