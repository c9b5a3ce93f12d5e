// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout | FileCheck %s
// RUN: cuda-tile-opt %s --tileas-materialize-convert-layout | cuda-tile-opt - | FileCheck %s

#lanes = #nv_tileas.layout<register=[[128]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 256>
#twice = #nv_tileas.layout<register=[[128],[0]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 256>
#turned = #nv_tileas.layout<register=[[128]], lane=[[2],[1],[4],[8],[16]], warp=[[32],[64]] : 256>
#warps = #nv_tileas.layout<register=[[128]], lane=[[4],[8],[16],[32],[64]], warp=[[1],[2]] : 256>
#long = #nv_tileas.layout<register=[[1],[2],[1024],[2048],[4096],[8192]], lane=[[4],[8],[16],[32],[64]], warp=[[128],[256],[512]] : 16384>
#wide = #nv_tileas.layout<register=[[256],[512],[1024],[2048],[4096],[8192]], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64],[128]] : 16384>

#rows = #nv_tileas.layout<register=[[0,1],[0,2],[0,64],[0,128],[8,0],[16,0],[32,0]], lane=[[0,4],[0,8],[0,16],[0,32],[1,0]], warp=[[2,0],[4,0]] : 64x256>
#columns = #nv_tileas.layout<register=[[1,0],[2,0],[64,0],[128,0],[0,8],[0,16],[0,32]], lane=[[4,0],[8,0],[16,0],[32,0],[0,1]], warp=[[0,2],[0,4]] : 256x64>
#sums = #nv_tileas.layout<register=[[0,1],[0,2],[8,0],[16,0],[32,0]], lane=[[0,4],[0,8],[0,16],[0,32],[1,0]], warp=[[2,0],[4,0]] : 64x64>

// What a thread holds stays with it, what a warp holds is shuffled, the rest goes through shared memory.
// CHECK-LABEL: nv_tileaa.func @ways
// CHECK:       nv_tileas.reinterpret %arg0 : {{.*}} -> tile<256xf32, #nv_tileas.layout<register={{\[\[}}128],[0]]
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

#half = #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[64]] : 128>
#apart = #nv_tileas.layout<register=[[1]], lane=[[2],[4],[8],[16],[32]], warp=[[64],[0]] : 128>

// Parts that registers tell apart are slices of them, others go through shared memory; two tiles side by side have one
// layout, in which the second is in further registers. Nothing moves where bits are seen as other numbers.
// CHECK-LABEL: nv_tileaa.func @parts
// CHECK:       nv_tileas.extract_slice %arg0 {offsets = array<i64: 128>, ways = [#nv_tileas.conversion<registers>]} : {{.*}} : 256>> -> tile<128xf32, #nv_tileas.layout<register=[], lane={{.*}} : 128>>
// CHECK-NEXT:  nv_tileas.convert_layout
// CHECK:       nv_tileas.extract_slice %arg0 {offsets = array<i64: 64>, ways = [#nv_tileas.conversion<shared, #nv_tileas.layout<offset={{.*}} : 256>, store = #nv_tileas.copy_atom<sts, bits=32>, load = #nv_tileas.copy_atom<lds, bits=32>>]}
// CHECK:       %[[CAT:.*]] = nv_tileaa.cat %{{.*}}, %{{.*}} {dim = 0} : {{.*}} -> tile<256xf32, #nv_tileas.layout<register={{\[\[}}1],[128]]
// CHECK-NEXT:  nv_tileas.convert_layout %[[CAT]] {way
// CHECK:       nv_tileas.reinterpret %arg0 : tile<256xf32, {{.*}}> -> tile<256xi32,
nv_tileaa.func @parts(%x: tile<256xf32, #lanes>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %1 = arith.constant 1 : i32
  %a = nv_tileaa.extract %x[%1] : tile<256xf32, #lanes>, i32 -> tile<128xf32, #apart>
  %b = nv_tileaa.extract %x[%1] : tile<256xf32, #lanes>, i32 -> tile<64xf32, #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[16]], warp=[[32],[0]] : 64>>
  %c = nv_tileaa.cat %a, %a {dim = 0 : i64} : tile<128xf32, #apart>, tile<128xf32, #apart> -> tile<256xf32, #lanes>
  %d = nv_tileaa.bitcast %x : tile<256xf32, #lanes> -> tile<256xi32, #lanes>
  nv_tileaa.return
}

// Operands of single products that find no room in shared memory are cut along K.
// CHECK-LABEL: nv_tileaa.func @slices
// CHECK-COUNT-4: nv_tileas.dot {{.*}}steps_at_once = 4, {{.*}}ways = [
nv_tileaa.func @slices(%x: tile<64x256xf32, #rows>, %y: tile<256x64xf32, #columns>, %z: tile<64x64xf32, #sums>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>} {
  %d = nv_tileas.dot %x, %y, %z {atom = #nv_tileas.mma_atom<fma, 1x1x1, f32, f32, f32>} : tile<64x256xf32, #rows>, tile<256x64xf32, #columns>, tile<64x64xf32, #sums> -> tile<64x64xf32, #sums>
  nv_tileaa.return
}
