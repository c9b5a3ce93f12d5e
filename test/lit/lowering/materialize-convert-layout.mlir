// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout | cuda-tile-opt - | FileCheck %s

#lanes = #nv_tileas.layout<register=[[128]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 256>
#twice = #nv_tileas.layout<register=[[128],[0]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 256>
#turned = #nv_tileas.layout<register=[[128]], lane=[[2],[1],[4],[8],[16]], warp=[[32],[64]] : 256>
#warps = #nv_tileas.layout<register=[[128]], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 256>
#long = #nv_tileas.layout<register=[[1],[2],[1024],[2048],[4096],[8192]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256],[512]] : 16384>
#wide = #nv_tileas.layout<register=[[256],[512],[1024],[2048],[4096],[8192]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64],[128]] : 16384>

// What a thread holds stays with it, what a warp holds is shuffled, the rest goes through shared memory.
// CHECK-LABEL: nv_tileaa.func @ways
// CHECK:       convert_layout {{.*}}way = #nv_tileas.conversion<registers>
// CHECK:       nv_tileas.shuffle %
// CHECK:       convert_layout {{.*}}way = #nv_tileas.conversion<shared, #nv_tileas.layout<offset={{.*}} : 256>, store = #nv_tileas.copy_atom<sts, bits=64>, load = #nv_tileas.copy_atom<lds, bits=64>>
nv_tileaa.func @ways(%x: tile<256xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<256xf32, #lanes> -> tile<256xf32, #twice>
  %b = nv_tileas.convert_layout %x : tile<256xf32, #lanes> -> tile<256xf32, #turned>
  %c = nv_tileas.convert_layout %x : tile<256xf32, #lanes> -> tile<256xf32, #warps>
  nv_tileaa.return
}

// 64 KiB go in two pieces of 8192 elements, so that an exchange takes no more than 32 KiB.
// CHECK-LABEL: nv_tileaa.func @pieces
// CHECK:       convert_layout {{.*}}way = #nv_tileas.conversion<shared, pieces = 2, #nv_tileas.layout<offset={{.*}} : 8192>, store = #nv_tileas.copy_atom<sts, bits=128>, load = #nv_tileas.copy_atom<lds, bits=128>>
nv_tileaa.func @pieces(%x: tile<16384xf32, #long>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=8, num_ctas=1, target=sm_80>} {
  %a = nv_tileas.convert_layout %x : tile<16384xf32, #long> -> tile<16384xf32, #wide>
  nv_tileaa.return
}
