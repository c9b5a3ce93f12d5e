// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-remove-layout-conversions | FileCheck %s

cuda_tile.module @m {
  // Two equal conversions are one, and what nobody uses is gone.
  // CHECK-LABEL: nv_tileaa.func @twice
  // CHECK-NOT:   nv_tileaa.mulf
  // CHECK:       nv_tileas.convert_layout
  // CHECK-NOT:   nv_tileas.convert_layout
  // CHECK:       nv_tileaa.return
  entry @twice(%src: tile<ptr<f32>>, %dst: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %s = make_tensor_view %src, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %d = make_tensor_view %dst, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %sv = make_partition_view %s : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %dv = make_partition_view %d : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %t = load_view_tko weak %sv[%zero, %zero] : partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<32x32xf32>, token
    %y = permute %x [1, 0] : tile<32x32xf32> -> tile<32x32xf32>
    %z = mulf %y, %y : tile<32x32xf32>
    %u = store_view_tko weak %y, %dv[%zero, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    %w = store_view_tko weak %y, %dv[%zero, %one] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
