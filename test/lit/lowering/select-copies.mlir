// Which instruction moves a tile, how wide, which of its dimensions are compared with the tensor's end, and why not wider.
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_90" --convert-tileaa-to-tileas --tileas-select-copies | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_90" --convert-tileaa-to-tileas --tileas-select-copies="run-time-checks=false" | FileCheck %s --check-prefix=PLAIN
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_90" --convert-tileaa-to-tileas --tileas-select-copies="max-registers=4" | FileCheck %s --check-prefix=PLAIN
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @m {
  // CHECK-LABEL: nv_tileaa.func @pointers
  // CHECK: nv_tileas.load {{.*}}atom = #nv_tileas.copy_atom<ldg, bits=128, dim=0>
  // CHECK-NOT: not_wide
  // CHECK: nv_tileas.store {{.*}}atom = #nv_tileas.copy_atom<stg, bits=32, dim=0>{{.*}}not_wide = "the pointers are not known to be aligned to 16 bytes"
  entry @pointers(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %i = iota : tile<1024xi32>
    %a1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %as = broadcast %a1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %ap = offset %as, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qs = broadcast %q1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %qp = offset %qs, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %x, %t = load_ptr_tko weak %ap : tile<1024xptr<f32>> -> tile<1024xf32>, token
    %u = store_ptr_tko weak %qp, %x : tile<1024xptr<f32>>, tile<1024xf32> -> token
    return
  }

  // The size is of run time: where the tile lies inside, and the base is aligned, all elements are loaded 16 bytes at a
  // time, without a mask.
  // CHECK-LABEL: nv_tileaa.func @view
  // CHECK: nv_tileaa.make_memref {{.*}}offset_bits = 33
  // CHECK: %[[END:.*]] = arith.addi
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ule, %[[END]]
  // CHECK: nv_tileaa.ptr_to_int
  // CHECK: %[[LOW:.*]] = arith.andi
  // CHECK: %[[ALIGNED:.*]] = arith.cmpi eq, %[[LOW]]
  // CHECK: %[[BOTH:.*]] = arith.andi %[[INSIDE]], %[[ALIGNED]] : i1
  // CHECK: scf.if %[[BOTH]]
  // CHECK-NEXT: nv_tileas.tiled_load {{.*}}atom = #nv_tileas.copy_atom<ldg, bits=128, dim=0>{{.*}}masked = array<i64>
  // CHECK: } else {
  // CHECK-NEXT: nv_tileas.tiled_load {{.*}}atom = #nv_tileas.copy_atom<ldg, bits=32, dim=0>{{.*}}masked = array<i64: 0>{{.*}}not_wide = "the base is not known to be aligned to 16 bytes"
  // CHECK: checks_access
  // CHECK: nv_tileas.tiled_atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<red, bits=32, dim=0>
  // PLAIN-LABEL: nv_tileaa.func @view
  // PLAIN-NOT: scf.if
  // PLAIN: nv_tileas.tiled_load {{.*}}atom = #nv_tileas.copy_atom<ldg, bits=32, dim=0>{{.*}}masked = array<i64: 0>
  entry @view(%p: tile<ptr<f32>>, %n: tile<i32>, %i: tile<i32>) {
    %m = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %v = make_partition_view %m : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %t = load_view_tko weak %v[%i] : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
    %u = atomic_red_view_tko relaxed device %v[%i], addf, %x : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // Of rows that numbers choose those that are there are stored 16 bytes at a time, where columns are inside.
  // CHECK-LABEL: nv_tileaa.func @rows
  // CHECK: %[[END:.*]] = arith.addi
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ule, %[[END]]
  // CHECK: scf.if %[[INSIDE]]
  // CHECK-NEXT: nv_tileas.tiled_store {{.*}}atom = #nv_tileas.copy_atom<stg, bits=128, dim=1>{{.*}}masked = array<i64: 0>
  // CHECK: } else {
  // CHECK-NEXT: nv_tileas.tiled_store {{.*}}atom = #nv_tileas.copy_atom<stg, bits=32, dim=1>{{.*}}masked = array<i64: 0, 1>
  entry @rows(%p0: tile<ptr<f32>>, %n0: tile<i32>, %i0: tile<i32>) {
    %ids = iota : tile<8xi32>
    %p = assume div_by<16>, %p0 : tile<ptr<f32>>
    %n = assume bounded<0, 65536>, %n0 : tile<i32>
    %i = assume div_by<64>, %i0 : tile<i32>
    %x = constant <f32: 1.0> : tile<8x64xf32>
    %m = make_tensor_view %p, shape = [%n, %n], strides = [64, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[64,1]>
    %v = make_gather_scatter_view %m : gather_scatter_view<tile=(8x64), tensor_view<?x?xf32, strides=[64,1]>, sparse_dim=0>
    %u = store_view_tko weak %x, %v[%ids, %i] : tile<8x64xf32>, gather_scatter_view<tile=(8x64), tensor_view<?x?xf32, strides=[64,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> token
    return
  }
}
