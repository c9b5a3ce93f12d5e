# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One or more uses of every op, in the form in which the printer writes them.

A case is the types of the function's arguments (`%arg0`, `%arg1`, ...) and the lines of its body.
"""

# ruff: noqa: E501  (a case reads best on the line that the printer gives it)
from __future__ import annotations

F = "tile<2x2xf32>"
I = "tile<2x2xi32>"  # noqa: E741
S = "tile<i32>"
PTR = "tile<2x2xptr<f32>>"
B = "tile<2x2xi1>"
TV = "tensor_view<?x16xf32, strides=[16,1]>"
PV = f"partition_view<tile=(2x2), {TV}>"
GV = f"gather_scatter_view<tile=(2x2), {TV}, sparse_dim=0>"
MTV = "tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>"
MPV = f"partition_view<tile=(2x2), {MTV}>"

Case = tuple[list[str], str]

CASES: dict[str, list[Case]] = {
    **{op: [([F], f"%0 = {op} %arg0 : {F}")] for op in (
        "absf", "ceil", "cos", "cosh", "floor", "log", "log2", "negf", "sin", "sinh", "tan")},
    **{op: [([F, F], f"%0 = {op} %arg0, %arg1 : {F}")] for op in ("pow", "remf", "atan2")},
    **{op: [([F, F], f"%0 = {op} %arg0, %arg1  : {F}"),
            ([F, F], f"%0 = {op} %arg0, %arg1 rounding<negative_inf> flush_to_zero : {F}")]
       for op in ("addf", "subf", "mulf", "divf")},
    **{op: [([F, F], f"%0 = {op} %arg0, %arg1 : {F}"),
            ([F, F], f"%0 = {op} %arg0, %arg1 flush_to_zero propagate_nan : {F}")] for op in ("maxf", "minf")},
    **{op: [([F], f"%0 = {op} %arg0  : {F}"), ([F], f"%0 = {op} %arg0 rounding<approx> : {F}")]
       for op in ("exp", "tanh")},
    **{op: [([F], f"%0 = {op} %arg0 : {F}"), ([F], f"%0 = {op} %arg0 flush_to_zero : {F}")]
       for op in ("exp2", "rsqrt")},
    **{op: [([I, I], f"%0 = {op} %arg0, %arg1 : {I}")] for op in ("andi", "ori", "xori", "mulhii")},
    **{op: [([I, I], f"%0 = {op} %arg0, %arg1 : {I}"), ([I, I], f"%0 = {op} %arg0, %arg1 overflow<no_wrap> : {I}")]
       for op in ("addi", "subi", "muli", "shli")},
    **{op: [([I, I], f"%0 = {op} %arg0, %arg1 {sign} : {I}") for sign in ("signed", "unsigned")]
       for op in ("maxi", "mini", "remi", "shri")},
    "absi": [([I], f"%0 = absi %arg0 : {I}")],
    "negi": [([I], f"%0 = negi %arg0 : {I}"), ([I], f"%0 = negi %arg0 overflow<no_signed_wrap> : {I}")],
    "divi": [([I, I], f"%0 = divi %arg0, %arg1 signed : {I}"),
             ([I, I], f"%0 = divi %arg0, %arg1 unsigned rounding<positive_inf> : {I}")],
    "sqrt": [([F], f"%0 = sqrt %arg0 rounding<approx> flush_to_zero : {F}")],
    "fma": [([F, F, F], f"%0 = fma %arg0, %arg1, %arg2 rounding<zero> : {F}")],
    "fpowi": [([F, I], f"%0 = fpowi %arg0, %arg1 : {F}, {I}")],
    "cmpf": [([F, F], f"%0 = cmpf less_than ordered %arg0, %arg1 : {F} -> {B}")],
    "cmpi": [([I, I], f"%0 = cmpi equal %arg0, %arg1, signed : {I} -> {B}")],
    "mmaf": [([F, F, F], f"%0 = mmaf %arg0, %arg1, %arg2 : {F}, {F}, {F}"),
             (["tile<2x2xf8E5M2>", "tile<2x2xf8E5M2>", F],
              f"%0 = mmaf %arg0, %arg1, %arg2 fast_acc : tile<2x2xf8E5M2>, tile<2x2xf8E5M2>, {F}")],
    "mmaf_scaled": [(["tile<128x128xf8E5M2>", "tile<128x128xf8E5M2>", "tile<128x128xf32>", "tile<128x4xf8E8M0FNU>",
                      "tile<4x128xf8E8M0FNU>"],
                     "%0 = mmaf_scaled %arg0, %arg1, %arg2, %arg3, %arg4 : tile<128x128xf8E5M2>, tile<128x128xf8E5M2>, "
                     "tile<128x128xf32>, tile<128x4xf8E8M0FNU>, tile<4x128xf8E8M0FNU>")],
    "mmai": [(["tile<2x2xi8>", "tile<2x2xi8>", I],
              f"%0 = mmai %arg0, %arg1, %arg2 signed unsigned : tile<2x2xi8>, tile<2x2xi8>, {I}")],
    # conversions
    "bitcast": [([I], f"%0 = bitcast %arg0 : {I} -> {F}")],
    "exti": [(["tile<i4>"], "%0 = exti %arg0 signed : tile<i4> -> tile<i8>")],
    "trunci": [([S], f"%0 = trunci %arg0 : {S} -> tile<i8>"),
               ([S], f"%0 = trunci %arg0 overflow<no_unsigned_wrap> : {S} -> tile<i8>")],
    "ftof": [([F], f"%0 = ftof %arg0  : {F} -> tile<2x2xf16>"),
             ([F], f"%0 = ftof %arg0 rounding<positive_inf> : {F} -> tile<2x2xf8E8M0FNU>"),
             ([F], f"%0 = ftof %arg0 rounding<nearest_away> : {F} -> tile<2x2xtf32>")],
    "ftoi": [([F], f"%0 = ftoi %arg0 signed  : {F} -> {I}"),
             ([F], f"%0 = ftoi %arg0 unsigned  saturating : {F} -> {I}")],
    "itof": [([I], f"%0 = itof %arg0 signed  : {I} -> {F}"),
             ([I], f"%0 = itof %arg0 unsigned rounding<zero> : {I} -> {F}")],
    "int_to_ptr": [(["tile<2x2xi64>"], f"%0 = int_to_ptr %arg0 : tile<2x2xi64> -> {PTR}")],
    "ptr_to_int": [([PTR], f"%0 = ptr_to_int %arg0 : {PTR} -> tile<2x2xi64>")],
    "ptr_to_ptr": [([PTR], f"%0 = ptr_to_ptr %arg0 : {PTR} -> tile<2x2xptr<i8>>")],
    # shapes
    "broadcast": [(["tile<1x2xf32>"], f"%bcast = broadcast %arg0 : tile<1x2xf32> -> {F}")],
    "cat": [([F, F], f"%0 = cat %arg0, %arg1 dim = 0 : {F}, {F} -> tile<4x2xf32>")],
    "extract": [(["tile<8xf32>", S], "%0 = extract %arg0[%arg1] : tile<8xf32> -> tile<4xf32>"),
                (["tile<f32>"], "%0 = extract %arg0[] : tile<f32> -> tile<f32>")],
    "insert": [(["tile<4xf32>", "tile<8xf32>", S], "%0 = insert %arg0, %arg1[%arg2] : tile<4xf32>, tile<8xf32>")],
    "iota": [([], "%0 = iota : tile<8xi32>")],
    "pack": [(["tile<8xf4E2M1FN>"], "%0 = pack %arg0 : tile<8xf4E2M1FN> -> tile<4xi8>")],
    "unpack": [(["tile<4xi8>"], "%0 = unpack %arg0 : tile<4xi8> -> tile<8xf4E2M1FN>")],
    "permute": [([F], f"%0 = permute %arg0 [1, 0] : {F} -> {F}")],
    "reshape": [([F], f"%reshape = reshape %arg0 : {F} -> tile<4xf32>")],
    "select": [([B, F, F], f"%0 = select %arg0, %arg1, %arg2 : {B}, {F}")],
    "offset": [([PTR, I], f"%0 = offset %arg0, %arg1 : {PTR}, {I} -> {PTR}")],
    "constant": [([], "%cst_f32 = constant <f32: [1.000000e+00, 2.000000e+00]> : tile<2xf32>"),
                 ([], "%cst_7_i32 = constant <i32: 7> : tile<4xi32>"),
                 ([], "%cst_-7_i32 = constant <i32: -7> : tile<i32>"),
                 ([], "%true = constant <i1: true> : tile<i1>"),
                 ([], "%cst_i1 = constant <i1: [true, false]> : tile<2xi1>"),
                 ([], "%cst_i8 = constant <i8: [[1, 2], [3, -4]]> : tile<2x2xi8>"),
                 ([], "%cst_f32 = constant <f32: 0x7F800000> : tile<f32>"),
                 ([], "%cst_NaN_f16 = constant <f16: 0x7E00> : tile<f16>"),
                 ([], "%cst_f64 = constant <f64: 2.7182818284590451> : tile<f64>"),
                 ([], "%cst_i8 = constant <i8: \"0x" + "0001" * 64 + "\"> : tile<128xi8>")],
    "get_tile_block_id": [([], f"%blockId_x, %blockId_y, %blockId_z = get_tile_block_id : {S}")],
    "get_num_tile_blocks": [([], f"%gridSize_x, %gridSize_y, %gridSize_z = get_num_tile_blocks : {S}")],
    "get_global": [([], "%0 = get_global @data : tile<ptr<f32>>")],
    "assume": [([S], f"%assume = assume div_by<16>, %arg0 : {S}"), ([I], f"%assume = assume bounded<0, ?>, %arg0 : {I}"),
               ([I], f"%assume = assume same_elements<[2, 1]>, %arg0 : {I}"),
               ([I], f"%assume = assume div_by<4, every 2 along 1>, %arg0 : {I}")],
    "assert": [([B], f'assert %arg0, "all \\22true\\22\\0A" : {B}')],
    "print_tko": [([], '%0 = print_tko "hi\\0A" -> token'),
                  ([S, F, "token"], f'%0 = print_tko "%d %f", %arg0, %arg1 token=%arg2 : {S}, {F} -> token')],
    # memory
    "make_token": [([], "%0 = make_token : token")],
    "join_tokens": [(["token", "token"], "%0 = join_tokens %arg0, %arg1 : token")],
    "alloca": [([], "%0 = alloca num_elem = 64, alignment = 128 : tile<ptr<f32>>"),
               ([], "%0 = alloca num_elem = 64, alignment = 128 global : tile<ptr<f32>>")],
    "load_ptr_tko": [
        ([PTR], f"%result, %result_token = load_ptr_tko weak %arg0 : {PTR} -> {F}, token"),
        ([PTR, B, F, "token"],
         f"%result, %result_token = load_ptr_tko relaxed device %arg0, %arg1, %arg2 token=%arg3 optimization_hints = "
         f"<sm_100 = {{latency = 3}}> : {PTR}, {B}, {F} -> {F}, token"),
    ],
    "store_ptr_tko": [
        ([PTR, F], f"%0 = store_ptr_tko weak %arg0, %arg1 : {PTR}, {F} -> token"),
        ([PTR, F, B, "token"],
         f"%0 = store_ptr_tko release sys %arg0, %arg1, %arg2 token=%arg3 : {PTR}, {F}, {B} -> token"),
    ],
    "atomic_cas_tko": [
        (["tile<2x2xptr<i32>>", I, I, B, "token"],
         f"%result, %result_token = atomic_cas_tko acq_rel device %arg0, %arg1, %arg2, %arg3 token=%arg4 : "
         f"tile<2x2xptr<i32>>, {I}, {B} -> {I}, token"),
    ],
    "atomic_rmw_tko": [
        ([PTR, F], f"%result, %result_token = atomic_rmw_tko relaxed device %arg0, addf, %arg1 : {PTR}, {F} -> {F}, token"),
    ],
    "gdc_launch_dependents_tko": [([], "%0 = gdc_launch_dependents_tko -> token"),
                                  (["token"], "%0 = gdc_launch_dependents_tko token = %arg0 -> token")],
    "gdc_wait_tko": [([], "%0 = gdc_wait_tko -> token"), (["token"], "%0 = gdc_wait_tko token = %arg0 -> token")],
    "memory_fence_alias_tko": [(["token"], "%0 = memory_fence_alias_tko %arg0")],
    # views
    "make_tensor_view": [
        (["tile<ptr<f32>>", S], f"%tview = make_tensor_view %arg0, shape = [%arg1, 16], strides = [16, 1] : {S} -> {TV}"),
        (["tile<ptr<f32>>"], "%tview = make_tensor_view %arg0, shape = [], strides = [] : tensor_view<f32>"),
        (["tile<ptr<i32, <multicast>>>"],
         "%tview = make_tensor_view %arg0, shape = [64, 64], strides = [64, 1] : tile<ptr<i32, <multicast>>> -> " + MTV),
        (["tile<ptr<f32, <unicast>>>", S],
         f"%tview = make_tensor_view %arg0, shape = [%arg1, 64], strides = [64, 1] : tile<ptr<f32, <unicast>>>, {S} -> "
         "tensor_view<?x64xf32, strides=[64,1], #cuda_tile.ptr_attr<unicast>>"),
    ],
    "make_partition_view": [
        ([TV], f"%pview = make_partition_view %arg0 : {PV}"),
        ([TV], f"%pview = make_partition_view %arg0 : partition_view<tile=(2x4), padding_value = nan, {TV}, dim_map=[1, 0]>"),
    ],
    "make_strided_view": [
        ([TV], f"%sview = make_strided_view %arg0 : strided_view<tile=(2x2), traversal_strides=[3,2], {TV}>")],
    "make_gather_scatter_view": [([TV], f"%gsview = make_gather_scatter_view %arg0 : {GV}")],
    "get_tensor_shape": [([TV], f"%0:2 = get_tensor_shape %arg0 : {TV} -> {S}")],
    "get_index_space_shape": [([PV], f"%0:2 = get_index_space_shape %arg0 : {PV} -> {S}")],
    "load_view_tko": [
        ([PV, S], f"%tile, %result_token = load_view_tko weak %arg0[%arg1, %arg1] : {PV}, {S} -> {F}, token"),
        ([PV, S, "token"],
         "%tile, %result_token = load_view_tko relaxed device %arg0[%arg1, %arg1] token = %arg2 optimization_hints = "
         f"<sm_100 = {{allow_tma = false, latency = 3}}> inbounds = [true, false] : {PV}, {S} -> {F}, token"),
        ([GV, "tile<2xi32>", S],
         f"%tile, %result_token = load_view_tko weak %arg0[%arg1, %arg2] : {GV}, tile<2xi32>, {S} -> {F}, token"),
    ],
    "store_view_tko": [
        ([F, PV, S], f"%0 = store_view_tko weak %arg0, %arg1[%arg2, %arg2] : {F}, {PV}, {S} -> token"),
        ([F, PV, S, "token"],
         f"%0 = store_view_tko weak %arg0, %arg1[%arg2, %arg2] token = %arg3 inbounds = [true, true] : {F}, {PV}, {S} "
         "-> token"),
    ],
    "atomic_red_view_tko": [
        ([PV, S, F], f"%0 = atomic_red_view_tko relaxed device %arg0[%arg1, %arg1], addf, %arg2 : {F}, {PV}, {S} -> token"),
        ([PV, S, F, "token"],
         f"%0 = atomic_red_view_tko relaxed device %arg0[%arg1, %arg1], addf, %arg2 token = %arg3 inbounds = "
         f"[true, false] : {F}, {PV}, {S} -> token"),
    ],
    "multimem_load_reduce_view_tko": [
        ([MPV, S],
         f"%reduced_values, %result_token = multimem_load_reduce_view_tko relaxed device %arg0[%arg1, %arg1]  : {MPV}, "
         f"{S} -> {I}, token"),
        ([MPV, S, "token"],
         "%reduced_values, %result_token = multimem_load_reduce_view_tko relaxed device %arg0[%arg1, %arg1] token = "
         "%arg2 inbounds = [false, true] attributes {reduction = #cuda_tile.multimem_reduction_kind<umin>} : "
         f"{MPV}, {S}, token -> {I}, token"),
    ],
    "multimem_reduce_view_tko": [
        ([MPV, I, S], f"%0 = multimem_reduce_view_tko relaxed device %arg0, %arg1[%arg2, %arg2]  : {MPV}, {I}, {S} -> token"),
        ([MPV, I, S], "%0 = multimem_reduce_view_tko relaxed device %arg0, %arg1[%arg2, %arg2]  attributes "
                      f"{{reduction = #cuda_tile.multimem_reduction_kind<max>}} : {MPV}, {I}, {S} -> token"),
    ],
    "multimem_store_view_tko": [
        ([MPV, I, S, "token"],
         f"%0 = multimem_store_view_tko weak %arg0, %arg1[%arg2, %arg2] token = %arg3 inbounds = [true, false] : {MPV}, "
         f"{I}, {S}, token -> token"),
    ],
    # control flow
    "if": [(["tile<i1>"], "if %arg0 {\n}"), (["tile<i1>"], "if %arg0 {\n  return\n} else {\n}"),
           (["tile<i1>", S], f"%0 = if %arg0 -> ({S}) {{\n  yield %arg1 : {S}\n}} else {{\n  yield %arg1 : {S}\n}}")],
    "for": [([S], f"for %loopIdx in (%arg0 to %arg0, step %arg0) : {S} {{\n}}"),
            ([S, F], f"%for = for unsigned %loopIdx in (%arg0 to %arg0, step %arg0) : {S} iter_values(%iterArg0 = %arg1) "
                     f"-> ({F}) {{\n  continue %iterArg0 : {F}\n}}")],
    "loop": [([], "loop {\n}"), ([], "loop {\n  break\n}"),
             ([S], f"%0 = loop iter_values(%arg1 = %arg0) : {S} -> {S} {{\n  break %arg1 : {S}\n}}"),
             ([], f"%0:2 = loop : {S}, {S} {{\n}}")],
    "break": [([S], f"%0 = loop : {S} {{\n  break %arg0 : {S}\n}}")],
    "continue": [([S], f"loop iter_values(%arg1 = %arg0) : {S} {{\n  continue %arg1 : {S}\n}}")],
    "yield": [(["tile<i1>", S], f"%0 = if %arg0 -> ({S}) {{\n  yield %arg1 : {S}\n}} else {{\n  yield %arg1 : {S}\n}}")],
    "return": [(["tile<i1>"], "if %arg0 {\n  return\n}")],
    "reduce": [(["tile<8xf32>"],
                "%reduce = reduce %arg0 dim=0 identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<f32> \n"
                "(%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {\n"
                "  %0 = addf %reduce_lhs, %reduce_rhs  : tile<f32>\n  yield %0 : tile<f32>\n}")],
    "scan": [(["tile<8xf32>"],
              "%0 = scan %arg0 dim=0 reverse=false identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<8xf32> \n"
              "(%arg1: tile<f32>, %arg2: tile<f32>) {\n"
              "  %1 = addf %arg1, %arg2  : tile<f32>\n  yield %1 : tile<f32>\n}")],
    # the versions of tests
    "testing$bytecode_test_new_attribute": [([], "testing$bytecode_test_new_attribute"),
                                            ([], "testing$bytecode_test_new_attribute new_flag new_param = 7")],
    "testing$bytecode_test_evolution": [
        ([F, "token"],
         f"%0 = testing$bytecode_test_evolution(%arg0 : !cuda_tile.{F}) new_attr = 3 token = %arg1 : token priority = "
         "<high> test_attr = <42> -> token")],
    "preview$call": [
        ([S], "%0 = preview$call @foreign(%arg0) : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>"),
        ([S], "preview$call @foreign() : () -> ()"),
        ([S, F], "%0:2 = preview$call @foreign(%arg0, %arg1) {arg_attrs = [{x = 1 : i32}, {}]} : (!cuda_tile.tile<i32>, "
                 f"!cuda_tile.{F}) -> (!cuda_tile.{F}, !cuda_tile.tile<i32>)")],
}  # fmt: skip

# Ops that stand in a module's body.
MODULE_LEVEL: dict[str, list[str]] = {
    "global": [
        "global  @g <f32: [1.000000e+00, 2.000000e+00]> : tile<2xf32>",
        "global private  constant @g alignment = 128 <i32: 42> : tile<1xi32>",
    ],
    "entry": [
        "entry @k() {\n  return\n}",
        "entry @k(%arg0: tile<ptr<f32>>) optimization_hints=<sm_100 = {num_cta_in_cga = 2}, sm_90 = {occupancy = 3}> {\n"
        "  return\n}",
    ],
    "testing$func": [f"testing$func @f(%arg0: {S}) -> ({S}, {S}) {{\n  return %arg0, %arg0 : {S}, {S}\n}}"],
    "module": ["module @inner {\n}"],
}
