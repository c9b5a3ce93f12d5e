# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with scale factors in tensor memory (tcgen05 with block_scale): loops on sm_100, parted by themselves."""

import re

import numpy as np
import pytest
from scaled_kernels import Scaled
from test_specialized import main_loop

import libtile
from libtile.atoms import tcgen05_factors
from libtile.layouts.builders import row_major
from libtile.lowering.discardable import NOT_SPECIALIZED
from libtile.support.diagnostics import DiagnosticError
from libtile.targets import target

SM_100 = target("sm_100")
NVF4 = {"element": "f4E2M1FN", "factors": "f8E4M3FN", "block": 16, "k": 256}
MXF4 = {"element": "f4E2M1FN", "k": 256}


def check(kernel, m, n, k, order=None, gpu_name="sm_100", blocks=None):
    args, wanted = kernel.problem(m, n, k, seed=m + k)
    grid = (-(-m // kernel.m), -(-n // kernel.n), 1) if blocks is None else (blocks, 1, 1)
    libtile.run(
        libtile.parse(kernel.text), "gemm", grid=grid, args=args, backend="simulator", gpu_name=gpu_name, check="full",
        block_order=order,
    )  # fmt: skip
    np.testing.assert_array_equal(args[4], wanted)


def inner(kernel, gpu_name="sm_100"):
    """(text in nv_tileas, why the loop is not parted or None)"""
    made = libtile.compile(libtile.parse(kernel.text), gpu_name=gpu_name, launch_abi="simt", emit="tileas").tileas
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made)
    return made, said[1] if said else None


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "sizes", "kind"),
    [
        ({}, (72, 40, 160), "128x128x32, e4m3, e4m3"),  # ragged edges and a tail along k
        (NVF4, (40, 136, 288), "128x128x64, e2m1, e2m1"),
        pytest.param(MXF4, (40, 72, 288), "128x128x64, e2m1, e2m1", marks=SLOW),
        pytest.param({"element": "f8E5M2", "n": 256}, (136, 264, 320), "128x256x32, e5m2, e5m2", marks=SLOW),
        pytest.param({**NVF4, "m": 256}, (264, 128, 544), "128x128x64, e2m1, e2m1", marks=SLOW),
        pytest.param({**NVF4, "n": 256}, (128, 256, 544), "128x256x64, e2m1, e2m1", marks=SLOW),
        pytest.param({**MXF4, "block": 16}, (128, 128, 544), "128x128x64, e2m1, e2m1", marks=SLOW),
        pytest.param({"k": 256}, (128, 128, 544), "128x128x32, e4m3, e4m3", marks=SLOW),
    ],
)
def test_products_with_factors_in_pieces_give_what_numpy_gives(options, sizes, kind):
    kernel = Scaled(**options)
    made, why = inner(kernel)
    assert why is None and made.count("copy_atom<tcgen05_cp, bits=128>") == 2
    assert kind in made
    check(kernel, *sizes, order=1)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, (72, 40, 288)),  # ragged edges and a tail along k
        pytest.param(NVF4, (40, 136, 288), marks=SLOW),
        pytest.param(MXF4, (40, 72, 544), marks=SLOW),
        pytest.param({}, (40, 72, 1024), marks=SLOW),  # more steps than are loaded ahead
        pytest.param({**NVF4, "m": 256}, (264, 128, 544), marks=SLOW),
    ],
)
def test_factors_that_lie_line_by_line_are_brought_by_threads(options, sizes):
    kernel = Scaled(**options, in_pieces=False)
    made, why = inner(kernel)
    assert why is None and made.count("tiled_tma_load") == 2 and made.count("copy_atom<tcgen05_cp, bits=128>") == 2
    check(kernel, *sizes, order=1)


@pytest.mark.parametrize(
    ("options", "sizes", "blocks"),
    [
        pytest.param({}, (136, 264, 288), 2, marks=SLOW),  # edges and a tail along k; one block has two tiles
        ({"in_pieces": True}, (136, 136, 160), 1),
        pytest.param(NVF4, (136, 136, 288), 3, marks=SLOW),
        pytest.param({**NVF4, "m": 256, "by_pointers": True}, (256, 256, 512), 1, marks=SLOW),
    ],
)
def test_factors_of_several_tiles_are_brought_by_threads(options, sizes, blocks):
    kernel = Scaled(**{"in_pieces": False, **options}, persistent=True)
    made, why = inner(kernel)
    assert why is None and made.count("copy_atom<tcgen05_cp, bits=128>") == 2
    check(kernel, *sizes, order=2, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_factors_of_several_tiles_in_other_schedules(seed):
    check(Scaled(in_pieces=False, persistent=True), 264, 136, 416, order=seed, blocks=2)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"by_pointers": True}, (128, 128, 256)),
        ({"doubled": True}, (72, 40, 288)),
        pytest.param(
            {"by_pointers": True, "doubled": True, **NVF4, "factors": "f8E4M3FN"}, (256, 128, 512), marks=SLOW
        ),
    ],
)
def test_factors_by_pointers_and_computed_ones_are_brought_by_threads(options, sizes):
    kernel = Scaled(**options, in_pieces=False)
    made, why = inner(kernel)
    assert why is None and made.count("tiled_tma_load") == 2 and made.count("copy_atom<tcgen05_cp, bits=128>") == 2
    check(kernel, *sizes, order=3)


