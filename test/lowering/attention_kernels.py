# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Attention as text, in sizes of any kind."""

from __future__ import annotations

NEGATIVE = "0xFF800000"


def attention(m=64, n=64, d=64, causal=False, last="") -> str:
    """Forward attention of one head of a batch (grid: blocks of rows, heads): `last` stands in front of the second
    product."""
    row, square, wide = f"tile<{m}x1xf32>", f"tile<{m}x{n}xf32>", f"tile<{m}x{d}xf32>"
    s = "%s" if causal else "%s0"
    tensor = f"tensor_view<?x?x{d}xf16, strides=[?,{d},1]>"
    q_view = f"partition_view<tile=(1x{m}x{d}), {tensor}>"
    k_view = f"partition_view<tile=(1x{d}x{n}), padding_value = zero, {tensor}, dim_map=[0, 2, 1]>"
    v_view = f"partition_view<tile=(1x{n}x{d}), padding_value = zero, {tensor}>"
    mask = f"""%first_row = muli %bx, %m : tile<i32>
      %first_column = muli %j, %n : tile<i32>
      %behind = addi %first_column, %n : tile<i32>
      %partly = cmpi greater_than %behind, %first_row, signed : tile<i32> -> tile<i1>
      %s = if %partly -> ({square}) {{
        %r = iota : tile<{m}xi32>
        %c = iota : tile<{n}xi32>
        %r1 = reshape %r : tile<{m}xi32> -> tile<{m}x1xi32>
        %r2 = broadcast %r1 : tile<{m}x1xi32> -> tile<{m}x{n}xi32>
        %c1 = reshape %c : tile<{n}xi32> -> tile<1x{n}xi32>
        %c2 = broadcast %c1 : tile<1x{n}xi32> -> tile<{m}x{n}xi32>
        %f0 = subi %first_row, %first_column : tile<i32>
        %f1 = reshape %f0 : tile<i32> -> tile<1x1xi32>
        %f2 = broadcast %f1 : tile<1x1xi32> -> tile<{m}x{n}xi32>
        %r3 = addi %r2, %f2 : tile<{m}x{n}xi32>
        %seen = cmpi greater_than_or_equal %r3, %c2, signed : tile<{m}x{n}xi32> -> tile<{m}x{n}xi1>
        %masked = select %seen, %s0, %lowest : tile<{m}x{n}xi1>, {square}
        yield %masked : {square}
      }} else {{ yield %s0 : {square} }}"""
    return f"""cuda_tile.module @m {{
  entry @attention(%q0: tile<ptr<f16>>, %k0: tile<ptr<f16>>, %v0: tile<ptr<f16>>, %o0: tile<ptr<f16>>, %heads0: tile<i32>, %rows0: tile<i32>, %columns0: tile<i32>, %q_size0: tile<i32>, %k_size0: tile<i32>) {{
    %q1 = assume div_by<16>, %q0 : tile<ptr<f16>>
    %k1 = assume div_by<16>, %k0 : tile<ptr<f16>>
    %v1 = assume div_by<16>, %v0 : tile<ptr<f16>>
    %heads = assume bounded<0, ?>, %heads0 : tile<i32>
    %rows = assume bounded<0, ?>, %rows0 : tile<i32>
    %columns = assume bounded<0, ?>, %columns0 : tile<i32>
    %m = constant <i32: {m}> : tile<i32>
    %n = constant <i32: {n}> : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %scale = constant <f32: {1.4426950408889634 / d**0.5}> : {square}
    %row_scale = constant <f32: {1.4426950408889634 / d**0.5}> : {row}
    %lowest = constant <f32: -1.0e30> : {square}
    %m_first = constant <f32: -1.0e30> : {row}
    %none = constant <f32: 0.0> : {square}
    %l_first = constant <f32: 0.0> : {row}
    %o_first = constant <f32: 0.0> : {wide}
    %q_size1 = assume bounded<0, ?>, %q_size0 : tile<i32>
    %k_size1 = assume bounded<0, ?>, %k_size0 : tile<i32>
    %q_size = assume div_by<16>, %q_size1 : tile<i32>
    %k_size = assume div_by<16>, %k_size1 : tile<i32>
    %tq = make_tensor_view %q1, shape = [%heads, %rows, {d}], strides = [%q_size, {d}, 1] : tile<i32> -> {tensor}
    %tk = make_tensor_view %k1, shape = [%heads, %columns, {d}], strides = [%k_size, {d}, 1] : tile<i32> -> {tensor}
    %tv = make_tensor_view %v1, shape = [%heads, %columns, {d}], strides = [%k_size, {d}, 1] : tile<i32> -> {tensor}
    %to = make_tensor_view %o0, shape = [%heads, %rows, {d}], strides = [%q_size, {d}, 1] : tile<i32> -> {tensor}
    %vq = make_partition_view %tq : {q_view}
    %vk = make_partition_view %tk : {k_view}
    %vv = make_partition_view %tv : {v_view}
    %vo = make_partition_view %to : {q_view}
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %q2, %tok = load_view_tko weak %vq[%by, %bx, %0] : {q_view}, tile<i32> -> tile<1x{m}x{d}xf16>, token
    %q = reshape %q2 : tile<1x{m}x{d}xf16> -> tile<{m}x{d}xf16>
    %sizes:3 = get_index_space_shape %vv : {v_view} -> tile<i32>
    %ends:3 = for %j in (%0 to %sizes#1, step %1) : tile<i32> iter_values(%o = %o_first, %l = %l_first, %top = %m_first) -> ({wide}, {row}, {row}) {{
      %k2, %tok1 = load_view_tko weak %vk[%by, %0, %j] : {k_view}, tile<i32> -> tile<1x{d}x{n}xf16>, token
      %k = reshape %k2 : tile<1x{d}x{n}xf16> -> tile<{d}x{n}xf16>
      %s0 = mmaf %q, %k, %none : tile<{m}x{d}xf16>, tile<{d}x{n}xf16>, {square}
      {mask if causal else ""}
      %most0 = reduce {s} dim=1 identities=[{NEGATIVE} : f32] : {square} -> tile<{m}xf32>
      (%e: tile<f32>, %f: tile<f32>) {{ %g = maxf %e, %f : tile<f32>
        yield %g : tile<f32> }}
      %most1 = reshape %most0 : tile<{m}xf32> -> {row}
      %most2 = mulf %most1, %row_scale : {row}
      %most = maxf %top, %most2 : {row}
      %most3 = broadcast %most : {row} -> {square}
      %most4 = negf %most3 : {square}
      %less = fma {s}, %scale, %most4 : {square}
      %p = exp2 %less flush_to_zero : {square}
      %fall0 = subf %top, %most : {row}
      %fall = exp2 %fall0 flush_to_zero : {row}
      %sum0 = reduce %p dim=1 identities=[0.0 : f32] : {square} -> tile<{m}xf32>
      (%e: tile<f32>, %f: tile<f32>) {{ %g = addf %e, %f : tile<f32>
        yield %g : tile<f32> }}
      %sum = reshape %sum0 : tile<{m}xf32> -> {row}
      %l1 = mulf %l, %fall : {row}
      %l2 = addf %l1, %sum : {row}
      %fall1 = broadcast %fall : {row} -> {wide}
      %o1 = mulf %o, %fall1 : {wide}
      {last}
      %v2, %tok2 = load_view_tko weak %vv[%by, %j, %0] : {v_view}, tile<i32> -> tile<1x{n}x{d}xf16>, token
      %v = reshape %v2 : tile<1x{n}x{d}xf16> -> tile<{n}x{d}xf16>
      %ph = ftof %p : {square} -> tile<{m}x{n}xf16>
      %o2 = mmaf %ph, %v, %o1 : tile<{m}x{n}xf16>, tile<{n}x{d}xf16>, {wide}
      continue %o2, %l2, %most : {wide}, {row}, {row}
    }}
    %l3 = broadcast %ends#1 : {row} -> {wide}
    %o3 = divf %ends#0, %l3 : {wide}
    %o4 = ftof %o3 : {wide} -> tile<{m}x{d}xf16>
    %o5 = reshape %o4 : tile<{m}x{d}xf16> -> tile<1x{m}x{d}xf16>
    %done = store_view_tko weak %o5, %vo[%by, %bx, %0] : tile<1x{m}x{d}xf16>, {q_view}, tile<i32> -> token
    return
  }}
}}
"""
