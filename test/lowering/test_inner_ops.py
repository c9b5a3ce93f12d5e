# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of the inner dialects that Tile IR does not make: compiled code leaves what the interpreter leaves, on a target
of each class in turn."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from dialects.inner import messages, module
from generators.check import TARGETS
from libtile.support.diagnostics import LoweringError
from lowering.inner_programs import (
    OUT,
    PROGRAMS,
    XI,
    N,
    Program,
    T,
    X,
    Y,
    floats,
    memref,
    pointer,
    stored,
    vector,
    zeros,
)


def outcome(program: Program, backend: str, **options: object) -> list[np.ndarray]:
    """The arrays behind a run."""
    args = program.arguments()
    module = libtile.parse(program.text(), filename="program.mlir")
    libtile.run(module, args=args, grid=program.grid, backend=backend, **program.options, **options)
    return [a for a in args if isinstance(a, np.ndarray)]


def check(program: Program, gpu_name: str) -> None:
    if (words := program.refused.get(gpu_name)) is not None:
        with pytest.raises(LoweringError, match=words):
            outcome(program, "simulator", gpu_name=gpu_name)
        return
    want = outcome(program, "interpreter")
    got = outcome(program, "simulator", gpu_name=gpu_name, check="full")
    for expected, found in zip(want, got, strict=True):
        np.testing.assert_array_equal(found, expected)
        if found.dtype.kind == "f":  # zeros have signs, those of NaNs are left open
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize(("name", "gpu_name"), [(n, TARGETS[i % len(TARGETS)]) for i, n in enumerate(PROGRAMS)])
def test_a_program_does_what_the_interpreter_says(name: str, gpu_name: str) -> None:
    check(PROGRAMS[name], gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_the_interpreter_says_on_every_target(name: str, gpu_name: str) -> None:
    check(PROGRAMS[name], gpu_name)


CONDITIONS = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"
)  # fmt: skip


def test_floats_are_compared_in_all_of_ariths_ways() -> None:
    t, out = "tensor<16xf32>", memref("i8", 2)
    body = vector("x", "f32", 16) + vector("y", "f32", 16)
    for row, condition in enumerate(CONDITIONS):
        body += f"""
          %c{row} = arith.cmpf {condition}, %x, %y : {t}
          %i{row} = arith.extui %c{row} : tensor<16xi1> to tensor<16xi8>
          %v{row} = nv_tileaa.view %i{row} : tile<16xi8> -> tile<1x16xi8>
          %r{row} = arith.constant {row} : index
          nv_tileaa.tiled_store %o[%r{row}, %r0], %v{row} : {out}, tile<1x16xi8>, index, index
        """
    values = np.array([np.nan, 1, 2, -0.0], np.float32)
    x, y = (lambda _: np.repeat(values, 4)), (lambda _: np.tile([2, np.nan, 0, 1], 4).astype(np.float32))
    given = {"x_p": (pointer("f32"), x), "y_p": (pointer("f32"), y), "o": (out, zeros(16, 16, dtype=np.int8))}
    program = Program("arith.cmpf", given, body)
    check(program, "sm_80")
    left, right = x(None), y(None)
    nan = np.isnan(left) | np.isnan(right)
    found = outcome(program, "interpreter")[-1]
    of_numbers = {"eq": left == right, "gt": left > right, "ge": left >= right, "lt": left < right,
                  "le": left <= right, "ne": left != right, "rd": ~nan, "no": nan & ~nan}  # fmt: skip
    for row, condition in enumerate(CONDITIONS):
        if condition in ("false", "true"):
            want = np.full(16, condition == "true")
        else:
            want = np.where(nan, condition[0] == "u", of_numbers[condition[1:]])
        np.testing.assert_array_equal(found[row], want, err_msg=condition)


def test_tiles_of_four_bits_with_a_mask_are_refused_by_name() -> None:
    m = memref("f4E2M1FN")
    body = f"""
      %0 = arith.constant 0 : index
      %k = nv_tileaa.constant {{value = dense<true> : !cuda_tile.tile<16xi1>}} : tile<16xi1>
      %x = nv_tileaa.tiled_load %m[%0], %k : {m}, index, tile<16xi1> -> tile<16xf4E2M1FN>
      nv_tileaa.tiled_store %m[%0], %x : {m}, tile<16xf4E2M1FN>, index
    """
    program = Program("nv_tileaa.tiled_load", {"m": (m, zeros(16, dtype=np.uint8))}, body)
    with pytest.raises(LoweringError, match=r"'nv_tileaa.tiled_load' op has a mask on elements of 4 bits"):
        libtile.compile(libtile.parse(program.text()), "sm_90", emit="ptx")


