# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies in im2col mode: against a model that lists all bases, and as what makes a convolution a product."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from libtile.simulator import EncodedTensorMap, Im2colTensorMap, PtxError, SimulationFault, TensorMap
from libtile.targets import tensor_map

from .tensor_programs import COPY_OUT, WAIT, expect, run

LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"


def braces(values: Any) -> str:
    return "{" + ", ".join(str(v) for v in values) + "}"


def load(where: int, corner: tuple[int, ...], offsets: tuple[int, ...]) -> str:
    """A copy to `where` in shared memory, from coordinates (C, W, H, D, N as far as they are)."""
    name = LOAD.format(rank=len(corner))
    return f"add.u32 %r22, %r21, {where}; @%p1 {name} [%r22], [%rd10, {braces(corner)}], [%r20], {braces(offsets)};"


def copied_out(where: int, to: int, words: int) -> str:
    """All threads copy words of shared memory to the array `out`."""
    return f"""
    mov.u32 %r1, %r0;
    L{where}: setp.ge.u32 %p3, %r1, {words}; @%p3 bra E{where}; shl.b32 %r2, %r1, 2; add.u32 %r3, %r21, %r2;
    ld.shared.u32 %r4, [%r3+{where}]; cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1+{to}], %r4;
    add.u32 %r1, %r1, 128; bra L{where};
    E{where}:
    """


