// launch seed=1259 grid=2,1,1
// parameter %p0 f16 8192 0..2
// parameter %n1 i32 0 256..256
// parameter %n2 i32 0 32..32
// parameter %p3 f16 2048 0..2
// parameter %n4 i32 0 32..32
// parameter %p5 f16 8192 0..2
// parameter %n6 i32 0 128..128
// parameter %n7 i32 0 64..64
// parameter %n8 i32 0 64..64
// parameter %p9 f16 39936 0..1 written 0.02
// parameter %n10 i32 0 2..2
// parameter %n11 i32 0 156..156
// parameter %n12 i32 0 128..128
// parameter %n13 i32 0 19968..19968
// parameter %n14 i32 0 128..128 0.02
cuda_tile.module @kernels {
  entry @kernel(%p0: tile<ptr<f16>>, %n1: tile<i32>, %n2: tile<i32>, %p3: tile<ptr<f16>>, %n4: tile<i32>, %p5: tile<ptr<f16>>, %n6: tile<i32>, %n7: tile<i32>, %n8: tile<i32>, %p9: tile<ptr<f16>>, %n10: tile<i32>, %n11: tile<i32>, %n12: tile<i32>, %n13: tile<i32>, %n14: tile<i32>) {
    %v1 = assume div_by<16>, %p0 : tile<ptr<f16>>
    %v2 = assume div_by<8>, %n1 : tile<i32>
    %v3 = assume bounded<0, ?>, %v2 : tile<i32>
    %v4 = assume div_by<8>, %n2 : tile<i32>
    %v5 = assume bounded<0, ?>, %v4 : tile<i32>
    %v6 = make_tensor_view %v1, shape = [%v3, %v5], strides = [32, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[32,1]>
    %v7 = assume div_by<16>, %p3 : tile<ptr<f16>>
    %v8 = assume div_by<8>, %n4 : tile<i32>
    %v9 = assume bounded<0, ?>, %v8 : tile<i32>
    %v10 = make_tensor_view %v7, shape = [64, 32], strides = [%v9, 1] : tile<i32> -> tensor_view<64x32xf16, strides=[?,1]>
    %v11 = assume div_by<16>, %p5 : tile<ptr<f16>>
    %v12 = assume div_by<8>, %n6 : tile<i32>
    %v13 = assume bounded<0, ?>, %v12 : tile<i32>
    %v14 = assume div_by<8>, %n7 : tile<i32>
    %v15 = assume bounded<0, ?>, %v14 : tile<i32>
    %v16 = assume div_by<8>, %n8 : tile<i32>
    %v17 = assume bounded<0, ?>, %v16 : tile<i32>
    %v18 = make_tensor_view %v11, shape = [%v13, %v15], strides = [%v17, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %v19 = assume div_by<16>, %p9 : tile<ptr<f16>>
    %v20 = assume bounded<0, ?>, %n10 : tile<i32>
    %v21 = assume bounded<0, ?>, %n11 : tile<i32>
    %v22 = assume div_by<8>, %n12 : tile<i32>
    %v23 = assume bounded<0, ?>, %v22 : tile<i32>
    %v24 = assume div_by<8>, %n13 : tile<i32>
    %v25 = assume bounded<0, ?>, %v24 : tile<i32>
    %v26 = assume div_by<8>, %n14 : tile<i32>
    %v27 = assume bounded<0, ?>, %v26 : tile<i32>
    %v28 = make_tensor_view %v19, shape = [%v20, %v21, %v23], strides = [%v25, %v27, 1] : tile<i32> -> tensor_view<?x?x?xf16, strides=[?,?,1]>
    %v29, %v30, %v31 = get_tile_block_id : tile<i32>
    %v32 = constant <i32: 1> : tile<i32>
    %v33 = divi %v29, %v32 signed rounding<zero> : tile<i32>
    %v34 = remi %v29, %v32 signed : tile<i32>
    %v35 = constant <i32: 0> : tile<i32>
    %v36 = make_partition_view %v6 : partition_view<tile=(128x32), padding_value = zero, tensor_view<?x?xf16, strides=[32,1]>>
    %v37, %v38 = load_view_tko weak %v36[%v33, %v35] optimization_hints = <sm_90 = {latency = 2}> : partition_view<tile=(128x32), padding_value = zero, tensor_view<?x?xf16, strides=[32,1]>>, tile<i32> -> tile<128x32xf16>, token
    %v39 = constant <f32: 1.250000e-01> : tile<128x32xf32>
    %v40 = constant <f32: -1.000000e+30> : tile<128x1xf32>
    %v41 = constant <f32: 0.000000e+00> : tile<128x128xf32>
    %v42 = constant <f32: 0.000000e+00> : tile<128x1xf32>
    %v43 = constant <i32: 0> : tile<i32>
    %v44 = constant <i32: 2> : tile<i32>
    %v45 = constant <i32: 1> : tile<i32>
    %v50:3 = for %v46 in (%v43 to %v44, step %v45) : tile<i32> iter_values(%v47 = %v40, %v48 = %v41, %v49 = %v42) -> (tile<128x1xf32>, tile<128x128xf32>, tile<128x1xf32>) {
      %v51 = make_partition_view %v10 : partition_view<tile=(32x32), padding_value = zero, tensor_view<64x32xf16, strides=[?,1]>>
      %v52, %v53 = load_view_tko weak %v51[%v46, %v35] optimization_hints = <sm_80 = {allow_tma = true}> : partition_view<tile=(32x32), padding_value = zero, tensor_view<64x32xf16, strides=[?,1]>>, tile<i32> -> tile<32x32xf16>, token
      %v54 = permute %v52 [1, 0] : tile<32x32xf16> -> tile<32x32xf16>
      %v55 = constant <f32: 0.000000e+00> : tile<128x32xf32>
      %v56 = mmaf %v37, %v54, %v55 : tile<128x32xf16>, tile<32x32xf16>, tile<128x32xf32>
      %v57 = reduce %v56 dim=1 identities=[0xFF800000 : f32] : tile<128x32xf32> -> tile<128xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %most = maxf %x, %y : tile<f32>
        yield %most : tile<f32>
      }
      %v58 = reshape %v57 : tile<128xf32> -> tile<128x1xf32>
      %v59 = maxf %v47, %v58 : tile<128x1xf32>
      %v60 = mulf %v56, %v39 : tile<128x32xf32>
      %v61 = constant <f32: 1.250000e-01> : tile<128x1xf32>
      %v62 = mulf %v59, %v61 : tile<128x1xf32>
      %v63 = constant <f32: 1.250000e-01> : tile<128x1xf32>
      %v64 = mulf %v47, %v63 : tile<128x1xf32>
      %v65 = broadcast %v62 : tile<128x1xf32> -> tile<128x32xf32>
      %v66 = subf %v60, %v65 : tile<128x32xf32>
      %v67 = exp2 %v66 : tile<128x32xf32>
      %v68 = subf %v64, %v62 : tile<128x1xf32>
      %v69 = exp2 %v68 : tile<128x1xf32>
      %v70 = reduce %v67 dim=1 identities=[0.000000e+00 : f32] : tile<128x32xf32> -> tile<128xf32>
      (%x: tile<f32>, %y: tile<f32>) {
        %sum = addf %x, %y : tile<f32>
        yield %sum : tile<f32>
      }
      %v71 = reshape %v70 : tile<128xf32> -> tile<128x1xf32>
      %v72 = mulf %v49, %v69 : tile<128x1xf32>
      %v73 = addf %v72, %v71 : tile<128x1xf32>
      %v74 = broadcast %v69 : tile<128x1xf32> -> tile<128x128xf32>
      %v75 = mulf %v48, %v74 : tile<128x128xf32>
      %v76 = ftof %v67 : tile<128x32xf32> -> tile<128x32xf16>
      %v77 = make_partition_view %v18 : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>, dim_map=[1, 0]>
      %v78, %v79 = load_view_tko weak %v77[%v46, %v35] : partition_view<tile=(32x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<32x128xf16>, token
      %v80 = mmaf %v76, %v78, %v75 : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
      continue %v59, %v80, %v73 : tile<128x1xf32>, tile<128x128xf32>, tile<128x1xf32>
    }
    %v81 = broadcast %v50#2 : tile<128x1xf32> -> tile<128x128xf32>
    %v82 = divf %v50#1, %v81 : tile<128x128xf32>
    %v83 = ftof %v82 : tile<128x128xf32> -> tile<128x128xf16>
    %v84 = reshape %v83 : tile<128x128xf16> -> tile<1x128x128xf16>
    %v85 = make_partition_view %v28 : partition_view<tile=(1x128x128), tensor_view<?x?x?xf16, strides=[?,?,1]>>
    %v86 = constant <i32: 1> : tile<i32>
    %v87 = store_view_tko weak %v84, %v85[%v86, %v33, %v35] : tile<1x128x128xf16>, partition_view<tile=(1x128x128), tensor_view<?x?x?xf16, strides=[?,?,1]>>, tile<i32> -> token
    return
  }
}