def test_a_convolution_is_what_its_definition_says() -> None:
    """By loops over pixels and places of the filter: steps of 2 and 1, one row of padding above, columns two apart."""
    given, weights, out = outcome(PROGRAMS["a convolution"], "interpreter")
    expected = np.zeros_like(out)
    for row, column, place in np.ndindex(4, 8, 6):
        y, x = 2 * row - 1 + place // 2, column + 2 * (place % 2)
        if 0 <= y < given.shape[1] and x < given.shape[2]:
            factor = weights[16 * place : 16 * place + 16].astype(np.float32)
            expected[0, 1 + row, column] += given[0, y, x].astype(np.float32) @ factor
    np.testing.assert_array_equal(out, expected)


def test_a_place_that_the_filter_has_not_is_a_fault() -> None:
    program = PROGRAMS["a convolution"]
    text = program.text()
    wrong = text.replace("arith.constant 6 : index", "arith.constant 7 : index")
    assert wrong != text
    with pytest.raises(libtile.LibtileError, match="index out of range: place 6 of the filter is none of its 6"):
        libtile.run(libtile.parse(wrong), args=program.arguments(), grid=program.grid)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_writes_something(name: str) -> None:
    """What is compared is not what was there before."""
    program = PROGRAMS[name]
    before = [a for a in program.arguments() if isinstance(a, np.ndarray)]
    assert any(
        not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, outcome(program, "interpreter"))
    )


# -- foreign code, which the interpreter does not run: numpy says what it means ----------------------------------------


def foreign(code: str, parameters: dict, loads: str, stores: str, gpu_name: str = "sm_90", **options: object) -> list:
    """The arguments behind a run of a kernel in the simulator."""
    program = Program("", parameters, loads + code + stores)
    args = program.arguments()
    libtile.run(libtile.parse(program.text()), args=args, backend="simulator", gpu_name=gpu_name, **options)
    return args


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_inline_asm_runs_on_every_element(gpu_name: str) -> None:
    code = f"""
      %r = nv_tileaa.elementwise_inline_asm %x, %y
        {{asm_string = "sub.rn.f32 $0, $2, $1;", constraints = "=f,f,f", pure}} : {T}, {T} -> {T}
    """
    loads = vector("x", "f32", N) + vector("y", "f32", N)
    x, y, out = foreign(code, {**X, **Y, **OUT}, loads, stored("o", "%r", "f32", N), gpu_name)
    np.testing.assert_array_equal(out, y - x)


def test_inline_asm_takes_packed_elements_and_gives_several_results() -> None:
    half = f"tile<{N}xf16>"
    code = f"""
      %r, %s = nv_tileaa.elementwise_inline_asm %x, %y {{asm_string = "{{ add.f16x2 $0, $2, $3; neg.f16x2 $1, $2; }}",
        constraints = "=&r,=r,r,r", packed_element = 2}} : {half}, {half} -> {half}, {half}
    """
    halves = {n: (pointer("f16"), draw(N, dtype=np.float16)) for n, draw in
              (("x_p", floats), ("y_p", floats), ("o_p", zeros), ("q_p", zeros))}  # fmt: skip
    loads = vector("x", "f16", N) + vector("y", "f16", N)
    x, y, out, other = foreign(code, halves, loads, stored("o", "%r", "f16", N) + stored("q", "%s", "f16", N))
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_array_equal(other, -x)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_llvm_ir_runs_where_it_stands(gpu_name: str) -> None:
    """A fragment with control flow, several results, and a tile of rank 0."""
    ir = r"\n".join([
        "%3 = call float @llvm.fma.f32(float %0, float 4.0, float 1.0)",
        "%4 = icmp sgt i64 %1, 2",
        "br i1 %4, label %5, label %7",
        "5:", "%6 = fadd float %3, 2.0", "br label %7",
        "7:", "%8 = phi float [%3, %2], [%6, %5]",
        "%9 = insertvalue {float, i1} poison, float %8, 0",
        "%10 = insertvalue {float, i1} %9, i1 %4, 1",
        "ret {float, i1} %10",
    ])  # fmt: skip
    code = f"""
      %three = arith.constant 3 : index
      %half = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<f32>}} : tile<f32>
      %r, %c = nv_tileaa.inject_ir %half, %three {{ir = "{ir}"}} : tile<f32>, index -> f32, i1
      scf.if %c {{
        %s = nv_tileaa.splat %r : f32 -> {T}
        {stored("o", "%s", "f32", N)}
      }}
    """
    for level in (0, 3):
        (out,) = foreign(code, OUT, "", "", gpu_name, opt_level=level)
        assert (out == 5).all()


