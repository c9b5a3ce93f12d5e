// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-pipeline-loops | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-pipeline-loops="num-stages=2" | FileCheck %s --check-prefix=TWO

cuda_tile.module @m {
  // Both operands of the product depend on the counter alone.
  // CHECK-LABEL: nv_tileaa.func @product
  // CHECK:       nv_tileas.tiled_load {{.*}}async_copy
  // CHECK:       nv_tileas.tiled_load {{.*}}async_copy
  // CHECK:       nv_tileas.dot
  // CHECK:       num_stages = 4
  // TWO:         num_stages = 2
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<64x64xf32>
    %ta = make_tensor_view %pa, shape = [64, 512], strides = [512, 1] : tensor_view<64x512xf16, strides=[512,1]>
    %tb = make_tensor_view %pb, shape = [512, 64], strides = [64, 1] : tensor_view<512x64xf16, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x32), tensor_view<64x512xf16, strides=[512,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x64), tensor_view<512x64xf16, strides=[64,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<64x64xf32>) {
      %a, %t0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(64x32), tensor_view<64x512xf16, strides=[512,1]>>, tile<i32> -> tile<64x32xf16>, token
      %b, %t1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(32x64), tensor_view<512x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %d = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    print_tko "%f", %r : tile<64x64xf32> -> token
    return
  }

  // A sum is no product: its loads stay.
  // CHECK-LABEL: nv_tileaa.func @sum
  // CHECK-NOT:   async_copy
  // CHECK-NOT:   num_stages
  // CHECK:       nv_tileaa.return
  entry @sum(%pa: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<32x32xf32>
    %ta = make_tensor_view %pa, shape = [32, 512], strides = [512, 1] : tensor_view<32x512xf32, strides=[512,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x32), tensor_view<32x512xf32, strides=[512,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<32x32xf32>) {
      %a, %t0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(32x32), tensor_view<32x512xf32, strides=[512,1]>>, tile<i32> -> tile<32x32xf32>, token
      %d = addf %a, %c : tile<32x32xf32>
      continue %d : tile<32x32xf32>
    }
    print_tko "%f", %r : tile<32x32xf32> -> token
    return
  }
}
