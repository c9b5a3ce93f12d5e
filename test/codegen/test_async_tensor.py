# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""TMA, barrier objects, agents and wgmma as code generation spells them: right in the simulator, and taken by ptxas."""

import async_kernels as ak
import ml_dtypes
import numpy as np
import pytest
from async_kernels import at, i32

from libtile.atoms import tma as boxes_of
from libtile.atoms import wgmma as atoms
from libtile.atoms.cp_async import operand_shared_layout
from libtile.codegen import agents, mbarrier, tma, wgmma
from libtile.codegen.builder import Agent, KernelBuilder, float_constant, integer
from libtile.codegen.llvm_types import FLOAT, GLOBAL_POINTER, HALF, I8, I32, I64, VectorType
from libtile.codegen.memory import offset_pointers, store
from libtile.codegen.tile import Tile, index, linear_of_bits, scalar
from libtile.layouts.builders import row_major
from libtile.simulator import SimulationFault, TensorMap


def matrices(m, n, k, dtype=np.float16):
    rng = np.random.default_rng(0)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def run_gemm(text, b, rows, columns, blocks, depth, order=None):
    a, right = matrices(rows * blocks, columns * blocks, depth)
    c = np.zeros((rows * blocks, columns * blocks), np.float16)
    maps = [TensorMap(x, box, swizzle="128B") for x, box in ((a, (64, rows)), (right, (64, 64)), (c, (64, 64)))]
    ak.run(text, b, *maps, np.int32(-(-depth // 64)), grid=(blocks, blocks, 1), order=order)
    np.testing.assert_allclose(c, a.astype(np.float32) @ right.astype(np.float32), atol=0.07, rtol=1e-3)


@pytest.mark.slow
def test_a_product_with_a_producer_and_two_consumer_warpgroups():
    b = ak.gemm()
    text = ak.ptx_of(b)
    made = ak.assembled(text).kernels["k"]
    assert (made.registers, made.spill_stores, made.spill_loads) == (168, 0, 0)
    for order in (None, 1, 2):
        run_gemm(text, b, 128, 256, 1, 64 * 6, order)
    run_gemm(text, b, 128, 256, 2, 64)
    run_gemm(text, b, 128, 256, 1, 200)  # the last box of each operand lies partly outside of it


@pytest.mark.parametrize("seed", range(6))
def test_a_small_product_under_random_schedules(seed):
    b = ak.gemm(stages=2, rows=64, columns=64)
    run_gemm(ak.ptx_of(b), b, 64, 64, 1, 64 * 5, seed)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("fence.proxy.async.shared::cta;", "proxy-fence"),
        ("wgmma.wait_group.sync.aligned 1;", "async"),
        ("wgmma.wait_group.sync.aligned 0;", "async"),
        ("wgmma.fence.sync.aligned;", "wgmma-fence"),
        ("fence.mbarrier_init.release.cluster;", "mbarrier-init"),
    ],
)
def test_the_simulator_finds_what_is_left_out(what, kind):
    b = ak.gemm(stages=2, rows=64, columns=64)
    text = ak.ptx_of(b)
    assert what in text
    with pytest.raises(SimulationFault) as caught:
        run_gemm(text.replace(what, ""), b, 64, 64, 1, 64 * 5)
    assert caught.value.kind == kind


# -- TMA --------------------------------------------------------------------------------------------------------------


def copies(shape, made, size, operation=None):
    """A kernel that takes a tile at coordinates to shared memory, and from there to another tensor."""
    b, (source, target), corner = ak.kernel(32, 2, len(shape))
    nbytes = int(np.prod(shape)) * size
    buffer = b.shared_pointer(b.shared_buffer(nbytes, made.alignment))
    barrier = b.shared_pointer(b.shared_buffer(mbarrier.BYTES, 8))
    mbarrier.initialize(b, [(barrier, 1)])
    b.barrier()
    with agents.one_thread(b):
        tma.prefetch_descriptor(b, source)
        mbarrier.expect_bytes(b, barrier, nbytes)
        for copy in made.copies:
            where = [b.add(corner[d], i32(copy.corner[d])) for d in made.order]
            tma.load_box(b, at(b, buffer, copy.offset), source, where, barrier)
        mbarrier.arrive(b, barrier)
    mbarrier.wait(b, barrier, i32(0))
    with agents.one_thread(b):
        for copy in made.copies:
            where = [b.add(corner[d], i32(copy.corner[d])) for d in made.order]
            if operation is None:
                tma.store_box(b, target, where, at(b, buffer, copy.offset))
            else:
                tma.reduce_box(b, operation, target, where, at(b, buffer, copy.offset))
        tma.commit_stores(b)
        tma.wait_stores(b, 0)
    return b


def tensor_map(array, made):
    """The tensor map of an array whose dimensions come in the order of the boxes."""
    order = [array.ndim - 1 - n for n in range(array.ndim)]
    assert list(made.order) == order
    return TensorMap(array, made.box, swizzle=made.swizzle.name)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.float32])
