// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-generate-schedule | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-generate-schedule="num-stages=2" | FileCheck %s --check-prefix=TWO

cuda_tile.module @m {
  // Both operands of the product depend on the counter alone.
  // CHECK-LABEL: nv_tileaa.func @product
  // CHECK:       nv_tileas.tiled_load {{.*}}order = 0{{.*}}stage = 0
  // CHECK:       nv_tileas.tiled_load {{.*}}order = 1{{.*}}stage = 0
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
  // CHECK-NOT:   stage = 0
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

  // Unless a hint says that they take long: 2 is two stages, 9 is six.
  // CHECK-LABEL: nv_tileaa.func @hinted
  // CHECK:       nv_tileas.tiled_load {{.*}}order = 0{{.*}}stage = 0
  // CHECK:       num_stages = 6
  entry @hinted(%pa: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<32x32xf32>
    %ta = make_tensor_view %pa, shape = [32, 512], strides = [512, 1] : tensor_view<32x512xf32, strides=[512,1]>
    %va = make_partition_view %ta : partition_view<tile=(32x32), tensor_view<32x512xf32, strides=[512,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<32x32xf32>) {
      %a, %t0 = load_view_tko weak %va[%zero, %k] optimization_hints = <sm_90 = {latency = 9}> : partition_view<tile=(32x32), tensor_view<32x512xf32, strides=[512,1]>>, tile<i32> -> tile<32x32xf32>, token
      %d = addf %a, %c : tile<32x32xf32>
      continue %d : tile<32x32xf32>
    }
    print_tko "%f", %r : tile<32x32xf32> -> token
    return
  }

  // What cannot run ahead says why.
  // CHECK-LABEL: nv_tileaa.func @reasons
  // CHECK:       nv_tileas.tiled_load {{.*}}not_pipelined = "no dimension has stride 1"
  // CHECK:       nv_tileas.tiled_load {{.*}}not_pipelined = "its address depends on what the loop computes"
  // CHECK-NOT:   num_stages
  // CHECK:       nv_tileaa.return
  entry @reasons(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<64x64xf32>
    %ta = make_tensor_view %pa, shape = [64, 512], strides = [1024, 2] : tensor_view<64x512xf16, strides=[1024,2]>
    %tb = make_tensor_view %pb, shape = [512, 64], strides = [64, 1] : tensor_view<512x64xf16, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x32), tensor_view<64x512xf16, strides=[1024,2]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x64), tensor_view<512x64xf16, strides=[64,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<64x64xf32>) {
      %j, %ti = load_ptr_tko weak %pi : tile<ptr<i32>> -> tile<i32>, token
      %a, %t0 = load_view_tko weak %va[%zero, %k] : partition_view<tile=(64x32), tensor_view<64x512xf16, strides=[1024,2]>>, tile<i32> -> tile<64x32xf16>, token
      %b, %t1 = load_view_tko weak %vb[%j, %zero] : partition_view<tile=(32x64), tensor_view<512x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %d = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }
    print_tko "%f", %r : tile<64x64xf32> -> token
    return
  }

  // Buffers, and what exchanges between threads need, share a block's memory: of 128 KiB one stage fits, of 256 KiB none.
  // CHECK-LABEL: nv_tileaa.func @large
  // CHECK:       nv_tileas.tiled_load {{.*}}order = 0, stage = 0
  // CHECK:       num_stages = 1
  // CHECK:       nv_tileaa.return
  entry @large(%pb: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<16x128xf32>
    %a = constant <f32: 1.0> : tile<16x256xf32>
    %tb = make_tensor_view %pb, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf32, strides=[128,1]>
    %vb = make_partition_view %tb : partition_view<tile=(256x128), tensor_view<4096x128xf32, strides=[128,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<16x128xf32>) {
      %b, %t1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(256x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> tile<256x128xf32>, token
      %d = mmaf %a, %b, %c : tile<16x256xf32>, tile<256x128xf32>, tile<16x128xf32>
      continue %d : tile<16x128xf32>
    }
    print_tko "%f", %r : tile<16x128xf32> -> token
    return
  }

  // CHECK-LABEL: nv_tileaa.func @larger
  // CHECK:       nv_tileas.tiled_load {{.*}}not_pipelined = "one stage takes 262144 bytes of shared memory, of which {{[0-9]+}} are left"
  // CHECK-NOT:   num_stages
  // CHECK:       nv_tileaa.return
  entry @larger(%pb: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<16x128xf32>
    %a = constant <f32: 1.0> : tile<16x512xf32>
    %tb = make_tensor_view %pb, shape = [4096, 128], strides = [128, 1] : tensor_view<4096x128xf32, strides=[128,1]>
    %vb = make_partition_view %tb : partition_view<tile=(512x128), tensor_view<4096x128xf32, strides=[128,1]>>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<16x128xf32>) {
      %b, %t1 = load_view_tko weak %vb[%k, %zero] : partition_view<tile=(512x128), tensor_view<4096x128xf32, strides=[128,1]>>, tile<i32> -> tile<512x128xf32>, token
      %d = mmaf %a, %b, %c : tile<16x512xf32>, tile<512x128xf32>, tile<16x128xf32>
      continue %d : tile<16x128xf32>
    }
    print_tko "%f", %r : tile<16x128xf32> -> token
    return
  }

  // The copies that will do loads by pointers are decided here, in place of which they stand later.
  // CHECK-LABEL: nv_tileaa.func @pointers
  // CHECK:       nv_tileas.load {{.*}}atom = #nv_tileas.copy_atom<ldgsts, bits=128, dim=1>{{.*}}order = 0, stage = 0
  // CHECK:       nv_tileas.load {{.*}}atom = #nv_tileas.copy_atom<ldgsts, bits=64, dim=1>{{.*}}not_wide = "the pointers are not known to be aligned to 16 bytes", order = 1, stage = 0
  entry @pointers(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %acc = constant <f32: 0.0> : tile<32x32xf32>
    %a16 = assume div_by<16>, %pa : tile<ptr<f16>>
    %b16 = assume div_by<8>, %pb : tile<ptr<f16>>
    %i = iota : tile<32xi32>
    %c1 = reshape %i : tile<32xi32> -> tile<1x32xi32>
    %cols = broadcast %c1 : tile<1x32xi32> -> tile<32x32xi32>
    %r1 = reshape %i : tile<32xi32> -> tile<32x1xi32>
    %rows = broadcast %r1 : tile<32x1xi32> -> tile<32x32xi32>
    %w = constant <i32: 32> : tile<32x32xi32>
    %rw = muli %rows, %w : tile<32x32xi32>
    %sq = addi %rw, %cols : tile<32x32xi32>
    %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%c = %acc) -> (tile<32x32xf32>) {
      %k1 = constant <i32: 1024> : tile<i32>
      %kk = muli %k, %k1 : tile<i32>
      %k2 = reshape %kk : tile<i32> -> tile<1x1xi32>
      %k3 = broadcast %k2 : tile<1x1xi32> -> tile<32x32xi32>
      %at = addi %sq, %k3 : tile<32x32xi32>
      %p1 = reshape %a16 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
      %p2 = broadcast %p1 : tile<1x1xptr<f16>> -> tile<32x32xptr<f16>>
      %p = offset %p2, %at : tile<32x32xptr<f16>>, tile<32x32xi32> -> tile<32x32xptr<f16>>
      %q1 = reshape %b16 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
      %q2 = broadcast %q1 : tile<1x1xptr<f16>> -> tile<32x32xptr<f16>>
      %q = offset %q2, %at : tile<32x32xptr<f16>>, tile<32x32xi32> -> tile<32x32xptr<f16>>
      %a, %t0 = load_ptr_tko weak %p : tile<32x32xptr<f16>> -> tile<32x32xf16>, token
      %b, %t1 = load_ptr_tko weak %q : tile<32x32xptr<f16>> -> tile<32x32xf16>, token
      %d = mmaf %a, %b, %c : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
      continue %d : tile<32x32xf32>
    }
    print_tko "%f", %r : tile<32x32xf32> -> token
    return
  }
}
