// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-remove-layout-conversions --tileas-generate-schedule="num-stages=3" --tileas-materialize-schedule | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-remove-layout-conversions --tileas-generate-schedule="num-stages=3" --tileas-materialize-schedule | cuda-tile-opt - | FileCheck %s

// Two turns are produced before the loop, each iteration produces the turn that is two ahead of the one it consumes. The
// product reads its operands slice by slice.
// CHECK-LABEL: nv_tileaa.func @product
// CHECK:       %[[PIPE:.*]] = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<3, (!nv_tileas.buffer<64x32xf16, shared, #nv_tileas.layout<{{.*}}>>, !nv_tileas.buffer<32x64xf16, shared, #nv_tileas.layout<{{.*}}>>)>
// CHECK:       %[[FIRST:.*]] = nv_tileas.async.pipeline.create_iterator %[[PIPE]]
// CHECK:       nv_tileas.async.pipeline.produce_one %[[PIPE]], %[[FIRST]]
// CHECK:         producer_acquire %[[PIPE]], %[[FIRST]]
// CHECK:         producer_write
// CHECK:           scf.if
// CHECK:             nv_tileas.async.tiled_load {{.*}}ldgsts
// CHECK:             nv_tileas.async.tiled_load {{.*}}ldgsts
// CHECK:         producer_commit
// CHECK:       %[[SECOND:.*]] = nv_tileas.async.pipeline.inc_iter %[[FIRST]]
// CHECK:       nv_tileas.async.pipeline.produce_one %[[PIPE]], %[[SECOND]]
// CHECK:       %[[THIRD:.*]] = nv_tileas.async.pipeline.inc_iter %[[SECOND]]
// CHECK:       scf.for {{.*}}%[[READ:arg[0-9]+]] = %[[FIRST]], %[[WRITE:arg[0-9]+]] = %[[THIRD]]
// CHECK:         %[[WAIT:.*]] = nv_tileas.async.pipeline.consumer_wait %[[PIPE]], %[[READ]] {pending = 1
// CHECK:         nv_tileas.async.pipeline.produce_one %[[PIPE]], %[[WRITE]]
// CHECK:         %[[DONE:.*]]:2 = nv_tileas.async.pipeline.consumer_read %[[WAIT]], %[[READ]]
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !nv_tileas.buffer<64x32xf16{{.*}}, %[[B:.*]]: !nv_tileas.buffer<32x64xf16
// CHECK-NEXT:      %[[A0:.*]] = nv_tileas.copy %[[A]] {offsets = array<i64: 0, 0>}{{.*}} -> tile<64x16xf16
// CHECK-NEXT:      %[[B0:.*]] = nv_tileas.copy %[[B]] {offsets = array<i64: 0, 0>}{{.*}} -> tile<16x64xf16
// CHECK-NEXT:      %[[FIRST_SUM:.*]] = nv_tileas.dot %[[A0]], %[[B0]]
// CHECK-NEXT:      %[[A1:.*]] = nv_tileas.copy %[[A]] {offsets = array<i64: 0, 16>}
// CHECK-NEXT:      %[[B1:.*]] = nv_tileas.copy %[[B]] {offsets = array<i64: 16, 0>}
// CHECK-NEXT:      %[[SUM:.*]] = nv_tileas.dot %[[A1]], %[[B1]], %[[FIRST_SUM]]
// CHECK-NEXT:      nv_tileas.async.pipeline.yield %[[SUM]]
// CHECK:         nv_tileas.async.pipeline.consumer_release %[[DONE]]#0
// CHECK:         nv_tileas.async.pipeline.inc_iter %[[READ]]
// CHECK:         nv_tileas.async.pipeline.inc_iter %[[WRITE]]
// CHECK-NOT:   convert_layout
// CHECK:       nv_tileaa.return
cuda_tile.module @m {
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
}
