// RUN: cuda-tile-opt %s --loop-interchange --canonicalize | FileCheck %s
// RUN: cuda-tile-opt %s --loop-interchange --remarks=missed --pass-statistics 2>&1 | FileCheck %s --check-prefix=SAID

cuda_tile.module @m {
  // Columns outside and rows of 4096 bytes inside: the other way round.
  // CHECK-LABEL: entry @columns
  // CHECK:       for %[[J:.*]] in (%{{.*}} to %arg2, step
  // CHECK-NEXT:    for %[[I:.*]] in (%{{.*}} to %arg1, step
  // CHECK-NEXT:      muli %[[I]], %[[I]]
  // CHECK:           load_view_tko weak %{{.*}}[%[[J]], %[[I]]]
  // CHECK:           store_view_tko weak %{{.*}}[%[[J]], %[[I]]]
  // SAID:        2  loop-interchange: loops exchanged
  entry @columns(%p: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %v = make_tensor_view %p, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf32, strides=[1024,1]>
    %t = make_partition_view %v : partition_view<tile=(8x8), tensor_view<1024x1024xf32, strides=[1024,1]>>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %square = muli %i, %i : tile<i32>
      for %j in (%zero to %m, step %one) : tile<i32> {
        %x, %a = load_view_tko weak %t[%j, %i] : partition_view<tile=(8x8), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32> -> tile<8x8xf32>, token
        %f = itof %square signed : tile<i32> -> tile<f32>
        %f2 = reshape %f : tile<f32> -> tile<1x1xf32>
        %f3 = broadcast %f2 : tile<1x1xf32> -> tile<8x8xf32>
        %y = addf %x, %f3 : tile<8x8xf32>
        %b = store_view_tko weak %y, %t[%j, %i] token=%a : tile<8x8xf32>, partition_view<tile=(8x8), tensor_view<1024x1024xf32, strides=[1024,1]>>, tile<i32> -> token
        continue
      }
      continue
    }
    return
  }

  // By a hint, whatever the steps are.
  // CHECK-LABEL: entry @asked
  // CHECK:       for %{{.*}} in (%arg3 to %arg2
  // CHECK-NEXT:    for unsigned %{{.*}} in (%arg2 to %arg3
  // CHECK-NOT:   loop_interchange
  entry @asked(%p: tile<ptr<f32>>, %x: tile<f32>, %n: tile<i32>, %m: tile<i32>) {
    %s = assume bounded<1, ?>, %n : tile<i32>
    for unsigned %i in (%n to %m, step %m) : tile<i32> {
      for %j in (%m to %n, step %s) : tile<i32> {
        %q = offset %p, %j : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
        %t = store_ptr_tko weak %q, %x : tile<ptr<f32>>, tile<f32> -> token
        continue
      }
      continue
    } {cuda_tile.loop_interchange = 1 : i32}
    return
  }

  // A loop without a step is undefined even where it has no iteration, and must not be the outer one then.
  // CHECK-LABEL: entry @no_step
  // CHECK:       for %{{.*}} in (%arg2 to %arg3
  // SAID:        reason: the inner loop's step may be no positive number
  entry @no_step(%p: tile<ptr<f32>>, %x: tile<f32>, %n: tile<i32>, %m: tile<i32>) {
    for %i in (%n to %m, step %m) : tile<i32> {
      for %j in (%m to %n, step %n) : tile<i32> {
        %q = offset %p, %j : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
        %t = store_ptr_tko weak %q, %x : tile<ptr<f32>>, tile<f32> -> token
        continue
      }
      continue
    } {cuda_tile.loop_interchange = 1 : i32}
    return
  }

  // A carried token is an order; so is output.
  // CHECK-LABEL: entry @ordered
  // CHECK:       for %{{.*}} in (%{{.*}} to %arg1
  // SAID:        reason: tokens order the iterations
  // SAID:        reason: the iterations have an order
  entry @ordered(%p: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>, %x: tile<f32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = make_token : token
    %end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%t = %start) -> (token) {
      %inner = for %j in (%zero to %m, step %one) : tile<i32> iter_values(%u = %t) -> (token) {
        %v = store_ptr_tko weak %p, %x token=%u : tile<ptr<f32>>, tile<f32> -> token
        continue %v : token
      }
      continue %inner : token
    }
    for %i in (%zero to %n, step %one) : tile<i32> {
      for %j in (%zero to %m, step %one) : tile<i32> {
        print_tko "%d %d", %i, %j : tile<i32>, tile<i32> -> token
        continue
      }
      continue
    } {cuda_tile.loop_interchange = 1 : i32}
    return
  }
}
