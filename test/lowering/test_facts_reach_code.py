# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What analyses find out of a program reaches the code: two programs that differ in one fact give different code.

The facts are not stated where they are used: each follows from what is computed.
"""

from __future__ import annotations

import re

import pytest

import libtile

TARGETS = ("sm_80", "sm_120")


def counts(body: str, target: str, level: int = 1) -> dict[str, int]:
    """What stands in the PTX of a kernel: wide accesses, comparisons, barriers, arithmetic of 64 bits."""
    text = f"""cuda_tile.module @m {{
  global @g <f32: 0.0> : tile<1024xf32>
  global @h <f32: 0.0> : tile<1024xf32>
  entry @k(%p: tile<ptr<f32>>, %x: tile<i32>, %y: tile<i64>) {{
    %b, %b1, %b2 = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    {body}
    return
  }}
}}"""
    ptx = libtile.compile(libtile.parse(text), gpu_name=target, emit="ptx", opt_level=level).ptx
    patterns = {
        "wide": r"\.v4\.b32",
        "compared": r"setp",
        "barriers": r"\bbar(?:rier)?\.",
        "long": r"(?:mul|mad)\.\w*\.?s64",
    }
    return {name: len(re.findall(pattern, ptx)) for name, pattern in patterns.items()}


def positions(multiple: int) -> str:
    """512 elements from a multiple of a number on."""
    return f"""
    %c = constant <i32: {multiple}> : tile<i32>
    %start = muli %b, %c overflow<no_signed_wrap> : tile<i32>
    %s1 = reshape %start : tile<i32> -> tile<1xi32>
    %sb = broadcast %s1 : tile<1xi32> -> tile<512xi32>
    %i = iota : tile<512xi32>
    %o = addi %sb, %i overflow<no_signed_wrap> : tile<512xi32>"""


def pointers(base: str, mask: str = "") -> str:
    type_ = "tile<512xptr<f32>>"
    of_mask = ", tile<512xi1>" if mask else ""
    return f"""
    %p0 = {base}
    %p1 = reshape %p0 : tile<ptr<f32>> -> tile<1xptr<f32>>
    %pb = broadcast %p1 : tile<1xptr<f32>> -> {type_}
    %a = offset %pb, %o : {type_}, tile<512xi32> -> {type_}
    %v, %t = load_ptr_tko weak %a{mask} : {type_}{of_mask} -> tile<512xf32>, token
    %s = addf %v, %v : tile<512xf32>
    %u = store_ptr_tko weak %a, %s{mask} token=%t : {type_}, tile<512xf32>{of_mask} -> token"""


ALIGNED = "assume div_by<16>, %p : tile<ptr<f32>>"


@pytest.mark.parametrize("target", TARGETS)
def test_divisors_of_what_is_computed_make_accesses_wide(target: str) -> None:
    found = [counts(positions(multiple) + pointers(ALIGNED), target)["wide"] for multiple in (510, 511, 512)]
    assert found == [0, 0, 2]


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_the_same_for_neighbours_makes_masked_accesses_wide(target: str) -> None:
    """A mask is one bit for four elements where what is compared with is a multiple of four."""
    found = []
    for multiple in (3, 4):
        bound = f"""
    %m = constant <i32: {multiple}> : tile<i32>
    %small = assume bounded<0, 4096>, %x : tile<i32>
    %n = muli %small, %m overflow<no_signed_wrap> : tile<i32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %nb = broadcast %n1 : tile<1xi32> -> tile<512xi32>
    %mask = cmpi less_than %o, %nb, signed : tile<512xi32> -> tile<512xi1>"""
        found.append(counts(positions(512) + bound + pointers(ALIGNED, ", %mask"), target)["wide"])
    assert found == [0, 2]


def through_views(size: str, index: str) -> str:
    """A tile of 512 elements is loaded and stored."""
    view = "partition_view<tile=(512), tensor_view<?xf32, strides=[1]>>"
    return f"""
    %p0 = {ALIGNED}
    {size}
    {index}
    %v = make_tensor_view %p0, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %w = make_partition_view %v : {view}
    %e, %t = load_view_tko weak %w[%at] : {view}, tile<i32> -> tile<512xf32>, token
    %s = addf %e, %e : tile<512xf32>
    %u = store_view_tko weak %s, %w[%at] token=%t : tile<512xf32>, {view}, tile<i32> -> token"""


@pytest.mark.parametrize("target", TARGETS)
def test_ranges_of_indices_and_sizes_show_that_nothing_is_compared(target: str) -> None:
    """A tile with a number from 0 to 3 lies within 2,048 elements, and not surely within 2,047."""
    found = []
    for least in (2047, 2048):
        size = f"%n = assume bounded<{least}, ?>, %x : tile<i32>"
        index = "%four = constant <i32: 4> : tile<i32>\n%at = remi %b, %four unsigned : tile<i32>"
        found.append(counts(through_views(size, index), target)["compared"])
    assert found[0] > found[1] == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("last", "waits"), [(2, 1), (1, 0)])
def test_ranges_show_that_tiles_are_apart_and_nobody_waits(target: str, last: int, waits: int) -> None:
    """The first 512 elements are written, which are two tiles of 256; read is the second one at least, or the third."""
    one, other = (f"partition_view<tile=({size}), tensor_view<4096xf32, strides=[1]>>" for size in (512, 256))
    body = f"""
    %f = constant <f32: 1.0> : tile<512xf32>
    %small = assume bounded<0, {last}>, %x : tile<i32>
    %most = constant <i32: 3> : tile<i32>
    %at = subi %most, %small : tile<i32>
    %v = make_tensor_view %p, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
    %w = make_partition_view %v : {one}
    %r = make_partition_view %v : {other}
    %t = store_view_tko weak %f, %w[%zero] : tile<512xf32>, {one}, tile<i32> -> token
    %e, %u = load_view_tko weak %r[%at] token=%t : {other}, tile<i32> -> tile<256xf32>, token
    %s = addf %e, %e : tile<256xf32>
    %k = store_view_tko weak %s, %r[%at] token=%u : tile<256xf32>, {other}, tile<i32> -> token"""
    assert min(counts(body, target)["barriers"], 1) == waits


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "waits"), [("%g", 1), ("%p", 1), ("%h", 0)])
def test_memory_of_different_names_is_apart_and_nobody_waits(target: str, source: str, waits: int) -> None:
    """A variable is written, and then it, what may be it, or another one is read backwards."""
    type_ = "tile<256xptr<f32>>"
    body = f"""
    %g = get_global @g : tile<ptr<f32>>
    %h = get_global @h : tile<ptr<f32>>
    %f = constant <f32: 1.0> : tile<256xf32>
    %i = iota : tile<256xi32>
    %last = constant <i32: 255> : tile<256xi32>
    %j = subi %last, %i : tile<256xi32>
    %to = reshape %g : tile<ptr<f32>> -> tile<1xptr<f32>>
    %tb = broadcast %to : tile<1xptr<f32>> -> {type_}
    %ta = offset %tb, %i : {type_}, tile<256xi32> -> {type_}
    %from = reshape {source} : tile<ptr<f32>> -> tile<1xptr<f32>>
    %fb = broadcast %from : tile<1xptr<f32>> -> {type_}
    %fa = offset %fb, %j : {type_}, tile<256xi32> -> {type_}
    %t = store_ptr_tko weak %ta, %f : {type_}, tile<256xf32> -> token
    %e, %u = load_ptr_tko weak %fa token=%t : {type_} -> tile<256xf32>, token
    %s = addf %e, %e : tile<256xf32>
    %k = store_ptr_tko weak %fa, %s token=%u : {type_}, tile<256xf32> -> token"""
    assert min(counts(body, target)["barriers"], 1) == waits


@pytest.mark.parametrize("target", TARGETS)
def test_ranges_of_sizes_and_strides_make_places_numbers_of_32_bits(target: str) -> None:
    """A tensor whose last place is below 2^31 elements is indexed without products of 64 bits."""
    view = "partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>"
    found = []
    for most in (1 << 10, 1 << 40):
        body = f"""
    %n = assume bounded<0, {most}>, %y : tile<i64>
    %v = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : tile<i64> -> tensor_view<?x?xf32, strides=[?,1]>
    %w = make_partition_view %v : {view}
    %e, %t = load_view_tko weak %w[%b, %b1] : {view}, tile<i32> -> tile<16x32xf32>, token
    %s = addf %e, %e : tile<16x32xf32>
    %u = store_view_tko weak %s, %w[%b, %b1] token=%t : tile<16x32xf32>, {view}, tile<i32> -> token"""
        found.append(counts(body, target)["long"])
    assert found[0] < found[1]
