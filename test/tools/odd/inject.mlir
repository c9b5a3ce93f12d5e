cuda_tile.module @kernels {
  entry @k(%arg0: tile<ptr<i32>>) {
    %cst_7_i32 = constant <i32: 7> : tile<i32> loc(#loc2)
    %0 = store_ptr_tko weak %arg0, %cst_7_i32 : tile<ptr<i32>>, tile<i32> -> token loc(#loc2)
    return loc(#loc2)
  } loc(#loc2)
} loc(#loc)
#di_file = #cuda_tile.di_file<"x\22 .visible .global .align 4 .u32 EVIL; //" in "/src">
#loc = loc(unknown)
#loc1 = loc("x\22 .visible .global .align 4 .u32 EVIL; //":3:4)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1, name = "k", linkageName = "k", compileUnit = #di_compile_unit, scopeLine = 1>
#loc2 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
