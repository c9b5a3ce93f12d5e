// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa --convert-tileaa-to-tileas --tileas-insert-barriers | FileCheck %s

cuda_tile.module @m {
  // The same pointers in the same layout: every thread stores where it loaded.
  // CHECK-LABEL: nv_tileaa.func @in_place
  // CHECK-NOT:   nv_tileas.barrier
  // CHECK:       nv_tileaa.return
  entry @in_place(%p: tile<ptr<f32>>) {
    %i = iota : tile<512xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %pi = offset %pb, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %v, %t = load_ptr_tko weak %pi : tile<512xptr<f32>> -> tile<512xf32>, token
    %u = store_ptr_tko weak %pi, %v token=%t : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }

  // A store, and a load behind it from elsewhere: other threads may have written what is read.
  // CHECK-LABEL: nv_tileaa.func @neighbour
  // CHECK:       nv_tileas.store
  // CHECK:       nv_tileas.barrier
  // CHECK:       nv_tileas.load
  entry @neighbour(%p: tile<ptr<f32>>) {
    %i = iota : tile<512xi32>
    %one = constant <i32: 1> : tile<512xi32>
    %f = constant <f32: 1.0> : tile<512xf32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %pi = offset %pb, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %pj = offset %pi, %one : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %t = store_ptr_tko weak %pi, %f : tile<512xptr<f32>>, tile<512xf32> -> token
    %v, %u = load_ptr_tko weak %pj token=%t : tile<512xptr<f32>> -> tile<512xf32>, token
    %w = store_ptr_tko weak %pj, %v token=%u : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }

  // Without a token between them they are in no order.
  // CHECK-LABEL: nv_tileaa.func @no_edge
  // CHECK-NOT:   nv_tileas.barrier
  // CHECK:       nv_tileaa.return
  entry @no_edge(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %f = constant <f32: 1.0> : tile<f32>
    %t = store_ptr_tko weak %p, %f : tile<ptr<f32>>, tile<f32> -> token
    %v, %u = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
    return
  }

  // The store of one iteration comes before the load of the next.
  // CHECK-LABEL: nv_tileaa.func @around
  // CHECK:       scf.for
  // CHECK:       nv_tileas.barrier
  // CHECK:       nv_tileas.load
  // CHECK:       nv_tileas.barrier
  // CHECK:       nv_tileas.store
  entry @around(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = make_token : token
    %end = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
      %v, %u = load_ptr_tko weak %p token=%t : tile<ptr<f32>> -> tile<f32>, token
      %w = store_ptr_tko weak %q, %v token=%u : tile<ptr<f32>>, tile<f32> -> token
      continue %w : token
    }
    return
  }
}
