// RUN: cuda-tile-opt %s --merge-loads --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --merge-loads="adjacent=true" --canonicalize --pass-statistics --remarks=missed 2>&1 | FileCheck %s --check-prefix=TWO

!view = !cuda_tile.partition_view<tile=(16x64), padding_value = zero, tensor_view<?x64xf32, strides=[64,1]>>
!tile = !cuda_tile.tile<16x64xf32>

cuda_tile.module @m {
  // The first and the third are one; the second is the tile behind it.
  // CHECK-LABEL: entry @tiles
  // CHECK:       %[[A:.*]], %{{.*}} = load_view_tko
  // CHECK-NEXT:  %[[B:.*]], %{{.*}} = load_view_tko
  // CHECK-NOT:   load_view_tko
  // CHECK:       print_tko "%f %f %f", %[[A]], %[[B]], %[[A]]
  // TWO-LABEL:   entry @tiles
  // TWO:         %[[K:.*]] = divi %{{.*}}, %{{.*}} unsigned
  // TWO:         load_view_tko weak %{{.*}}[%[[K]], %[[ZERO:.*]]] : partition_view<tile=(32x64), padding_value = zero
  // TWO:         %[[A:.*]] = extract %[[BOTH:.*]][%[[ZERO]], %[[ZERO]]] : tile<32x64xf32> -> tile<16x64xf32>
  // TWO:         %[[B:.*]] = extract %[[BOTH]][%{{.*}}, %[[ZERO]]] : tile<32x64xf32> -> tile<16x64xf32>
  // TWO-NOT:     load_view_tko
  // TWO:         print_tko "%f %f %f", %[[A]], %[[B]], %[[A]]
  entry @tiles(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %i = muli %x, %two overflow<no_signed_wrap> : tile<i32>
    %j = addi %i, %one overflow<no_signed_wrap> : tile<i32>
    %tensor = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %v = make_partition_view %tensor : !view
    %a, %ta = load_view_tko weak %v[%i, %zero] : !view, tile<i32> -> !tile, token
    %b, %tb = load_view_tko weak %v[%j, %zero] : !view, tile<i32> -> !tile, token
    %c, %tc = load_view_tko weak %v[%i, %zero] : !view, tile<i32> -> !tile, token
    print_tko "%f %f %f", %a, %b, %c : !tile, !tile, !tile -> token
    return
  }

  // Not over a store that may write there, nor an access that may not run, and not from an odd tile on.
  // CHECK-LABEL: entry @stays
  // CHECK-COUNT-4: load_ptr_tko
  // CHECK-COUNT-2: load_view_tko
  // TWO-LABEL:   entry @stays
  // TWO:         1  merge-loads: common loads merged
  // TWO:         1  merge-loads: neighbouring loads merged
  // TWO:         reason: the index of the first one is not known to be even
  entry @stays(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %j = addi %x, %one overflow<no_signed_wrap> : tile<i32>
    %tensor = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %v = make_partition_view %tensor : !view
    %a, %ta = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %s = store_ptr_tko weak %q, %a : tile<ptr<f32>>, tile<f32> -> token
    %b, %tb = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    if %c {
      return
    }
    %d, %td = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %e, %te = load_ptr_tko weak %p token=%td : tile<ptr<f32>> -> tile<f32>, token
    %f, %tf = load_view_tko weak %v[%x, %zero] : !view, tile<i32> -> !tile, token
    %g, %tg = load_view_tko weak %v[%j, %zero] : !view, tile<i32> -> !tile, token
    print_tko "%f %f %f", %b, %d, %e : tile<f32>, tile<f32>, tile<f32> -> token
    print_tko "%f %f", %f, %g : !tile, !tile -> token
    return
  }
}
