# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomics through pointers and views, run in the simulator, change memory as the modes say."""

from __future__ import annotations

import memory_kernels as mk
import ml_dtypes
import numpy as np
import pytest
from view_kernels import known

from libtile.backend import ptxas
from libtile.codegen import atomics
from libtile.codegen.atomics import RELAXED
from libtile.codegen.builder import integer
from libtile.codegen.control import breaking_loop, if_else
from libtile.codegen.llvm_types import ELEMENT_TYPES, I32, I64
from libtile.codegen.memory import Ordering, load, offset_pointers, store
from libtile.codegen.multimem import multimem_load_reduce, multimem_reduce, multimem_store
from libtile.codegen.tile import Tile, scalar
from libtile.codegen.tiled_views import Accesses, TensorView, TiledView
from libtile.layouts import builders
from libtile.lowering.tileas.copies.select_copies import reduced_at_once, replicated_at_once
from libtile.support.diagnostics import LoweringError

LAYOUT = mk.LAYOUTS["rows of 2"]
GPUS = ["sm_80", "sm_90"]
BF16 = ml_dtypes.bfloat16


def combined(mode, old, arg):
    unsigned = f"u{old.dtype.itemsize}"
    operations = {
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "addf": np.add,
        "max": np.maximum, "min": np.minimum, "xchg": lambda x, y: y,
        "umax": lambda x, y: np.maximum(x.view(unsigned), y.view(unsigned)).view(x.dtype),
        "umin": lambda x, y: np.minimum(x.view(unsigned), y.view(unsigned)).view(x.dtype),
    }  # fmt: skip
    return operations[mode](old, arg)


def atomic_rmw(b, mode, pointers, arg, *, ordering=RELAXED, result_used=True, **given):
    """By the instruction that the pass chooses."""
    by = atomics.instruction(
        b.target, mode, arg.element, wanted=result_used, acquires=ordering.semantics in ("acquire", "acq_rel")
    )
    handed = mk.handed(b, arg.layout, arg.element)
    return atomics.atomic_rmw(
        b, mode, by, pointers, arg, ordering=ordering, result_used=result_used, handed=handed, **given
    )


def atomic_cas(b, pointers, cmp, val, **given):
    """With the old values handed out as the pass has it."""
    return atomics.atomic_cas(b, pointers, cmp, val, handed=mk.handed(b, val.layout, val.element), **given)


INTEGER_MODES = ["and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg"]
CASES = [(m, e) for m in INTEGER_MODES for e in ("i32", "i64")]
CASES += [("addf", e) for e in ("f16", "bf16", "f32", "f64")] + [("xchg", "f32"), ("xchg", "f64")]


@pytest.mark.parametrize(("mode", "element"), CASES)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("masked", [False, True])
def test_every_mode_changes_memory_and_gives_the_old_values(mode, element, gpu, masked):
    b, (memory, args, old_out, mask_base) = mk.kernel(gpu, parameters=4)
    arg = load(b, mk.pointers(b, args, LAYOUT, element), element)
    mask = load(b, mk.pointers(b, mask_base, LAYOUT, "i1"), "i1") if masked else None
    old = atomic_rmw(b, mode, mk.pointers(b, memory, LAYOUT, element), arg, mask=mask)
    assert old is not None
    mk.put(b, old_out, old)
    data, operand = mk.random_array(element, LAYOUT.shape), mk.random_array(element, LAYOUT.shape, 1)
    where = (
        np.random.default_rng(2).integers(0, 2, LAYOUT.shape).astype(bool) if masked else np.ones(LAYOUT.shape, bool)
    )
    result, seen = data.copy(), np.zeros_like(data)
    mk.run(b, result, operand, seen, where)
    assert np.array_equal(mk.bits(result), mk.bits(np.where(where, combined(mode, data, operand), data)))
    assert np.array_equal(mk.bits(seen)[where], mk.bits(data)[where])


