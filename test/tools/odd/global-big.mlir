cuda_tile.module @kernels {
  global  @g <i32: 7> : tile<16777216xi32> loc(#loc)
  entry @k(%arg0: tile<ptr<i32>>) {
    %0 = get_global @g : tile<ptr<i32>> loc(#loc)
    %result, %result_token = load_ptr_tko weak %0 : tile<ptr<i32>> -> tile<i32>, token loc(#loc)
    %1 = store_ptr_tko weak %arg0, %result : tile<ptr<i32>>, tile<i32> -> token loc(#loc)
    return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
