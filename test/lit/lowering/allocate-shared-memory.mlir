// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout --tileas-allocate-shared-memory | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout --tileas-allocate-shared-memory | cuda-tile-opt - | FileCheck %s

#lanes = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#warps = #nv_tileas.layout<register=[], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 128>
#many = #nv_tileas.layout<register=[[1],[2],[4],[8]], lane=[[16],[32],[64],[128],[256]], warp=[[512],[1024]] : 2048>
#mixed = #nv_tileas.layout<register=[[128],[256],[512],[1024]], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 2048>
#ring = #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>

// Exchanges that follow each other take turns between two places.
// CHECK-LABEL: nv_tileaa.func @in_turn
// CHECK-SAME:  shared_alignment = 128
// CHECK-SAME:  shared_bytes = 1024
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[0 : 512]>
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[512 : 512]>
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[0 : 512]>
nv_tileaa.func @in_turn(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %b = nv_tileas.convert_layout %a : tile<128xf32, #warps> -> tile<128xf32, #lanes>
  %c = nv_tileas.convert_layout %b : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// Places that the module gives stay where they hold what is exchanged, in whatever room; others are chosen anew.
// CHECK-LABEL: nv_tileaa.func @given
// CHECK-SAME:  shared_bytes = 2560
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[2048 : 512]>
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[0 : 512]>
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[512 : 512]>
nv_tileaa.func @given(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x {exchanges = #nv_tileas.exchanges<[2048 : 512]>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %b = nv_tileas.convert_layout %a {exchanges = #nv_tileas.exchanges<[4096 : 256]>} : tile<128xf32, #warps> -> tile<128xf32, #lanes>
  %c = nv_tileas.convert_layout %b {exchanges = #nv_tileas.exchanges<[1001 : 512]>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  nv_tileaa.return
}

// A stage of a pipeline that lives is no place for them.
// CHECK-LABEL: nv_tileaa.func @given_where_others_are
// CHECK:       create_pipeline {shared_offset = 0}
// CHECK:       convert_layout {{.*}}exchanges = #nv_tileas.exchanges<[1024 : 512]>
nv_tileaa.func @given_where_others_are(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %p = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  %a = nv_tileas.convert_layout %x {exchanges = #nv_tileas.exchanges<[512 : 512]>} : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>>
  nv_tileaa.return
}

// Large ones share one place.
// CHECK-LABEL: nv_tileaa.func @large
// CHECK-SAME:  shared_bytes = 8192
// CHECK:       convert_layout {{.*}}exchanges<[0 : 8192]
// CHECK:       convert_layout {{.*}}exchanges<[0 : 8192]
nv_tileaa.func @large(%x: tile<2048xf32, #many>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<2048xf32, #many> -> tile<2048xf32, #mixed>
  %b = nv_tileas.convert_layout %a : tile<2048xf32, #mixed> -> tile<2048xf32, #many>
  nv_tileaa.return
}

// Pipelines that live one after the other share their place; what is exchanged while the first lives lies behind it,
// and later where it was. 1024 bytes of alignment hold for each buffer, and for the whole.
// CHECK-LABEL: nv_tileaa.func @rings
// CHECK-SAME:  shared_alignment = 1024
// CHECK-SAME:  shared_bytes = 3072
// CHECK:       convert_layout {{.*}}exchanges<[2048 : 512]
// CHECK:       create_pipeline {alignment = 1024, shared_offset = 0}
// CHECK:       convert_layout {{.*}}exchanges<[2560 : 512]
// CHECK:       create_iterator
// CHECK:       convert_layout {{.*}}exchanges<[0 : 512]
// CHECK:       create_pipeline {shared_offset = 0}
nv_tileaa.func @rings(%x: tile<128xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %before = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %p = nv_tileas.async.pipeline.create_pipeline {alignment = 1024 : i64} : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  %within = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>>
  %behind = nv_tileas.convert_layout %x : tile<128xf32, #lanes> -> tile<128xf32, #warps>
  %q = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>
  %j = nv_tileas.async.pipeline.create_iterator %q : !nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)> -> !nv_tileas.pipeline_iterator<!nv_tileas.pipeline<2, (!nv_tileas.buffer<128xf32, shared, #ring>)>>
  nv_tileaa.return
}
