# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileaa: spellings, segments, limits. What its verifier says is in test/lit/nv_tileaa."""

from __future__ import annotations

import pytest

from dialects.inner import messages, module, round_trip

LOAD = "%v = nv_tileaa.load %pp {{{}}} : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>"


@pytest.mark.parametrize(
    "legacy",
    [
        'attributes {"compute-capability" = #nv_tileaa.compute_capability<sm_90>}',
        "attributes {compute_capability = #nv_tileaa.compute-capability<sm_90>}",
    ],
)
def test_the_legacy_spelling_of_the_capability_prints_as_the_canonical_one(legacy: str) -> None:
    printed = round_trip(module("", legacy))
    assert "compute_capability = #nv_tileaa.compute_capability<sm_90>" in printed
    assert "compute-capability" not in printed


def test_an_unknown_keyword_of_an_enum_is_refused_where_it_stands() -> None:
    (found,) = messages(module(LOAD.format("mem_semantic = #nv_tileaa.mem_semantic<strong>")))
    assert "expected nv_tileaa.mem_semantic to be one of: weak, relaxed, acquire, release, acq_rel" in found


def test_segments_are_written_where_the_types_do_not_tell_them() -> None:
    """A value for masked elements without a mask looks like a mask."""
    given = (
        "%v = nv_tileaa.load %pp, %v4 {operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>} : "
        "tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> tile<4xf32>"
    )
    assert "operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>" in round_trip(module(given))
    masked = "%v = nv_tileaa.load %pp, %m4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1> -> tile<4xf32>"
    assert "operandSegmentSizes" not in round_trip(module(masked))


@pytest.mark.parametrize("opening", ["tile<", "!nv_tileaa.ptr<", "!nv_tileaa.queue<(", "tile<4x!nv_tileaa.ptr<"])
def test_types_nested_too_deep_are_refused(opening: str) -> None:
    text = f"module {{ nv_tileaa.func @f(%a: {opening * 20000}f32) {{ nv_tileaa.return }} }}"
    assert "nesting" in messages(text)[0]