@pytest.mark.parametrize("element", ["i32", "i64", "f32", "f64", "f16"])
@pytest.mark.parametrize("gpu", GPUS)
def test_compare_and_swap_compares_bits(element, gpu):
    b, (memory, cmp_base, val_base, old_out, mask_base) = mk.kernel(gpu, parameters=5)
    cmp, val = (load(b, mk.pointers(b, base, LAYOUT, element), element) for base in (cmp_base, val_base))
    mask = load(b, mk.pointers(b, mask_base, LAYOUT, "i1"), "i1")
    old = atomic_cas(b, mk.pointers(b, memory, LAYOUT, element), cmp, val, mask=mask)
    assert old is not None
    mk.put(b, old_out, old)
    data, new = mk.random_array(element, LAYOUT.shape), mk.random_array(element, LAYOUT.shape, 1)
    expected = np.where(np.arange(64) % 2, data, new)
    if element.startswith("f"):
        data[0, :4], expected[0, :4] = [0.0, np.nan, 0.0, 1.0], [-0.0, np.nan, 0.0, 1.0]
    mask_data = np.random.default_rng(2).integers(0, 4, LAYOUT.shape) > 0
    result, seen = data.copy(), np.zeros_like(data)
    mk.run(b, result, expected, new, seen, mask_data)
    hit = (mk.bits(data) == mk.bits(expected)) & mask_data
    assert np.array_equal(mk.bits(result), np.where(hit, mk.bits(new), mk.bits(data)))
    assert np.array_equal(mk.bits(seen), np.where(mask_data, mk.bits(data), mk.bits(expected)))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("element", ["i32", "bf16", "f16"])
def test_elements_that_share_a_location_are_all_counted(gpu, element):
    b, (memory, places) = mk.kernel(gpu)
    where = load(b, mk.pointers(b, places, LAYOUT, "i32"), "i32")
    target = offset_pointers(b, scalar(memory, "ptr", LAYOUT), where, element)
    one = {"i32": "1", "bf16": "0xR3F80", "f16": "0xH3C00"}[element]
    ones = Tile(LAYOUT, element, (mk.Value(ELEMENT_TYPES[element], one),) * 8)
    assert atomic_rmw(b, "add" if element == "i32" else "addf", target, ones, result_used=False) is None
    places_data = np.random.default_rng(0).integers(0, 16, LAYOUT.shape).astype(np.int32)
    result = np.zeros(16, mk.DTYPES[element])
    mk.run(b, result, places_data)
    assert np.array_equal(result.astype(int), np.bincount(places_data.reshape(-1), minlength=16))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("order", [None, 1, 2])
def test_a_scalar_atomic_happens_once_and_all_threads_see_its_value(gpu, order):
    b, (memory, out) = mk.kernel(gpu)
    b.barrier()
    old = atomic_rmw(
        b, "add", Tile(mk.SCALAR, "ptr", (memory,)), scalar(integer(I32, 5), "i32", mk.SCALAR),
        ordering=Ordering("acq_rel", "device"),
    )  # fmt: skip
    b.barrier()
    assert old is not None
    place = b.emit(out.type, f"getelementptr [128 x i32], {out.typed}, {b.block_id('x').typed}")
    mk.put(b, place, Tile(builders.blocked((128,), (1,), (32,), (4,), (0,)), "i32", old.registers))
    text = mk.ptx_of(b)
    counter, seen = np.array([100], np.int32), np.zeros((3, 128), np.int32)
    mk.run_text(text, b, counter, seen, grid=3, order=order)
    assert counter[0] == 115
    assert (seen == seen[:, :1]).all() and sorted(seen[:, 0]) == [100, 105, 110]
    assert "atom.acq_rel.gpu.global.add.u32" in text


