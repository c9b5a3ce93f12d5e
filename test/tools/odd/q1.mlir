cuda_tile.module @kernels {
  entry @while_tile_condition(%arg0: tile<ptr<i32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<ptr<i32>>, %arg4: tile<i32>, %arg5: tile<i32>) optimization_hints=<sm_90 = {}> {
    %0 = make_token : token loc(#loc21)
    %assume = assume div_by<16>, %arg0 : tile<ptr<i32>> loc(#loc22)
    %assume_0 = assume div_by<16>, %arg3 : tile<ptr<i32>> loc(#loc23)
    %cst_1_i32 = constant <i32: 1> : tile<i32> loc(#loc21)
    %cst_1_i32_1 = constant <i32: 1> : tile<i32> loc(#loc21)
    %cst_1_i32_2 = constant <i32: 1> : tile<16xi32> loc(#loc24)
    %cst_1_i32_3 = constant <i32: 1> : tile<16xi32> loc(#loc25)
    %cst_2_i32 = constant <i32: 2> : tile<16xi32> loc(#loc26)
    %cst_0_i32 = constant <i32: 0> : tile<16xi32> loc(#loc26)
    %cst_2_i32_4 = constant <i32: 2> : tile<16xi32> loc(#loc27)
    %cst_3_i32 = constant <i32: 3> : tile<16xi32> loc(#loc28)
    %cst_1_i32_5 = constant <i32: 1> : tile<16xi32> loc(#loc28)
    %assume_6 = assume bounded<0, ?>, %arg1 : tile<i32> loc(#loc21)
    %tview = make_tensor_view %assume, shape = [%assume_6], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]> loc(#loc21)
    %assume_7 = assume bounded<0, ?>, %arg4 : tile<i32> loc(#loc21)
    %tview_8 = make_tensor_view %assume_0, shape = [%assume_7], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]> loc(#loc21)
    %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32> loc(#loc29)
    %pview = make_partition_view %tview : partition_view<tile=(16), padding_value = zero, tensor_view<?xi32, strides=[1]>> loc(#loc30)
    %tile, %result_token = load_view_tko weak %pview[%blockId_x] token = %0 : partition_view<tile=(16), padding_value = zero, tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<16xi32>, token loc(#loc30)
    %1 = maxi %tile, %cst_1_i32_2 signed : tile<16xi32> loc(#loc24)
    %cst_0_i32_9 = constant <i32: 0> : tile<16xi32> loc(#loc31)
    %cst_1_i32_10 = constant <i32: 1> : tile<i32> loc(#loc32)
    %cst_0_i32_11 = constant <i32: 0> : tile<16xi32> loc(#loc26)
    %2 = cmpi less_than %cst_2_i32, %cst_0_i32_11, signed : tile<16xi32> -> tile<16xi1> loc(#loc26)
    %3:2 = loop iter_values(%arg6 = %cst_0_i32_9, %arg7 = %1) : tile<16xi32>, tile<16xi32> -> tile<16xi32>, tile<16xi32> {
      %reduce = reduce %arg7 dim=0 identities=[-2147483648 : i32] : tile<16xi32> -> tile<i32> 
      (%reduce_lhs: tile<i32>, %reduce_rhs: tile<i32>) {
        %22 = maxi %reduce_lhs, %reduce_rhs signed : tile<i32> loc(#loc34)
        yield %22 : tile<i32> loc(#loc34)
      } loc(#loc34)
      %5 = cmpi greater_than %reduce, %cst_1_i32_10, signed : tile<i32> -> tile<i1> loc(#loc34)
      if %5 {
      } else {
        break %arg6, %arg7 : tile<16xi32>, tile<16xi32> loc(#loc33)
      } loc(#loc33)
      %6 = cmpi greater_than %arg7, %cst_1_i32_3, signed : tile<16xi32> -> tile<16xi1> loc(#loc25)
      %7 = remi %arg7, %cst_2_i32 signed : tile<16xi32> loc(#loc26)
      %8 = cmpi less_than %7, %cst_0_i32_11, signed : tile<16xi32> -> tile<16xi1> loc(#loc26)
      %9 = xori %8, %2 : tile<16xi1> loc(#loc26)
      %10 = cmpi not_equal %7, %cst_0_i32_11, signed : tile<16xi32> -> tile<16xi1> loc(#loc26)
      %11 = andi %9, %10 : tile<16xi1> loc(#loc26)
      %12 = addi %7, %cst_2_i32 : tile<16xi32> loc(#loc26)
      %13 = select %11, %12, %7 : tile<16xi1>, tile<16xi32> loc(#loc26)
      %14 = cmpi equal %13, %cst_0_i32, signed : tile<16xi32> -> tile<16xi1> loc(#loc26)
      %15 = divi %arg7, %cst_2_i32_4 signed rounding<negative_inf> : tile<16xi32> loc(#loc27)
      %16 = muli %cst_3_i32, %arg7 : tile<16xi32> loc(#loc28)
      %17 = addi %16, %cst_1_i32_5 : tile<16xi32> loc(#loc28)
      %18 = select %14, %15, %17 : tile<16xi1>, tile<16xi32> loc(#loc35)
      %19 = select %6, %18, %arg7 : tile<16xi1>, tile<16xi32> loc(#loc36)
      %20 = exti %6 unsigned : tile<16xi1> -> tile<16xi32> loc(#loc41)
      %21 = addi %arg6, %20 : tile<16xi32> loc(#loc39)
      continue %21, %19 : tile<16xi32>, tile<16xi32> loc(#loc33)
    } loc(#loc33)
    %pview_12 = make_partition_view %tview_8 : partition_view<tile=(16), tensor_view<?xi32, strides=[1]>> loc(#loc40)
    %4 = store_view_tko weak %3#0, %pview_12[%blockId_x] token = %0 : tile<16xi32>, partition_view<tile=(16), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token loc(#loc40)
    return loc(#loc)
  } loc(#loc21)
} loc(#loc)
#di_file = #cuda_tile.di_file<"\22" in "">
#di_file1 = #cuda_tile.di_file<"_stub.py" in "">
#loc = loc(unknown)
#loc1 = loc("\22":2589:0)
#loc2 = loc("\22":2589:17)
#loc3 = loc("\22":2589:20)
#loc4 = loc("\22":2592:8)
#loc5 = loc("\22":2595:15)
#loc6 = loc("\22":2596:36)
#loc7 = loc("\22":2596:48)
#loc8 = loc("\22":2596:56)
#loc9 = loc("\22":2590:8)
#loc10 = loc("\22":2591:8)
#loc11 = loc("\22":2593:12)
#loc12 = loc("\22":2594:22)
#loc13 = loc("\22":2594:4)
#loc14 = loc("\22":2594:10)
#loc15 = loc("\22":2596:27)
#loc16 = loc("\22":2596:12)
#loc17 = loc("_stub.py":678:15)
#loc18 = loc("\22":2597:24)
#loc19 = loc("\22":2597:16)
#loc20 = loc("\22":2598:4)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_compile_unit1 = #cuda_tile.di_compile_unit<file = #di_file1>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 2588, name = "collatz_tile", linkageName = "while_tile_condition", compileUnit = #di_compile_unit, scopeLine = 2588>
#di_subprogram1 = #cuda_tile.di_subprogram<file = #di_file1, line = 676, name = "astype", linkageName = "astype@_stub:676:5_s0", compileUnit = #di_compile_unit1, scopeLine = 676>
#loc21 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
#loc22 = #cuda_tile.di_loc<#loc2 in #di_subprogram>
#loc23 = #cuda_tile.di_loc<#loc3 in #di_subprogram>
#loc24 = #cuda_tile.di_loc<#loc4 in #di_subprogram>
#loc25 = #cuda_tile.di_loc<#loc5 in #di_subprogram>
#loc26 = #cuda_tile.di_loc<#loc6 in #di_subprogram>
#loc27 = #cuda_tile.di_loc<#loc7 in #di_subprogram>
#loc28 = #cuda_tile.di_loc<#loc8 in #di_subprogram>
#loc29 = #cuda_tile.di_loc<#loc9 in #di_subprogram>
#loc30 = #cuda_tile.di_loc<#loc10 in #di_subprogram>
#loc31 = #cuda_tile.di_loc<#loc11 in #di_subprogram>
#loc32 = #cuda_tile.di_loc<#loc12 in #di_subprogram>
#loc33 = #cuda_tile.di_loc<#loc13 in #di_subprogram>
#loc34 = #cuda_tile.di_loc<#loc14 in #di_subprogram>
#loc35 = #cuda_tile.di_loc<#loc15 in #di_subprogram>
#loc36 = #cuda_tile.di_loc<#loc16 in #di_subprogram>
#loc37 = #cuda_tile.di_loc<#loc17 in #di_subprogram1>
#loc38 = #cuda_tile.di_loc<#loc18 in #di_subprogram>
#loc39 = #cuda_tile.di_loc<#loc19 in #di_subprogram>
#loc40 = #cuda_tile.di_loc<#loc20 in #di_subprogram>
#loc41 = loc(callsite(#loc37 at #loc38))
