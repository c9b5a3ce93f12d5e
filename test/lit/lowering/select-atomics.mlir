// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_80" --convert-tileaa-to-tileas --tileas-select-copies | FileCheck %s --check-prefixes=CHECK,OLD
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_90" --convert-tileaa-to-tileas --tileas-select-copies | FileCheck %s --check-prefixes=CHECK,NEW

cuda_tile.module @m {
  // A result that nobody uses is not asked for, unless the op acquires; sm_80 adds bf16 by compare-and-swaps.
  // CHECK-LABEL: nv_tileaa.func @atomics
  // CHECK:       nv_tileas.atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<red, bits=32>
  // CHECK:       nv_tileas.atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<atom, bits=32>
  // CHECK:       nv_tileas.atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<atom, bits=32>
  // OLD:         nv_tileas.atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<cas, bits=16>
  // NEW:         nv_tileas.atomic_rmw {{.*}}atom = #nv_tileas.copy_atom<red, bits=16>
  // CHECK:       nv_tileas.atomic_cas {{.*}}atom = #nv_tileas.copy_atom<atom, bits=32>
  entry @atomics(%p: tile<ptr<i32>>, %q: tile<ptr<bf16>>) {
    %one = constant <i32: 1> : tile<i32>
    %half = constant <bf16: 0.5> : tile<bf16>
    %a, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %b, %u = atomic_rmw_tko acquire device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %c, %v = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %d, %w = atomic_rmw_tko relaxed device %q, addf, %half : tile<ptr<bf16>>, tile<bf16> -> tile<bf16>, token
    %e, %x = atomic_cas_tko relaxed device %p, %c, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
