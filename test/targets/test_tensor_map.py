# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hardware's tensor maps: what is encoded comes back, known words, and what is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libtile.targets.tensor_map import (
    ELEMENTS,
    FIELDS,
    FLOATS,
    L2_PROMOTIONS,
    SIZE,
    SPANS,
    SWIZZLES,
    TensorMapError,
    TiledMap,
    decode,
    encode,
    with_address,
)


@st.composite
def tiled_maps(draw: st.DrawFn) -> TiledMap:
    rank = draw(st.integers(1, 5))
    element = draw(st.sampled_from(sorted(ELEMENTS)))
    interleave = draw(st.sampled_from(["none", "16B", "32B"] if rank > 2 else ["none"]))
    swizzle = "32B" if interleave == "32B" else draw(st.sampled_from(sorted(SWIZZLES)))
    unit = 32 if interleave == "32B" else 16
    # Rows of 16 bytes: 128 bits are so many elements, for 6 bits three such rows are 64.
    chunk = 64 if ELEMENTS[element].bits == 6 else 128 // ELEMENTS[element].bits
    chunk_bytes = chunk * ELEMENTS[element].bits // 8
    widest = min(256 // chunk, SPANS.get(swizzle, 256 if swizzle == "none" else 128) // chunk_bytes or 1)
    inner = chunk * draw(st.integers(1, max(1, widest)))
    if swizzle != "none" and interleave == "none" and inner * ELEMENTS[element].bits // 8 > SPANS.get(swizzle, 128):
        swizzle = "none"
    steps = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    return TiledMap(
        draw(st.integers(0, (1 << 52) - 1)) * unit,
        element,
        tuple(draw(st.integers(1, 1 << 32)) for _ in range(rank)),
        tuple(draw(st.integers(0, (1 << 40) // unit - 1)) * unit for _ in range(rank - 1)),
        (inner, *(draw(st.integers(1, 256)) for _ in range(rank - 1))),
        () if set(steps) == {1} else steps,
        swizzle,
        interleave,
        draw(st.booleans()) and element in FLOATS,
        draw(st.sampled_from(sorted(L2_PROMOTIONS))),
    )


@given(tiled_maps())
def test_what_is_encoded_comes_back(tiled: TiledMap) -> None:
    raw = encode(tiled)
    assert len(raw) == SIZE and not any(raw[64:])
    assert decode(raw) == tiled
    assert encode(decode(raw)) == raw


@given(tiled_maps(), st.integers(0, (1 << 52) - 1))
def test_another_address_changes_nothing_else(tiled: TiledMap, where: int) -> None:
    moved = with_address(encode(tiled), where * 16)
    assert decode(moved) == replace(tiled, address=where * 16)
    assert moved[8:] == encode(tiled)[8:]


def test_fields_do_not_overlap() -> None:
    taken = 0
    for field in FIELDS.values():
        bits = (1 << field.width) - 1 << field.at
        assert not taken & bits
        taken |= bits
    assert taken >> 512 == 0


def test_words_of_a_map_that_the_reference_host_object_wrote() -> None:
    # 16-bit floats, sizes 0x3e80 x 0x3e90, rows of 0x640 elements, tiles of 16 x 64.
    words = (0x7F0123456780, 0xC800240312, 0, 0, 0x3E7F00003E8F, 0, 0x3F << 56, 0xF)
    tiled = TiledMap(0x7F0123456780, "f16", (0x3E90, 0x3E80), (0xC80,), (64, 16))
    assert encode(tiled)[:64] == struct.pack("<8Q", *words)


GOOD = TiledMap(0x1000, "f16", (64, 64, 64), (128, 8192), (32, 8, 1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": 8}, "address 0x8 of a tensor map is not a multiple of 16"),
        ({"strides": (128,)}, "rank 3 needs 3 box sizes and 2 strides"),
        ({"strides": (128, 8)}, "not all multiples of 16"),
        ({"strides": (128, 1 << 40)}, "below 2[*][*]40"),
        ({"sizes": (64, 0, 64)}, "not all in 1..2[*][*]32"),
        ({"box": (32, 257, 1)}, "not in 1..256"),
        ({"box": (4, 8, 1)}, "inner box of 8 bytes"),
        ({"swizzle": "32B"}, "inner box of 64 bytes is wider than the swizzle of 32"),
        ({"swizzle": "48B"}, "swizzle '48B'"),
        ({"element": "i7"}, "element type 'i7'"),
        ({"element_strides": (1, 9, 1)}, "not all in 1..8"),
        ({"element": "u16", "fill_nan": True}, "u16 cannot be filled with NaN"),
        ({"interleave": "32B"}, "needs the swizzle of 32 bytes"),
        ({"sizes": (64,), "strides": (), "box": (8,), "interleave": "16B"}, "has rank 3 at least"),
    ],
)
def test_values_that_no_map_holds_are_refused(changes: dict[str, object], said: str) -> None:
    encode(GOOD)
    with pytest.raises(TensorMapError, match=said):
        encode(replace(GOOD, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (bytes(128), "no tiled tensor map"),
        (encode(GOOD)[:64], "no tiled tensor map"),
        (b"\xff" * 128, "no tiled tensor map"),
        (encode(GOOD)[:62] + b"\1" + encode(GOOD)[63:], "bit 496 of a tensor map has no known meaning"),
    ],
)
def test_bytes_that_are_no_map_are_refused(raw: bytes, said: str) -> None:
    with pytest.raises(TensorMapError, match=said):
        decode(raw)
