// Each agent gets the loop that is around all of them; who shares a queue draws its turns, and nobody carries queues.
// RUN: cuda-tile-opt --lower-tileaa-queues %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!q = !nv_tileaa.queue<(tile<64xf32>)>
// CHECK-LABEL: nv_tileaa.func @shared
nv_tileaa.func @shared(%x: tile<64xf32>, %n: index, %m: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  // CHECK: %[[P:.*]] = nv_tileas.async.pipeline.create_pipeline
  // CHECK-NEXT: nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 1, 4]}
  // CHECK-NEXT: scf.for %{{.*}} {
  // CHECK-NEXT: %[[A:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]] {drawn}
  // CHECK-NEXT: nv_tileas.async.pipeline.produce_one %[[P]], %[[A]]
  // CHECK: scf.for %{{.*}} {
  // CHECK-NEXT: %[[B:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]] {drawn}
  // CHECK-NEXT: nv_tileas.async.pipeline.produce_one %[[P]], %[[B]]
  // CHECK: %[[C:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]] :
  // CHECK-NEXT: scf.for {{.*}} iter_args(%[[D:.*]] = %[[C]])
  // CHECK: scf.for {{.*}} iter_args(%[[E:.*]] = %[[D]])
  // CHECK-NEXT: nv_tileas.async.pipeline.consume_one %[[P]], %[[E]]
  %q = nv_tileaa.create_queue {depth = 2} : !q
  scf.for %i = %0 to %n step %1 {
    nv_tileaa.execute {agent_warps = [1, 1, 4]} ({
      nv_tileaa.queue.put %q ({
        nv_tileaa.queue.yield %x : tile<64xf32>
      }) : !q
      nv_tileaa.yield
    }, {
      nv_tileaa.queue.put %q ({
        nv_tileaa.queue.yield %x : tile<64xf32>
      }) : !q
      nv_tileaa.yield
    }, {
      %same = scf.for %k = %0 to %m step %1 iter_args(%mine = %q) -> (!q) {
        nv_tileaa.queue.get %mine ({
        ^bb0(%a: tensor<64xf32>):
          nv_tileaa.queue.yield
        }) : !q
        scf.yield %mine : !q
      }
      nv_tileaa.yield
    })
  }
  nv_tileaa.return
}

// What agents are given as operands is what is around them: a queue, and a number.
// CHECK-LABEL: nv_tileaa.func @given
nv_tileaa.func @given(%x: tile<64xf32>, %n: index) {
  %1 = arith.constant 1 : index
  // CHECK: %[[P:.*]] = nv_tileas.async.pipeline.create_pipeline
  // CHECK-NEXT: nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4]} ({
  // CHECK-NEXT: %[[A:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]] :
  // CHECK-NEXT: nv_tileas.async.pipeline.produce_one %[[P]], %[[A]]
  // CHECK: %[[B:.*]] = nv_tileas.async.pipeline.create_iterator %[[P]] :
  // CHECK-NEXT: nv_tileas.async.pipeline.consume_one %[[P]], %[[B]]
  // CHECK: arith.addi %arg1, %{{.*}} : index
  %q = nv_tileaa.create_queue {depth = 2} : !q
  nv_tileaa.execute %q, %n {agent_warps = [1, 4]} ({
  ^bb0(%mine: !q, %count: index):
    nv_tileaa.queue.put %mine ({
      nv_tileaa.queue.yield %x : tile<64xf32>
    }) : !q
    nv_tileaa.yield
  }, {
  ^bb0(%mine: !q, %count: index):
    %y = nv_tileaa.queue.get %mine ({
    ^bb0(%a: tensor<64xf32>):
      %next = arith.addi %count, %1 : index
      nv_tileaa.print %next {format = "%d"} : index
      nv_tileaa.queue.yield %a : tile<64xf32>
    }) : !q -> tile<64xf32>
    nv_tileaa.yield
  }) : !q, index
  nv_tileaa.return
}
