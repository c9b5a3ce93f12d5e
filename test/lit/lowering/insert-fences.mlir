// What acquires or releases gets its barriers; one instruction carries the semantics, several are relaxed beside a fence.
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-select-copies --tileas-insert-fences | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-select-copies --tileas-insert-fences | cuda-tile-opt --tileas-insert-fences | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @m {
  // CHECK-LABEL: nv_tileaa.func @one
  // CHECK-NOT:  nv_tileas.fence
  // CHECK:      nv_tileas.barrier
  // CHECK-NEXT: nv_tileas.atomic_rmw {{.*}}instruction_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<acq_rel>
  // CHECK-NEXT: nv_tileas.barrier
  // CHECK-NOT:  nv_tileas.fence
  entry @one(%p: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko acq_rel device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    print_tko "%d", %old : tile<i32> -> token
    return
  }

  // CHECK-LABEL: nv_tileaa.func @several
  // CHECK:      nv_tileas.load {{.*}}instruction_semantic = #nv_tileaa.mem_semantic<relaxed>, {{.*}}mem_semantic = #nv_tileaa.mem_semantic<acquire>
  // CHECK-NEXT: nv_tileas.fence {instruction_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<acquire>}
  // CHECK-NEXT: nv_tileas.barrier
  // CHECK-NEXT: nv_tileas.fence {instruction_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #nv_tileaa.mem_scope<sys>, mem_semantic = #nv_tileaa.mem_semantic<release>}
  // CHECK-NEXT: nv_tileas.store {{.*}}instruction_semantic = #nv_tileaa.mem_semantic<relaxed>, {{.*}}mem_semantic = #nv_tileaa.mem_semantic<release>
  // CHECK-NOT:  nv_tileas.barrier
  entry @several(%p: tile<ptr<i32>>) {
    %i = iota : tile<1024xi32>
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %pb = broadcast %p1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %q = offset %pb, %i : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %x, %t = load_ptr_tko acquire device %q : tile<1024xptr<i32>> -> tile<1024xi32>, token
    %u = store_ptr_tko release sys %q, %x token=%t : tile<1024xptr<i32>>, tile<1024xi32> -> token
    return
  }

  // A fence beside an access of one instruction is merged into it.
  // CHECK-LABEL: nv_tileaa.func @merged
  // CHECK:      nv_tileas.tiled_load {{.*}}instruction_semantic = #nv_tileaa.mem_semantic<acquire>, {{.*}}mem_semantic = #nv_tileaa.mem_semantic<relaxed>
  // CHECK-NEXT: nv_tileas.barrier
  // CHECK-NOT:  nv_tileas.fence
  entry @merged(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>
    %x, %t = load_view_tko acquire device %w[%zero] : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<32xi32>, token
    %u = store_view_tko weak %x, %w[%zero] token=%t : tile<32xi32>, partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }
}
