// Accesses through views are at most relaxed in nv_tileas; what acquires or releases is a fence beside them, at which
// the block meets, so that no further barrier is needed. The addition of an atomic has one name.
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-insert-barriers %s | FileCheck %s
// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-insert-barriers %s | cuda-tile-opt - | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cuda_tile.module @m {
  // CHECK-LABEL: nv_tileaa.func @flag
  entry @flag(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %x = constant <i32: 1> : tile<32xi32>
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>
    // CHECK: %[[L:.*]]:2 = nv_tileas.tiled_load {{.*}}mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>
    // CHECK-NEXT: %[[A:.*]] = nv_tileas.fence %[[L]]#1 {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<acquire>}
    // CHECK-NOT: nv_tileas.barrier
    // CHECK: %[[R:.*]] = nv_tileas.fence %[[A]] {mem_scope = #nv_tileaa.mem_scope<sys>, mem_semantic = #nv_tileaa.mem_semantic<release>}
    // CHECK-NEXT: nv_tileas.tiled_store %{{.*}}, %[[R]] {{.*}}mem_scope = #nv_tileaa.mem_scope<sys>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>
    %y, %t = load_view_tko acquire device %w[%zero] : partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<32xi32>, token
    %u = store_view_tko release sys %y, %w[%zero] token = %t : tile<32xi32>, partition_view<tile=(32), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }
}