@pytest.mark.parametrize(
    ("operand", "ir", "said"),
    [
        ("f", "nop", r"has LLVM IR that LLVM refuses: .*expected instruction opcode"),
        ("f", "ret float %0 } define void @f() { ret void", "has LLVM IR that is more than the body of one function"),
        ("f", r"%2 = call float @llvm.sin.f32(float %0)\n ret float %2", r"calls 'llvm\.sin\.f32' in its LLVM IR"),
        (
            "f",
            r"ret float %0 }\nmodule asm \".global .u32 evil;\"\nattributes #0 = { nounwind",
            "has LLVM IR that is more",
        ),
        ("f", r"ret float %0 }\n%t = type { i32", "has LLVM IR that is more than the body of one function"),
        ("f", r"/* { */ ret float %0 }\nmodule asm \"\"\nattributes #0 = { nounwind", "has LLVM IR that is more"),
        (
            "f",
            r"call void asm \"\\7d .entry evil() { ret;\", \"\"()\nret float %0",
            "has LLVM IR with PTX that ends what",
        ),
        (
            "f",
            r"call void asm sideeffect ; on\n \"} .entry evil() { ret;\", \"\"()\nret float %0",
            "has LLVM IR with PTX that ends what",
        ),
        (  # LLVM ends a comment at a carriage return
            "f",
            r"ret float %0 ; \0D }\0D module asm \"evil\"\0D define internal void @__libtile_x() { ret void",
            "has LLVM IR that is more than the body",
        ),
        (  # a backslash and "0A", which ends no comment
            "f",
            r"call void asm \"// \\\\0A {\\0A } .func evil() { ret; // \\\\0A }\\0A\", \"\"()\nret float %0",
            "has LLVM IR with PTX that ends what",
        ),
        (
            "f",
            r"call void asm \"$( $| { $) } .func evil() { ret; $( $| } $)\", \"\"()\nret float %0",
            "has LLVM IR with PTX of which LLVM prints something else",
        ),
        (
            "f",
            r"fence syncscope(\"agent\") seq_cst\nret float %0",
            "has LLVM IR that LLVM has no code for: LLVM ERROR: ",
        ),
        ("x", "ret float 1.0", f"has a value of type tensor<{N}xf32.*, and LLVM IR takes and gives scalars"),
    ],
)
def test_llvm_ir_without_code_is_refused_by_name(operand: str, ir: str, said: str) -> None:
    type_ = {"f": "tile<f32>", "x": T}[operand]
    code = f"""
      %f = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<f32>}} : tile<f32>
      %r = nv_tileaa.inject_ir %{operand} {{ir = "{ir}"}} : {type_} -> tile<f32>
    """
    with pytest.raises(LoweringError, match=f"'nv_tileaa.inject_ir' op {said}.* on sm_90"):
        foreign(code, {**X}, vector("x", "f32", N), "")


@pytest.mark.parametrize(
    ("ptx", "constraints", "said"),
    [
        ("mov.f32 $0, $1; } .visible .entry evil() { ret;", "=f,f", "has PTX that ends what it did not begin"),
        ("mov.f32 $0, $1; /*", "=f,f", "has PTX that ends what it did not begin"),
        (
            "mov.f32 $0, $1; $( $| { $) } .func evil() { ret; $( $| } $)",
            "=f,f",
            "has PTX of which LLVM prints something else",
        ),
        (
            r"mov.f32 $0, $1; ${:comment} {\0A } .func evil() { ret; ${:comment} }\0A",
            "=f,f",
            "has PTX of which LLVM prints something else",
        ),
        (r"mov.f32 $0, $1; { \00 }", "=f,f", "has PTX of which LLVM prints something else"),
        ("mov.f32 $0, $2;", "=f,f", r"has PTX that LLVM has no code for: .*'mov.f32 \$0, \$2;'"),
    ],
)
def test_inline_ptx_stays_where_it_is_and_ends_no_process(ptx: str, constraints: str, said: str) -> None:
    code = f"""
      %f = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<f32>}} : tile<f32>
      %g = nv_tileaa.elementwise_inline_asm %f
        {{asm_string = "{{ mov.f32 $0, $1; }}", constraints = "=f,f"}} : tile<f32> -> tile<f32>
      %h = nv_tileaa.inject_ir %g {{ir = "%2 = fneg float %0\\nret float %2"}} : tile<f32> -> tile<f32>
      %r = nv_tileaa.elementwise_inline_asm %h
        {{asm_string = "{ptx}", constraints = "{constraints}"}} : tile<f32> -> tile<f32>
      nv_tileaa.print %r {{format = "%f"}} : tile<f32>
    """
    with pytest.raises(LoweringError, match=f"'nv_tileaa.elementwise_inline_asm' op {said}.* on sm_90") as caught:
        foreign(code, {**X}, vector("x", "f32", N), "")
    assert caught.value.location is not None
    assert "evil" not in str(caught.value)


