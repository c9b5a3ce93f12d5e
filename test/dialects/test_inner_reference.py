# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-dialects.md is what the classes say."""

import re
from pathlib import Path

from dialects.inner import messages, round_trip
from libtile.dialects.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "inner-dialects.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == reference(), (
        "docs/inner-dialects.md is stale: run python -m libtile.dialects.reference > docs/inner-dialects.md"
    )


def test_the_examples_of_the_page_are_right() -> None:
    examples = re.findall(r"```mlir\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    for example in examples:
        assert messages(example) == []
        round_trip(example)
