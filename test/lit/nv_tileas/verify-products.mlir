// Products say which instruction computes them, and their operands are in the fragments that it reads.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!a = tensor<16x16xf16, #nv_tileas.layout<register=[[0,1],[8,0],[0,8]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x16>>
!b = tensor<16x8xf16, #nv_tileas.layout<register=[[1,0],[8,0]], lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], warp=[] : 16x8>>
!c = tensor<16x8xf32, #nv_tileas.layout<register=[[0,1],[8,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x8>>
!c2 = tensor<16x8xf32, #nv_tileas.layout<register=[[0,1],[8,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[[0,0]] : 16x8>>
!other = tensor<16x8xf32, #nv_tileas.layout<register=[[8,0],[0,1]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x8>>
!qa = tensor<16x16xf8E4M3FN, #nv_tileas.layout<register=[[0,1],[8,0],[0,8]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x16>>
!qb = tensor<16x8xf8E4M3FN, #nv_tileas.layout<register=[[1,0],[8,0]], lane=[[2,0],[4,0],[0,1],[0,2],[0,4]], warp=[] : 16x8>>
!sa = tensor<16x1xf8E8M0FNU, #nv_tileas.layout<register=[[8,0]], lane=[[0,0],[0,0],[1,0],[2,0],[4,0]], warp=[] : 16x1>>
!sb = tensor<1x8xf8E8M0FNU, #nv_tileas.layout<register=[[0,1]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x8>>
!sb_rows = tensor<1x8xf8E8M0FNU, #nv_tileas.layout<register=[[0,4]], lane=[[0,1],[0,2],[0,0],[0,0],[0,0]], warp=[] : 1x8>>
#f16 = #nv_tileas.mma_atom<mma_sync, 16x8x16, f16, f16, f32>
#bf16 = #nv_tileas.mma_atom<mma_sync, 16x8x16, bf16, bf16, f32>
#e4m3 = #nv_tileas.mma_atom<mma_sync, 16x8x32, e4m3, e4m3, f32>
#fma = #nv_tileas.mma_atom<fma, 1x1x1, f32, f32, f32>
#fma_f16 = #nv_tileas.mma_atom<fma, 1x1x1, f16, f16, f32>

module attributes {nv_tileaa.target_spec = #nv_tileaa.target_spec<compute_capability=sm_80>} {
nv_tileaa.func @atoms(%a: !a, %b: !b, %c: !c, %qa: !qa, %qb: !qb) {
  %good = nv_tileas.dot %a, %b, %c {atom = #f16, warps = array<i64: 1, 1, 1>} : !a, !b, !c -> !c
  %wide = nv_tileas.dot %qa, %qb, %c {atom = #f16, warps = array<i64: 1, 1, 1>} : !qa, !qb, !c -> !c
  %each = nv_tileas.dot %a, %b, %c {atom = #fma} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op requires attribute 'atom'}}
  %none = nv_tileas.dot %a, %b, %c : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects an atom that multiplies f16 and f16 into f32, but got #nv_tileas.mma_atom<mma_sync, 16x8x16, bf16, bf16, f32>}}
  %types = nv_tileas.dot %a, %b, %c {atom = #bf16, warps = array<i64: 1, 1, 1>} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects an atom that multiplies f16 and f16 into f32, but got #nv_tileas.mma_atom<fma, 1x1x1, f16, f16, f32>}}
  %fma = nv_tileas.dot %a, %b, %c {atom = #fma_f16} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects an atom of sm_80, but got #nv_tileas.mma_atom<mma_sync, 16x8x32, e4m3, e4m3, f32>}}
  %newer = nv_tileas.dot %qa, %qb, %c {atom = #e4m3, warps = array<i64: 1, 1, 1>} : !qa, !qb, !c -> !c
  nv_tileaa.return
}

nv_tileaa.func @fragments(%a: !a, %b: !b, %c: !c, %c2: !c2, %other: !other, %plain: tile<16x16xf16>) {
  // expected-error @+1 {{'nv_tileas.dot' op expects 'warps', the numbers of warps along batches, rows and columns}}
  %none = nv_tileas.dot %a, %b, %c {atom = #f16} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects three powers of two as 'warps', but got [1, 3, 1]}}
  %three = nv_tileas.dot %a, %b, %c {atom = #f16, warps = array<i64: 1, 3, 1>} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects as many warps as #A has, which are 1, but 'warps' are 2}}
  %more = nv_tileas.dot %a, %b, %c {atom = #f16, warps = array<i64: 1, 2, 1>} : !a, !b, !c -> !c
  // expected-error @+1 {{'nv_tileas.dot' op expects the result to have the layout of #C}}
  %moved = nv_tileas.dot %a, %b, %c {atom = #f16, warps = array<i64: 1, 1, 1>} : !a, !b, !c -> !other
  // expected-error @+1 {{'nv_tileas.dot' op expects #C in the layout register=[[0,1],[8,0]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x8, but got #nv_tileas.layout<register=[[8,0],[0,1]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], warp=[] : 16x8>}}
  %layout = nv_tileas.dot %a, %b, %other {atom = #f16, warps = array<i64: 1, 1, 1>} : !a, !b, !other -> !other
  // expected-error @+1 {{'nv_tileas.dot' op expects as many warps as #C has, which are 2, but 'warps' are 1}}
  %wider = nv_tileas.dot %a, %b, %c2 {atom = #f16, warps = array<i64: 1, 1, 1>} : !a, !b, !c2 -> !c2
  // expected-error @+1 {{'nv_tileas.dot' op expects #A to have a layout}}
  %no = nv_tileas.dot %plain, %b, %c {atom = #f16, warps = array<i64: 1, 1, 1>} : tile<16x16xf16>, !b, !c -> !c
  nv_tileaa.return
}

nv_tileaa.func @scaled(%a: !qa, %b: !qb, %c: !c, %sa: !sa, %sb: !sb, %rows: !sb_rows) {
  %good = nv_tileas.scaled_dot %a, %b, %c, %sa, %sb {atom = #f16, warps = array<i64: 1, 1, 1>}
    : !qa, !qb, !c, !sa, !sb -> !c
  // expected-error @+1 {{'nv_tileas.scaled_dot' op requires attribute 'atom'}}
  %none = nv_tileas.scaled_dot %a, %b, %c, %sa, %sb : !qa, !qb, !c, !sa, !sb -> !c
  // expected-error @+1 {{'nv_tileas.scaled_dot' op expects an atom of kind mma_sync or mma_block_scale or tcgen05, but got #nv_tileas.mma_atom<fma, 1x1x1, f32, f32, f32>}}
  %fma = nv_tileas.scaled_dot %a, %b, %c, %sa, %sb {atom = #fma} : !qa, !qb, !c, !sa, !sb -> !c
  // expected-error @+1 {{'nv_tileas.scaled_dot' op expects SFB in the layout register=[[0,1]], lane=[[0,2],[0,4],[0,0],[0,0],[0,0]], warp=[] : 1x8, but got #nv_tileas.layout<register=[[0,4]], lane=[[0,1],[0,2],[0,0],[0,0],[0,0]], warp=[] : 1x8>}}
  %factors = nv_tileas.scaled_dot %a, %b, %c, %sa, %rows {atom = #f16, warps = array<i64: 1, 1, 1>}
    : !qa, !qb, !c, !sa, !sb_rows -> !c
  nv_tileaa.return
}
}
