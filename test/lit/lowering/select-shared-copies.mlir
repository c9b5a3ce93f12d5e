// RUN: cuda-tile-opt %s --tileas-select-copies | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-select-copies | cuda-tile-opt - --tileas-select-copies | FileCheck %s

#rows = #nv_tileas.layout<register=[[0,1],[0,2],[0,4],[16,0],[32,0]], lane=[[0,8],[0,16],[0,32],[1,0],[2,0]], warp=[[4,0],[8,0]] : 64x64>
#left = #nv_tileas.layout<register=[[0,1],[8,0],[0,8],[0,16],[0,32],[32,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[0,0],[16,0]] : 64x64>
#right = #nv_tileas.layout<register=[[1,0],[8,0],[16,0],[32,0],[0,16],[0,32]], lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], warp=[[0,8],[0,0]] : 64x64>
#single = #nv_tileas.layout<register=[[8,0],[16,0],[32,0],[0,1],[0,2]], lane=[[1,0],[2,0],[4,0],[0,4],[0,8]], warp=[[0,16],[0,32]] : 64x64>
#swizzled = #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]] : 64x64>
!stage = !nv_tileas.buffer<64x64xf16, shared, #swizzled>

// Rows are copied in vectors, fragments of products as matrices, transposed where they lie the other way round.
// CHECK-LABEL: nv_tileaa.func @copies
// CHECK:       copy %{{.*}}, %{{.*}} {atom = #nv_tileas.copy_atom<sts, bits=128>}
// CHECK:       copy %{{.*}} {atom = #nv_tileas.copy_atom<ldmatrix, bits=128>}
// CHECK:       copy %{{.*}} {atom = #nv_tileas.copy_atom<ldmatrix, bits=128, mode=trans>}
// CHECK:       copy %{{.*}} {atom = #nv_tileas.copy_atom<lds, bits=64>}
nv_tileaa.func @copies(%x: tensor<64x64xf16, #rows>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %b = nv_tileas.alloc_tensor : !stage
  nv_tileas.copy %x, %b : tensor<64x64xf16, #rows>, !stage
  %l = nv_tileas.copy %b : !stage -> tensor<64x64xf16, #left>
  %r = nv_tileas.copy %b : !stage -> tensor<64x64xf16, #right>
  %s = nv_tileas.copy %b : !stage -> tensor<64x64xf16, #single>
  nv_tileaa.return
}
