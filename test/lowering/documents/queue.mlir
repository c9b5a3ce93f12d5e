// The documents' queue program: a producer puts the factors of a product into a queue, a consumer multiplies them.
// What is said of the factors' memory is what tensor maps need: bases on 16 bytes, rows of a multiple of 16 bytes.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!factor = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>

nv_tileaa.func @queue(%pa: !nv_tileaa.ptr<f16, 1>, %am: index, %ak: index, %as: index,
                      %pb: !nv_tileaa.ptr<f16, 1>, %bk: index, %bn: index, %bs: index,
                      %c: !nv_tileaa.memref<?x?xf32, 1>, %turns: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %a = nv_tileaa.make_memref %pa, %am, %ak, %as
    {divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>}
    : !nv_tileaa.ptr<f16, 1>, index, index, index -> !factor
  %b = nv_tileaa.make_memref %pb, %bk, %bn, %bs
    {divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>}
    : !nv_tileaa.ptr<f16, 1>, index, index, index -> !factor
  %0 = arith.constant 0 : index
  %32 = arith.constant 32 : index
  %zero = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<64x64xf32>} : tile<64x64xf32>
  %depth = arith.muli %turns, %32 : index
  %q = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<(tile<64x32xf16>, tile<32x64xf16>)>
  nv_tileaa.execute {agent_warps = [1, 4], agent_registers = [40, 232]} ({
    scf.for %k = %0 to %depth step %32 {
      nv_tileaa.queue.put %q ({
        %x = nv_tileaa.tiled_load %a[%0, %k] : !factor, index, index -> tile<64x32xf16>
        %y = nv_tileaa.tiled_load %b[%k, %0] : !factor, index, index -> tile<32x64xf16>
        nv_tileaa.queue.yield %x, %y : tile<64x32xf16>, tile<32x64xf16>
      }) : !nv_tileaa.queue<(tile<64x32xf16>, tile<32x64xf16>)>
    }
    nv_tileaa.yield
  }, {
    %sum = scf.for %k = %0 to %depth step %32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) {
      %d = nv_tileaa.queue.get %q ({
      ^bb0(%x: tensor<64x32xf16>, %y: tensor<32x64xf16>):
        %d0 = nv_tileaa.dot %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
        nv_tileaa.queue.yield %d0 : tile<64x64xf32>
      }) : !nv_tileaa.queue<(tile<64x32xf16>, tile<32x64xf16>)> -> tile<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %t = nv_tileaa.tiled_store %c[%0, %0], %sum : !nv_tileaa.memref<?x?xf32, 1>, tile<64x64xf32>, index, index -> !nv_tileaa.mem_token
    nv_tileaa.yield
  })
  nv_tileaa.return
}