def test_tiles_of_each_rank_are_copied(rank, dtype):
    tile = (2, 2, 4, 8, 32)[5 - rank :]
    size = np.dtype(dtype).itemsize
    made = boxes_of.boxes(operand_shared_layout(tile, {1: "i8", 2: "f16", 4: "f32"}[size]), rank - 1, size)
    assert not isinstance(made, str)
    full = tuple(t + (4 if d < rank - 1 else 32 // size) for d, t in enumerate(tile))
    source = (np.arange(np.prod(full)) % 251).astype(dtype).reshape(full)
    result = np.zeros_like(source)
    b = copies(tile, made, size)
    text = ak.ptx_of(b)
    ak.assembled(text)
    corner = [np.int32(3 if d < rank - 1 else 32 // size) for d in range(rank)]
    ak.run(text, b, tensor_map(source, made), tensor_map(result, made), *corner)
    inside = tuple(slice(c, c + t) for c, t in zip(corner, tile))
    expected = np.zeros_like(source)
    expected[inside] = source[inside]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("operation", ["add", "min", "max"])
def test_tiles_are_reduced_into_a_tensor(operation):
    made = boxes_of.boxes(operand_shared_layout((16, 64), "f16"), 1, 2)
    rng = np.random.default_rng(1)
    source, start = (rng.standard_normal((16, 64)).astype(np.float16) for _ in range(2))
    result = start.copy()
    b = copies((16, 64), made, 2, operation)
    text = ak.ptx_of(b)
    ak.assembled(text)
    ak.run(text, b, tensor_map(source, made), tensor_map(result, made), np.int32(0), np.int32(0))
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}[operation]
    np.testing.assert_array_equal(result, function(source, start))


def test_there_is_no_reduction_of_another_name_nor_a_copy_of_rank_6():
    b, (source, _), corner = ak.kernel(32, 2, 6)
    with pytest.raises(ValueError, match="reduce by 'mul'"):
        tma.reduce_box(b, "mul", source, corner[:2], corner[0])
    with pytest.raises(ValueError, match="1 to 5 coordinates, not 6"):
        tma.store_box(b, source, corner, corner[0])


# -- agents -----------------------------------------------------------------------------------------------------------


def test_agents_have_their_own_threads_warps_and_barriers():
    """Each agent writes its own thread numbers, behind a barrier at which only its warps meet."""
    b = KernelBuilder("k", ak.SM_90, 256)
    out = b.add_parameter(GLOBAL_POINTER)
    end, blocks = b.new_block("end"), [b.new_block("agent") for _ in range(2)]
    shared = b.shared_pointer(b.shared_buffer(4 * 256))
    b.conditional_branch(b.compare("ult", b.warp(), i32(4)), *blocks)
    for number, block in enumerate(blocks):
        b.start(block)
        with b.as_agent(Agent(4 * number, 4, 1 + number)):
            agents.set_registers(b, (40, 232)[number], 128)
            mine = b.add(b.mul(b.thread_id(), i32(4)), i32(512 * number))
            value = b.add(b.thread_id(), i32(1000 * number))
            b.line(f"store {value.typed}, {at(b, shared, mine).typed}, align 4")
            for _ in range(1 + number):
                b.barrier()
            other = b.xor(mine, i32(4 * 64))
            read = b.emit(I32, f"load i32, {at(b, shared, other).typed}, align 4")
            place = b.emit(GLOBAL_POINTER, f"getelementptr i8, {out.typed}, {mine.typed}")
            b.line(f"store {read.typed}, {place.typed}, align 4")
        b.branch(end)
    b.start(end)
    text = ak.ptx_of(b)
    ak.assembled(text)
    for order in (None, 1, 2):
        found = np.zeros(256, np.int32)
        ak.run(text, b, found, order=order)
        threads = np.arange(128) ^ 64
        np.testing.assert_array_equal(found, np.concatenate([threads, threads + 1000]))


@pytest.mark.parametrize("count", [16, 33, 264])
def test_register_counts_that_there_are_not(count):
    b = KernelBuilder("k", ak.SM_90, 128)
    with pytest.raises(ValueError, match="not a multiple of 8 from 24 to 256"):
        agents.set_registers(b, count, 128)


# -- wgmma ------------------------------------------------------------------------------------------------------------

NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
KEYWORD = {"e4m3": "i8", "e5m2": "i8", "s8": "i8", "u8": "i8"}
RESULT = {"f16": "f16", "f32": "f32", "s32": "i32"}


def place(b, shared, base, source, shape, size):
    """Threads copy a row-major matrix from global memory to its places in shared memory, byte by byte."""
    places = shared.inverse()
    names = row_major(shape).out_dims
    count = int(np.prod(shape))
    plain = [row_major(shape).basis("offset")[i] for i in range(count.bit_length() - 1)]
    moved = [places(**dict(zip(names, v)))["offset"] * size for v in plain]
    for part in range(0, count, 128):
        number = b.add(b.thread_id(), i32(part))
        type_ = integer(I32, 0).type if size == 4 else VectorType(size, I8)
        read = b.emit(GLOBAL_POINTER, f"getelementptr i8, {source.typed}, {b.mul(number, i32(size)).typed}")
        value = b.emit(type_, f"load {type_}, {read.typed}, align {size}")
        to = at(b, base, linear_of_bits(b, number, moved))
        with b.when(b.compare("ult", number, i32(count))):
            b.line(f"store {value.typed}, {to.typed}, align {size}")


def product(family, n, depth, contiguous, in_registers):
    """d = a b of one warpgroup; `contiguous` names the dimensions of a and b, "k" or "mn"."""
    b = KernelBuilder("k", ak.SM_90, 128)
    given = [b.add_parameter(GLOBAL_POINTER) for _ in range(3)]
    size = np.dtype(NUMPY[family.a]).itemsize
    atom = atoms.find(ak.SM_90, family.a, family.b, family.d, 64, n, depth)
    operands = []
    for side, (shape, along) in enumerate((((64, depth), contiguous[0]), ((depth, n), contiguous[1]))):
        fastest = (1 - side) if along == "k" else side
        layout = operand_shared_layout(shape, KEYWORD.get(family.a, family.a), fastest)
        operand = atoms.shared_operand(layout, "ab"[side], atom, size, atoms.transposed_atoms(ak.SM_90, atom))
        assert not isinstance(operand, str), operand
        base = b.shared_pointer(b.shared_buffer(int(np.prod(shape)) * size, operand.alignment))
        place(b, layout, base, given[side], shape, size)
        operands.append(wgmma.descriptor(b, operand, base))
    tma.fence_async_shared(b)
    b.barrier()
    zero = float_constant(FLOAT, 0.0) if family.d == "f32" else i32(0)
    acc = wgmma.fence(b, [zero] * atoms.accumulator_registers(atom))
    left, right = operands
    flags = left.operand.transposed, right.operand.transposed
    held = fragments(b, given[0], atoms.a_layout((64, depth), 4, 8 * size), size) if in_registers else None
    if held is not None:
        held = wgmma.fence(b, held)
    for step, k in enumerate(range(0, depth, atom.k)):
        a = left.at(b, 0, k) if held is None else held[4 * step : 4 * step + 4]
        acc = wgmma.multiply(b, atom, acc, a, right.at(b, 0, k), transposed=flags, add=step > 0)
    wgmma.commit(b)
    acc = wgmma.wait(b, 0, acc)
    if family.d == "f16":
        pairs = [b.cast("bitcast", v, VectorType(2, HALF)) for v in acc]
        acc = [b.extract(pair, i, HALF) for pair in pairs for i in range(2)]
    layout = atoms.accumulator_layout((64, n), 4)
    tile = Tile(layout, RESULT[family.d], tuple(acc))
    number = Tile(layout, "i32", tuple(_positions(b, layout, n)))
    store(b, offset_pointers(b, scalar(given[2], "ptr", layout), number, tile.element), tile)
    return b


def _positions(b, layout, n):
    registers = range(layout.in_size("register"))
    return [b.add(b.mul(index(b, layout, r, 0), i32(n)), index(b, layout, r, 1)) for r in registers]


def fragments(b, source, layout, size):
    """A in registers, 32 bits at a time, in the order in which products take them."""
    depth = layout.shape[1]
    words = []
    for r in range(0, layout.in_size("register"), 4 // size):
        number = b.add(b.mul(index(b, layout, r, 0), i32(depth)), index(b, layout, r, 1))
        read = b.emit(GLOBAL_POINTER, f"getelementptr i8, {source.typed}, {b.mul(number, i32(size)).typed}")
        words.append(b.emit(I32, f"load i32, {read.typed}, align 4"))
    return words


def values(kind, shape, seed):
    rng = np.random.default_rng(seed)
    if kind in ("s8", "u8"):
        return rng.integers(-100 if kind == "s8" else 0, 100, shape).astype(NUMPY[kind])
    return rng.integers(-4, 5, shape).astype(np.float32).astype(NUMPY[kind])


FAMILIES = {f"{f.a}-{f.b}-{f.d}": f for f in ak.SM_90.wgmma_families}
FORMS = {
    "k-k": (8, ("k", "k"), False),
    "mn-mn": (64, ("mn", "mn"), False),
    "k-mn": (256, ("k", "mn"), False),
    "registers": (32, ("k", "k"), True),
}
"""Columns, what each operand is contiguous along, and whether A is in registers."""
CASES = [
    pytest.param(
        name,
        form,
        marks=() if number % len(FORMS) == n or name in ("f16-f16-f16", "tf32-tf32-f32") else pytest.mark.slow,
    )
    for number, name in enumerate(FAMILIES)
    for n, form in enumerate(FORMS)
]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_products_of_each_type(name, form):
    family = FAMILIES[name]
    n, contiguous, in_registers = FORMS[form]
    if not family.transposed:
        contiguous = ("k", "k")
    b = product(family, n, 2 * family.k, contiguous, in_registers)
    text = ak.ptx_of(b)
    ak.assembled(text)
    a, right = values(family.a, (64, 2 * family.k), 1), values(family.b, (2 * family.k, n), 2)
    wide = np.int64 if family.d == "s32" else np.float64
    expected = a.astype(wide) @ right.astype(wide)
    found = np.zeros((64, n), {"f16": np.float16, "f32": np.float32, "s32": np.int32}[family.d])
    ak.run(text, b, a.view(np.uint8), right.view(np.uint8), found, order=3 if form == "registers" else None)
    np.testing.assert_array_equal(found, expected)


def test_wrong_numbers_of_registers_are_an_error():
    b = KernelBuilder("k", ak.SM_90, 128)
    atom = atoms.find(ak.SM_90, "tf32", "tf32", "f32", 64, 8, 8)
    zero, description = [float_constant(FLOAT, 0.0)] * 4, integer(I64, 0)
    with pytest.raises(ValueError, match="3 accumulators for a product with 4"):
        wgmma.multiply(b, atom, zero[:3], description, description)
    with pytest.raises(ValueError, match="contiguous along k only"):
        wgmma.multiply(b, atom, zero, description, description, transposed=(False, True))
    with pytest.raises(ValueError, match="32 bits"):
        wgmma.wait(b, 0, [description])
