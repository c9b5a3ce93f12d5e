// A loop whose product reads registers is fed by a producer agent that copies by TMA; the product is cut along k.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_120 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize %s | FileCheck %s
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_120 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize --tileas-insert-barriers --tileas-select-collectives --tileas-materialize-convert-layout --tileas-allocate-shared-memory --tileas-insert-shared-barriers --tileas-count-arrivals %s | FileCheck --check-prefix=SHARED %s
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa=gpu-name=sm_80 --convert-tileaa-to-tileas=for-agents=true --tileas-specialize=by-threads=true %s | FileCheck --check-prefix=THREADS %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @kernels {
  // CHECK-LABEL: nv_tileaa.func @product
  // CHECK: nv_tileas.make_tiled_tma_desc {{.*}}box=[64,64]{{.*}}tmaIdx = 0
  // CHECK: nv_tileas.make_tiled_tma_desc {{.*}}box=[64,64]{{.*}}tmaIdx = 1
  // CHECK: nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained}
  // CHECK: nv_tileas.async.pipeline.agent_switch {agent_elected = [0, 1], agent_warps = [4, 1]}
  // CHECK: nv_tileaa.block_tile
  // CHECK: scf.for
  // CHECK: nv_tileas.async.pipeline.consumer_wait
  // CHECK: nv_tileas.async.pipeline.consumer_read
  // CHECK: nv_tileas.copy {{.*}}{offsets = array<i64: 0, 0>} {{.*}} -> tile<64x16xf16
  // CHECK: nv_tileas.copy {{.*}}{offsets = array<i64: 0, 0>} {{.*}} -> tile<16x64xf16
  // CHECK: nv_tileas.dot
  // CHECK: nv_tileas.copy {{.*}}{offsets = array<i64: 0, 16>} {{.*}} -> tile<64x16xf16
  // CHECK: nv_tileas.copy {{.*}}{offsets = array<i64: 16, 0>} {{.*}} -> tile<16x64xf16
  // CHECK-COUNT-3: nv_tileas.dot
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileas.tiled_store
  // CHECK: nv_tileas.async.pipeline.producer_acquire
  // CHECK-COUNT-2: nv_tileas.async.tiled_tma_load
  // CHECK: nv_tileas.async.pipeline.producer_commit

  // The four warps of the consumer leave a stage, and the producer's one thread fills it, with two copies of 8 KB. All
  // threads meet where the barrier objects are there. The conversion for the store goes through the stages, behind a
  // barrier that ends their reads.
  // SHARED: nv_tileas.async.pipeline.create_pipeline {alignment = 1024, barriers_offset = 65536, drained, empty_arrivals = 4 : i32, full_arrivals = 1 : i32, shared_offset = 0}
  // SHARED-NOT: nv_tileas.barrier
  // SHARED: nv_tileas.fence_proxy {proxy = "async.shared"}
  // SHARED-NEXT: nv_tileas.barrier
  // SHARED-NEXT: nv_tileas.async.pipeline.agent_switch
  // SHARED: nv_tileas.convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[meet 0 : 16384]>
  // SHARED-COUNT-2: nv_tileas.async.tiled_tma_load {{.*}}counted
  // SHARED: nv_tileas.async.pipeline.producer_commit {{.*}}expected_bytes = 16384 : i32

  // Without TMA two warps copy the 16 KB of a step, each in the layout of its own.
  // THREADS-LABEL: nv_tileaa.func @product
  // THREADS: nv_tileas.async.pipeline.create_pipeline {alignment = 1024, drained}
  // THREADS: nv_tileas.async.pipeline.agent_switch {agent_warps = [4, 2]}
  // THREADS: nv_tileas.async.pipeline.consumer_wait
  // THREADS-COUNT-4: nv_tileas.dot
  // THREADS: nv_tileas.async.pipeline.consumer_release
  // THREADS: nv_tileas.async.pipeline.producer_acquire
  // THREADS: nv_tileas.async.tiled_load {{.*}}atom = #nv_tileas.copy_atom<ldgsts>{{.*}}layout = #nv_tileas.layout<register=[[0,1],[0,2],[0,4],[8,0],[16,0],[32,0]], lane=[[0,8],[0,16],[0,32],[1,0],[2,0]], warp=[[4,0]] : 64x64>
  // THREADS: nv_tileas.async.tiled_load
  // THREADS: nv_tileas.async.pipeline.producer_commit
  entry @product(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf16, strides=[256,1]>
    %vb = make_tensor_view %b, shape = [256, 64], strides = [64, 1] : tensor_view<256x64xf16, strides=[64,1]>
    %vc = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %pa = make_partition_view %va : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %4 = constant <i32: 4> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %r = for %i in (%0 to %4, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %x, %t = load_view_tko weak %pa[%0, %i] : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x64xf16>, token
      %y, %u = load_view_tko weak %pb[%i, %0] : partition_view<tile=(64x64), tensor_view<256x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %z = mmaf %x, %y, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %z : tile<64x64xf32>
    }
    %s = store_view_tko weak %r, %pc[%0, %0] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  // Two stages of whole tiles do not fit the shared memory of one of five blocks: a step's tiles come in two parts, from a
  // stage each, and so do their products.
  // CHECK-LABEL: nv_tileaa.func @parts
  // CHECK: nv_tileas.make_tiled_tma_desc {{.*}}box=[32,64]{{.*}}tmaIdx = 0
  // CHECK: nv_tileas.async.pipeline.create_pipeline {{.*}}!nv_tileas.pipeline<3, (!nv_tileas.buffer<64x32xf16, {{.*}}!nv_tileas.buffer<32x32xf16
  // CHECK: scf.for
  // CHECK: nv_tileas.async.pipeline.consumer_wait
  // CHECK-COUNT-2: nv_tileas.dot
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileas.async.pipeline.inc_iter
  // CHECK: nv_tileas.async.pipeline.consumer_wait
  // CHECK: nv_tileas.copy {{.*}}{offsets = array<i64: 0, 0>} {{.*}} -> tile<64x16xf16
  // CHECK-COUNT-2: nv_tileas.dot
  // CHECK: nv_tileas.async.pipeline.consumer_release
  // CHECK: nv_tileas.async.pipeline.producer_acquire
  // CHECK-COUNT-2: nv_tileas.async.tiled_tma_load
  // CHECK: nv_tileas.async.pipeline.producer_acquire
  // CHECK: %[[HALF:.*]] = arith.constant 32 : index
  // CHECK: arith.addi {{.*}}, %[[HALF]] : index
  // CHECK-COUNT-2: nv_tileas.async.tiled_tma_load
  entry @parts(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>) optimization_hints=<default = {occupancy = 5}> {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [64, 256], strides = [256, 1] : tensor_view<64x256xf16, strides=[256,1]>
    %vb = make_tensor_view %b, shape = [256, 32], strides = [32, 1] : tensor_view<256x32xf16, strides=[32,1]>
    %vc = make_tensor_view %c, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %pa = make_partition_view %va : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(64x32), tensor_view<256x32xf16, strides=[32,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %4 = constant <i32: 4> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x32xf32>
    %r = for %i in (%0 to %4, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<64x32xf32>) {
      %x, %t = load_view_tko weak %pa[%0, %i] : partition_view<tile=(64x64), tensor_view<64x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x64xf16>, token
      %y, %u = load_view_tko weak %pb[%i, %0] : partition_view<tile=(64x32), tensor_view<256x32xf16, strides=[32,1]>>, tile<i32> -> tile<64x32xf16>, token
      %z = mmaf %x, %y, %acc : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32>
      continue %z : tile<64x32xf32>
    }
    %s = store_view_tko weak %r, %pc[%0, %0] : tile<64x32xf32>, partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> token
    return
  }
}
