# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where an op or an argument stands in its source."""

from __future__ import annotations

from xdsl.ir import Attribute, BlockArgument, Operation


def set_location(of: Operation | BlockArgument, location: Attribute) -> None:
    """Say where an op or an argument stands. In Tile IR that may be a debug location; xDSL declares its own only."""
    of.location = location  # type: ignore[assignment]
