// The tiles of a stage get layouts without bank conflicts, and agents wait for each other by barrier objects.
// RUN: cuda-tile-opt --view-memref-accesses --lower-tileaa-queues --propagate-pipeline-iterators --convert-tileaa-to-tileas %s | FileCheck --check-prefix=BEFORE %s
// RUN: cuda-tile-opt --view-memref-accesses --lower-tileaa-queues --propagate-pipeline-iterators --convert-tileaa-to-tileas --tileas-assign-stage-layouts %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// BEFORE: create_pipeline : !nv_tileas.pipeline<3, (!nv_tileas.buffer<64x32xf16, shared>, !nv_tileas.buffer<32x64xf16, shared>), mbarrier>
// CHECK: create_pipeline : !nv_tileas.pipeline<3, (!nv_tileas.buffer<64x32xf16, shared, #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[1,0],[2,8],[4,16],[8,0],[16,0],[32,0]] : 64x32>>, !nv_tileas.buffer<32x64xf16, shared, #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0]] : 32x64>>), mbarrier>
// CHECK: producer_write
// CHECK: nv_tileas.copy %{{.*}}, %{{.*}} : tile<64x32xf16, {{.*}}>, !nv_tileas.buffer<64x32xf16, shared, {{.*}}>
// CHECK: consumer_read
// CHECK: nv_tileas.copy %{{.*}} : !nv_tileas.buffer<64x32xf16, shared, {{.*}}> -> tile<64x32xf16

nv_tileaa.func @queue(%a: !nv_tileaa.memref<?x?xf16, 1>, %b: !nv_tileaa.memref<?x?xf16, 1>,
                      %c: !nv_tileaa.memref<?x?xf32, 1>, %turns: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %0 = arith.constant 0 : index
  %32 = arith.constant 32 : index
  %zero = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<64x64xf32>} : tile<64x64xf32>
  %depth = arith.muli %turns, %32 : index
  %q = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<(tile<64x32xf16>, tile<32x64xf16>)>
  nv_tileaa.execute {agent_warps = [1, 4], agent_registers = [40, 232]} ({
    scf.for %k = %0 to %depth step %32 {
      nv_tileaa.queue.put %q ({
        %x = nv_tileaa.tiled_load %a[%0, %k] : !nv_tileaa.memref<?x?xf16, 1>, index, index -> tile<64x32xf16>
        %y = nv_tileaa.tiled_load %b[%k, %0] : !nv_tileaa.memref<?x?xf16, 1>, index, index -> tile<32x64xf16>
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
