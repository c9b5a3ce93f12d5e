# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that are copied to shared memory behind the back of the computation arrive whole, swizzled, in a pipeline."""

import memory_kernels as mk
import numpy as np
import pytest

from libtile.atoms.cp_async import async_groups, operand_shared_layout
from libtile.atoms.mma_layouts import dot_layouts
from libtile.codegen.async_copies import commit_copies, copy_to_shared_async, wait_copies
from libtile.codegen.builder import float_constant, integer
from libtile.codegen.control import for_loop
from libtile.codegen.llvm_types import FLOAT, I32
from libtile.codegen.mma import dot
from libtile.codegen.tile import Tile, index, scalar
from libtile.layouts import builders
from libtile.layouts.linear import LinearLayout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import target


def stage_pointer(b, base, stage, stage_bytes):
    """The buffer of a stage (an i32) in a ring of equal ones."""
    return b.emit(base.type, f"getelementptr i8, {base.typed}, {b.mul(stage, integer(I32, stage_bytes)).typed}")


def rows(shape, vector):
    lanes = min(shape[1] // vector, 32)
    return builders.blocked(shape, (1, vector), (32 // lanes, lanes), (4, 1), (1, 0))


def trip(element, shape, width, gpu="sm_80", valid_rows=None, target_layout=None):
    """Copy a tile to shared memory, load it in a layout, write it; returns the array and the counters."""
    b, (source, result) = mk.kernel(gpu, 128, 2)
    layout, shared = rows(shape, width), operand_shared_layout(shape, element)
    buffer = b.shared_buffer(STORAGE_BYTES[element] * shape[0] * shape[1], 128)
    base = b.shared_pointer(buffer)
    pointers = mk.pointers(b, source, layout, element)

    def mask(register):
        if valid_rows is None:
            return None
        return b.compare("ult", index(b, layout, register, 0), integer(I32, valid_rows))

    copy_to_shared_async(b, base, shared, layout, element, lambda r: pointers.registers[r], mask, dim=1, width=width)
    commit_copies(b)
    wait_copies(b, 0)
    b.barrier()
    mk.put(b, result, mk.load_shared(b, base, shared, target_layout or layout, element))
    data = mk.random_array(element, shape)
    out = np.zeros_like(data)
    given = data if valid_rows is None else np.ascontiguousarray(data[:valid_rows])
    done = mk.run(b, given, out)
    return data, out, done.counters


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("element", "width"), [("f16", 8), ("f16", 4), ("f16", 2), ("f32", 4), ("i8", 16), ("f64", 2)])
def test_copies_of_every_size_arrive(element, width, gpu):
    data, out, counters = trip(element, (32, 64), width, gpu)
    np.testing.assert_array_equal(mk.bits(out), mk.bits(data))
    assert counters.bank_conflicts == 0


def test_rows_beyond_the_tensor_become_zeros():
    data, out, _ = trip("f16", (32, 64), 8, valid_rows=21)
    np.testing.assert_array_equal(out[:21], data[:21])
    assert not out[21:].any()


@pytest.mark.parametrize("shape", [(64, 64), (64, 32), (16, 128)], ids=str)
@pytest.mark.parametrize("which", ["a", "b"])
def test_operands_are_read_by_ldmatrix_without_conflicts(which, shape):
    layout = builders.mma_operand(shape, (2, 2), 16, which)
    data, out, counters = trip("f16", shape, 8, target_layout=layout)
    np.testing.assert_array_equal(out, data)
    assert counters.bank_conflicts == 0
    loads = [name for name in counters.instructions if "ldmatrix" in name]
    assert loads and all((".trans" in name) == (which == "b") for name in loads)


def test_layouts_that_do_not_fit_a_copy_are_refused():
    shared = operand_shared_layout((32, 64), "f16")
    assert async_groups(shared, rows((32, 64), 8), "f16", 1, 8)
    assert async_groups(shared, rows((32, 64), 8), "f16", 1, 1) is None  # 2 bytes
    columns = builders.blocked((32, 64), (8, 1), (4, 8), (1, 4), (0, 1))
    assert async_groups(shared, columns, "f16", 0, 8) is None
    b, (source, _) = mk.kernel("sm_80", 128, 2)
    with pytest.raises(ValueError, match="no copies of 8 elements"):
        copy_to_shared_async(b, source, shared, columns, "f16", lambda r: source, dim=0, width=8)


def test_batches_of_operands_lie_one_after_the_other():
    layout = operand_shared_layout((4, 16, 64), "f16")
    assert layout(offset=16 * 64) == {"dim0": 1, "dim1": 0, "dim2": 0}
    assert layout.is_invertible


@pytest.mark.parametrize("shape", [(1, 1, 32, 64), (1, 32, 1, 64), (2, 4, 8, 16)], ids=str)
@pytest.mark.parametrize("fastest", [2, 3])
def test_operands_may_have_more_dimensions_and_any_order(shape, fastest):
    layout = operand_shared_layout(shape, "f16", fastest)
    assert layout.shape == shape
    assert layout.is_invertible
    if shape[fastest] > 1:
        assert layout(offset=1) == {f"dim{d}": int(d == fastest) for d in range(4)}


def pipelined_product(gpu, stages=3, depth=128, k=32):
    """A 64 x 64 product whose operands come through a ring of buffers, `stages - 1` steps ahead of their use."""
    m = n = 64
    b, (lhs, rhs, result) = mk.kernel(gpu, 128, 3)
    layouts = dot_layouts((m, k), (k, n), "f16", "f16", "f32", target(gpu), 4)
    shapes = (m, k), (k, n)
    copied = [rows(s, 8) for s in shapes]
    shared = [operand_shared_layout(s, "f16") for s in shapes]
    sizes = [2 * s[0] * s[1] for s in shapes]
    rings = [b.shared_pointer(b.shared_buffer(size * stages, 128)) for size in sizes]
    steps = depth // k

    def fetch(number, slot):
        inside = b.compare("slt", number, integer(I32, steps))
        for i, (base, strides) in enumerate(((lhs, (depth, 1)), (rhs, (n, 1)))):
            distance = b.mul(number, integer(I32, k if i == 0 else k * n))
            start = b.emit(base.type, f"getelementptr half, {base.typed}, {distance.typed}")
            tile = mk.pointers(b, start, copied[i], "f16", strides)
            place = stage_pointer(b, rings[i], slot, sizes[i])
            copy_to_shared_async(
                b, place, shared[i], copied[i], "f16",
                lambda r, tile=tile: tile.registers[r], lambda r: inside, dim=1, width=8,
            )  # fmt: skip
        commit_copies(b)

    def slot_of(number):
        return b.binary("urem", number, integer(I32, stages))

    for stage in range(stages - 1):
        fetch(integer(I32, stage), integer(I32, stage))

    def body(number, carried):
        wait_copies(b, stages - 2)
        b.barrier()
        slot = slot_of(number)
        places = [stage_pointer(b, ring, slot, size) for ring, size in zip(rings, sizes)]
        a = mk.load_shared(b, places[0], shared[0], layouts.a, "f16")
        c = mk.load_shared(b, places[1], shared[1], layouts.b, "f16")
        ahead = b.add(number, integer(I32, stages - 1))
        fetch(ahead, slot_of(ahead))
        return [dot(b, a, c, carried[0], layouts.atom)]

    zero = scalar(float_constant(FLOAT, 0.0), "f32", layouts.c)
    (made,) = for_loop(b, integer(I32, 0), integer(I32, steps), integer(I32, 1), [zero], body)
    assert isinstance(made, Tile)
    mk.put(b, result, made)
    a, c = mk.random_array("f16", (m, depth)), mk.random_array("f16", (depth, n), 1)
    out = np.zeros((m, n), np.float32)
    done = mk.run(b, a, c, out)
    expected = a.astype(np.float32) @ c.astype(np.float32)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-2)
    return done.counters


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
def test_a_pipeline_of_copies_feeds_products_without_races_or_conflicts(gpu):
    counters = pipelined_product(gpu)
    assert counters.bank_conflicts == 0
    assert counters.barriers == 4  # one for each step along k


def test_the_owner_copies_where_threads_hold_copies():
    layout = LinearLayout.of(
        {"register": [(0, 1), (0, 2), (0, 4)], "lane": [(1, 0), (2, 0), (4, 0), (0, 0), (0, 0)], "warp": [(0, 0)] * 2},
        {"dim0": 8, "dim1": 8},
    )
    shared = operand_shared_layout((8, 8), "f16")
    b, (source, result) = mk.kernel("sm_80", 128, 2)
    base = b.shared_pointer(b.shared_buffer(128, 128))
    pointers = mk.pointers(b, source, layout, "f16")
    copy_to_shared_async(b, base, shared, layout, "f16", lambda r: pointers.registers[r], dim=1, width=8)
    commit_copies(b)
    wait_copies(b, 0)
    b.barrier()
    mk.put(b, result, mk.load_shared(b, base, shared, layout, "f16"))
    data = mk.random_array("f16", (8, 8))
    out = np.zeros_like(data)
    done = mk.run(b, data, out)
    np.testing.assert_array_equal(out, data)
    assert sum(n for name, n in done.counters.instructions.items() if name.startswith("cp.async.c")) >= 1
