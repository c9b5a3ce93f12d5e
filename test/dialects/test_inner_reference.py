# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-dialects.md is what the classes say."""

from pathlib import Path

from libtile.dialects.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "inner-dialects.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == reference(), (
        "docs/inner-dialects.md is stale: run python -m libtile.dialects.reference > docs/inner-dialects.md"
    )
