// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa | FileCheck %s
// RUN: cuda-tile-opt %s --convert-cuda-tile-to-tileaa="gpu-name=sm_80" | FileCheck %s --check-prefix=SM80

cuda_tile.module @m {
  // What assume says of the pointers is on the accesses.
  // CHECK-LABEL: nv_tileaa.func @copy
  // CHECK-SAME:  kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>
  // SM80:        kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_80>
  // CHECK:       nv_tileaa.make_range
  // CHECK:       nv_tileaa.addptr
  // CHECK:       nv_tileaa.load {{.*}}contiguity = array<i64: 512>, divisibility = array<i64: 16>
  // CHECK:       nv_tileaa.store {{.*}}contiguity = array<i64: 512>, divisibility = array<i64: 16>
  // CHECK:       nv_tileaa.return
  entry @copy(%src: tile<ptr<f32>>, %dst: tile<ptr<f32>>) {
    %a = assume div_by<16>, %src : tile<ptr<f32>>
    %b = assume div_by<16>, %dst : tile<ptr<f32>>
    %i = iota : tile<512xi32>
    %p1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p = broadcast %p1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %pi = offset %p, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %v, %t = load_ptr_tko weak %pi : tile<512xptr<f32>> -> tile<512xf32>, token
    %q1 = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q = broadcast %q1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %qi = offset %q, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %u = store_ptr_tko weak %qi, %v token=%t : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }

  // A loop that breaks is a while loop whose first region tells whether to go on.
  // CHECK-LABEL: nv_tileaa.func @breaks
  // CHECK:       scf.while
  // CHECK:       scf.if
  // CHECK:       scf.condition
  // CHECK:       scf.yield
  entry @breaks(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %r = loop iter_values(%x = %zero) : tile<i32> -> tile<i32> {
      %done = cmpi equal %x, %n, signed : tile<i32> -> tile<i1>
      if %done {
        break %x : tile<i32>
      }
      %y = addi %x, %one : tile<i32>
      continue %y : tile<i32>
    }
    print_tko "%d", %r : tile<i32> -> token
    return
  }

  // A kernel that returns before it multiplies does so by one op, and what stands behind is in no branch.
  // CHECK-LABEL: nv_tileaa.func @returns_at_once
  // CHECK:       nv_tileaa.return_if %{{.*}} : i1
  // CHECK:       [[BACK:%.*]] = arith.xori
  // CHECK-NEXT:  scf.if [[BACK]] {
  // CHECK-NEXT:    nv_tileaa.print {{.*}}"back"
  // CHECK:       nv_tileaa.return_if [[BACK]] : i1
  // CHECK-NEXT:  nv_tileaa.print {{.*}}"on"
  // CHECK-NOT:   scf.if
  // CHECK:       nv_tileaa.dot
  // CHECK-NOT:   nv_tileaa.return_if
  // CHECK:       scf.if
  entry @returns_at_once(%n: tile<i32>, %m: tile<i32>, %k: tile<i32>) {
    %one = constant <f32: 1.0> : tile<8x8xf32>
    %a = cmpi less_than %n, %m, signed : tile<i32> -> tile<i1>
    if %a {
      return
    }
    %b = cmpi less_than %m, %k, signed : tile<i32> -> tile<i1>
    if %b {
      print_tko "on" -> token
    } else {
      print_tko "back" -> token
      return
    }
    %p = mmaf %one, %one, %one : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>
    if %a {
      return
    }
    print_tko "%f", %p : tile<8x8xf32> -> token
    return
  }
}
