// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_80" --convert-tileaa-to-tileas --tileas-remove-layout-conversions | FileCheck %s

cuda_tile.module @m {
  // Warps lie along the rows of both products, so that the first one's result, rounded, is the second one's left
  // operand where it is, and the sums of rows stay in one warp.
  // CHECK-LABEL: nv_tileaa.func @chain
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[16,0\],\[32,0\]\]}} : 64x32>>{{$}}
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.reduce
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[16,0\],\[32,0\]\]}} : 64x64>>{{$}}
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileaa.return
  entry @chain() {
    %a = constant <f16: 1.0> : tile<64x64xf16>
    %b = constant <f16: 1.0> : tile<64x32xf16>
    %c = constant <f16: 1.0> : tile<32x64xf16>
    %zero = constant <f32: 0.0> : tile<64x32xf32>
    %acc = constant <f32: 0.0> : tile<64x64xf32>
    %x = mmaf %a, %b, %zero : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32>
    %e = exp2 %x : tile<64x32xf32>
    %s = reduce %e dim=1 identities=[0.0 : f32] : tile<64x32xf32> -> tile<64xf32>
      (%p: tile<f32>, %q: tile<f32>) {
        %r = addf %p, %q : tile<f32>
        yield %r : tile<f32>
      }
    %h = ftof %e : tile<64x32xf32> -> tile<64x32xf16>
    %y = mmaf %h, %c, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    %s1 = reshape %s : tile<64xf32> -> tile<64x1xf32>
    %s2 = broadcast %s1 : tile<64x1xf32> -> tile<64x64xf32>
    %z = divf %y, %s2 : tile<64x64xf32>
    print_tko "%f", %z : tile<64x64xf32> -> token
    return
  }

  // A product that feeds none keeps the arrangement that reads its operands least often.
  // CHECK-LABEL: nv_tileaa.func @alone
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[0,8\],\[16,0\]\]}} : 64x64>>{{$}}
  entry @alone() {
    %a = constant <f16: 1.0> : tile<64x64xf16>
    %b = constant <f16: 1.0> : tile<64x64xf16>
    %acc = constant <f32: 0.0> : tile<64x64xf32>
    %x = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    print_tko "%f", %x : tile<64x64xf32> -> token
    return
  }

  // Too few rows for four warps: these share columns, whatever follows.
  // CHECK-LABEL: nv_tileaa.func @low
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[0,8\],\[0,16\]\]}} : 16x64>>{{$}}
  // CHECK:       convert_layout
  // CHECK:       nv_tileas.dot
  entry @low() {
    %a = constant <f16: 1.0> : tile<16x64xf16>
    %b = constant <f16: 1.0> : tile<64x64xf16>
    %acc = constant <f32: 0.0> : tile<16x64xf32>
    %x = mmaf %a, %b, %acc : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>
    %h = ftof %x : tile<16x64xf32> -> tile<16x64xf16>
    %y = mmaf %h, %b, %acc : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>
    print_tko "%f", %y : tile<16x64xf32> -> token
    return
  }

  // What the loop makes of the carried sum decides its layout; the store behind it is converted once, and the tile that
  // the loop does not change before it. Each iteration sums rows, so they stay in one warp.
  // CHECK-LABEL: nv_tileaa.func @carried
  // CHECK:       nv_tileas.tiled_load
  // CHECK:       convert_layout
  // CHECK-NEXT:  scf.for
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[16,0\],\[32,0\]\]}} : 64x64>>{{$}}
  // CHECK-NOT:   convert_layout
  // CHECK:       scf.yield
  // CHECK:       nv_tileaa.fp_to_fp
  // CHECK:       convert_layout
  // CHECK-SAME:  xf16
  // CHECK-NOT:   convert_layout
  // CHECK:       nv_tileas.tiled_store
  entry @carried(%src: tile<ptr<f16>>, %dst: tile<ptr<f16>>, %n: tile<i32>) {
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %b = constant <f16: 1.0> : tile<64x64xf16>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %none = constant <f32: 0.0> : tile<64x1xf32>
    %s = make_tensor_view %src, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %sv = make_partition_view %s : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %d = make_tensor_view %dst, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %dv = make_partition_view %d : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %a, %t = load_view_tko weak %sv[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %sum, %last = for %k in (%i to %n, step %one) : tile<i32> iter_values(%rows = %none, %before = %zero) -> (tile<64x1xf32>, tile<64x64xf32>) {
      %x = mmaf %a, %b, %before : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      %r = reduce %x dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
        (%p: tile<f32>, %q: tile<f32>) {
          %r1 = addf %p, %q : tile<f32>
          yield %r1 : tile<f32>
        }
      %r2 = reshape %r : tile<64xf32> -> tile<64x1xf32>
      %r3 = addf %rows, %r2 : tile<64x1xf32>
      continue %r3, %x : tile<64x1xf32>, tile<64x64xf32>
    }
    %wide = broadcast %sum : tile<64x1xf32> -> tile<64x64xf32>
    %z = divf %last, %wide : tile<64x64xf32>
    %h = ftof %z : tile<64x64xf32> -> tile<64x64xf16>
    %u = store_view_tko weak %h, %dv[%i, %i] : tile<64x64xf16>, partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> token
    return
  }

  // Rows are summed once, behind the loop: the product in it counts more.
  // CHECK-LABEL: nv_tileaa.func @afterwards
  // CHECK:       nv_tileas.dot {{.*}}warp={{\[\[0,8\],\[16,0\]\]}} : 64x64>>{{$}}
  // CHECK:       nv_tileas.reduce
  entry @afterwards(%n: tile<i32>) {
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a = constant <f16: 1.0> : tile<64x64xf16>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %last = for %k in (%i to %n, step %one) : tile<i32> iter_values(%before = %zero) -> (tile<64x64xf32>) {
      %x = mmaf %a, %a, %before : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %x : tile<64x64xf32>
    }
    %r = reduce %last dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
      (%p: tile<f32>, %q: tile<f32>) {
        %r1 = addf %p, %q : tile<f32>
        yield %r1 : tile<f32>
      }
    print_tko "%f", %r : tile<64xf32> -> token
    return
  }
}
