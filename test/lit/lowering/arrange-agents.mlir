// Agents of whole warpgroups come first; what is left of the last warpgroup is one more agent, which does nothing.
// RUN: cuda-tile-opt --split-input-file --tileas-arrange-agents %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: nv_tileaa.func @registers_by_warpgroups
// CHECK: nv_tileas.async.pipeline.agent_switch {agent_registers = [232, 40, 40], agent_warps = [4, 1, 3]}
// CHECK-NEXT: arith.constant 2 : i32
// CHECK-NEXT: nv_tileas.async.pipeline.yield
// CHECK-NEXT: }, {
// CHECK-NEXT: arith.constant 1 : i32
// CHECK-NEXT: nv_tileas.async.pipeline.yield
// CHECK-NEXT: }, {
// CHECK-NEXT: nv_tileas.async.pipeline.yield
nv_tileaa.func @registers_by_warpgroups() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4], agent_registers = [40, 232]} ({
    %a = arith.constant 1 : i32
    nv_tileas.async.pipeline.yield
  }, {
    %b = arith.constant 2 : i32
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}

// -----

// A target without setmaxnreg gives all threads as many registers, and says so.
// CHECK-LABEL: nv_tileaa.func @registers_for_all
// CHECK: nv_tileas.async.pipeline.agent_switch {agent_warps = [4, 1], registers_shared = "sm_80 gives all threads of a kernel as many"}
nv_tileaa.func @registers_for_all() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  nv_tileas.async.pipeline.agent_switch {agent_warps = [1, 4], agent_registers = [40, 232]} ({
    nv_tileas.async.pipeline.yield
  }, {
    nv_tileas.async.pipeline.yield
  })
  nv_tileaa.return
}
