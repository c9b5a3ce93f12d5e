// TMA descriptors: alignment, box, strides, mode, padding, shared layout.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!memref, [8, 4]>
#load = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4]>

nv_tileaa.func @tma_descriptor_pointer_have_alignment_at_least(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op expected tma descriptor pointer to have alignment at least 128}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #load, descriptor_alignment = 64} : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load, descriptor_alignment = 128} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @tma_boxdims_0_elemtypebitwidth_not_multiple_16(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op tma boxDims[0] * elemTypeBitWidth is not a multiple of 16 bytes}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[2,4]>}
    : !memref -> !nv_tileas.tma_desc<!memref, [2, 4]>
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @tmaboxdim_atomboxdim_length_mismatch(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op tmaBoxDim and atomBoxDim length mismatch}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8]>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @tmaboxdim_atomboxdim_mismatch(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op tmaBoxDim and atomBoxDim mismatch}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,8]>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @only_support_element_stride_1_tma_desc(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op only support element_stride = 1 tma desc}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #load, element_strides = array<i64: 1, 2>} : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load, element_strides = array<i64: 1, 1>} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @unsupported_tma_load_mode_scatter4(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op unsupported tma load mode 'scatter4'}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr
    {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4], mode=scatter4>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr
    {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4], mode=gather4>}
    : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @padding_value_not_supported_tma_load_non(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op padding value is not supported for TMA load with non-zero padding value}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #load, padding_value = #nv_tileaa.padding_value<nan>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load, padding_value = #nv_tileaa.padding_value<zero>}
    : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @invalid_tma_atom_type(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op invalid TMA atom type}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr {atom = #nv_tileas.copy_atom<ldgsts, bits=1024, box=[8,4]>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr {atom = #load} : !memref -> !desc
  nv_tileaa.return
}

nv_tileaa.func @smem_layout_not_tma_compatible(%mr: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op smem layout is not TMA compatible}}
  %d_bad = nv_tileas.make_tiled_tma_desc %mr
    {atom = #load, layout = #nv_tileas.layout<offset=[[0,2],[0,1],[0,4],[1,0],[2,0]] : 4x8>}
    : !memref -> !desc
  %d_good = nv_tileas.make_tiled_tma_desc %mr
    {atom = #load, layout = #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[1,0],[2,0]] : 4x8>}
    : !memref -> !desc
  nv_tileaa.return
}

// -- what the tensor map is made from: sizes and strides as far as they are known

nv_tileaa.func @descriptor_of_another_memref(%m: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op Failed to construct the TMA tensor type}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #load}
    : !memref -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xi32, 1>, [8, 4]>
  %good = nv_tileas.make_tiled_tma_desc %m {atom = #load} : !memref -> !desc
  nv_tileaa.return
}

// No tensor map has elements of one bit; as bytes they can be copied.
nv_tileaa.func @element_type(%m: !nv_tileaa.memref<?x?xi1, 1>) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op Failed to construct the TMA tensor type}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[128,4]>}
    : !nv_tileaa.memref<?x?xi1, 1> -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xi1, 1>, [128, 4]>
  %good = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[128,4]>, tma_internal_type = i8}
    : !nv_tileaa.memref<?x?xi1, 1> -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xi1, 1>, [128, 4]>
  nv_tileaa.return
}

// Neither dimension's elements lie next to each other.
nv_tileaa.func @no_contiguous_dimension(%m: !nv_tileaa.memref<?x?xf32, strides=[64,4], 1>,
    %n: !nv_tileaa.memref<?x?xf32, strides=[64,1], 1>) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op failed to compute the TMA G-basis, got strides [64, 4]}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #load}
    : !nv_tileaa.memref<?x?xf32, strides=[64,4], 1>
    -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, strides=[64,4], 1>, [8, 4]>
  %good = nv_tileas.make_tiled_tma_desc %n {atom = #load}
    : !nv_tileaa.memref<?x?xf32, strides=[64,1], 1>
    -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, strides=[64,1], 1>, [8, 4]>
  nv_tileaa.return
}

// Rows begin at multiples of 12 bytes, where tensor maps have multiples of 16.
nv_tileaa.func @stride(%m: !nv_tileaa.memref<?x3xf32, strides=[3,1], 1>,
    %n: !nv_tileaa.memref<?x3xf32, strides=[4,1], 1>) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op Computed TMA layout is invalid, got !nv_tileaa.memref<?x3xf32, strides=[3,1], 1> in boxes of [8, 4]}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #load}
    : !nv_tileaa.memref<?x3xf32, strides=[3,1], 1>
    -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x3xf32, strides=[3,1], 1>, [8, 4]>
  %good = nv_tileas.make_tiled_tma_desc %n {atom = #load}
    : !nv_tileaa.memref<?x3xf32, strides=[4,1], 1>
    -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x3xf32, strides=[4,1], 1>, [8, 4]>
  nv_tileaa.return
}

nv_tileaa.func @box_of_more_than_256(%m: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op Computed TMA layout is invalid, got !nv_tileaa.memref<?x?xf32, 1> in boxes of [8, 512]}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,512]>}
    : !memref -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 512]>
  %good = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,256]>}
    : !memref -> !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 256]>
  nv_tileaa.return
}

// Rows of 32 bytes, whose 16-byte chunks change places in every second row: no swizzle of TMA does that.
nv_tileaa.func @composed_layout(%m: !memref) {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op doesn't support composed layout for tma_load}}
  %bad = nv_tileas.make_tiled_tma_desc %m
    {atom = #load, layout = #nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[1,4],[2,0]] : 4x8>}
    : !memref -> !desc
  nv_tileaa.return
}
