# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which loops of Tile IR multiply tiles: what passes for agents look at."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.interfaces import body
from libtile.transforms.canonical_values import is_op

PRODUCTS = ("mmaf", "mmai", "mmaf_scaled")


def multiplies(loop: Operation) -> bool:
    """Whether a product stands right in the body of a `for`."""
    return any(is_op(op, *PRODUCTS) for op in body(loop).ops)
