# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hardware's tensor maps: what is encoded comes back, known words, and what is refused."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libtile.targets.tensor_map import (
    ELEMENTS,
    FIELDS,
    FLOATS,
    IM2COL_FIELDS,
    L2_PROMOTIONS,
    MAX_BOX_BYTES,
    PACKED_ROW,
    PACKED_ROWS,
    SIZE,
    SPANS,
    SWIZZLES,
    Field,
    Im2colMap,
    TensorMapError,
    TiledMap,
    decode,
    decode_tiled,
    encode,
    with_address,
)


def _formats(draw: st.DrawFn, rank: int) -> tuple[dict[str, Any], int]:
    """The fields that maps of both kinds have, and the elements of a row of a copy."""
    element = draw(st.sampled_from(sorted(ELEMENTS)))
    packed = element in PACKED_ROWS
    interleave = draw(st.sampled_from(["none", "16B", "32B"] if rank > 2 and not packed else ["none"]))
    swizzles = PACKED_ROWS.get(element, tuple(SWIZZLES))
    swizzle = "32B" if interleave == "32B" else draw(st.sampled_from(sorted(swizzles)))
    unit = 32 if interleave == "32B" or packed else 16
    # Rows of 16 bytes.
    chunk = 128 // ELEMENTS[element].bits
    widest = min(256 // chunk, SPANS.get(swizzle, 256 if swizzle == "none" or interleave != "none" else 128) // 16)
    inner = PACKED_ROW if packed else chunk * draw(st.integers(1, max(1, widest)))
    sizes = tuple(draw(st.integers(1, 1 << 32)) for _ in range(rank))
    if ELEMENTS[element].bits < 8:
        sizes = (max(1, sizes[0] // PACKED_ROW) * PACKED_ROW, *sizes[1:])
    steps = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    formats = {
        "address": draw(st.integers(0, (1 << 52) - 1)) * unit,
        "element": element,
        "sizes": sizes,
        "strides": tuple(draw(st.integers(0, (1 << 40) // unit - 1)) * unit for _ in range(rank - 1)),
        "element_strides": () if set(steps) == {1} else steps,
        "swizzle": swizzle,
        "interleave": interleave,
        "fill_nan": draw(st.booleans()) and element in FLOATS,
        "l2_promotion": draw(st.sampled_from(sorted(L2_PROMOTIONS))),
    }
    return formats, inner


@st.composite
def tiled_maps(draw: st.DrawFn) -> TiledMap:
    rank = draw(st.integers(1, 5))
    formats, inner = _formats(draw, rank)
    box, rows = [inner], MAX_BOX_BYTES // (inner * ELEMENTS[formats["element"]].bits // 8)
    for _ in range(rank - 1):
        box.append(draw(st.integers(1, min(256, rows))))
        rows //= box[-1]
    return TiledMap(box=tuple(box), **formats)


@st.composite
def im2col_maps(draw: st.DrawFn) -> Im2colMap:
    rank = draw(st.integers(3, 5))
    formats, inner = _formats(draw, rank)
    most = {3: 32768, 4: 128, 5: 16}[rank]
    lower = tuple(draw(st.integers(-most, min(most - 1, size - 1))) for size in formats["sizes"][1:-1])
    sides = zip(formats["sizes"][1:-1], lower, strict=True)
    upper = tuple(draw(st.integers(max(-most, low + 1 - size), most - 1)) for size, low in sides)
    pixels = draw(st.integers(1, min(1024, MAX_BOX_BYTES // (inner * ELEMENTS[formats["element"]].bits // 8))))
    return Im2colMap(lower=lower, upper=upper, channels=inner, pixels=pixels, **formats)


@given(tiled_maps() | im2col_maps())
def test_what_is_encoded_comes_back(tensor: TiledMap | Im2colMap) -> None:
    raw = encode(tensor)
    assert len(raw) == SIZE and not any(raw[64:])
    assert decode(raw) == tensor
    assert encode(decode(raw)) == raw


@given(tiled_maps() | im2col_maps(), st.integers(0, (1 << 52) - 1))
def test_another_address_changes_nothing_else(tensor: TiledMap | Im2colMap, where: int) -> None:
    moved = with_address(encode(tensor), where * 16)
    assert decode(moved) == replace(tensor, address=where * 16)
    assert moved[8:] == encode(tensor)[8:]


@pytest.mark.parametrize("fields", [FIELDS, IM2COL_FIELDS])
def test_fields_do_not_overlap(fields: dict[str, Field]) -> None:
    taken = 0
    for field in fields.values():
        bits = (1 << field.width) - 1 << field.at
        assert not taken & bits
        taken |= bits
    assert taken >> 512 == 0


def test_words_of_a_map_that_the_reference_host_object_wrote() -> None:
    # 16-bit floats, sizes 0x3e80 x 0x3e90, rows of 0x640 elements, tiles of 16 x 64.
    words = (0x7F0123456780, 0xC800240312, 0, 0, 0x3E7F00003E8F, 0, 0x3F << 56, 0xF)
    tiled = TiledMap(0x7F0123456780, "f16", (0x3E90, 0x3E80), (0xC80,), (64, 16))
    assert encode(tiled)[:64] == struct.pack("<8Q", *words)


# Arguments, and the first half of what the driver's encoder (580, on an H100) makes of them.
FROM_DRIVER: list[tuple[TiledMap | Im2colMap, tuple[int, ...]]] = [
    (
        Im2colMap(
            0x6E39D80CF0C0,
            "u8",
            (3, 9547, 62),
            (16, 152752),
            (-1,),
            (0,),
            32,
            256,
            (1, 7, 3),
            "32B",
            "16B",
            False,
            "128B",
        ),
        (0x6E39D80CF0C0, 0x100042821, 0x254B, 0x0, 0x254A00000002, 0x3D, 0x1F0000B000000000, 0xFF0000FFFF),
    ),
    (
        Im2colMap(
            0x57A735596FA0,
            "u8",
            (6264, 61, 2301),
            (6272, 382592),
            (-1,),
            (21745,),
            16,
            256,
            (1, 7, 6),
            "32B",
            "32B",
            False,
            "128B",
        ),
        (0x57A735596FA0, 0x18800043021, 0x5D68, 0x0, 0x3C00001877, 0x8FC, 0xF00017000000000, 0xFF54F1FFFF),
    ),
    (
        Im2colMap(
            0x1ABDA184EA0,
            "u8",
            (205, 259, 13348, 56, 156),
            (208, 53872, 719083456, 40268673536),
            (0, -13, -1),
            (-1, -7, 3),
            64,
            256,
            (),
            "64B",
            "none",
            False,
            "128B",
        ),
        (
            0x1ABDA184EA0,
            0xD00044041,
            0x2ADC57C00000D27,
            0x96033320,
            0x102000000CC,
            0x3700003423,
            0x3F0000000000009B,
            0xFF0F3F7E60,
        ),
    ),
    (
        Im2colMap(
            0x746804F33330,
            "u16",
            (15884, 9116, 15960),
            (31776, 289670016),
            (-29200,),
            (5199,),
            16,
            16,
            (1, 5, 2),
            "none",
            "none",
            False,
            "none",
        ),
        (0x746804F33330, 0x7C2000000A1, 0x1144038, 0x0, 0x239B00003E0B, 0x3E57, 0xF00006000000000, 0xF144F8DF0),
    ),
    (
        Im2colMap(
            0x4BA691670B00,
            "u16",
            (10842, 2, 242, 88),
            (21696, 43392, 10500864),
            (-56, -1),
            (-1, 0),
            8,
            1,
            (1, 2, 1, 8),
            "none",
            "16B",
            False,
            "none",
        ),
        (0x4BA691670B00, 0x54C000008B1, 0xA03B000000A98, 0x0, 0x100002A59, 0x57000000F1, 0x7000E0800000000, 0xFFFFC8),
    ),
    (
        Im2colMap(
            0x33BA9596D0C0,
            "u32",
            (8117, 253, 350, 72, 126),
            (32480, 8217440, 2876104000, 207079488000),
            (0, 0, -1),
            (-15, 0, -1),
            16,
            128,
            (1, 7, 7, 8, 2),
            "64B",
            "16B",
            False,
            "64B",
        ),
        (
            0x33BA9596D0C0,
            0x7EE00024941,
            0xAB6DDD40007D636,
            0x3000036E63A0,
            0xFC00001FB4,
            0x470000015D,
            0xF001FB00000007D,
            0x7F7C117C00,
        ),
    ),
    (
        Im2colMap(
            0x4310A15641E0,
            "u32",
            (88, 183, 15003, 18, 72),
            (352, 64416, 966433248, 17395798464),
            (-1, -1, 0),
            (-1, 11, 3),
            256,
            1,
            (),
            "32B",
            "32B",
            False,
            "none",
        ),
        (
            0x4310A15641E0,
            0x1600003141,
            0x399A99E00000FBA,
            0x40CDED1C,
            0xB600000057,
            0x1100003A9A,
            0xFF00000000000047,
            0xD7F03FF,
        ),
    ),
    (
        Im2colMap(
            0x353DA871C6F0,
            "f16",
            (15642, 140, 1009),
            (31296, 4381440),
            (-1,),
            (-1,),
            64,
            1,
            (),
            "128B",
            "none",
            True,
            "64B",
        ),
        (0x353DA871C6F0, 0x7A40002E321, 0x42DB0, 0x0, 0x8B00003D19, 0x3F0, 0x3F00000000000000, 0xFFFFFFFF),
    ),
    (
        Im2colMap(
            0x6DA27482AB60,
            "f16",
            (16318, 5892, 222, 242),
            (32640, 192314880, 42693903360),
            (-19, -1),
            (-1, 0),
            8,
            256,
            (1, 7, 1, 6),
            "64B",
            "16B",
            False,
            "256B",
        ),
        (
            0x6DA27482AB60,
            0x7F800064B31,
            0x9F0C144000B767E0,
            0x0,
            0x170300003FBD,
            0xF1000000DD,
            0x7000A3000000000,
            0xFF00FFFFED,
        ),
    ),
    (
        TiledMap(0x131E67FC3260, "f32", (271698,), (), (4,), (5,), "128B", "none", True, "none"),
        (0x131E67FC3260, 0xE380, 0x0, 0x0, 0x42551, 0x0, 0x300000400000000, 0x0),
    ),
    (
        TiledMap(0x7906CBD4A20, "f32.ftz", (260, 909421), (1216,), (32, 1), (), "none", "none", False, "none"),
        (0x7906CBD4A20, 0x4C00000410, 0x0, 0x0, 0xDE06C00000103, 0x0, 0x1F00000000000000, 0x0),
    ),
    (
        TiledMap(
            0x5897D2B01690,
            "f32.ftz",
            (2, 224944, 810581),
            (16, 3599104),
            (32, 16, 16),
            (8, 3, 8),
            "128B",
            "none",
            False,
            "128B",
        ),
        (0x5897D2B01690, 0x100046420, 0x36EB0, 0x0, 0x36EAF00000001, 0xC5E54, 0x1F0001D700000000, 0xF0F),
    ),
    (
        TiledMap(
            0x29B90FDF31C0,
            "u64",
            (133, 741939, 299, 273),
            (1072, 795359872, 237812601968),
            (8, 16, 8, 32),
            (3, 1, 3, 3),
            "128B",
            "none",
            False,
            "128B",
        ),
        (
            0x29B90FDF31C0,
            0x4300046230,
            0x75EBC54702F683A8,
            0x30000000000,
            0xB523200000084,
            0x1100000012A,
            0x700048200000000,
            0x1F070F,
        ),
    ),
    (
        TiledMap(
            0x11B16BA04830,
            "f16",
            (16, 1011301, 74, 227, 899375),
            (32, 32361632, 2394760768, 543610694336),
            (8, 8, 128, 4, 2),
            (2, 8, 8, 8, 4),
            "none",
            "none",
            True,
            "256B",
        ),
        (
            0x11B16BA04830,
            0x200068340,
            0x8EBD264001EDCCA,
            0x7000E91B8EAC,
            0xF6E640000000F,
            0xE200000049,
            0x7003FF9000DB92E,
            0x1037F07,
        ),
    ),
]


@pytest.mark.parametrize(("tensor", "words"), FROM_DRIVER)
def test_maps_are_those_of_the_driver(tensor: TiledMap | Im2colMap, words: tuple[int, ...]) -> None:
    number = int.from_bytes(struct.pack("<8Q", *words), "little")
    assert decode(number.to_bytes(SIZE, "little")) == tensor
    made = int.from_bytes(encode(tensor), "little")
    if isinstance(tensor, TiledMap):
        # Where the driver has another kind, and never says that a tensor is large.
        made &= ~(FIELDS["kind"].put(2) | FIELDS["large"].put(1))
    assert made == number


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
        ({"element_strides": (1, 9, 1)}, "all in 1..8"),
        ({"box": (32, 128, 128)}, "a copy of 1048576 bytes by a tensor map is longer than 262143"),
        ({"box": (4, 8, 1), "interleave": "16B"}, "inner box of 8 bytes"),
        ({"element": "b4x16", "sizes": (63, 64, 64)}, "63 elements b4x16 are no whole bytes"),
        ({"element": "b4x16_p64", "sizes": (128, 64, 64), "box": (64, 8, 1)}, "copied 128 at a time"),
        ({"element": "b4x16_p64", "sizes": (128, 64, 64), "box": (128, 8, 1), "swizzle": "64B"}, "not swizzled by 64B"),
        ({"element": "b6x16_p32", "strides": (48, 8192)}, "not all multiples of 32"),
        ({"element": "u16", "fill_nan": True}, "u16 cannot be filled with NaN"),
        ({"interleave": "32B"}, "needs the swizzle of 32 bytes"),
        ({"sizes": (64,), "strides": (), "box": (8,), "interleave": "16B"}, "has rank 3 at least"),
    ],
)
def test_values_that_no_map_holds_are_refused(changes: dict[str, object], said: str) -> None:
    encode(GOOD)
    with pytest.raises(TensorMapError, match=said):
        encode(replace(GOOD, **changes))  # type: ignore[arg-type]


GOOD_IM2COL = Im2colMap(0x1000, "f16", (64, 14, 9, 2), (128, 1792, 16128), (-1, -1), (-1, -1), 64, 128, swizzle="128B")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sizes": (64, 14), "strides": (128,)}, "an im2col tensor map of rank 2 needs 1 strides; ranks are 3 to 5"),
        ({"lower": (-129, -1)}, r"lower corner \(-129, -1\) of an im2col tensor map of rank 4 .* in -128..127"),
        ({"upper": (-1,)}, r"upper corner \(-1,\) .* is not 2 numbers"),
        ({"lower": (7, -1), "upper": (-7, -1)}, "leave no pixel of images of"),
        ({"channels": 257}, "257 channels"),
        ({"pixels": 1025}, "1025 pixels"),
        ({"pixels": 0}, "0 pixels"),
        ({"channels": 4}, "inner box of 8 bytes"),
        ({"channels": 128}, "inner box of 256 bytes is wider than the swizzle of 128"),
        ({"channels": 256, "pixels": 1024, "swizzle": "none"}, "a copy of 524288 bytes"),
        ({"element_strides": (1, 2, 2)}, "not as many"),
        ({"element": "u16", "fill_nan": True}, "u16 cannot be filled with NaN"),
        ({"interleave": "32B"}, "needs the swizzle of 32 bytes"),
    ],
)
def test_values_that_no_im2col_map_holds_are_refused(changes: dict[str, object], said: str) -> None:
    encode(GOOD_IM2COL)
    with pytest.raises(TensorMapError, match=said):
        encode(replace(GOOD_IM2COL, **changes))  # type: ignore[arg-type]


def test_a_tiled_map_is_asked_for_and_not_taken_for_granted() -> None:
    assert decode_tiled(encode(GOOD)) == GOOD
    with pytest.raises(TensorMapError, match="one of im2col mode, not of tiles"):
        decode_tiled(encode(GOOD_IM2COL))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (bytes(128), "the bytes are no tensor map"),
        (encode(GOOD)[:64], "the bytes are no tensor map"),
        (b"\xff" * 128, "the bytes are no tensor map"),
        (encode(GOOD)[:62] + b"\1" + encode(GOOD)[63:], "bit 496 of a tensor map has no known meaning"),
    ],
)
def test_bytes_that_are_no_map_are_refused(raw: bytes, said: str) -> None:
    with pytest.raises(TensorMapError, match=said):
        decode(raw)