def test_numbers_of_every_float_type_are_constants_of_arith() -> None:
    """The nearest one, as everywhere; also without a sign or an infinity."""
    body = "".join(
        f"""
      %n{i} = arith.constant {number} : {type_}
      %t{i} = nv_tileaa.splat %n{i} : {type_} -> tile<1x{type_}>
      nv_tileaa.print %t{i} {{format = "%f "}} : tile<1x{type_}>"""
        for i, (number, type_) in enumerate([
            ("0.3", "f16"), ("0.3", "bf16"), ("0.3", "f32"), ("-0.0", "f64"), ("0.3", "tf32"), ("0x7FC00000", "f32"),
            ("0.3", "f8E4M3FN"), ("0.3", "f8E5M2"), ("3.5", "f8E8M0FNU"), ("0xFF800000", "f32"),
        ])
    )  # fmt: skip
    module = libtile.parse(Program("", {**X}, body).text())
    want = libtile.run(module, args=[np.zeros(N, np.float32)], backend="interpreter").output
    assert want.split()[:2] == ["[0.300049]", "[0.300781]"]
    got = libtile.run(module, args=[np.zeros(N, np.float32)], backend="simulator", gpu_name="sm_90").output
    assert got == want


def test_a_running_block_takes_programs_that_have_not_started() -> None:
    """With launch control some programs are run by the block of another one, each once; `try_cancel` is what asks."""
    program = PROGRAMS["program ids"]
    made = {gpu: libtile.compile(libtile.parse(program.text()), gpu, emit="ptx").ptx for gpu in ("sm_90", "sm_120")}
    asks = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    assert [asks in made[gpu] for gpu in made] == [False, True]


LIBRARY = """
target triple = "nvptx64-nvidia-cuda"
define float @scaled(float %x, i32 %n) {
  %f = sitofp i32 %n to float
  %r = call float @own(float %x, float %f)
  ret float %r
}
define float @own(float %x, float %f) {
  %r = fmul float %x, %f
  ret float %r
}
"""


def bitcode(text: str) -> bytes:
    import llvmlite.binding as llvm

    return llvm.parse_assembly(text).as_bitcode()


EXTERN = f"""
  %r = nv_tileaa.extern_elementwise %y, %x {{symbol = "scaled", pure}} : {T}, tile<{N}xi32> -> {T}
"""


def test_a_function_of_a_bitcode_library_is_linked() -> None:
    loads = vector("x", "i32", N) + vector("y", "f32", N)
    given = (EXTERN, {**XI, **Y, **OUT}, loads, stored("o", "%r", "f32", N))
    x, y, out = foreign(*given, libraries=[bitcode(LIBRARY)])
    np.testing.assert_array_equal(out, y * x.astype(np.float32))
    with pytest.raises(LoweringError, match=r"calls 'scaled', which no library that is linked defines.* on sm_90"):
        foreign(*given)
    with pytest.raises(libtile.LibtileError, match="a library is no LLVM bitcode"):
        foreign(*given, libraries=[b"ELF"])


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ('{intrinsic = "llvm.read_register"}', "calls 'llvm.read_register', and code is made for these intrinsics"),
        ('{intrinsic = "llvm.ctpop"}', "calls 'llvm.ctpop' of f32, and it is one of i8 or i16 or i32 or i64"),
        ('{intrinsic = "llvm.fma"}', "calls 'llvm.fma' with 1 operands, and it takes 3"),
    ],
)
def test_an_intrinsic_that_cannot_be_called_is_refused_by_name(op: str, said: str) -> None:
    code = f"%r = nv_tileaa.call_elementwise_intrinsic %x {op} : {T} -> {T}"
    with pytest.raises(LoweringError, match=said):
        foreign(code, {**X, **OUT}, vector("x", "f32", N), stored("o", "%r", "f32", N))


def test_constraints_that_do_not_fit_the_operands_are_found() -> None:
    given = '{asm_string = "", constraints = "=r,r,r"}'
    assert messages(module(f"%r = nv_tileaa.elementwise_inline_asm %h4 {given} : tile<4xf16> -> tile<4xf16>")) == [
        "'nv_tileaa.elementwise_inline_asm' op expects constraints of 1 registers for its operands, but got 2"
    ]
