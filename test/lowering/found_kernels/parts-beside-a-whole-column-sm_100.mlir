// launch seed=2 grid=1,1,1
// parameter %p0 bf16 7111 -2..2
// parameter %n1 i32 0 96..96
// parameter %p2 f32 5758 -2..2
// parameter %n3 i32 0 96..96
// parameter %n4 i32 0 58..58
// parameter %n5 i32 0 60..60
// parameter %p6 f32 184 -1..1
// parameter %n7 i32 0 45..45
// parameter %n8 i32 0 1..1
// parameter %n9 i32 0 4..4
// parameter %p10 f32 184 -1..1
// parameter %n11 i32 0 45..45
// parameter %n12 i32 0 1..1
// parameter %n13 i32 0 4..4
// parameter %p14 f32 5767 0..1 written
// parameter %n15 i32 0 45..45
// parameter %n16 i32 0 128..128
cuda_tile.module @kernels {
  entry @kernel(%p0: tile<ptr<bf16>>, %n1: tile<i32>, %p2: tile<ptr<f32>>, %n3: tile<i32>, %n4: tile<i32>, %n5: tile<i32>, %p6: tile<ptr<f32>>, %n7: tile<i32>, %n8: tile<i32>, %n9: tile<i32>, %p10: tile<ptr<f32>>, %n11: tile<i32>, %n12: tile<i32>, %n13: tile<i32>, %p14: tile<ptr<f32>>, %n15: tile<i32>, %n16: tile<i32>) {
    %v1 = assume div_by<16>, %p0 : tile<ptr<bf16>>
    %v2 = assume div_by<8>, %n1 : tile<i32>
    %v3 = assume bounded<0, ?>, %v2 : tile<i32>
    %v4 = make_tensor_view %v1, shape = [74, 96], strides = [%v3, 1] : tile<i32> -> tensor_view<74x96xbf16, strides=[?,1]>
    %v5 = assume div_by<16>, %p2 : tile<ptr<f32>>
    %v6 = assume div_by<4>, %n3 : tile<i32>
    %v7 = assume bounded<0, ?>, %v6 : tile<i32>
    %v8 = assume bounded<0, ?>, %n4 : tile<i32>
    %v9 = assume div_by<4>, %n5 : tile<i32>
    %v10 = assume bounded<0, ?>, %v9 : tile<i32>
    %v11 = make_tensor_view %v5, shape = [%v7, %v8], strides = [%v10, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %v12 = assume div_by<16>, %p6 : tile<ptr<f32>>
    %v13 = assume bounded<0, ?>, %n7 : tile<i32>
    %v14 = assume bounded<0, ?>, %n8 : tile<i32>
    %v15 = assume div_by<4>, %n9 : tile<i32>
    %v16 = assume bounded<0, ?>, %v15 : tile<i32>
    %v17 = make_tensor_view %v12, shape = [%v13, %v14], strides = [%v16, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %v18 = assume div_by<16>, %p10 : tile<ptr<f32>>
    %v19 = assume bounded<0, ?>, %n11 : tile<i32>
    %v20 = assume bounded<0, ?>, %n12 : tile<i32>
    %v21 = assume div_by<4>, %n13 : tile<i32>
    %v22 = assume bounded<0, ?>, %v21 : tile<i32>
    %v23 = make_tensor_view %v18, shape = [%v19, %v20], strides = [%v22, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %v24 = assume div_by<16>, %p14 : tile<ptr<f32>>
    %v25 = assume bounded<0, ?>, %n15 : tile<i32>
    %v26 = assume div_by<4>, %n16 : tile<i32>
    %v27 = assume bounded<0, ?>, %v26 : tile<i32>
    %v28 = make_tensor_view %v24, shape = [%v25, %v27], strides = [128, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[128,1]>
    %v29, %v30, %v31 = get_tile_block_id : tile<i32>
    %v32 = constant <i32: 1> : tile<i32>
    %v33 = divi %v29, %v32 signed rounding<zero> : tile<i32>
    %v34 = remi %v29, %v32 signed : tile<i32>
    %v35 = constant <f32: 0.000000e+00> : tile<128x128xf32>
    %v36 = constant <i32: 1> : tile<i32>
    %v37 = constant <i32: 3> : tile<i32>
    %v38 = constant <i32: 1> : tile<i32>
    %v41:1 = for %v39 in (%v36 to %v37, step %v38) : tile<i32> iter_values(%v40 = %v35) -> (tile<128x128xf32>) {
      %v42 = make_partition_view %v4 : partition_view<tile=(128x32), padding_value = zero, tensor_view<74x96xbf16, strides=[?,1]>>
      %v43, %v44 = load_view_tko weak %v42[%v33, %v39] : partition_view<tile=(128x32), padding_value = zero, tensor_view<74x96xbf16, strides=[?,1]>>, tile<i32> -> tile<128x32xbf16>, token
      %v45 = make_partition_view %v11 : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
      %v46, %v47 = load_view_tko weak %v45[%v39, %v34] optimization_hints = <sm_90 = {allow_tma = false}> : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<32x128xf32>, token
      %v48 = ftof %v46 : tile<32x128xf32> -> tile<32x128xbf16>
      %v49 = mmaf %v43, %v48, %v40 : tile<128x32xbf16>, tile<32x128xbf16>, tile<128x128xf32>
      continue %v49 : tile<128x128xf32>
    }
    %v50 = constant <i32: 0> : tile<i32>
    %v51 = make_partition_view %v17 : partition_view<tile=(128x1), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %v52, %v53 = load_view_tko weak %v51[%v33, %v50] optimization_hints = <sm_80 = {latency = 8}> : partition_view<tile=(128x1), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<128x1xf32>, token
    %v54 = broadcast %v52 : tile<128x1xf32> -> tile<128x128xf32>
    %v55 = mulf %v41#0, %v54 : tile<128x128xf32>
    %v56 = constant <i32: 0> : tile<i32>
    %v57 = make_partition_view %v23 : partition_view<tile=(128x1), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %v58, %v59 = load_view_tko weak %v57[%v33, %v56] : partition_view<tile=(128x1), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<128x1xf32>, token
    %v60 = broadcast %v58 : tile<128x1xf32> -> tile<128x128xf32>
    %v61 = mulf %v55, %v60 : tile<128x128xf32>
    %v62 = make_partition_view %v28 : partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[128,1]>>
    %v63 = store_view_tko weak %v61, %v62[%v33, %v34] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<?x?xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
