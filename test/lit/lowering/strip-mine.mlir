// RUN: cuda-tile-opt %s --strip-mine="max-words=64 piece-words=64" | FileCheck %s
// RUN: cuda-tile-opt %s --strip-mine | FileCheck %s --check-prefix=FITS

cuda_tile.module @m {
  // Loads, what is computed of them, and stores are one loop. A piece of the view is a tile of a smaller view.
  // CHECK-LABEL: entry @chain
  // CHECK:       %[[PIECES:.*]] = make_partition_view %{{.*}} : partition_view<tile=(64), tensor_view<256xf32, strides=[1]>>
  // CHECK:       for %[[I:.*]] in (%{{.*}} to %cst_4_i32, step %cst_1_i32) : tile<i32> {
  // CHECK:         %[[X:.*]], %[[T:.*]] = load_view_tko weak %[[PIECES]][%{{.*}}] {{.*}} -> tile<64xf32>, token
  // CHECK:         %[[Y:.*]] = addf %[[X]], %[[X]] : tile<64xf32>
  // CHECK:         store_view_tko weak %[[Y]], %[[PIECES]][%{{.*}}] token = %[[T]]
  // CHECK-NEXT:  }
  // CHECK-NEXT:  return
  // FITS-LABEL:  entry @chain
  // FITS-NOT:    for
  // FITS:        return
  entry @chain(%p: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %m = make_tensor_view %p, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %v = make_partition_view %m : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>
    %x, %t = load_view_tko weak %v[%zero] : partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %y = addf %x, %x : tile<256xf32>
    %u = store_view_tko weak %y, %v[%zero] token = %t : tile<256xf32>, partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // Of a tensor whose size is not known, pieces can lie outside: these are padding, and are not stored.
  // CHECK-LABEL: entry @ragged
  // CHECK:       %[[COUNT:.*]] = get_index_space_shape %{{.*}} -> tile<i64>
  // CHECK:       for
  // CHECK:         %[[INSIDE:.*]] = cmpi less_than %{{.*}}, %[[COUNT]], unsigned
  // CHECK:         if %[[INSIDE]] -> (tile<64xf32>, token) {
  // CHECK:           load_view_tko
  // CHECK:         } else {
  // CHECK:           constant <f32: 0xFF800000> : tile<64xf32>
  // CHECK:         if %{{.*}} -> (token) {
  // CHECK:           store_view_tko
  entry @ragged(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %m = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %v = make_partition_view %m : partition_view<tile=(256), padding_value = neg_inf, tensor_view<?xf32, strides=[1]>>
    %x, %t = load_view_tko weak %v[%zero] : partition_view<tile=(256), padding_value = neg_inf, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<256xf32>, token
    %u = store_view_tko weak %x, %v[%zero] token = %t : tile<256xf32>, partition_view<tile=(256), padding_value = neg_inf, tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }

  // What a reduction gives of each piece is combined in the order of the tile; nothing is combined with the first one.
  // What depends on it is computed behind, in a loop of its own, which loads again.
  // CHECK-LABEL: entry @normalized
  // CHECK:       %[[SUM:.*]]:2 = for %[[I:.*]] in (%{{.*}} to %cst_4_i32, step %cst_1_i32) : tile<i32> iter_values(%[[ACC:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) -> (tile<f32>, token) {
  // CHECK:         load_ptr_tko
  // CHECK:         %[[S:.*]] = reduce %{{.*}} : tile<64xf32> -> tile<f32>
  // CHECK:         %[[BOTH:.*]] = addf %[[ACC]], %[[S]] : tile<f32>
  // CHECK:         %[[FIRST:.*]] = cmpi equal %[[I]], %cst_0_i32
  // CHECK:         %[[NEXT:.*]] = select %[[FIRST]], %[[S]], %[[BOTH]]
  // CHECK:         continue %[[NEXT]], %{{.*}} : tile<f32>, token
  // CHECK:       %[[R:.*]] = reshape %[[SUM]]#0 : tile<f32> -> tile<1xf32>
  // CHECK:       for
  // CHECK:         load_ptr_tko
  // CHECK:         broadcast %[[R]] : tile<1xf32> -> tile<64xf32>
  // CHECK:         divf
  // CHECK:         store_ptr_tko
  entry @normalized(%p: tile<ptr<f32>>) {
    %i = iota : tile<256xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %pi = offset %pb, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %x, %t = load_ptr_tko weak %pi : tile<256xptr<f32>> -> tile<256xf32>, token
    %s = reduce %x dim=0 identities=[0.0 : f32] : tile<256xf32> -> tile<f32>
    (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }
    %s1 = reshape %s : tile<f32> -> tile<1xf32>
    %sb = broadcast %s1 : tile<1xf32> -> tile<256xf32>
    %y = divf %x, %sb : tile<256xf32>
    %u = store_ptr_tko weak %pi, %y token=%t : tile<256xptr<f32>>, tile<256xf32> -> token
    return
  }

  // A reduction along another dimension is done for each piece; columns are summed up in a tile that is carried.
  // CHECK-LABEL: entry @rows_and_columns
  // CHECK:       %[[COLUMNS:.*]] = for {{.*}} -> (tile<32xi32>) {
  // CHECK:         load_view_tko {{.*}} -> tile<2x32xi32>, token
  // CHECK:         reduce %{{.*}} dim=1 {{.*}} : tile<2x32xi32> -> tile<2xi32>
  // CHECK:         reduce %{{.*}} dim=0 {{.*}} : tile<2x32xi32> -> tile<32xi32>
  // CHECK:         store_view_tko weak %{{.*}} : tile<2xi32>
  // CHECK:         addi %{{.*}} : tile<32xi32>
  // CHECK:       store_view_tko weak %[[COLUMNS]]
  entry @rows_and_columns(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %r: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %m = make_tensor_view %p, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xi32, strides=[32,1]>
    %v = make_partition_view %m : partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>>
    %m1 = make_tensor_view %q, shape = [32], strides = [1] : tensor_view<32xi32, strides=[1]>
    %v1 = make_partition_view %m1 : partition_view<tile=(32), tensor_view<32xi32, strides=[1]>>
    %m2 = make_tensor_view %r, shape = [32], strides = [1] : tensor_view<32xi32, strides=[1]>
    %v2 = make_partition_view %m2 : partition_view<tile=(32), tensor_view<32xi32, strides=[1]>>
    %x, %t = load_view_tko weak %v[%zero, %zero] : partition_view<tile=(32x32), tensor_view<32x32xi32, strides=[32,1]>>, tile<i32> -> tile<32x32xi32>, token
    %rows = reduce %x dim=1 identities=[0 : i32] : tile<32x32xi32> -> tile<32xi32>
    (%a: tile<i32>, %b: tile<i32>) {
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }
    %columns = reduce %x dim=0 identities=[0 : i32] : tile<32x32xi32> -> tile<32xi32>
    (%a: tile<i32>, %b: tile<i32>) {
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }
    %u1 = store_view_tko weak %rows, %v1[%zero] : tile<32xi32>, partition_view<tile=(32), tensor_view<32xi32, strides=[1]>>, tile<i32> -> token
    %u2 = store_view_tko weak %columns, %v2[%zero] : tile<32xi32>, partition_view<tile=(32), tensor_view<32xi32, strides=[1]>>, tile<i32> -> token
    return
  }

  // A scan carries its last element, from the last piece to the first in reverse.
  // CHECK-LABEL: entry @suffix_sums
  // CHECK:       for %[[I:.*]] in ({{.*}}) : tile<i32> iter_values(%[[BEFORE:.*]] = %{{.*}}) -> (tile<1xi32>) {
  // CHECK:         subi %cst_3_i32, %[[I]] : tile<i32>
  // CHECK:         %[[OWN:.*]] = scan %{{.*}} reverse=true {{.*}} : tile<64xi32>
  // CHECK:         %[[SPREAD:.*]] = broadcast %[[BEFORE]] : tile<1xi32> -> tile<64xi32>
  // CHECK:         addi %[[SPREAD]], %[[OWN]] : tile<64xi32>
  // CHECK:         extract %{{.*}}[%cst_0_i32_0] : tile<64xi32> -> tile<1xi32>
  entry @suffix_sums(%p: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %m = make_tensor_view %p, shape = [256], strides = [1] : tensor_view<256xi32, strides=[1]>
    %v = make_partition_view %m : partition_view<tile=(256), tensor_view<256xi32, strides=[1]>>
    %x, %t = load_view_tko weak %v[%zero] : partition_view<tile=(256), tensor_view<256xi32, strides=[1]>>, tile<i32> -> tile<256xi32>, token
    %y = scan %x dim=0 reverse=true identities=[0 : i32] : tile<256xi32> -> tile<256xi32>
    (%a: tile<i32>, %b: tile<i32>) {
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }
    %u = store_view_tko weak %y, %v[%zero] token = %t : tile<256xi32>, partition_view<tile=(256), tensor_view<256xi32, strides=[1]>>, tile<i32> -> token
    return
  }

  // A token puts all of the load before all of the store, which overlaps it elsewhere: no piece may be stored before
  // the others are loaded.
  // CHECK-LABEL: entry @moved
  // CHECK-NOT:   for
  // CHECK:       return
  entry @moved(%p: tile<ptr<f32>>) {
    %i = iota : tile<256xi32>
    %one = constant <i32: 1> : tile<256xi32>
    %j = addi %i, %one : tile<256xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %pi = offset %pb, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %pj = offset %pb, %j : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %x, %t = load_ptr_tko weak %pi : tile<256xptr<f32>> -> tile<256xf32>, token
    %u = store_ptr_tko weak %pj, %x token=%t : tile<256xptr<f32>>, tile<256xf32> -> token
    return
  }

  // Nor is a tile cut that a loop carries.
  // CHECK-LABEL: entry @carried
  // CHECK:       for {{.*}} -> (tile<256xf32>) {
  // CHECK:       return
  entry @carried(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %x = constant <f32: 1.0> : tile<256xf32>
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %x) -> (tile<256xf32>) {
      %y = addf %a, %x : tile<256xf32>
      continue %y : tile<256xf32>
    }
    print_tko "%f", %r : tile<256xf32> -> token
    return
  }
}
