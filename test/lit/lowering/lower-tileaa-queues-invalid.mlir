// Queues that are no pipelines.
// RUN: cuda-tile-opt --split-input-file --verify-diagnostics --lower-tileaa-queues %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!q = !nv_tileaa.queue<(tile<64xf32>)>
nv_tileaa.func @an_agent_and_the_function_put(%x: tile<64xf32>) {
  %q = nv_tileaa.create_queue {depth = 1} : !q
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %x : tile<64xf32>
  }) : !q
  nv_tileaa.execute {agent_warps = [1, 1]} ({
    // expected-error @+1 {{'nv_tileaa.queue.put' op puts into a queue, as another agent does, and turns of a pipeline are agents' or the function's}}
    nv_tileaa.queue.put %q ({
      nv_tileaa.queue.yield %x : tile<64xf32>
    }) : !q
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

!q = !nv_tileaa.queue<(tile<64xf32>)>
nv_tileaa.func @nobody_gets(%x: tile<64xf32>) {
  // expected-error @+1 {{'nv_tileaa.create_queue' op makes a queue that fills up: nobody gets from it as consumer 0, 1}}
  %q = nv_tileaa.create_queue {depth = 2, num_consumers = 2} : !q
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %x : tile<64xf32>
  }) : !q
  nv_tileaa.return
}

// -----

!q = !nv_tileaa.queue<(tile<64xf32>)>
nv_tileaa.func @in_a_loop(%x: tile<64xf32>, %n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    // expected-error @+1 {{'nv_tileaa.create_queue' op makes a queue within another op, and pipelines are made by the function}}
    %q = nv_tileaa.create_queue {depth = 2} : !q
    nv_tileaa.queue.put %q ({
      nv_tileaa.queue.yield %x : tile<64xf32>
    }) : !q
  }
  nv_tileaa.return
}

// -----

!q = !nv_tileaa.queue<(tile<64xf32>)>
nv_tileaa.func @carried(%n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %q = nv_tileaa.create_queue {depth = 2} : !q
  %other = nv_tileaa.create_queue {depth = 2} : !q
  %r = scf.for %i = %0 to %n step %1 iter_args(%p = %q) -> (!q) {
    // expected-error @+1 {{'scf.yield' op hands on one queue where another path hands on another one}}
    scf.yield %other : !q
  }
  nv_tileaa.return
}

// -----

!q = !nv_tileaa.queue<(!nv_tileaa.memref<?xf32, 1>)>
nv_tileaa.func @memrefs(%m: !nv_tileaa.memref<?xf32, 1>) {
  // expected-error @+1 {{'nv_tileaa.create_queue' op makes a queue of !nv_tileaa.memref<?xf32, 1>, and stages hold tiles, numbers and pointers}}
  %q = nv_tileaa.create_queue {depth = 2} : !q
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %m : !nv_tileaa.memref<?xf32, 1>
  }) : !q
  nv_tileaa.queue.get %q ({
  ^bb0(%a: !nv_tileaa.memref<?xf32, 1>):
    nv_tileaa.queue.yield
  }) : !q
  nv_tileaa.return
}

// -----

nv_tileaa.func @resources() {
  // expected-error @+1 {{'nv_tileaa.execute' op has 'shared_memory', which nobody gives agents}}
  nv_tileaa.execute {agent_warps = [1], shared_memory = 64} ({
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

!q = !nv_tileaa.queue<(tile<64xf32>)>
nv_tileaa.func @an_agent_and_the_function_get(%x: tile<64xf32>) {
  %q = nv_tileaa.create_queue {depth = 2} : !q
  nv_tileaa.queue.get %q ({
  ^bb0(%a: tensor<64xf32>):
    nv_tileaa.queue.yield
  }) : !q
  nv_tileaa.execute {agent_warps = [1, 1]} ({
    // expected-error @+1 {{'nv_tileaa.queue.get' op gets from a queue as consumer 0, as another agent does, and turns of a pipeline are agents' or the function's}}
    nv_tileaa.queue.get %q ({
    ^bb0(%a: tensor<64xf32>):
      nv_tileaa.queue.yield
    }) : !q
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

nv_tileaa.func @beside_agents(%n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    nv_tileaa.print %i {format = "%d"} : index
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within a 'scf.for' op beside a 'nv_tileaa.print' op, which each of them would do}}
    nv_tileaa.execute {agent_warps = [1]} ({
      nv_tileaa.yield
    })
  }
  nv_tileaa.return
}

// -----

nv_tileaa.func @results_in_a_loop(%x: tile<64xf32>, %n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    // expected-error @+1 {{'nv_tileaa.execute' op has results, which agents within another op hand on by queues only}}
    %r = nv_tileaa.execute {agent_warps = [1]} ({
      nv_tileaa.yield %x : tile<64xf32>
    }) : tile<64xf32>
  }
  nv_tileaa.return
}

// -----

nv_tileaa.func @agents_of_agents() {
  nv_tileaa.execute {agent_warps = [4]} ({
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within an agent, and not all of them have 'agent_warps'}}
    nv_tileaa.execute ({
      nv_tileaa.yield
    }, {
      nv_tileaa.yield
    })
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

nv_tileaa.func @beside_agents_of_an_agent(%i: index) {
  nv_tileaa.execute {agent_warps = [4]} ({
    nv_tileaa.print %i {format = "%d"} : index
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within a 'nv_tileaa.execute' op beside a 'nv_tileaa.print' op, which each of them would do}}
    nv_tileaa.execute {agent_warps = [1, 1]} ({
      nv_tileaa.yield
    }, {
      nv_tileaa.yield
    })
    nv_tileaa.yield
  })
  nv_tileaa.return
}