@pytest.mark.parametrize("gpu", GPUS)
def test_copies_in_a_thread_lanes_and_warps_get_the_owners_old_value(gpu):
    layout = mk.LAYOUTS["copies"]
    b, (memory, out) = mk.kernel(gpu)
    one = scalar(integer(I64, 1), "i64", layout)
    old = atomic_rmw(b, "add", mk.pointers(b, memory, layout, "i64"), one)
    assert old is not None
    slots = b.add(b.mul(b.thread_id(), integer(I32, 8)), integer(I32, 0))
    for r, value in enumerate(old.registers):
        place = b.emit(out.type, f"getelementptr i64, {out.typed}, {b.add(slots, integer(I32, r)).typed}")
        b.line(f"store {value.typed}, {place.typed}, align 8")
    data = mk.random_array("i64", (8, 8))
    result, seen = data.copy(), np.zeros((128, 8), np.int64)
    mk.run(b, result, seen)
    assert np.array_equal(result, data + 1)
    for thread in range(128):
        for r in range(8):
            i, j = layout(register=r, lane=thread % 32, warp=thread // 32 % 2).values()
            assert seen[thread, r] == data[i, j]


def reduction_text(layout, mode="addf", ordering=RELAXED):
    b, (memory, args) = mk.kernel()
    arg = load(b, mk.pointers(b, args, layout, "f32"), "f32")
    atomic_rmw(b, mode, mk.pointers(b, memory, layout, "f32"), arg, result_used=False, ordering=ordering)
    return mk.ptx_of(b)


def test_an_unused_result_is_a_reduction_unless_it_acquires():
    assert "red.relaxed.gpu.global.add.f32" in reduction_text(mk.SMALL)
    assert "red.release.sys.global.add.f32" in reduction_text(mk.SMALL, ordering=Ordering("release", "sys"))
    assert "atom.acquire.cta.global.add.f32" in reduction_text(mk.SMALL, ordering=Ordering("acquire", "tl_blk"))
    assert "atom.relaxed.gpu.global.exch.b32" in reduction_text(mk.SMALL, mode="xchg")


@pytest.mark.parametrize(
    ("mode", "element"),
    [("addf", "i32"), ("add", "f32"), ("xchg", "f16"), ("add", "i16"), ("max", "f32"), ("addf", "f8E5M2")],
)
def test_modes_that_a_type_does_not_have_are_refused(mode, element):
    b, (memory, args) = mk.kernel()
    arg = load(b, mk.pointers(b, args, LAYOUT, element), element)
    with pytest.raises(LoweringError, match=element):
        atomic_rmw(b, mode, mk.pointers(b, memory, LAYOUT, element), arg)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    ("mode", "element", "wide"),
    [
        ("add", "i32", None),
        ("umin", "i64", None),
        ("addf", "f64", None),
        ("addf", "f32", "add.v4.f32"),
        ("addf", "f16", "add.noftz.v4.f16x2"),
        ("addf", "bf16", "add.noftz.v4.bf16x2"),
    ],
)
@pytest.mark.parametrize("columns", [64, 61])
def test_a_view_reduction_leaves_out_what_lies_beyond_the_tensor(gpu, mode, element, wide, columns):
    layout = mk.LAYOUTS["rows of 8"]
    b, (memory, args) = mk.kernel(gpu)
    arg = load(b, mk.pointers(b, args, layout, element), element)
    size, pitch = (integer(I64, 14), integer(I64, columns)), 64
    tiled = TiledView.partition(TensorView(memory, element, size, (integer(I64, pitch), integer(I64, 1))), (16, 64))
    view = known(tiled, alignment=16)
    count = reduced_at_once(b.target, mode, False, view, layout)
    by = atomics.instruction(b.target, mode, element, wanted=False, acquires=False)
    atomics.reduce_tile(b, mode, by, tiled, [integer(I32, 0)] * 2, arg, Accesses(view.contiguous, count, view.masked))
    text = mk.ptx_of(b)
    assert ((wide or "none") in text) == (wide is not None and gpu == "sm_90" and columns == 64)
    data, operand = mk.random_array(element, (14, pitch)), mk.random_array(element, (16, 64), 1)
    expected = data.copy()
    expected[:, :columns] = combined(mode, data, operand[:14])[:, :columns]
    mk.run_text(text, b, data, operand)
    assert np.array_equal(mk.bits(data), mk.bits(expected))


