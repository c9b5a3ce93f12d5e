cuda_tile.module @kernels {
  entry @reduce_minmax_f32(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<ptr<f32>>, %arg6: tile<i32>, %arg7: tile<i32>, %arg8: tile<ptr<f32>>, %arg9: tile<i32>, %arg10: tile<i32>, %arg11: tile<ptr<f32>>, %arg12: tile<i32>, %arg13: tile<i32>, %arg14: tile<ptr<f32>>, %arg15: tile<i32>, %arg16: tile<i32>) optimization_hints=<sm_90 = {}> {
    %0 = make_token : token loc(#loc22)
    %assume = assume div_by<16>, %arg0 : tile<ptr<f32>> loc(#loc23)
    %assume_0 = assume div_by<16>, %arg5 : tile<ptr<f32>> loc(#loc24)
    %assume_1 = assume div_by<16>, %arg8 : tile<ptr<f32>> loc(#loc25)
    %assume_2 = assume div_by<16>, %arg11 : tile<ptr<f32>> loc(#loc26)
    %assume_3 = assume div_by<16>, %arg14 : tile<ptr<f32>> loc(#loc27)
    %cst_1_i32 = constant <i32: 1> : tile<i32> loc(#loc22)
    %cst_1_i32_4 = constant <i32: 1> : tile<i32> loc(#loc22)
    %cst_1_i32_5 = constant <i32: 1> : tile<i32> loc(#loc22)
    %cst_1_i32_6 = constant <i32: 1> : tile<i32> loc(#loc22)
    %cst_1_i32_7 = constant <i32: 1> : tile<i32> loc(#loc22)
    %assume_8 = assume bounded<0, ?>, %arg1 : tile<i32> loc(#loc22)
    %assume_9 = assume bounded<0, ?>, %arg2 : tile<i32> loc(#loc22)
    %assume_10 = assume bounded<0, ?>, %arg3 : tile<i32> loc(#loc22)
    %tview = make_tensor_view %assume, shape = [%assume_8, %assume_9], strides = [%assume_10, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]> loc(#loc22)
    %assume_11 = assume bounded<0, ?>, %arg6 : tile<i32> loc(#loc22)
    %tview_12 = make_tensor_view %assume_0, shape = [%assume_11], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc22)
    %assume_13 = assume bounded<0, ?>, %arg9 : tile<i32> loc(#loc22)
    %tview_14 = make_tensor_view %assume_1, shape = [%assume_13], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc22)
    %assume_15 = assume bounded<0, ?>, %arg12 : tile<i32> loc(#loc22)
    %tview_16 = make_tensor_view %assume_2, shape = [%assume_15], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc22)
    %assume_17 = assume bounded<0, ?>, %arg15 : tile<i32> loc(#loc22)
    %tview_18 = make_tensor_view %assume_3, shape = [%assume_17], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]> loc(#loc22)
    %cst_0_i32 = constant <i32: 0> : tile<i32> loc(#loc28)
    %cst_0_i32_19 = constant <i32: 0> : tile<i32> loc(#loc29)
    %pview = make_partition_view %tview : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>> loc(#loc30)
    %tile, %result_token = load_view_tko weak %pview[%cst_0_i32, %cst_0_i32_19] token = %0 : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<16x32xf32>, token loc(#loc30)
    %cst_0_i32_20 = constant <i32: 0> : tile<i32> loc(#loc31)
    %reduce = reduce %tile dim=0 identities=[0xFF800000 : f32] : tile<16x32xf32> -> tile<32xf32> 
    (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
      %5 = maxf %reduce_lhs, %reduce_rhs : tile<f32> loc(#loc32)
      yield %5 : tile<f32> loc(#loc32)
    } loc(#loc32)
    %pview_21 = make_partition_view %tview_12 : partition_view<tile=(32), tensor_view<?xf32, strides=[1]>> loc(#loc33)
    %1 = store_view_tko weak %reduce, %pview_21[%cst_0_i32_20] token = %0 : tile<32xf32>, partition_view<tile=(32), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc33)
    %cst_0_i32_22 = constant <i32: 0> : tile<i32> loc(#loc34)
    %reduce_23 = reduce %tile dim=1 identities=[0xFF800000 : f32] : tile<16x32xf32> -> tile<16xf32> 
    (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
      %5 = maxf %reduce_lhs, %reduce_rhs : tile<f32> loc(#loc35)
      yield %5 : tile<f32> loc(#loc35)
    } loc(#loc35)
    %pview_24 = make_partition_view %tview_14 : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>> loc(#loc36)
    %2 = store_view_tko weak %reduce_23, %pview_24[%cst_0_i32_22] token = %0 : tile<16xf32>, partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc36)
    %cst_0_i32_25 = constant <i32: 0> : tile<i32> loc(#loc37)
    %reduce_26 = reduce %tile dim=0 identities=[0x7F800000 : f32] : tile<16x32xf32> -> tile<32xf32> 
    (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
      %5 = minf %reduce_lhs, %reduce_rhs : tile<f32> loc(#loc38)
      yield %5 : tile<f32> loc(#loc38)
    } loc(#loc38)
    %pview_27 = make_partition_view %tview_16 : partition_view<tile=(32), tensor_view<?xf32, strides=[1]>> loc(#loc39)
    %3 = store_view_tko weak %reduce_26, %pview_27[%cst_0_i32_25] token = %0 : tile<32xf32>, partition_view<tile=(32), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc39)
    %cst_0_i32_28 = constant <i32: 0> : tile<i32> loc(#loc40)
    %reduce_29 = reduce %tile dim=1 identities=[0x7F800000 : f32] : tile<16x32xf32> -> tile<16xf32> 
    (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
      %5 = minf %reduce_lhs, %reduce_rhs : tile<f32> loc(#loc41)
      yield %5 : tile<f32> loc(#loc41)
    } loc(#loc41)
    %pview_30 = make_partition_view %tview_18 : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>> loc(#loc42)
    %4 = store_view_tko weak %reduce_29, %pview_30[%cst_0_i32_28] token = %0 : tile<16xf32>, partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token loc(#loc42)
    return loc(#loc)
  } loc(#loc22)
} loc(#loc)
#di_file = #cuda_tile.di_file<"\22" in "">
#loc = loc(unknown)
#loc1 = loc("\22":1695:0)
#loc2 = loc("\22":1695:18)
#loc3 = loc("\22":1695:21)
#loc4 = loc("\22":1695:26)
#loc5 = loc("\22":1695:31)
#loc6 = loc("\22":1695:36)
#loc7 = loc("\22":1696:20)
#loc8 = loc("\22":1696:23)
#loc9 = loc("\22":1696:8)
#loc10 = loc("\22":1697:19)
#loc11 = loc("\22":1697:24)
#loc12 = loc("\22":1697:4)
#loc13 = loc("\22":1698:19)
#loc14 = loc("\22":1698:24)
#loc15 = loc("\22":1698:4)
#loc16 = loc("\22":1699:19)
#loc17 = loc("\22":1699:24)
#loc18 = loc("\22":1699:4)
#loc19 = loc("\22":1700:19)
#loc20 = loc("\22":1700:24)
#loc21 = loc("\22":1700:4)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1694, name = "reduce_minmax", linkageName = "reduce_minmax_f32", compileUnit = #di_compile_unit, scopeLine = 1694>
#loc22 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
#loc23 = #cuda_tile.di_loc<#loc2 in #di_subprogram>
#loc24 = #cuda_tile.di_loc<#loc3 in #di_subprogram>
#loc25 = #cuda_tile.di_loc<#loc4 in #di_subprogram>
#loc26 = #cuda_tile.di_loc<#loc5 in #di_subprogram>
#loc27 = #cuda_tile.di_loc<#loc6 in #di_subprogram>
#loc28 = #cuda_tile.di_loc<#loc7 in #di_subprogram>
#loc29 = #cuda_tile.di_loc<#loc8 in #di_subprogram>
#loc30 = #cuda_tile.di_loc<#loc9 in #di_subprogram>
#loc31 = #cuda_tile.di_loc<#loc10 in #di_subprogram>
#loc32 = #cuda_tile.di_loc<#loc11 in #di_subprogram>
#loc33 = #cuda_tile.di_loc<#loc12 in #di_subprogram>
#loc34 = #cuda_tile.di_loc<#loc13 in #di_subprogram>
#loc35 = #cuda_tile.di_loc<#loc14 in #di_subprogram>
#loc36 = #cuda_tile.di_loc<#loc15 in #di_subprogram>
#loc37 = #cuda_tile.di_loc<#loc16 in #di_subprogram>
#loc38 = #cuda_tile.di_loc<#loc17 in #di_subprogram>
#loc39 = #cuda_tile.di_loc<#loc18 in #di_subprogram>
#loc40 = #cuda_tile.di_loc<#loc19 in #di_subprogram>
#loc41 = #cuda_tile.di_loc<#loc20 in #di_subprogram>
#loc42 = #cuda_tile.di_loc<#loc21 in #di_subprogram>
