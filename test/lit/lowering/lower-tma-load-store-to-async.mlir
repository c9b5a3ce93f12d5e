// A load waits at a barrier object for its bytes; a store fences its buffer, and waits for its group.
// RUN: cuda-tile-opt --lower-tma-load-store-to-async %s | FileCheck %s
// RUN: cuda-tile-opt --lower-tma-load-store-to-async="delay-store-wait=true" %s | FileCheck %s --check-prefix=LATE
// RUN: env TILEIR_DELAY_TMA_STORE_WAIT=1 TILEIR_PREFER_TMA_FOR_LOAD_STORE=1 cuda-tile-opt --lower-tma-load-store-to-async %s | FileCheck %s --check-prefixes=LATE,PREFER
// RUN: cuda-tile-opt --lower-tma-load-store-to-async="prefer-tma=true" %s | FileCheck %s --check-prefix=PREFER
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>
#load = #nv_tileas.copy_atom<tma_load, box=[8,4]>
#store = #nv_tileas.copy_atom<tma_store, box=[8,4]>

// CHECK-LABEL: nv_tileaa.func @load
nv_tileaa.func @load(%v: !view, %i: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK: %[[D:.*]] = nv_tileas.make_tiled_tma_desc %{{.*}} {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
  // CHECK: %[[S:.*]] = nv_tileas.alloc_tensor {alignment = 128} : !nv_tileas.buffer<4x8xf32, shared>
  // CHECK: %[[B:.*]] = nv_tileas.create_mbarrier {arrivals = 1}
  // CHECK: nv_tileas.mbarrier_arrive %[[B]] {tx_count = 128}
  // CHECK: nv_tileas.async.tiled_tma_load %[[D]][%{{.*}}, %{{.*}}], %[[S]], %[[B]] {{.*}}tmaIdx = 0, tx_count = 128
  // CHECK: nv_tileas.mbarrier_wait %[[B]]
  // CHECK: nv_tileas.copy %[[S]] : !nv_tileas.buffer<4x8xf32, shared> -> tile<4x8xf32>
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #load} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @store
// LATE-LABEL: nv_tileaa.func @store
nv_tileaa.func @store(%v: !view, %i: index, %x: tile<4x8xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK: nv_tileas.copy %{{.*}}, %{{.*}} : tile<4x8xf32>, !nv_tileas.buffer
  // CHECK-NEXT: nv_tileas.fence_proxy {proxy = "async.shared"}
  // CHECK-NEXT: nv_tileas.barrier
  // CHECK: %[[T:.*]] = nv_tileas.async.tiled_tma_store
  // CHECK: %[[G:.*]] = nv_tileas.async.commit_group %[[T]]
  // CHECK: nv_tileas.async.wait %[[G]] {pending = 0}
  // CHECK: nv_tileas.barrier
  // LATE: nv_tileas.async.tiled_tma_store {{.*}}delay_wait
  // LATE: nv_tileas.barrier
  // LATE: nv_tileas.async.wait
  nv_tileas.tiled_store %v[%i, %i], %x {allow_tma, atom = #store} : !view, tile<4x8xf32>, index, index
  nv_tileas.barrier
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @not_asked_for
// PREFER-LABEL: nv_tileaa.func @not_asked_for
nv_tileaa.func @not_asked_for(%v: !view, %i: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK: nv_tileas.tiled_load
  // PREFER: nv_tileas.async.tiled_tma_load
  %x = nv_tileas.tiled_load %v[%i, %i] {atom = #load} : !view, index, index -> tile<4x8xf32>
  // An atom that is none of TMA's is left alone in any case.
  // CHECK: nv_tileas.tiled_load {{.*}}<ldg>
  // PREFER: nv_tileas.tiled_load {{.*}}<ldg>
  %y = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<ldg>} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// Inside of a descriptor, 8-bit floats are bytes.
// CHECK-LABEL: nv_tileaa.func @bytes
nv_tileaa.func @bytes(%v: !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf8E4M3FN, 1>, 4x16>, %i: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK: nv_tileas.make_tiled_tma_desc {{.*}}padding_value = #nv_tileaa.padding_value<zero>, tmaIdx = 0, tma_internal_type = i8
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[16,4]>, padding_value = #nv_tileaa.padding_value<zero>}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf8E4M3FN, 1>, 4x16>, index, index -> tile<4x16xf8E4M3FN>
  nv_tileaa.return
}
