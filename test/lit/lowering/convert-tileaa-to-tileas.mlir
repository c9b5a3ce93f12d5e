// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas | cuda-tile-opt | FileCheck %s

cuda_tile.module @m {
  // Aligned pointers in a row: each thread takes 16 bytes, and offsets are computed where they are used.
  // CHECK-LABEL: nv_tileaa.func @wide
  // CHECK:       make_range : tile<1024xi32, #nv_tileas.layout<register={{\[\[1\],\[2\],\[512\]\]}}, lane={{\[\[4\],\[8\],\[16\],\[32\],\[64\]\]}}, warp={{\[\[128\],\[256\]\]}} : 1024>>
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.load
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.store
  entry @wide(%src: tile<ptr<f32>>) {
    %a = assume div_by<16>, %src : tile<ptr<f32>>
    %i = iota : tile<1024xi32>
    %p1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p = broadcast %p1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %pi = offset %p, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %v, %t = load_ptr_tko weak %pi : tile<1024xptr<f32>> -> tile<1024xf32>, token
    %w = addf %v, %v : tile<1024xf32>
    %u = store_ptr_tko weak %pi, %w token=%t : tile<1024xptr<f32>>, tile<1024xf32> -> token
    return
  }

  // A transposed tile keeps its threads; the store, whose rows run the other way, asks for a conversion.
  // CHECK-LABEL: nv_tileaa.func @transposed
  // CHECK:       nv_tileas.tiled_load
  // CHECK:       nv_tileaa.permute
  // CHECK:       nv_tileas.convert_layout
  // CHECK:       nv_tileas.tiled_store
  entry @transposed(%src: tile<ptr<f32>>, %dst: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %s = make_tensor_view %src, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %d = make_tensor_view %dst, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %sv = make_partition_view %s : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %dv = make_partition_view %d : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %t = load_view_tko weak %sv[%zero, %zero] : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<32x32xf32>, token
    %y = permute %x [1, 0] : tile<32x32xf32> -> tile<32x32xf32>
    %u = store_view_tko weak %y, %dv[%zero, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }

  // A product says by its atom what is emitted, and beside it what the hardware executes instead, and why.
  // CHECK-LABEL: nv_tileaa.func @narrow_floats
  // CHECK:       nv_tileas.dot {{.*}}{atom = #nv_tileas.mma_atom<mma_sync, 16x8x32, e4m3, e4m3, f32>, executed = #nv_tileas.executed<tensor_cores, since = 80, 16x8x16>, not_native = "sm_90 multiplies f8E4M3FN and f8E4M3FN by wgmma, which is not generated for it: they are converted to f16 first",
  entry @narrow_floats(%a: tile<ptr<f8E4M3FN>>, %b: tile<ptr<f32>>) {
    %z = constant <i64: 0> : tile<32x32xi64>
    %n = int_to_ptr %z : tile<32x32xi64> -> tile<32x32xptr<f8E4M3FN>>
    %m = int_to_ptr %z : tile<32x32xi64> -> tile<32x32xptr<f32>>
    %x, %t = load_ptr_tko weak %n : tile<32x32xptr<f8E4M3FN>> -> tile<32x32xf8E4M3FN>, token
    %c = constant <f32: 0.0> : tile<32x32xf32>
    %p = mmaf %x, %x, %c : tile<32x32xf8E4M3FN>, tile<32x32xf8E4M3FN>, tile<32x32xf32>
    %u = store_ptr_tko weak %m, %p : tile<32x32xptr<f32>>, tile<32x32xf32> -> token
    return
  }
}

// A tile argument has a layout of its own, with the tile's shape.
// CHECK-LABEL: nv_tileaa.func @argument(
// CHECK-SAME: %[[X:.*]]: tile<4x8xf32, #nv_tileas.layout<register=[], lane={{.*}} : 4x8>>)
// CHECK: nv_tileaa.print %[[X]] {{.*}} : tile<4x8xf32, #nv_tileas.layout<
nv_tileaa.func @argument(%x: tile<4x8xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  nv_tileaa.print %x {format = "%f"} : tile<4x8xf32>
  nv_tileaa.return
}
