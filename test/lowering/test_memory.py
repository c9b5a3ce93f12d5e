# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores through pointer tiles, run in the simulator, move the elements that numpy moves."""

from __future__ import annotations

import re

import memory_kernels as mk
import numpy as np
import pytest

from libtile.backend import ptxas
from libtile.codegen.memory import NO_HINT, SINGLE, WEAK, CacheHint, Ordering, Vector, store, vector_from_facts
from libtile.codegen.tile import Tile
from libtile.ir.facts import Fact
from libtile.layouts.registers import register_groups


def copy_kernel(layout, element, *, vector=SINGLE, masked=None, ordering=(WEAK, WEAK), cache=NO_HINT, gpu="sm_90"):
    """A kernel that copies an array through a tile; `masked` is "padding" or "kept" for a mask in a third array."""
    b, (source, target, mask_base, pad_base) = mk.kernel(gpu, parameters=4)
    mask = padding = None
    if masked:
        mask = mk.load(b, mk.pointers(b, mask_base, layout, "i1"), "i1")
        if masked == "padding":
            padding = mk.load(b, mk.pointers(b, pad_base, layout, element), element)
    tile = mk.load(
        b, mk.pointers(b, source, layout, element), element,
        mask=mask, padding=padding, vector=vector, ordering=ordering[0], cache=cache,
    )  # fmt: skip
    kept = mask if masked == "kept" else None
    store(b, mk.pointers(b, target, layout, element), tile, mask=kept, vector=vector, ordering=ordering[1], cache=cache)
    return b


def check_copy(layout, element, **options):
    b = copy_kernel(layout, element, **options)
    data, pad = mk.random_array(element, layout.shape), mk.random_array(element, layout.shape, 1)
    mask = np.random.default_rng(2).integers(0, 2, layout.shape).astype(bool)
    count = options.get("vector", SINGLE).count
    if count > 1:
        mask = np.repeat(mask[:, ::count], count, axis=1)  # one value in each group, as the facts say
    out = mk.random_array(element, layout.shape, 3)
    expected = data.copy()
    if options.get("masked") == "padding":
        expected = np.where(mask, data, pad)
    elif options.get("masked") == "kept":
        expected = np.where(mask, data, out)
    mk.run(b, data, out, mask, pad)
    assert np.array_equal(mk.bits(out), mk.bits(expected))
    return mk.ptx_of(b)


@pytest.mark.parametrize("element", mk.DTYPES)
@pytest.mark.parametrize("masked", [None, "padding", "kept"])
def test_every_element_type_goes_through_registers_unchanged(element, masked):
    check_copy(mk.LAYOUTS["rows of 8"], element, masked=masked, vector=Vector(1, 8), gpu="sm_80")


@pytest.mark.parametrize("layout", mk.LAYOUTS)
@pytest.mark.parametrize("masked", ["padding", "kept"])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_every_layout_copies_under_a_mask_of_single_elements(layout, masked, gpu):
    check_copy(mk.LAYOUTS[layout], "i32", masked=masked, gpu=gpu)


@pytest.mark.parametrize(
    ("element", "load_as", "store_as"),
    [
        ("f64", "ld.global.v2.b64", "st.global.v2.b64"),
        ("f32", "ld.global.v4.b32", "st.global.v4.b32"),
        ("f16", "ld.global.v4.b32", "st.global.v4.b32"),
        ("i8", "ld.global.v2.b32", "st.global.v2.b32"),
    ],
)
@pytest.mark.parametrize("masked", [None, "padding"])
def test_neighbours_in_a_thread_move_in_one_access_of_up_to_16_bytes(element, load_as, store_as, masked):
    text = check_copy(mk.LAYOUTS["rows of 8"], element, masked=masked, vector=Vector(1, 8))
    assert load_as in text
    if masked is None:
        assert store_as in text


def test_a_layout_of_pairs_has_accesses_of_pairs():
    text = check_copy(mk.LAYOUTS["rows of 2"], "f32", masked="padding", vector=Vector(1, 8))
    assert "ld.global.v2.b32" in text and "v4" not in text


