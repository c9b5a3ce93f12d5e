// What the conversion cannot convert is refused with the op, its types, the target and the place. Nothing is dropped.
// RUN: cuda-tile-opt --convert-tileaa-to-tileas -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @agents(%x: tile<64xf32>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.execute' op has a region, which cannot be converted to nv_tileas on sm_90}}
  nv_tileaa.execute ({
    nv_tileaa.print %x {format = "%f"} : tile<64xf32>
    nv_tileaa.yield
  })
  nv_tileaa.return
}

// -----

#device = #nv_tileaa.kernel_spec<num_warps=4, num_ctas=1, target=sm_90>
// expected-error @+1 {{'nv_tileaa.func' op is no kernel, and functions are not called in nv_tileas on sm_90}}
nv_tileaa.func @callee(%x: tile<8xf32>) -> tile<8xf32> attributes {kernel_spec = #device} {
  nv_tileaa.return %x : tile<8xf32>
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @caller(%x: tile<8xf32>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.call' op cannot be converted: functions are not called in nv_tileas on sm_90}}
  %y = nv_tileaa.call %x {callee = @callee} : tile<8xf32> -> tile<8xf32>
  nv_tileaa.return
}
nv_tileaa.func @callee(%x: tile<8xf32>) -> tile<8xf32> {
  nv_tileaa.return %x : tile<8xf32>
}

// -----

// expected-error @+1 {{'nv_tileaa.func' op has no kernel_spec with a target}}
nv_tileaa.func @nowhere() {
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @memref(%a: !nv_tileaa.memref<?x?xf16, 1>, %i: index) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.tiled_load' op goes to memory without a tiled view (nv_tileaa.block_tile)}}
  %v = nv_tileaa.tiled_load %a[%i, %i] : !nv_tileaa.memref<?x?xf16, 1>, index, index -> tile<128x32xf16>
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @scalar(%p: !nv_tileaa.ptr<f32, 1>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.load' op goes to memory without a tile of pointers}}
  %v = nv_tileaa.load %p : !nv_tileaa.ptr<f32, 1> -> f32
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @queue() attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.create_queue' op has a type that hands on tiles, which would get no layout}}
  %q = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<(tile<64x32xf16>, tile<32x64xf16>)>
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_100>
nv_tileaa.func @scaled(%a: tile<16x64xf8E4M3FN>, %b: tile<64x16xf8E4M3FN>, %c: tile<16x16xf32>,
                       %s: tile<16x2xf8E8M0FNU>, %t: tile<2x16xf8E8M0FNU>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileaa.dot' op has scale factors: the block-scaled product that can be converted is nv_tileaa.scaled_dot on sm_100}}
  %d = nv_tileaa.dot %a, %b, %c, %s, %t : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>, tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU> -> tile<16x16xf32>
  nv_tileaa.return
}

// -----

#spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
nv_tileaa.func @twice(%x: tile<8xf32>) attributes {kernel_spec = #spec} {
  // expected-error @+1 {{'nv_tileas.convert_layout' op is in nv_tileas already on sm_90}}
  %y = nv_tileas.convert_layout %x : tile<8xf32> -> tile<8xf32>
  nv_tileaa.return
}
