// RUN: cuda-tile-opt %s --recover-views --canonicalize --dce | FileCheck %s
// RUN: cuda-tile-opt %s --recover-views --remarks=all -o - 2>&1 >%t | FileCheck %s --check-prefix=REMARK
// RUN: cuda-tile-opt %s --recover-views --remarks=missed --remark-format=yaml -o - 2>&1 >%t | FileCheck %s --check-prefix=YAML

cuda_tile.module @m {
  // A distance is where the view starts; what is loaded is no index that is known.
  // CHECK-LABEL: entry @kernel
  // CHECK:       %[[B:.*]] = offset %arg0, %{{.*}}
  // CHECK:       %[[V:.*]] = make_tensor_view %[[B]], shape = [32], strides = [3]
  // CHECK:       load_view_tko weak %{{.*}}[%{{.*}}]
  // CHECK:       load_ptr_tko
  // REMARK:      in function: kernel:
  // REMARK:      remark[passed]: Load through pointers made one through a view
  // REMARK:      name: RecoverViews
  // REMARK:      note: Guarded = no
  // REMARK:      remark[missed]: Load through pointers is not one through a view
  // REMARK:      reason: an index or an address comes from load_ptr_tko
  // YAML:        --- !Missed
  // YAML-NEXT:   Pass: Passes
  // YAML-NEXT:   Name: RecoverViews
  // YAML-NOT:    Passed
  entry @kernel(%p: tile<ptr<i32>>) {
    %count = iota : tile<32xi32>
    %three = constant <i32: 3> : tile<32xi32>
    %far = muli %count, %three : tile<32xi32>
    %at = addi %far, %three : tile<32xi32>
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %base = broadcast %p1 : tile<1xptr<i32>> -> tile<32xptr<i32>>
    %pointers = offset %base, %at : tile<32xptr<i32>>, tile<32xi32> -> tile<32xptr<i32>>
    %x, %t = load_ptr_tko weak %pointers : tile<32xptr<i32>> -> tile<32xi32>, token
    %gathered = offset %base, %x : tile<32xptr<i32>>, tile<32xi32> -> tile<32xptr<i32>>
    %y, %u = load_ptr_tko weak %gathered token=%t : tile<32xptr<i32>> -> tile<32xi32>, token
    print_tko "%d", %y : tile<32xi32> -> token
    return
  }
}
