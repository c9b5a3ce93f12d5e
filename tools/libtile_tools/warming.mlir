// What a compile server compiles to get ready for a target: what kernels are usually made of. Nobody sees the result.
cuda_tile.module @ready {
  entry @product(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %k: tile<i32>) {
    %0 = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %c16 = assume div_by<16>, %c : tile<ptr<f32>>
    %m0 = assume bounded<0, ?>, %m : tile<i32>
    %m8 = assume div_by<8>, %m0 : tile<i32>
    %n0 = assume bounded<0, ?>, %n : tile<i32>
    %n8 = assume div_by<8>, %n0 : tile<i32>
    %k0 = assume bounded<0, ?>, %k : tile<i32>
    %k8 = assume div_by<8>, %k0 : tile<i32>
    %va = make_tensor_view %a16, shape = [%m8, %k8], strides = [%k8, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vb = make_tensor_view %b16, shape = [%k8, %n8], strides = [%n8, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vc = make_tensor_view %c16, shape = [%m8, %n8], strides = [%n8, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %va : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %steps:2 = get_index_space_shape %pa : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %sum = for %i in (%first to %steps#1, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<64x64xf32>) {
      %ta, %t0 = load_view_tko weak %pa[%x, %i] token = %0 : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
      %tb, %t1 = load_view_tko weak %pb[%i, %y] token = %0 : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %ta, %tb, %s : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %t2 = store_view_tko weak %sum, %pc[%x, %y] token = %0 : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
  entry @row(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
    %0 = make_token : token
    %a16 = assume div_by<16>, %a : tile<ptr<f32>>
    %b16 = assume div_by<16>, %b : tile<ptr<f32>>
    %n0 = assume bounded<0, ?>, %n : tile<i32>
    %va = make_tensor_view %a16, shape = [%n0, %n0], strides = [%n0, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %vb = make_tensor_view %b16, shape = [%n0, %n0], strides = [%n0, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %va : partition_view<tile=(1x1024), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(1x1024), tensor_view<?x?xf32, strides=[?,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %row, %t0 = load_view_tko weak %pa[%x, %first] token = %0 : partition_view<tile=(1x1024), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<1x1024xf32>, token
    %greatest = reduce %row dim=1 identities=[0xFF800000 : f32] : tile<1x1024xf32> -> tile<1xf32>
    (%l: tile<f32>, %r: tile<f32>) {
      %g = maxf %l, %r : tile<f32>
      yield %g : tile<f32>
    }
    %greatest1 = reshape %greatest : tile<1xf32> -> tile<1x1xf32>
    %greatests = broadcast %greatest1 : tile<1x1xf32> -> tile<1x1024xf32>
    %below = subf %row, %greatests : tile<1x1024xf32>
    %powers = exp %below : tile<1x1024xf32>
    %sum = reduce %powers dim=1 identities=[0.0 : f32] : tile<1x1024xf32> -> tile<1xf32>
    (%l: tile<f32>, %r: tile<f32>) {
      %g = addf %l, %r : tile<f32>
      yield %g : tile<f32>
    }
    %sum1 = reshape %sum : tile<1xf32> -> tile<1x1xf32>
    %sums = broadcast %sum1 : tile<1x1xf32> -> tile<1x1024xf32>
    %shares = divf %powers, %sums : tile<1x1024xf32>
    %t1 = store_view_tko weak %shares, %pb[%x, %first] token = %0 : tile<1x1024xf32>, partition_view<tile=(1x1024), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
  entry @pointers(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %size = constant <i32: 256> : tile<i32>
    %start = muli %x, %size : tile<i32>
    %lanes = iota : tile<256xi32>
    %start1 = reshape %start : tile<i32> -> tile<1xi32>
    %starts = broadcast %start1 : tile<1xi32> -> tile<256xi32>
    %index = addi %starts, %lanes : tile<256xi32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %ns = broadcast %n1 : tile<1xi32> -> tile<256xi32>
    %inside = cmpi less_than %index, %ns, signed : tile<256xi32> -> tile<256xi1>
    %a1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %as = broadcast %a1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %from = offset %as, %index : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %b1 = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bs = broadcast %b1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %to = offset %bs, %index : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %zeros = constant <f32: 0.0> : tile<256xf32>
    %value, %t0 = load_ptr_tko weak %from, %inside, %zeros : tile<256xptr<f32>>, tile<256xi1>, tile<256xf32> -> tile<256xf32>, token
    %halves = constant <f32: 0.5> : tile<256xf32>
    %half = mulf %value, %halves : tile<256xf32>
    %most = maxf %half, %zeros : tile<256xf32>
    %t1 = store_ptr_tko weak %to, %most, %inside token=%t0 : tile<256xptr<f32>>, tile<256xf32>, tile<256xi1> -> token
    return
  }
}
