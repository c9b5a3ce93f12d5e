# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`sccp`: what becomes of constants of which something is stated."""

from __future__ import annotations

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline


@pytest.mark.parametrize(
    ("number", "stated", "kept"),
    [
        (16, "div_by<8>", False),
        (1, "div_by<8>", True),
        (-8, "div_by<8>", False),
        (3, "bounded<0, ?>", False),
        (-3, "bounded<0, ?>", True),
        (3, "bounded<?, 2>", True),
        (3, "bounded<?, ?>", False),
    ],
)
def test_what_is_stated_of_a_constant_stays_where_the_number_does_not_say_it(
    number: int, stated: str, kept: bool
) -> None:
    """Exporters state that strides along dimensions of one element divide; compilers copy tiles as a whole then."""
    module = libtile.parse(f"""
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f16>>, %q: tile<ptr<i32>>) {{
    %number = constant <i32: {number}> : tile<i32>
    %stated = assume {stated}, %number : tile<i32>
    %token = store_ptr_tko weak %q, %stated : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}""")
    PassManager(parse_pipeline("sccp,dce")).run(module.op)
    assert ("assume" in str(module)) == kept