def test_groups_are_of_registers_that_follow_each_other_in_every_thread():
    assert register_groups(mk.LAYOUTS["rows of 8"], 1, 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert register_groups(mk.LAYOUTS["columns"], 0, 8)[0] == (0, 1, 2, 3)
    assert {len(g) for g in register_groups(mk.LAYOUTS["rows of 8"], 0, 8)} == {1}
    assert register_groups(mk.LAYOUTS["copies"], 1, 8) == [(0, 1), (4, 5)]


def test_groups_come_from_the_facts_of_pointers_and_mask():
    pointer = Fact(divisor=(1, 16), contiguity=(1, 64), constancy=(1, 1))
    assert vector_from_facts(pointer, None, "f32") == Vector(1, 4)
    assert vector_from_facts(pointer, None, "f16") == Vector(1, 8)
    assert vector_from_facts(pointer, Fact((1, 1), (1, 1), (1, 2)), "f16") == Vector(1, 2)
    assert vector_from_facts(Fact((1, 4), (1, 64), (1, 1)), None, "f16") == Vector(1, 2)
    assert vector_from_facts(Fact.unknown(2), None, "f16") == Vector()


ACQUIRE_RELEASE = (Ordering("acquire", "device"), Ordering("release", "sys"))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_a_single_access_carries_its_semantics_and_scope(gpu):
    text = check_copy(mk.SMALL_ROWS, "i32", ordering=ACQUIRE_RELEASE, vector=Vector(1, 4), gpu=gpu)
    assert text.index("ld.acquire.gpu.global.v4.b32") < text.index("st.release.sys.global.v4.b32")
    assert "fence" not in text and "bar" not in text
    assert "ld.relaxed.cta" in mk.ptx_of(copy_kernel(mk.SCALAR, "i32", ordering=(Ordering("relaxed", "tl_blk"), WEAK)))


def test_a_strong_load_of_a_scalar_is_done_by_one_thread_and_seen_by_all():
    b, (source, out) = mk.kernel()
    tile = mk.load(b, Tile(mk.SCALAR, "ptr", (source,)), "i32", ordering=Ordering("relaxed", "device"))
    layout = mk.builders.blocked((128,), (1,), (32,), (4,), (0,))
    mk.put(b, out, Tile(layout, "i32", tile.registers))
    result = np.zeros(128, np.int32)
    mk.run(b, np.array([7], np.int32), result)
    assert (result == 7).all()
    assert re.search(r"@%p\d+ ld\.relaxed\.gpu", mk.ptx_of(b))


@pytest.mark.parametrize(
    ("cache", "text"),
    [
        (CacheHint(modifier="cg"), "ld.global.cg.v4.b32"),
        (CacheHint(eviction="first"), "ld.global.L1::evict_first.v4.b32"),
        (CacheHint(modifier="cg", eviction="no_allocate"), "ld.global.L1::no_allocate.v4.b32"),
    ],
)
def test_cache_hints_are_in_the_instruction(cache, text):
    assert text in check_copy(mk.LAYOUTS["rows of 8"], "f32", vector=Vector(1, 4), cache=cache)


@pytest.mark.parametrize("element", ["i4", "f4E2M1FN"])
def test_a_four_bit_element_behind_a_pointer_is_the_low_half_of_a_byte(element):
    layout = mk.LAYOUTS["rows of 8"]
    b = copy_kernel(layout, element, vector=Vector(1, 8))
    data, out = mk.random_array("i8", layout.shape), np.zeros(layout.shape, np.int8)
    mk.run(b, data, out, data, data)
    assert np.array_equal(out, data & 15)


def test_tf32_is_stored_with_its_low_bits_clear():
    layout = mk.LAYOUTS["rows of 8"]
    b = copy_kernel(layout, "tf32", vector=Vector(1, 4))
    data, out = mk.random_array("f32", layout.shape), np.zeros(layout.shape, np.float32)
    mk.run(b, data, out, data, data)
    assert np.array_equal(out.view(np.uint32), data.view(np.uint32) & np.uint32(0xFFFFE000))


def test_pointers_themselves_can_be_loaded_and_stored():
    layout = mk.LAYOUTS["rows of 2"]
    b = copy_kernel(layout, "ptr", vector=Vector(1, 2))
    data, out = mk.random_array("i64", layout.shape), np.zeros(layout.shape, np.int64)
    mk.run(b, data, out, data, data)
    assert np.array_equal(out, data)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_assembler_takes_every_kind_of_access(gpu):
    caches = [(CacheHint(modifier=m), NO_HINT) for m in ("ca", "cg", "cs", "lu", "cv")]
    caches += [(NO_HINT, CacheHint(modifier=m)) for m in ("wb", "cg", "cs", "wt")]
    evictions = [CacheHint(eviction=e) for e in ("first", "last", "normal", "no_allocate")]
    caches += zip(evictions, evictions)
    orderings = [(Ordering(s, scope), Ordering(t, scope)) for s, t in (("relaxed", "relaxed"), ("acquire", "release"))
                 for scope in ("tl_blk", "device", "sys")]  # fmt: skip
    b, (source, target) = mk.kernel(gpu)
    layout = mk.LAYOUTS["rows of 8"]
    mask = mk.load(b, mk.pointers(b, source, layout, "i1"), "i1")
    for element, vector in (("f16", Vector(1, 8)), ("i8", SINGLE), ("f64", Vector(1, 2))):
        places = (mk.pointers(b, base, layout, element) for base in (source, target))
        from_, to = places
        for first, second in caches:
            store(b, to, mk.load(b, from_, element, mask=mask, vector=vector, cache=first), vector=vector, cache=second)
        for first, second in orderings:
            tile = mk.load(b, from_, element, mask=mask, vector=vector, ordering=first)
            store(b, to, tile, mask=mask, vector=vector, ordering=second)
    assert ptxas.assemble(mk.ptx_of(b), b.target.ptx_target).cubin


def test_a_strided_pointer_tile_gathers_and_scatters():
    layout = mk.LAYOUTS["mma"]
    b, (source, target) = mk.kernel()
    tile = mk.load(b, mk.pointers(b, source, layout, "f32", (1, 16)), "f32")
    mk.put(b, target, tile)
    data, out = mk.random_array("f32", (64, 16)), np.zeros((16, 64), np.float32)
    mk.run(b, data, out)
    assert np.array_equal(out, data.T)


def test_tiles_of_different_layouts_are_refused():
    b, (source, _) = mk.kernel()
    first, second = mk.LAYOUTS["rows of 8"], mk.LAYOUTS["columns"]
    mask = mk.load(b, mk.pointers(b, source, second, "i1"), "i1")
    with pytest.raises(ValueError, match="layouts differ"):
        mk.load(b, mk.pointers(b, source, first, "f32"), "f32", mask=mask)