def multimem_kernel(gpu, element, reduction, alignment, columns=64):
    layout = mk.LAYOUTS["rows of 8"]
    b, (memory, out) = mk.kernel(gpu)
    size = (integer(I64, 16), integer(I64, columns))
    tiled = TiledView.partition(TensorView(memory, element, size, (integer(I64, 64), integer(I64, 1))), (16, 64))
    index = [integer(I32, 0)] * 2
    view = known(tiled, alignment=alignment)

    def by(operation):
        count = replicated_at_once(b.target, operation, reduction, view, layout)
        return Accesses(view.contiguous, count, view.masked)

    tile = multimem_load_reduce(
        b,
        reduction,
        tiled,
        index,
        layout,
        by("load_reduce"),
        ordering=Ordering("relaxed", "sys"),
        handed=mk.handed(b, layout, element),
    )
    mk.put(b, out, tile)
    if reduction == "add" or element.startswith("i"):
        multimem_reduce(b, reduction, tiled, index, tile, by("reduce"), ordering=Ordering("release", "sys"))
    multimem_store(b, tiled, index, tile, by("store"))
    return b


@pytest.mark.parametrize(
    ("element", "reduction", "form"),
    [
        ("f32", "add", "add.v4.f32"),
        ("f16", "add", "add.v4.f16x2"),
        ("bf16", "max", "max.v4.bf16x2"),
        ("f64", "add", "add.f64"),
        ("i32", "umax", "max.u32"),
        ("i64", "min", "min.s64"),
        ("i32", "xor", "xor.b32"),
    ],
)
@pytest.mark.parametrize("columns", [64, 56])
def test_the_assembler_takes_multimem_accesses(element, reduction, form, columns):
    text = mk.ptx_of(multimem_kernel("sm_90", element, reduction, 16, columns))
    assert f"multimem.ld_reduce.relaxed.sys.global.{form}" in text
    assert ptxas.assemble(text, "sm_90a").cubin


def test_multimem_needs_a_target_that_has_it_and_pairs_of_narrow_floats():
    with pytest.raises(LoweringError, match="sm_80"):
        multimem_kernel("sm_80", "f32", "add", 16)
    with pytest.raises(LoweringError, match="neighbouring"):
        multimem_kernel("sm_90", "f16", "add", 1)
    with pytest.raises(LoweringError, match="min of f64"):
        multimem_kernel("sm_90", "f64", "min", 16)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("order", [None, 1, 2])
def test_a_lock_of_scalar_atomics_guards_plain_accesses_of_tile_blocks(gpu, order):
    b, (lock, counter) = mk.kernel(gpu)
    zero, one = (scalar(integer(I32, n), "i32", mk.SCALAR) for n in (0, 1))
    place = Tile(mk.SCALAR, "ptr", (lock,))

    def spin(carried, way_out):
        old = atomic_cas(b, place, zero, one, ordering=Ordering("acquire", "device"))
        b.barrier()
        assert old is not None
        taken = b.compare("eq", old.registers[0], integer(I32, 0))

        def leave():
            way_out.break_([])
            return []

        def again():
            way_out.continue_([])
            return []

        if_else(b, taken, leave, again)

    breaking_loop(b, [], [], spin)
    pointers = mk.pointers(b, counter, LAYOUT, "i32")
    store(b, pointers, load(b, pointers, "i32").map(lambda x: b.add(x, integer(I32, 1))))
    b.barrier()
    atomic_rmw(b, "xchg", place, zero, ordering=Ordering("release", "device"), result_used=False)
    counts = np.zeros(LAYOUT.shape, np.int32)
    mk.run_text(mk.ptx_of(b), b, np.zeros(1, np.int32), counts, grid=4, order=order)
    assert (counts == 4).all()


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_assembler_takes_every_atomic(gpu):
    b, (memory, args) = mk.kernel(gpu)
    for mode, element in CASES:
        arg = load(b, mk.pointers(b, args, mk.SMALL, element), element)
        pointers = mk.pointers(b, memory, mk.SMALL, element)
        for semantics in ("relaxed", "acq_rel"):
            ordering = Ordering(semantics, "sys")
            atomic_rmw(b, mode, pointers, arg, ordering=ordering, result_used=False)
            old = atomic_rmw(b, mode, pointers, arg, ordering=ordering)
            assert old is not None
            mk.put(b, args, old)
        if element == "i64":
            mk.put(b, args, atomic_cas(b, pointers, arg, arg) or arg)
    assert ptxas.assemble(mk.ptx_of(b), b.target.ptx_target).cubin
