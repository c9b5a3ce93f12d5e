# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ops compute each element of a tile from the elements at the same index."""

from __future__ import annotations

from xdsl.ir import Operation


def is_elementwise(op: Operation) -> bool:
    """Whether an op computes each element of tiles of one shape from the elements at the same index."""
    if op.name.startswith(("arith.", "math.")):
        return True
    return op.name.startswith("nv_tileaa.") and (op.name.partition(".")[2] in ELEMENTWISE or is_plain_bitcast(op))


def is_plain_bitcast(op: Operation) -> bool:
    return op.name == "nv_tileaa.bitcast" and "packed" not in op.properties


def _elementwise_names() -> frozenset[str]:
    from libtile.dialects.nv_tileaa.arithmetic import ROWS

    others = ("addptr", "int_to_ptr", "ptr_to_int", "fp_to_fp", "emulated_fp_to_fp", "int_to_fp", "fp_to_int")
    return frozenset((*ROWS, *others))


ELEMENTWISE = _elementwise_names()
