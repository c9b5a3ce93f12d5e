cuda_tile.module @kernels {
  entry @k(%arg0: tile<ptr<f32>>) {
    %tview = make_tensor_view %arg0, shape = [4194304], strides = [1] : tensor_view<4194304xf32, strides=[1]> loc(#loc)
    %pview = make_partition_view %tview : partition_view<tile=(4194304), tensor_view<4194304xf32, strides=[1]>> loc(#loc)
    %cst_0_i32 = constant <i32: 0> : tile<i32> loc(#loc)
    %tile, %result_token = load_view_tko weak %pview[%cst_0_i32] : partition_view<tile=(4194304), tensor_view<4194304xf32, strides=[1]>>, tile<i32> -> tile<4194304xf32>, token loc(#loc)
    %0 = addf %tile, %tile  : tile<4194304xf32> loc(#loc)
    %1 = store_view_tko weak %0, %pview[%cst_0_i32] : tile<4194304xf32>, partition_view<tile=(4194304), tensor_view<4194304xf32, strides=[1]>>, tile<i32> -> token loc(#loc)
    return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