def loaded(made: Any, *copies: tuple[tuple[int, ...], tuple[int, ...]], **options: Any) -> np.ndarray:
    """What copies from (corner, offsets) leave in shared memory, as [copy, pixel, channel]."""
    size = made.channels * made.pixels * made.array.itemsize
    pitch = -(-size // 128) * 128
    out = np.zeros((len(copies), made.pixels, made.channels), dtype=made.array.dtype)
    body = expect(size * len(copies)) + "".join(load(pitch * i, *copy) for i, copy in enumerate(copies)) + WAIT
    run(body + "".join(copied_out(pitch * i, size * i, size // 4) for i in range(len(copies))), out, made, **options)
    return out


def columns(made: Im2colTensorMap, corner: tuple[int, ...], offsets: tuple[int, ...], fill: float = 0) -> np.ndarray:
    """[pixels, channels] by a list of the bases of all images: those of one image come one after another, W fastest."""
    spatial = made.array.shape[1:-1][::-1]  # W, H, D
    steps = (made.element_strides or (1,) * made.array.ndim)[1:-1]
    sides = [
        range(low, size + up, step)
        for size, low, up, step in zip(spatial, made.lower, made.upper, steps, strict=True)
    ]  # fmt: skip
    images = range(corner[-1], corner[-1] + made.pixels + 1)
    bases = [(n, *base) for n in images for base in itertools.product(*reversed(sides))]
    first = bases.index((corner[-1], *reversed(corner[1:-1])))
    column = np.full((made.pixels, made.channels), fill, dtype=made.array.dtype)
    for pixel, (n, *base) in enumerate(bases[first : first + made.pixels]):
        at = [b + o for b, o in zip(base, reversed(offsets), strict=True)]  # D, H, W
        if 0 <= n < made.array.shape[0] and all(0 <= i < s for i, s in zip(at, reversed(spatial), strict=True)):
            here = made.array[(n, *at)][corner[0] : corner[0] + made.channels]
            column[pixel, : len(here)] = here
    return column


def images(*shape: int) -> np.ndarray:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("made", "corner", "offsets"),
    [
        # The examples of the PTX ISA, "im2col mode", with smaller batches; coordinates are (C, W, H, N).
        (Im2colTensorMap(images(9, 14, 9, 8), (-1, -1), (-1, -1), 8, 64), (0, 4, 7, 7), (0, 0)),
        (Im2colTensorMap(images(9, 14, 9, 8), (0, 0), (-2, -2), 8, 64), (0, 4, 7, 7), (2, 2)),
        (Im2colTensorMap(images(9, 14, 8, 16), (-1, -1), (-1, -1), 16, 32, element_strides=(1, 2, 2, 1)),
         (0, 5, 7, 7), (1, 1)),
        # Rows of a signal, behind whose last all is filled; channels from the middle on, of which some are not there.
        (Im2colTensorMap(images(3, 7, 12), (-3,), (2,), 8, 40), (8, -3, 0), (4,)),
        (Im2colTensorMap(images(3, 7, 12), (-3,), (2,), 4, 20, fill_nan=True), (4, 0, 2), (1,)),
        # Volumes, with steps of their own in each direction.
        (Im2colTensorMap(images(2, 4, 5, 6, 4), (-1, -2, 0), (1, 0, -1), 4, 100, element_strides=(1, 2, 3, 1, 1)),
         (0, 1, 1, 2, 0), (3, 1, 1)),
        # A box of one place, so that each pixel is of another image.
        (Im2colTensorMap(images(6, 3, 3, 4), (1, 2), (-1, 0), 4, 8), (0, 1, 2, 1), (1, 0)),
    ],
)  # fmt: skip
def test_pixels_are_those_of_the_places_of_a_filter(
    made: Im2colTensorMap, corner: tuple[int, ...], offsets: tuple[int, ...]
) -> None:
    wanted = columns(made, corner, offsets, np.nan if made.fill_nan else 0)
    (out,) = loaded(made, (corner, offsets))
    assert np.array_equal(out, wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("shape", "filters", "stride", "dilation", "padding"),
    [
        ((2, 11, 8), (3,), (1,), (1,), ((1, 1),)),
        ((3, 10, 4), (4,), (3,), (2,), ((2, 5),)),
        ((2, 7, 6, 8), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
        ((2, 9, 8, 4), (3, 2), (2, 3), (2, 1), ((2, 1), (0, 3))),
        ((2, 3, 4, 5, 4), (2, 3, 3), (1, 1, 1), (1, 1, 1), ((0, 1), (1, 1), (1, 1))),
        ((1, 5, 7, 6, 4), (2, 2, 3), (2, 1, 2), (1, 3, 2), ((1, 0), (1, 2), (3, 2))),
    ],
)
def test_a_convolution_is_a_product_of_columns(
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> None:
    """Of images [N, D, H, W, C] as far as they go, by a filter of two channels. All but `shape` are along D, H, W."""
    rng = np.random.default_rng(len(shape))
    array = rng.integers(-4, 5, shape).astype(np.float32)
    filter_ = rng.integers(-4, 5, (*filters, shape[-1], 2)).astype(np.float32)
    padded = np.pad(array, [(0, 0), *padding, (0, 0)])
    sides = tuple(
        (size - dilated * (taps - 1) - 1) // step + 1
        for size, taps, step, dilated in zip(padded.shape[1:-1], filters, stride, dilation, strict=True)
    )
    direct = np.zeros((shape[0], *sides, 2), dtype=np.float32)
    for tap in np.ndindex(filters):
        part = tuple(
            slice(t * dilated, t * dilated + step * (side - 1) + 1, step)
            for t, dilated, step, side in zip(tap, dilation, stride, sides, strict=True)
        )
        direct += padded[(slice(None), *part)] @ filter_[tap]
    pixels = int(np.prod(sides)) * shape[0]
    made = Im2colTensorMap(
        array,
        tuple(-low for low, _ in padding)[::-1],
        tuple(up - d * (taps - 1) for (_, up), taps, d in zip(padding, filters, dilation, strict=True))[::-1],
        shape[-1],
        pixels,
        element_strides=(1, *stride[::-1], 1),
    )  # fmt: skip
    start = (0, *made.lower, 0)
    taps = list(np.ndindex(filters))
    places = [tuple(t * dilated for t, dilated in zip(tap, dilation, strict=True))[::-1] for tap in taps]
    out = loaded(made, *((start, place) for place in places))
    product = sum(column @ filter_[tap] for column, tap in zip(out, taps, strict=True))
    assert np.array_equal(product, direct.reshape(pixels, 2))


def test_pixels_are_swizzled_as_rows_are() -> None:
    made = Im2colTensorMap(images(2, 4, 5, 32), (0, 0), (0, 0), 32, 16, swizzle="128B")
    (out,) = loaded(made, ((0, 1, 1, 0), (0, 0)))
    wanted = columns(made, (0, 1, 1, 0), (0, 0)).reshape(16, 8, 4)
    for pixel, chunk in np.ndindex(16, 8):
        assert np.array_equal(out.reshape(16, 8, 4)[pixel, chunk ^ (pixel % 8)], wanted[pixel, chunk])


def test_a_map_that_a_driver_encoded_is_copied_by() -> None:
    array = images(2, 6, 5, 8)
    tensor = tensor_map.Im2colMap(0x7F0000001000, "f32", (8, 5, 6, 2), (32, 160, 960), (-1, -1), (-1, -1), 8, 32)
    raw = tensor_map.encode(tensor)
    out = np.zeros((32, 8), dtype=np.float32)
    body = expect(1024) + load(0, (0, -1, -1, 0), (1, 2)) + WAIT + COPY_OUT.replace("{words}", "256")
    run(body, out, EncodedTensorMap(array, raw, 0x7F0000001000))
    assert np.array_equal(out, columns(Im2colTensorMap(array, (-1, -1), (-1, -1), 8, 32), (0, -1, -1, 0), (1, 2)))


def test_a_multicast_goes_to_all_ctas_of_its_mask() -> None:
    made = Im2colTensorMap(images(2, 4, 5, 8), (-1, -1), (-1, -1), 8, 16)
    out = np.zeros((2, 16, 8), dtype=np.float32)
    copy = load(0, (0, -1, -1, 0), (1, 1)).replace("complete_tx::bytes", "complete_tx::bytes.multicast::cluster")
    copy = copy.replace("{1, 1};", "{1, 1}, 3;").replace("@%p1", "@%p4")
    start = "mov.u32 %r5, %ctaid.x; setp.eq.and.u32 %p4, %r5, 0, %p1; barrier.cluster.arrive; barrier.cluster.wait;"
    end = "mul.wide.u32 %rd5, %r5, 512; add.u64 %rd0, %rd0, %rd5;" + COPY_OUT.replace("{words}", "128")
    end += "barrier.cluster.arrive; barrier.cluster.wait;"
    run(expect(512) + start + copy + WAIT + end, out, made, grid=2, cluster=2)
    wanted = columns(made, (0, -1, -1, 0), (1, 1))
    assert np.array_equal(out[0], wanted) and np.array_equal(out[1], wanted)


FILL = "shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; cvt.rn.f32.u32 %f1, %r0; st.shared.f32 [%r3], %f1;"
FENCED = FILL + "fence.proxy.async.shared::cta; bar.sync 0;"
DONE = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
STORE = "@%p1 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd10, {corner}], [%r21];"
REDUCE = STORE.replace("cp.async", "cp.reduce.async").replace("cta.im2col", "cta.add.im2col")


@pytest.mark.parametrize("instruction", [STORE, REDUCE])
def test_pixels_are_stored_in_the_box_and_behind_it_in_the_next_image(instruction: str) -> None:
    made = Im2colTensorMap(np.full((3, 6, 6, 4), 7, np.float32), (1, 0), (-1, -2), 4, 32, element_strides=(1, 1, 2, 1))
    wanted = made.array.copy()
    # 32 pixels of 4 channels: 4 to a row, 2 rows to an image, of which the second begins.
    bases = [(n, h, w) for n in range(1, 6) for h in (0, 2) for w in (1, 2, 3, 4)]
    values = np.arange(128, dtype=np.float32).reshape(32, 4)
    for at, value in zip(bases[bases.index((1, 2, 3)) :][:32], values, strict=False):
        if at[0] < 3:
            wanted[at] = value + (7 if instruction is REDUCE else 0)
    run(FENCED + instruction.replace("{corner}", "{0, 3, 2, 1}") + DONE, np.zeros(1), made)
    assert np.array_equal(made.array, wanted)


GOOD = Im2colTensorMap(images(2, 4, 5, 8), (-1, -1), (-1, -1), 8, 16)


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (load(0, (0, 4, 0, 0), (0, 0)), r"base \(4, 0\) is not in the box from \(-1, -1\) to \(3, 2\)"),
        (load(0, (0, 0, -2, 0), (0, 0)), "is not in the box"),
        (load(0, (0, 0, 0, 0), (0, 256)), r"offsets \(0, 256\) of a tensor of rank 4 are not all in 0..255"),
        (load(0, (2, 0, 0, 0), (0, 0)), "begins 8 bytes into rows, no multiple of 16"),
        (load(0, (0, 0, 0), (0,)), "the tensor map has rank 4, the instruction 3"),
        (load(0, (0, 0, 0, 0), (0, 0)).replace(".im2col", "").replace(", {0, 0};", ";"),
         "the instruction is of tile mode, the tensor map of im2col mode"),
        (STORE.replace("{corner}", "{0, 0, 0, 0}"), r"box from \(-1, -1\) to \(3, 2\) of a copy to global .* leaves"),
        (STORE.replace("{corner}", "{0, -1, 0, 0}"), "coordinates of these are not negative"),
        ("@%p1 cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%rd10, {0, 4, 0, 0}], {0, 0};", "is not in the box"),
    ],
)  # fmt: skip
def test_copies_that_leave_what_the_map_says_are_faults(copy: str, said: str) -> None:
    with pytest.raises(SimulationFault, match=said):
        run(expect(512) + copy + WAIT, np.zeros(1), GOOD)


def test_a_tiled_map_is_not_one_of_pixels() -> None:
    made = TensorMap(images(2, 4, 5, 8), box=(8, 2, 2, 1))
    with pytest.raises(SimulationFault, match="the instruction is of im2col mode, the tensor map of tile mode"):
        run(expect(512) + load(0, (0, 0, 0, 0), (0, 0)) + WAIT, np.zeros(1), made)


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (load(0, (0, 0, 0, 0), (0,)), "needs 2 im2col offsets"),
        (load(0, (0, 0, 0, 0), (0, 0)).replace(", {0, 0};", ";"), "needs 2 im2col offsets"),
        (load(0, (0, 0), ()), "of this mode has no rank 2"),
        (STORE.replace("_no_offs", "").replace("{corner}", "{0, 0, 0, 0}"), "to global memory has no mode im2col"),
        (load(0, (0, 0, 0, 0), (0, 0)).replace("im2col", "im2col_no_offs"), "global memory has no mode im2col_no_offs"),
        (load(0, (0, 0, 0, 0), (0, 0)).replace("im2col", "im2col::w"), "im2col::w of tensor copies is not simulated"),
        (load(0, (0, 0, 0, 0), (0, 0)).replace("im2col", "im2col::w::128"), "im2col::w::128 .* is not simulated"),
    ],
)
def test_instructions_that_do_not_exist_are_refused(copy: str, said: str) -> None:
    with pytest.raises(PtxError, match=said):
        run(copy, np.zeros(1), GOOD)


def test_a_prefetch_of_pixels_does_nothing() -> None:
    run("@%p1 cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%rd10, {0, 0, 0, 0}], {1, 2};", np.zeros(1), GOOD)
