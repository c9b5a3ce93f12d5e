// RUN: cuda-tile-opt %s --tileas-insert-shared-barriers -split-input-file -verify-diagnostics
// What is placed by hand, or by another pass, is checked.

#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>
nv_tileaa.func @no_place() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  // expected-error @below {{has no 'shared_offset', which tileas-allocate-shared-memory gives it on sm_80}}
  %p = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  nv_tileaa.return
}

// -----
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>
nv_tileaa.func @overlap() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>, shared_bytes = 4096 : i64} {
  %p = nv_tileas.async.pipeline.create_pipeline {shared_offset = 0 : i64} : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  // expected-error @below {{takes bytes 512 to 1536 of shared memory, while 'nv_tileas.async.pipeline.create_pipeline' op lives at 0 to 1024 on sm_80}}
  %q = nv_tileas.async.pipeline.create_pipeline {shared_offset = 512 : i64} : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>>
  nv_tileaa.return
}

// -----
#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>
nv_tileaa.func @exchange(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>, shared_bytes = 4096 : i64} {
  %p = nv_tileas.async.pipeline.create_pipeline {shared_offset = 0 : i64} : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  // expected-error @below {{takes bytes 768 to 1280 of shared memory, while 'nv_tileas.async.pipeline.create_pipeline' op lives at 0 to 1024 on sm_80}}
  %a = nv_tileas.convert_layout %x {exchanges = #nv_tileas.exchanges<[768 : 512]>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>>
  nv_tileaa.return
}

// -----
#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
nv_tileaa.func @beyond(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>, shared_bytes = 256 : i64} {
  // expected-error @below {{takes bytes 0 to 512 of shared memory, and the function's 'shared_bytes' are 256 on sm_80}}
  %a = nv_tileas.convert_layout %x {exchanges = #nv_tileas.exchanges<[0 : 512]>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// -----
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>
nv_tileaa.func @aligned() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>, shared_bytes = 4096 : i64} {
  // expected-error @below {{lies at 512, which is no multiple of 1024 on sm_80}}
  %p = nv_tileas.async.pipeline.create_pipeline {alignment = 1024 : i64, shared_offset = 512 : i64} : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  nv_tileaa.return
}

// -----
// expected-error @below {{takes 200000 bytes of shared memory, of which there are 166912 on sm_80}}
nv_tileaa.func @too_much() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>, shared_bytes = 200000 : i64} {
  nv_tileaa.return
}

// -----
#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
#half = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32]] : 64>
nv_tileaa.func @too_few(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  // expected-error @below {{expects 128 elements to go in pieces, but got 1 of 64}}
  %a = nv_tileas.convert_layout %x {way = #nv_tileas.conversion<shared, #half, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// -----
// What the atoms of a conversion move has to fit what threads hold.
#pairs = #nv_tileas.layout<register=[[128]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 256>
#across = #nv_tileas.layout<register=[[128]], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 256>
#all = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64],[128]] : 256>
nv_tileaa.func @atoms(%x: tile<256xf32, #pairs>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  // expected-error @below {{expects an atom of a power of two of elements of 32 bits, at most 64 bits, but got 128}}
  %a = nv_tileas.convert_layout %x {way = #nv_tileas.conversion<shared, #all, store = #nv_tileas.copy_atom<sts, bits=128>, load = #nv_tileas.copy_atom<lds, bits=32>>} : tile<256xf32, #pairs> -> tile<256xf32, #across>
  // expected-error @below {{expects an atom that is one of lds, ldmatrix, unknown_copy, but got sts}}
  %b = nv_tileas.convert_layout %x {way = #nv_tileas.conversion<shared, #all, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<sts, bits=32>>} : tile<256xf32, #pairs> -> tile<256xf32, #across>
  // expected-error @below {{expects no mode, or trans of matrices, but got trans}}
  %c = nv_tileas.convert_layout %x {way = #nv_tileas.conversion<shared, #all, store = #nv_tileas.copy_atom<sts, bits=32, mode=trans>, load = #nv_tileas.copy_atom<lds, bits=32>>} : tile<256xf32, #pairs> -> tile<256xf32, #across>
  nv_tileaa.return
}
