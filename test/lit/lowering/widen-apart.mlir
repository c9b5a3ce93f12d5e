// RUN: cuda-tile-opt --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-widen-apart %s | FileCheck %s

// What two branches widen is widened in each of them; what one block widens stays as it is.

// CHECK-LABEL: @kernel
// CHECK: scf.if
// CHECK-NEXT: nv_tileaa.fp_to_fp {{.*}} {apart,
// CHECK: scf.if
// CHECK-NEXT: nv_tileaa.fp_to_fp {{.*}} {apart,
// CHECK-LABEL: @once
// CHECK: nv_tileaa.fp_to_fp
// CHECK-NOT: apart
cuda_tile.module @m {
  entry @kernel(%p: tile<ptr<f16>>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<256xf32>
    %tensor = make_tensor_view %p, shape = [256], strides = [1] : tensor_view<256xf16, strides=[1]>
    %view = make_partition_view %tensor : partition_view<tile=(256), tensor_view<256xf16, strides=[1]>>
    %x, %t = load_view_tko weak %view[%zero] : partition_view<tile=(256), tensor_view<256xf16, strides=[1]>>, tile<i32> -> tile<256xf16>, token
    %a = if %c -> (tile<256xf32>) {
      %w = ftof %x : tile<256xf16> -> tile<256xf32>
      yield %w : tile<256xf32>
    } else {
      yield %zeros : tile<256xf32>
    }
    %b = if %c -> (tile<256xf32>) {
      %w = ftof %x : tile<256xf16> -> tile<256xf32>
      %s = addf %w, %a : tile<256xf32>
      yield %s : tile<256xf32>
    } else {
      yield %a : tile<256xf32>
    }
    print_tko "%f", %b : tile<256xf32> -> token
    return
  }
  entry @once(%p: tile<ptr<f16>>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %tensor = make_tensor_view %p, shape = [256], strides = [1] : tensor_view<256xf16, strides=[1]>
    %view = make_partition_view %tensor : partition_view<tile=(256), tensor_view<256xf16, strides=[1]>>
    %x, %t = load_view_tko weak %view[%zero] : partition_view<tile=(256), tensor_view<256xf16, strides=[1]>>, tile<i32> -> tile<256xf16>, token
    %w = ftof %x : tile<256xf16> -> tile<256xf32>
    print_tko "%f", %w : tile<256xf32> -> token
    return
  }
}
