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
    // expected-error @+1 {{'nv_tileaa.create_queue' op makes a queue in each turn of a loop, where not as much is certain to be got from it as is put}}
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

nv_tileaa.func @registers_of_one_agent_only() {
  nv_tileaa.execute {agent_warps = [4, 4], agent_registers = [40, 208]} ({
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within an agent, and not all of them have 'agent_registers'}}
    nv_tileaa.execute {agent_warps = [4, 4]} ({
      nv_tileaa.yield
    }, {
      nv_tileaa.yield
    })
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

nv_tileaa.func @registers_of_agents_of_an_agent_only() {
  nv_tileaa.execute {agent_warps = [4, 4]} ({
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within an agent, and not all of them have 'agent_registers'}}
    nv_tileaa.execute {agent_warps = [4, 4], agent_registers = [40, 208]} ({
      nv_tileaa.yield
    }, {
      nv_tileaa.yield
    })
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

nv_tileaa.func @in_a_loop_that_does_not_count(%c: i1) {
  %d = scf.while (%x = %c) : (i1) -> i1 {
    scf.condition(%x) %x : i1
  } do {
  ^bb0(%y: i1):
    // expected-error @+1 {{'nv_tileaa.execute' op runs agents within a 'scf.while' op, which they cannot each have}}
    nv_tileaa.execute {agent_warps = [4]} ({
      nv_tileaa.yield
    })
    scf.yield %y : i1
  }
  nv_tileaa.return
}
