// How regions end, and inside of what some ops stand.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @regions_end(%v4: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.reduce' op expects regions to end with 'nv_tileaa.yield'}}
  %r_bad = nv_tileaa.reduce %v4 {dim = 0, identities = [0.0 : f32]} ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    nv_tileaa.queue.yield %x : tile<f32>
  }) : tile<4xf32> -> tile<f32>
  %r_good = nv_tileaa.reduce %v4 {dim = 0, identities = [0.0 : f32]} ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    nv_tileaa.yield %x : tile<f32>
  }) : tile<4xf32> -> tile<f32>
  nv_tileaa.return
}

nv_tileaa.func @inside_of_functions(%v: tile<4xf32>, %q: !nv_tileaa.queue<(tile<4xf32>)>) {
  nv_tileaa.pragma {directives = {}} ({
    nv_tileaa.yield
  })
  nv_tileaa.queue.put %q ({
    nv_tileaa.queue.yield %v : tile<4xf32>
  }) : !nv_tileaa.queue<(tile<4xf32>)>
  nv_tileaa.execute ({
    nv_tileaa.yield
  }, {
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.execute' op expects parent op 'nv_tileaa.func'}}
nv_tileaa.execute

nv_tileaa.func @no_public_ops_are_left() {
  %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.func' op expects no cuda_tile operations, but got 'cuda_tile.make_token'}}
nv_tileaa.func @one_is_left() {
  %t = cuda_tile.make_token : token
  nv_tileaa.return
}

// -- symbols are those of the module

nv_tileaa.global {sym_name = "g", value = dense<1.0> : !cuda_tile.tile<4xf32>}

nv_tileaa.func @symbols() {
  nv_tileaa.call {callee = @no_public_ops_are_left}
  // expected-error @+1 {{'nv_tileaa.call' op 'g' does not reference a valid nv_tileaa.func}}
  nv_tileaa.call {callee = @g}
  %a = nv_tileaa.get_global {name = @g} : !nv_tileaa.ptr<f32, 1>
  // expected-error @+1 {{'nv_tileaa.get_global' op 'h' does not reference a valid nv_tileaa.global}}
  %b = nv_tileaa.get_global {name = @h} : !nv_tileaa.ptr<f32, 1>
  nv_tileaa.plugin {plugin = @symbols}
  // expected-error @+1 {{'nv_tileaa.plugin' op 'h' does not reference a valid nv_tileaa.func}}
  nv_tileaa.plugin {plugin = @h}
  nv_tileaa.return
}

nv_tileaa.func @no_regions(%p: !nv_tileaa.ptr<f32, 1>) {
  // expected-error @+1 {{'nv_tileaa.load' op requires zero regions}}
  %x = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> ({}) : (!nv_tileaa.ptr<f32, 1>) -> f32
  %y = "nv_tileaa.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> : (!nv_tileaa.ptr<f32, 1>) -> f32
  nv_tileaa.return
}

nv_tileaa.func @no_successors(%p: !nv_tileaa.ptr<f32, 1>) {
  // expected-error @+1 {{'nv_tileaa.load' op requires 0 successors but found 1}}
  %x = "nv_tileaa.load"(%p)[^end] <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>}> : (!nv_tileaa.ptr<f32, 1>) -> f32
^end:
  nv_tileaa.return
}

// What ends a kernel stands in it itself, and its condition is one number.
nv_tileaa.func @returns(%c: i1, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return_if %c : i1
  // expected-error @+1 {{'nv_tileaa.return_if' op expects a condition of i1, but got i32}}
  nv_tileaa.return_if %n : i32
  scf.if %c {
    // expected-error @+1 {{'nv_tileaa.return_if' op expects to stand in a kernel itself}}
    nv_tileaa.return_if %c : i1
  }
  nv_tileaa.return
}

nv_tileaa.func @no_kernel(%c: i1) {
  // expected-error @+1 {{'nv_tileaa.return_if' op expects to stand in a kernel itself}}
  nv_tileaa.return_if %c : i1
  nv_tileaa.return
}
