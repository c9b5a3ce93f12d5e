cuda_tile.module @kernels {
  entry @k(%arg0: tile<ptr<i32>>) {
    %0 = alloca num_elem = 64, alignment = 1073741824 : tile<ptr<i32>> loc(#loc)
    %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32> loc(#loc)
    %1 = offset %0, %blockId_x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>> loc(#loc)
    %2 = store_ptr_tko weak %1, %blockId_x : tile<ptr<i32>>, tile<i32> -> token loc(#loc)
    %3 = offset %0, %blockId_y : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>> loc(#loc)
    %result, %result_token = load_ptr_tko weak %3 token=%2 : tile<ptr<i32>> -> tile<i32>, token loc(#loc)
    %4 = store_ptr_tko weak %arg0, %result : tile<ptr<i32>>, tile<i32> -> token loc(#loc)
    return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
