// Queues become pipelines, and iterators go through the control flow around the turns.
// RUN: cuda-tile-opt --lower-tileaa-queues --propagate-pipeline-iterators %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!q = !nv_tileaa.queue<(tile<64xf32>, f32)>
!one = !nv_tileaa.queue<(tile<64xf32>), isolated>
#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>

// CHECK-LABEL: nv_tileaa.func @control_flow
// CHECK: %[[PIPE:.*]] = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, (tile<64xf32>, tile<1xf32>), consumers=2, mbarrier>
// CHECK: nv_tileas.async.pipeline.agent_switch {agent_registers = [40, 208, 208], agent_warps = [1, 4, 4]}
nv_tileaa.func @control_flow(%x: tile<64xf32>, %f: f32, %n: index, %odd: i1) attributes {kernel_spec = #spec} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %c = nv_tileaa.constant {value = dense<2.0> : !cuda_tile.tile<64xf32>} : tile<64xf32>
  %q = nv_tileaa.create_queue {depth = 2, num_consumers = 2} : !q
  nv_tileaa.execute {agent_warps = [1, 4, 4], agent_registers = [40, 208, 208]} ({
    // An iterator is carried by a loop, and by the condition in it, whose other arm hands it on as it is.
    // CHECK: %[[FIRST:.*]] = nv_tileas.async.pipeline.create_iterator %[[PIPE]]
    // CHECK: scf.for {{.*}} iter_args(%[[IT:.*]] = %[[FIRST]])
    // CHECK: %[[AFTER:.*]] = scf.if %{{.*}} -> (!nv_tileas.pipeline_iterator
    // CHECK: %[[NEXT:.*]] = nv_tileas.async.pipeline.produce_one %[[PIPE]], %[[IT]]
    // CHECK: nv_tileas.async.pipeline.producer_acquire %[[PIPE]], %[[IT]]
    // CHECK: nv_tileas.async.pipeline.producer_write
    // CHECK: %[[SCALAR:.*]] = nv_tileaa.splat
    // CHECK: nv_tileas.async.pipeline.yield %{{.*}}, %[[SCALAR]] : tile<64xf32>, tile<1xf32>
    // CHECK: nv_tileas.async.pipeline.producer_commit
    // CHECK: %[[INC:.*]] = nv_tileas.async.pipeline.inc_iter %[[IT]]
    // CHECK: nv_tileas.async.pipeline.yield %[[INC]]
    // CHECK: scf.yield %[[NEXT]]
    // CHECK: else
    // CHECK: scf.yield %[[IT]]
    // CHECK: scf.yield %[[AFTER]]
    scf.for %i = %0 to %n step %1 {
      scf.if %odd {
        nv_tileaa.queue.put %q ({
          nv_tileaa.queue.yield %x, %f : tile<64xf32>, f32
        }) : !q
      }
    }
    nv_tileaa.yield
  }, {
    // CHECK: nv_tileas.async.pipeline.create_iterator %[[PIPE]]
    // CHECK: scf.while
    // CHECK: nv_tileas.async.pipeline.consume_one
    // CHECK: nv_tileas.async.pipeline.consumer_wait
    // CHECK: nv_tileas.async.pipeline.consumer_read
    // CHECK: ^bb0(%{{.*}}: tensor<64xf32>, %[[HELD:.*]]: tensor<1xf32>)
    // CHECK: nv_tileaa.view %[[HELD]]
    // CHECK: tensor.extract
    // CHECK: nv_tileas.async.pipeline.consumer_release
    %last = scf.while (%i = %0) : (index) -> index {
      %more = arith.cmpi ult, %i, %n : index
      scf.condition(%more) %i : index
    } do {
    ^bb0(%i: index):
      %s = nv_tileaa.queue.get %q ({
      ^bb0(%y: tensor<64xf32>, %g: f32):
        nv_tileaa.queue.yield %g : f32
      }) : !q -> f32
      %j = arith.addi %i, %1 : index
      scf.yield %j : index
    }
    nv_tileaa.yield
  }, {
    // CHECK: nv_tileas.async.pipeline.consume_one {{.*}}
    // CHECK: nv_tileas.async.pipeline.consumer_wait {{.*}} {consumer_idx = 1}
    scf.for %i = %0 to %n step %1 {
      nv_tileaa.queue.get %q {consumer_idx = 1} ({
      ^bb0(%y: tensor<64xf32>, %g: f32):
        nv_tileaa.queue.yield
      }) : !q
    }
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @unused
// CHECK-NOT: create_queue
// CHECK-NOT: create_pipeline
nv_tileaa.func @unused() attributes {kernel_spec = #spec} {
  %q = nv_tileaa.create_queue {depth = 2} : !one
  nv_tileaa.return
}
