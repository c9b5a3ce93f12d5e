// Copies across tensor memory become tcgen05.ld and .st, with ldmatrix or stmatrix on the way to shared memory.
// RUN: cuda-tile-opt --tileas-legalize-tmem-copy %s | FileCheck %s
// RUN: cuda-tile-opt --tileas-legalize-tmem-copy --tileas-legalize-tmem-copy %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!tmem = !nv_tileas.buffer<128x32xf32, tmem>
!shared = !nv_tileas.buffer<128x32xf32, shared>

// CHECK-LABEL: nv_tileaa.func @copies
nv_tileaa.func @copies(%t: !tmem, %s: !shared, %v: tile<128x32xf32>) {
  // CHECK: nv_tileas.copy %{{.*}} {atom = #nv_tileas.copy_atom<tcgen05_ld, bits=32>}
  %r = nv_tileas.copy %t : !tmem -> tile<128x32xf32>
  // CHECK: nv_tileas.copy %{{.*}}, %{{.*}} {atom = #nv_tileas.copy_atom<tcgen05_st, bits=32>}
  nv_tileas.copy %v, %t : tile<128x32xf32>, !tmem
  // CHECK: %[[R:.*]] = nv_tileas.copy %{{.*}} {atom = #nv_tileas.copy_atom<tcgen05_ld>}
  // CHECK: nv_tileas.copy %[[R]], %{{.*}} {atom = #nv_tileas.copy_atom<stmatrix>}
  nv_tileas.copy %t, %s : !tmem, !shared
  // CHECK: %[[Q:.*]] = nv_tileas.copy %{{.*}} {atom = #nv_tileas.copy_atom<ldmatrix>}
  // CHECK: nv_tileas.copy %[[Q]], %{{.*}} {atom = #nv_tileas.copy_atom<tcgen05_st>}
  nv_tileas.copy %s, %t : !shared, !tmem
  // CHECK: nv_tileas.copy %{{.*}}, %{{.*}} : tile<128x32xf32>
  nv_tileas.copy %v, %s : tile<128x32xf32>, !shared
  nv_tileaa.return
}
