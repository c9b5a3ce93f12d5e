# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tiles that a loop loads by pointers which it carries and moves on, as Triton's frontend has them: nothing
says that addresses do not wrap around, so that they become no views, and warps beside those that multiply copy them."""

import numpy as np
import pytest
from specialized_kernels import loops_of

import libtile

TARGETS = ("sm_90", "sm_100")
PAD = 48
"""Columns of the operands that lie behind the matrices."""


def gemm(
    m: int, n: int, k: int, *, carries: str = "pointers", divisor: int = 16, facts: str = "", ends: bool = False
) -> str:
    """c = a b with tiles of m x n x k, whose left pointers, or the distances from the first, the loop carries. `facts`
    say of additions and products of indices that they do not wrap around; with `ends` the left pointers that the loop
    ends with are used behind it."""
    a, b, c = f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"

    def assumed(name: str, type_: str) -> str:
        return f"%{name} = assume div_by<{divisor}>, %{name}_given : tile<{type_}>"

    def spread(name: str, source: str, type_: str, shape: str) -> str:
        return (
            f"%{name}_one = reshape %{source} : tile<{type_}> -> tile<1x1x{type_}>\n"
            f"%{name} = broadcast %{name}_one : tile<1x1x{type_}> -> tile<{shape}x{type_}>"
        )

    def numbers(name: str, count: int, column: bool, shape: str) -> str:
        one = f"{count}x1" if column else f"1x{count}"
        return (
            f"%{name}_line = iota : tile<{count}xi32>\n"
            f"%{name}_flat = reshape %{name}_line : tile<{count}xi32> -> tile<{one}xi32>\n"
            f"%{name} = broadcast %{name}_flat : tile<{one}xi32> -> tile<{shape}xi32>"
        )

    pointers = f"tile<{a}xptr<f16>>, tile<{a}xi32> -> tile<{a}xptr<f16>>"
    if carries == "pointers":
        type_, first, now = f"{a}xptr<f16>", "%pa0", "%pa = offset %carried, %none"
        step = f"%next = offset %carried, %a_step : {pointers}"
    else:
        type_, first, now = f"{a}xi32", "%a_first", "%pa = offset %pa_base, %carried"
        step = f"%next = addi %carried, %a_step {facts} : tile<{a}xi32>"
    behind = f"%u = store_ptr_tko weak %r#1, %a_zero, %a_in : tile<{a}xptr<f16>>, tile<{a}xf16>, tile<{a}xi1> -> token"
    behind = behind if ends else ""
    return f"""cuda_tile.module @pointers {{
  entry @gemm(%a_given: tile<ptr<f16>>, %b_given: tile<ptr<f16>>, %c: tile<ptr<f32>>, %rows: tile<i32>,
              %columns_given: tile<i32>, %depth_given: tile<i32>, %sa_given: tile<i32>, %sb_given: tile<i32>,
              %sc: tile<i32>) {{
    {assumed("a", "ptr<f16>")}
    {assumed("b", "ptr<f16>")}
    {assumed("sa", "i32")}
    {assumed("sb", "i32")}
    {assumed("columns", "i32")}
    {assumed("depth", "i32")}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %tm = constant <i32: {m}> : tile<i32>
    %tn = constant <i32: {n}> : tile<i32>
    %tk = constant <i32: {k}> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %m0 = muli %x, %tm {facts} : tile<i32>
    %n0 = muli %y, %tn {facts} : tile<i32>
    {numbers("a_row", m, True, a)}
    {numbers("a_col", k, False, a)}
    {numbers("b_row", k, True, b)}
    {numbers("b_col", n, False, b)}
    {numbers("c_row", m, True, c)}
    {numbers("c_col", n, False, c)}
    {spread("a_m0", "m0", "i32", a)}
    {spread("b_n0", "n0", "i32", b)}
    {spread("c_m0", "m0", "i32", c)}
    {spread("c_n0", "n0", "i32", c)}
    {spread("a_stride", "sa", "i32", a)}
    {spread("b_stride", "sb", "i32", b)}
    {spread("c_stride", "sc", "i32", c)}
    {spread("pa_base", "a", "ptr<f16>", a)}
    {spread("pb_base", "b", "ptr<f16>", b)}
    {spread("pc_base", "c", "ptr<f32>", c)}
    {spread("a_rows", "rows", "i32", a)}
    {spread("b_columns", "columns", "i32", b)}
    {spread("c_rows", "rows", "i32", c)}
    {spread("c_columns", "columns", "i32", c)}
    %a_at = addi %a_row, %a_m0 {facts} : tile<{a}xi32>
    %a_line = muli %a_at, %a_stride {facts} : tile<{a}xi32>
    %a_first = addi %a_line, %a_col {facts} : tile<{a}xi32>
    %pa0 = offset %pa_base, %a_first : {pointers}
    %b_at = addi %b_col, %b_n0 {facts} : tile<{b}xi32>
    %b_line = muli %b_row, %b_stride {facts} : tile<{b}xi32>
    %b_first = addi %b_line, %b_at {facts} : tile<{b}xi32>
    %pb0 = offset %pb_base, %b_first : tile<{b}xptr<f16>>, tile<{b}xi32> -> tile<{b}xptr<f16>>
    %none = constant <i32: 0> : tile<{a}xi32>
    %a_step = constant <i32: {k}> : tile<{a}xi32>
    %b_move = muli %sb, %tk {facts} : tile<i32>
    {spread("b_step", "b_move", "i32", b)}
    %a_in = cmpi less_than %a_at, %a_rows, signed : tile<{a}xi32> -> tile<{a}xi1>
    %b_in = cmpi less_than %b_at, %b_columns, signed : tile<{b}xi32> -> tile<{b}xi1>
    %a_zero = constant <f16: 0.0> : tile<{a}xf16>
    %b_zero = constant <f16: 0.0> : tile<{b}xf16>
    %c_zero = constant <f32: 0.0> : tile<{c}xf32>
    %steps = divi %depth, %tk signed rounding<positive_inf> : tile<i32>
    %r:3 = for %i in (%zero to %steps, step %one) : tile<i32>
        iter_values(%sum = %c_zero, %carried = {first}, %pb = %pb0)
        -> (tile<{c}xf32>, tile<{type_}>, tile<{b}xptr<f16>>) {{
      {now} : {pointers}
      %done = muli %i, %tk {facts} : tile<i32>
      %left = subi %depth, %done {facts} : tile<i32>
      {spread("a_left", "left", "i32", a)}
      {spread("b_left", "left", "i32", b)}
      %a_k = cmpi less_than %a_col, %a_left, signed : tile<{a}xi32> -> tile<{a}xi1>
      %b_k = cmpi less_than %b_row, %b_left, signed : tile<{b}xi32> -> tile<{b}xi1>
      %a_mask = andi %a_k, %a_in : tile<{a}xi1>
      %b_mask = andi %b_k, %b_in : tile<{b}xi1>
      %p, %t0 = load_ptr_tko weak %pa, %a_mask, %a_zero
          : tile<{a}xptr<f16>>, tile<{a}xi1>, tile<{a}xf16> -> tile<{a}xf16>, token
      %q, %t1 = load_ptr_tko weak %pb, %b_mask, %b_zero
          : tile<{b}xptr<f16>>, tile<{b}xi1>, tile<{b}xf16> -> tile<{b}xf16>, token
      %d = mmaf %p, %q, %sum : tile<{a}xf16>, tile<{b}xf16>, tile<{c}xf32>
      {step}
      %pb_next = offset %pb, %b_step : tile<{b}xptr<f16>>, tile<{b}xi32> -> tile<{b}xptr<f16>>
      continue %d, %next, %pb_next : tile<{c}xf32>, tile<{type_}>, tile<{b}xptr<f16>>
    }}
    %c_at = addi %c_row, %c_m0 {facts} : tile<{c}xi32>
    %c_line = muli %c_at, %c_stride {facts} : tile<{c}xi32>
    %c_column = addi %c_col, %c_n0 {facts} : tile<{c}xi32>
    %c_first = addi %c_line, %c_column {facts} : tile<{c}xi32>
    %pc = offset %pc_base, %c_first : tile<{c}xptr<f32>>, tile<{c}xi32> -> tile<{c}xptr<f32>>
    %c_in = cmpi less_than %c_at, %c_rows, signed : tile<{c}xi32> -> tile<{c}xi1>
    %c_on = cmpi less_than %c_column, %c_columns, signed : tile<{c}xi32> -> tile<{c}xi1>
    %c_mask = andi %c_in, %c_on : tile<{c}xi1>
    %s = store_ptr_tko weak %pc, %r#0, %c_mask : tile<{c}xptr<f32>>, tile<{c}xf32>, tile<{c}xi1> -> token
    {behind}
    return
  }}
}}"""


def code(gpu_name: str, **options):
    return libtile.compile(libtile.parse(gemm(64, 64, 32, **options)), gpu_name=gpu_name)


def run(size: tuple[int, int, int], gpu_name: str, order: int = 0, **options) -> None:
    """Run a kernel in the simulator, with all checks, and compare with numpy."""
    m, n, k = size
    rng = np.random.default_rng(sum(size))
    left, right = (np.full((rows, columns + PAD), 5, np.float16) for rows, columns in ((m, k), (k, n)))
    left[:, :k], right[:, :n] = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    wanted = left[:, :k].astype(np.float32) @ right[:, :n].astype(np.float32)
    given, result = left.copy(), np.full((m, n), 7, np.float32)
    libtile.run(
        libtile.parse(gemm(64, 64, 32, **options)), "gemm", grid=(-(-m // 64), -(-n // 64), 1),
        args=[given, right, result, m, n, k, k + PAD, n + PAD, n], backend="simulator", gpu_name=gpu_name, check="full",
        block_order=order,
    )  # fmt: skip
    np.testing.assert_array_equal(result, wanted)
    behind = -(-k // 32) * 32
    left[:, behind : behind + 32] = 0 if options.get("ends") else 5
    np.testing.assert_array_equal(given, left)


@pytest.mark.parametrize(
    ("gpu_name", "carries"),
    [
        ("sm_90", "pointers"),
        ("sm_100", "distances"),
        pytest.param("sm_90", "distances", marks=pytest.mark.slow),
        pytest.param("sm_100", "pointers", marks=pytest.mark.slow),
    ],
)
def test_pointers_that_move_on_by_one_number_are_copied_by_warps_beside_the_product(gpu_name, carries):
    text = code(gpu_name, carries=carries).ptx
    assert "cp.async.mbarrier.arrive.noinc" in text and "mma.sync" not in text
    assert ("wgmma.mma_async" if gpu_name == "sm_90" else "tcgen05.mma") in text
    run((80, 80, 144), gpu_name, order=1, carries=carries)


@pytest.mark.parametrize(
    "size", [(64, 64, 0), (48, 32, 16), pytest.param((80, 112, 96), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_few_steps_and_tiles_that_lie_across_edges(gpu_name, size):
    run(size, gpu_name, order=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("carries", ["pointers", "distances"])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_every_schedule(gpu_name, carries, seed):
    run((80, 80, 272), gpu_name, order=seed, carries=carries)


@pytest.mark.parametrize("gpu_name", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_by_eight_bytes(gpu_name):
    """Where strides are multiples of 4 elements alone, the copies are narrower."""
    text = code(gpu_name, divisor=8).ptx
    assert "cp.async.ca.shared.global" in text and "mma.sync" not in text


@pytest.mark.parametrize(
    "gpu_name", ["sm_90", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sm_80", "sm_100"))]
)
def test_pointers_that_are_used_behind_the_loop(gpu_name):
    run((80, 64, 96), gpu_name, ends=True)


@pytest.mark.parametrize("gpu_name", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_where_nothing_is_known_of_addresses_threads_load(gpu_name):
    """Elements go to shared memory one by one: the loop stays as it is."""
    assert "mma.sync" in code(gpu_name, divisor=1).ptx
    run((72, 70, 51), gpu_name, divisor=1)


@pytest.mark.parametrize(("gpu_name", "consumers", "makers"), [("sm_90", 60, 140), ("sm_100", 50, 140)])
def test_code_of_carried_pointers(gpu_name, consumers, makers):
    made = libtile.compile(libtile.parse(gemm(128, 128, 64)), gpu_name=gpu_name)
    loops = loops_of(made.cubin)
    multiplying = min((x for x in loops if any("GMMA" in line or "UTCHMMA" in line for line in x)), key=len)
    copying = min((x for x in loops if any("LDGSTS" in line for line in x)), key=len)
    assert len(multiplying) <= consumers and len(copying) <= makers
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