@pytest.mark.slow
@pytest.mark.parametrize("in_pieces", [False, True])
def test_products_with_factors_of_no_steps_give_zeros(in_pieces):
    kernel = Scaled(in_pieces=in_pieces)
    args, _ = kernel.problem(128, 128, 128)
    args[7] = 0
    libtile.run(libtile.parse(kernel.text), "gemm", grid=(1, 1, 1), args=args, backend="simulator", gpu_name="sm_100",
                check="full")  # fmt: skip
    assert not args[4].any()


@pytest.mark.slow
@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("seed", range(2, 22))
def test_products_with_factors_in_other_schedules(seed, in_pieces):
    check(Scaled(**(NVF4 if seed % 2 else {}), in_pieces=in_pieces), 72, 40, 640, order=seed)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"m": 64, "in_pieces": False},
         "tcgen05.mma does not multiply e4m3 and e4m3 with factors of f8E8M0FNU for 32 elements in tiles of "
         "64x128x128"),
        ({"n": 64, "in_pieces": False},
         "tcgen05.mma does not multiply e4m3 and e4m3 with factors of f8E8M0FNU for 32 elements in tiles of "
         "128x64x128"),
    ],
)  # fmt: skip
def test_products_with_factors_that_stay_as_they_are_say_why(options, reason):
    assert inner(Scaled(**options))[1] == reason


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 63),  # the reference assembler has 57
        ({**NVF4, "n": 256}, 95),  # and 223
        ({"in_pieces": False}, 63),  # and 108
    ],
)
def test_code_of_products_with_factors(options, most):
    """Nothing spilled, and the loop of the thread that issues products."""
    made = libtile.compile(libtile.parse(Scaled(**options).text), gpu_name="sm_100")
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0 and kernel.registers <= 128
    loop = main_loop(made.cubin, "UTCCP")
    assert len(loop) <= most
    assert [sum(name in line for line in loop) for name in ("UTCCP", "MMA")] == [12 if "n" in options else 2, 4]


def test_places_of_factors_in_tensor_memory():
    """By the ISA's figures: a word of a lane has four blocks, the next column the line 32 further."""
    layout = tcgen05_factors.layout((256, 8))
    at = lambda row, column, byte: tuple(layout(row=row, column=column, packed=byte).values())  # noqa: E731
    assert at(0, 0, 3) == (0, 3) and at(5, 0, 0) == (5, 0) == at(5 + 96, 0, 0)
    assert at(0, 1, 0) == (32, 0) and at(0, 4, 0) == (128, 0) and at(0, 8, 0) == (0, 4)
    assert tcgen05_factors.column(256, 128, 0) == 4 and tcgen05_factors.column(256, 128, 5) == 12
    with pytest.raises(ValueError, match="do not fill columns"):
        tcgen05_factors.layout((64, 4))
    shared = tcgen05_factors.shared_layout((256, 8))
    assert tcgen05_factors.fills_chunks(shared) and not tcgen05_factors.fills_chunks(row_major((256, 8)))
    assert tcgen05_factors.chunks(shared) == [(0, 0), (1024, 4), (512, 8), (1536, 12)]


def test_descriptors_of_instructions_with_factors():
    """Those that the reference assembler writes (M = N = 128)."""
    for types, block, factors, wanted in (
        (("e4m3", "e4m3"), 32, "f8E8M0FNU", 0x08A00000),
        (("e2m1", "e2m1"), 32, "f8E8M0FNU", 0x08A00480),
        (("e2m1", "e2m1"), 16, "f8E4M3FN", 0x08200480),
    ):
        atom = tcgen05_factors.find(SM_100, *types, factors, (128, 128, 256), 256 // block)
        kind = tcgen05_factors.kind(SM_100, atom, factors, block)
        assert tcgen05_factors.instruction(kind, atom, (False, False), factors, 0) == wanted
        assert tcgen05_factors.instruction(kind, atom, (False, False), factors, 2) == wanted | 2 << 29 | 2 << 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("packed=[[0,1],[0,2]]", "packed=[[0,2],[0,1]]", "expects SFA in the layout"),
        ("<tcgen05, 128x128x32, e4m3", "<tcgen05, 128x64x32, e4m3", "expects an atom of sm_100 for a product of this"),
    ],
)
def test_products_with_other_factors_are_refused(old, new, message):
    made = inner(Scaled())[0]
    with pytest.raises(DiagnosticError, match=message):
        libtile.verify(libtile.parse(made.replace(old, new)))
