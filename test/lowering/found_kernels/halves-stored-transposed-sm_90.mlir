// launch seed=22 grid=2,1,1
// parameter %p0 f64 20399 -2..2
// parameter %n1 i32 0 169..169
// parameter %n2 i32 0 120..120
// parameter %n3 i32 0 170..170
// parameter %p4 f64 7680 -2..2
// parameter %n5 i32 0 120..120
// parameter %n6 i32 0 64..64
// parameter %n7 i32 0 64..64
// parameter %p8 f64 199 -1..1
// parameter %p9 f64 12295 0..1 written
// parameter %n10 i32 0 192..192
// parameter %p11 f64 12288 0..1 written
// parameter %n12 i32 0 192..192
// parameter %n13 i32 0 1..1
// parameter %n14 i32 0 0..0
cuda_tile.module @kernels {
  entry @kernel(%p0: tile<ptr<f64>>, %n1: tile<i32>, %n2: tile<i32>, %n3: tile<i32>, %p4: tile<ptr<f64>>, %n5: tile<i32>, %n6: tile<i32>, %n7: tile<i32>, %p8: tile<ptr<f64>>, %p9: tile<ptr<f64>>, %n10: tile<i32>, %p11: tile<ptr<f64>>, %n12: tile<i32>, %n13: tile<i32>, %n14: tile<i32>) optimization_hints=<sm_90 = {num_cta_in_cga = 2}> {
    %v1 = assume div_by<16>, %p0 : tile<ptr<f64>>
    %v2 = assume bounded<0, ?>, %n1 : tile<i32>
    %v3 = assume div_by<2>, %n2 : tile<i32>
    %v4 = assume bounded<0, ?>, %v3 : tile<i32>
    %v5 = assume div_by<2>, %n3 : tile<i32>
    %v6 = assume bounded<0, ?>, %v5 : tile<i32>
    %v7 = make_tensor_view %v1, shape = [%v2, %v4], strides = [1, %v6] : tile<i32> -> tensor_view<?x?xf64, strides=[1,?]>
    %v8 = assume div_by<16>, %p4 : tile<ptr<f64>>
    %v9 = assume div_by<2>, %n5 : tile<i32>
    %v10 = assume bounded<0, ?>, %v9 : tile<i32>
    %v11 = assume div_by<2>, %n6 : tile<i32>
    %v12 = assume bounded<0, ?>, %v11 : tile<i32>
    %v13 = assume div_by<2>, %n7 : tile<i32>
    %v14 = assume bounded<0, ?>, %v13 : tile<i32>
    %v15 = make_tensor_view %v8, shape = [%v10, %v12], strides = [%v14, 1] : tile<i32> -> tensor_view<?x?xf64, strides=[?,1]>
    %v16 = make_tensor_view %p8, shape = [192, 1], strides = [1, 1] : tensor_view<192x1xf64, strides=[1,1]>
    %v17 = assume div_by<16>, %p9 : tile<ptr<f64>>
    %v18 = assume div_by<2>, %n10 : tile<i32>
    %v19 = assume bounded<0, ?>, %v18 : tile<i32>
    %v20 = make_tensor_view %v17, shape = [64, 192], strides = [%v19, 1] : tile<i32> -> tensor_view<64x192xf64, strides=[?,1]>
    %v21 = assume div_by<16>, %p11 : tile<ptr<f64>>
    %v22 = assume div_by<2>, %n12 : tile<i32>
    %v23 = assume bounded<0, ?>, %v22 : tile<i32>
    %v24 = make_tensor_view %v21, shape = [64, 192], strides = [%v23, 1] : tile<i32> -> tensor_view<64x192xf64, strides=[?,1]>
    %v25, %v26, %v27 = get_tile_block_id : tile<i32>
    %v28 = constant <i32: 3> : tile<i32>
    %v29 = constant <i32: 2> : tile<i32>
    %v30, %v31, %v32 = get_num_tile_blocks : tile<i32>
    for %v33 in (%v25 to %v28, step %v30) : tile<i32> {
      %v34 = divi %v33, %n13 signed rounding<zero> : tile<i32>
      %v35 = remi %v33, %n13 signed : tile<i32>
      %v36 = constant <f64: 1.000000e+00> : tile<64x64xf64>
      %v37 = constant <i32: 0> : tile<i32>
      %v38 = constant <i32: 4> : tile<i32>
      %v39 = constant <i32: 1> : tile<i32>
      %v42:1 = for %v40 in (%v37 to %v38, step %v39) : tile<i32> iter_values(%v41 = %v36) -> (tile<64x64xf64>) {
        %v43 = cmpi less_than %v40, %n14, signed : tile<i32> -> tile<i1>
        %v44 = if %v43 -> (tile<64x64xf64>) {
          %v45 = make_partition_view %v7 : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf64, strides=[1,?]>>
          %v46, %v47 = load_view_tko weak %v45[%v34, %v40] optimization_hints = <sm_90 = {allow_tma = true}> : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf64, strides=[1,?]>>, tile<i32> -> tile<64x32xf64>, token
          %v48 = make_partition_view %v15 : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>
          %v49, %v50 = load_view_tko weak %v48[%v40, %v35] : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf64, strides=[?,1]>>, tile<i32> -> tile<32x64xf64>, token
          %v51 = mmaf %v46, %v49, %v41 : tile<64x32xf64>, tile<32x64xf64>, tile<64x64xf64>
          yield %v51 : tile<64x64xf64>
        } else {
          yield %v41 : tile<64x64xf64>
        }
        continue %v44 : tile<64x64xf64>
      }
      %v52 = constant <i32: 0> : tile<i32>
      %v53 = make_partition_view %v16 : partition_view<tile=(64x1), padding_value = zero, tensor_view<192x1xf64, strides=[1,1]>>
      %v54, %v55 = load_view_tko weak %v53[%v34, %v52] optimization_hints = <sm_90 = {latency = 2}> : partition_view<tile=(64x1), padding_value = zero, tensor_view<192x1xf64, strides=[1,1]>>, tile<i32> -> tile<64x1xf64>, token
      %v56 = broadcast %v54 : tile<64x1xf64> -> tile<64x64xf64>
      %v57 = mulf %v42#0, %v56 : tile<64x64xf64>
      %v58 = permute %v57 [1, 0] : tile<64x64xf64> -> tile<64x64xf64>
      %v59 = make_partition_view %v20 : partition_view<tile=(64x64), tensor_view<64x192xf64, strides=[?,1]>>
      %v60 = store_view_tko weak %v58, %v59[%v35, %v34] : tile<64x64xf64>, partition_view<tile=(64x64), tensor_view<64x192xf64, strides=[?,1]>>, tile<i32> -> token
      %v61 = make_partition_view %v24 : partition_view<tile=(64x64), tensor_view<64x192xf64, strides=[?,1]>, dim_map=[1, 0]>
      %v62 = store_view_tko weak %v57, %v61[%v34, %v35] : tile<64x64xf64>, partition_view<tile=(64x64), tensor_view<64x192xf64, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> token
    }
    return
  }
}
