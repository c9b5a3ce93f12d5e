# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies of every type of elements and by the swizzles that not every target has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import EncodedTensorMap, LaunchError, SimulationFault, TensorMap
from libtile.targets import tensor_map

from .tensor_programs import COPY_OUT, FENCED, STORE, WAIT, expect, load, run


@pytest.mark.parametrize(("swizzle", "unit"), [("128B atom 32B", 2), ("128B atom 64B", 4)])
def test_swizzles_by_wider_atoms_move_them_whole(swizzle: str, unit: int) -> None:
    tensor = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    out = np.zeros((16, 8, 4), dtype=np.uint32)
    body = expect(tensor.nbytes) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", str(tensor.size))
    run(body, out, TensorMap(tensor, box=(32, 16), swizzle=swizzle), target="sm_100a")
    chunks = tensor.reshape(16, 8, 4)
    for row in range(16):
        for chunk in range(8):
            atom, within = divmod(chunk, unit)
            assert np.array_equal(out[row, (atom ^ row % (8 // unit)) * unit + within], chunks[row, chunk])


ELEMENTS = [name for name, element in tensor_map.ELEMENTS.items() if element.bits >= 8]


@pytest.mark.parametrize("element", ELEMENTS)
def test_elements_of_every_type_arrive(element: str) -> None:
    """Bits as they are, but that f32 are rounded to tf32, and small numbers flushed, where the type says so."""
    size = tensor_map.ELEMENTS[element].bits // 8
    words = np.random.default_rng(size).integers(0, 1 << 32, (8, 16), dtype=np.uint32)
    words[0, :6] = 1, 0x80000001, 0x3F801000, 0x3F803000, 0x00801001, 0x7F800000
    out = np.zeros_like(words)
    body = expect(512) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", "128")
    inner = 64 // size
    made = TensorMap(words, box=(inner, 8), shape=(inner, 8), strides=(64,), element=element, fill_nan=False)
    run(body, out, made)
    wanted = words.copy()
    if element.endswith(".ftz"):
        wanted[wanted & 0x7F800000 == 0] &= 0x80000000
    if element.startswith("tf32"):
        numbers = wanted & 0x7F800000 != 0x7F800000
        assert np.array_equal(out[~numbers] & 0x7F800000, wanted[~numbers] & 0x7F800000)
        wanted, out = wanted[numbers], out[numbers]
        wanted = (wanted.astype(np.uint64) + 0xFFF + (wanted >> 13 & 1) & ~np.uint64(0x1FFF)).astype(np.uint32)
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize(
    ("made", "target", "said"),
    [
        ({"swizzle": "128B atom 32B"}, "sm_90a", "sm_90 do not have the swizzle 128B atom 32B"),
        ({"swizzle": "128B atom 32B flip 8B"}, "sm_90a", "sm_90 do not have the swizzle 128B atom 32B flip 8B"),
        ({"swizzle": "128B atom 64B"}, "sm_90a", "sm_90 do not have the swizzle 128B atom 64B"),
        ({"swizzle": "128B atom 64B"}, "sm_120a", "128B atom 64B in copies to a cluster"),
        ({"swizzle": "96B", "box": (24, 8)}, "sm_100a", "sm_100 do not have the swizzle 96B"),
        ({"element": "b4x16", "shape": (256, 8)}, "sm_90a", "sm_90 do not have elements b4x16"),
        ({"element": "b4x16_p64", "shape": (256, 8), "box": (128, 8)}, "sm_90a", "do not have elements b4x16_p64"),
        ({"element": "b6x16_p32", "shape": (128, 8), "strides": (128,), "box": (128, 8)}, "sm_90a", "b6x16_p32"),
    ],
)  # fmt: skip
def test_maps_that_a_target_does_not_have_are_faults_that_say_so(made: dict[str, Any], target: str, said: str) -> None:
    array = np.zeros((8, 32), dtype=np.uint32)
    body = expect(1024) + load(0, "%rd10", 0, 0) + WAIT
    with pytest.raises(SimulationFault, match=said):
        run(body, np.zeros(1), TensorMap(array, **{"box": (32, 8), **made}), target=target)


def test_maps_that_are_not_simulated_are_faults_that_say_so() -> None:
    array = np.zeros((8, 2, 32), dtype=np.uint32)
    body = expect(1024) + load(0, "%rd10", 0, 0).replace("2d", "3d").replace("{0, 0}", "{0, 0, 0}") + WAIT
    tiled = tensor_map.TiledMap(0, "u32", (32, 2, 8), (128, 256), (4, 2, 8), interleave="16B")
    with pytest.raises(SimulationFault, match="tensor maps interleaved by 16B are not simulated"):
        run(body, np.zeros(1), EncodedTensorMap(array, tensor_map.encode(tiled), 0))
    with pytest.raises(LaunchError, match="no tensor map"):
        run(body, np.zeros(1), EncodedTensorMap(array, bytes(128), 0))


def flipped(rows: np.ndarray) -> np.ndarray:
    """[rows, 8, 4] words by atoms of 32 bytes, with halves of 16 bytes exchanged in every other row."""
    moved = np.empty_like(rows)
    for row in range(len(rows)):
        for chunk in range(8):
            moved[row, ((chunk // 2) ^ row % 4) * 2 + chunk % 2] = np.roll(rows[row, chunk], 2 * (row % 2))
    return moved


def test_the_swizzle_with_a_flip_exchanges_halves_of_every_other_row() -> None:
    array = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    out = np.zeros((16, 8, 4), dtype=np.uint32)
    body = expect(array.nbytes) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", str(array.size))
    made = TensorMap(array, box=(32, 16), swizzle="128B atom 32B flip 8B")
    run(body, out, made, target="sm_100a")
    assert np.array_equal(out, flipped(array.reshape(16, 8, 4)))
    store = FENCED + STORE + "@%p1 cp.async.bulk.wait_group 0;"
    with pytest.raises(SimulationFault, match="flip 8B of a tensor map are not copied to global memory"):
        run(store, np.zeros(1), made, target="sm_100a")


def test_the_swizzle_of_96_bytes_is_by_lines_of_128() -> None:
    array = np.arange(16 * 24, dtype=np.uint32).reshape(16, 24)
    out = np.zeros(array.size, dtype=np.uint32)
    body = expect(array.nbytes) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", str(array.size))
    run(body, out, TensorMap(array, box=(24, 16), swizzle="96B"), target="sm_103a")
    chunks, given = out.reshape(-1, 4), array.reshape(-1, 4)
    assert all(np.array_equal(chunks[chunk ^ (chunk // 8 % 2)], given[chunk]) for chunk in range(len(chunks)))


@pytest.mark.parametrize(("element", "bits", "swizzle"), [
    ("b4x16", 4, "none"), ("b4x16_p64", 4, "none"), ("b4x16_p64", 4, "128B"), ("b6x16_p32", 6, "128B"),
])  # fmt: skip
def test_elements_smaller_than_bytes_are_padded_on_their_way(element: str, bits: int, swizzle: str) -> None:
    rng = np.random.default_rng(bits)
    row = 128 * bits // 8
    array = rng.integers(0, 256, (8, row), dtype=np.uint8)
    group, place = {"b4x16": (row, row), "b4x16_p64": (8, 16), "b6x16_p32": (12, 16)}[element]
    out = np.zeros(8 * row // group * place // 4, dtype=np.uint32)
    count = out.size
    body = expect(array.nbytes) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", str(count))
    made = TensorMap(array, box=(128, 8), shape=(128, 8), strides=(row,), element=element, swizzle=swizzle)
    if element != "b4x16":
        with pytest.raises(SimulationFault, match="uninitialized"):
            run(body, out, made, target="sm_100a")
    run(body, out, made, target="sm_100a", checks="basic")
    chunks = out.view(np.uint8).reshape(-1, 16)
    if swizzle == "128B":
        chunks = np.stack([chunks[chunk ^ (chunk // 8 % 8)] for chunk in range(len(chunks))])
    assert np.array_equal(chunks.reshape(-1, place)[:, :group], array.reshape(-1, group))


def test_bytes_of_6_bits_are_packed_on_their_way_out() -> None:
    array = np.zeros((4, 96), dtype=np.uint8)
    made = TensorMap(array, box=(128, 4), shape=(128, 4), strides=(96,), element="b6x16_p32")
    store = FENCED + STORE.replace("{4, 2}", "{0, 0}") + "@%p1 cp.async.bulk.wait_group 0;"
    run(store, np.zeros(1), made, target="sm_100a")
    codes = np.arange(128, dtype=np.uint32).view(np.uint8) & 63
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :6]
    assert np.array_equal(array.reshape(-1), np.packbits(bits.reshape(-1), bitorder="little"))
    padded = TensorMap(array, box=(128, 4), shape=(128, 4), strides=(64,), element="b4x16_p64")
    with pytest.raises(SimulationFault, match="elements b4x16_p64 of a tensor map are not copied to global memory"):
        run(store, np.zeros(1), padded, target="sm_100a")


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_lies_outside_is_zero_or_not_a_number(element: str) -> None:
    size = tensor_map.ELEMENTS[element].bits // 8
    inner, words = 64 // size, np.full((8, 16), 0x40404040, dtype=np.uint32)
    body = expect(512) + load(0, "%rd10", 0, 4) + WAIT + COPY_OUT.replace("{words}", "128")
    for fill_nan in (False, True) if element in tensor_map.FLOATS else (False,):
        out = np.zeros_like(words)
        run(body, out, TensorMap(words, (inner, 8), (inner, 8), (64,), element=element, fill_nan=fill_nan))
        assert (out[:4].view(np.uint8) >> 4 == 4).any() and (out[:4] == out[0, 0]).all()
        outside = out[4:].reshape(-1)
        if not fill_nan:
            assert not outside.any()
        elif element == "bf16":
            assert np.isnan((outside << 16).view(np.float32)).all() and np.isnan(outside.view(np.float32)).all()
        else:
            dtype = {2: np.float16, 4: np.float32, 8: np.float64}[size]
            assert np.isnan(outside.view(dtype)).all()
