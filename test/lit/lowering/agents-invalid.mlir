// What agents cannot run, or take from around them.
// RUN: cuda-tile-opt --split-input-file --verify-diagnostics --lower-tileaa-queues --convert-tileaa-to-tileas %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @three_warps(%p: !nv_tileaa.ptr<f32, 1>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileas.async.pipeline.agent_switch' op has an agent of 3 warps, and tiles lie in a power of two of them}}
  nv_tileaa.execute {agent_warps = [3, 1]} ({
    %q = nv_tileaa.splat %p : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    %x = nv_tileaa.load %q : tile<64x!nv_tileaa.ptr<f32, 1>> -> tile<64xf32>
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @captured(%p: !nv_tileaa.ptr<f32, 1>) attributes {kernel_spec = #spec} {
  %q = nv_tileaa.splat %p : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
  // expected-error @+1 {{'nv_tileaa.load' op gives a tile that an agent takes from around it, where other warps hold it}}
  %x = nv_tileaa.load %q : tile<64x!nv_tileaa.ptr<f32, 1>> -> tile<64xf32>
  nv_tileaa.execute {agent_warps = [4, 4]} ({
    // What takes a few ops is made again.
    nv_tileaa.store %q, %x : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xf32>
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
!q = !nv_tileaa.queue<(tile<64xi4>)>
nv_tileaa.func @nibbles(%x: tile<64xi4>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op makes stages that hold tile<64xi4>, whose elements have no bytes of their own}}
  %q = nv_tileaa.create_queue {depth = 2} : !q
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %x : tile<64xi4>
  }) : !q
  nv_tileaa.queue.get %q ({
  ^bb0(%y: tensor<64xi4>):
    nv_tileaa.queue.yield
  }) : !q
  nv_tileaa.return
}
