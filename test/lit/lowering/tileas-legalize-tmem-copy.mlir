// Copies across tensor memory become tcgen05.ld and .st, with ldmatrix or stmatrix on the way to shared memory; those of
// scale factors, where they lie in pieces of 512 bytes, tcgen05.cp.
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

!pieces = !nv_tileas.buffer<128x4xf8E8M0FNU, shared, #nv_tileas.layout<offset=[[0,1],[0,2],[32,0],[64,0],[1,0],[2,0],[4,0],[8,0],[16,0]] : 128x4>>
!columns = !nv_tileas.buffer<128x4xf8E8M0FNU, tmem, #nv_tileas.layout<packed=[[0,1],[0,2]], row=[[1,0],[2,0],[4,0],[8,0],[16,0],[0,0],[0,0]], column=[[32,0],[64,0]] : 128x4>>

// CHECK-LABEL: nv_tileaa.func @factors
nv_tileaa.func @factors(%s: !pieces, %t: !columns) {
  // CHECK: nv_tileas.copy %{{.*}}, %{{.*}} {atom = #nv_tileas.copy_atom<tcgen05_cp, bits=128>}
  nv_tileas.copy %s, %t : !pieces, !columns
  nv_tileaa.return
}
