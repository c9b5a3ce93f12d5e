# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiply-accumulate.

Products and sums are taken in f64 and rounded once to the accumulator's type. The specification leaves the order and
the precision of the sum open; this is the most accurate choice, so results of hardware differ by the rounding of its
own sums. `fast_acc` permits less accuracy, which this does not use.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from libtile.interpreter.formats import Array
from libtile.interpreter.integer import reader
from libtile.interpreter.math_functions import through_f64
from libtile.interpreter.rules import Run, Site, pure


def _mask(site: Site) -> Callable[[tuple, tuple], Array | None]:
    """A row of the left or a column of the right operand that holds an uninitialised element spoils its products."""

    def mask(values: tuple, masks: tuple) -> Array | None:
        result = np.zeros(site.shape("result"), bool)
        left, right, acc = masks[:3]
        for m, axis in ((left, -1), (right, -2)):
            if m is not None:
                result |= m.any(axis=axis, keepdims=True)
        for m, axis in zip(masks[3:], (-1, -2)):
            if m is not None:
                result |= m.any(axis=axis, keepdims=True)
        if acc is not None:
            result |= acc
        return result if result.any() else None

    return mask


@pure("mmaf", undefined=_mask, elementwise=False)
def mmaf(site: Site) -> Run:
    return through_f64(lambda lhs, rhs, acc: np.matmul(lhs, rhs) + acc, site.element("result"))


@pure("mmaf_scaled", undefined=_mask, elementwise=False)
def mmaf_scaled(site: Site) -> Run:
    depth = site.shape("lhs")[-1]
    left = depth // site.shape("lhs_scale")[-1]
    right = depth // site.shape("rhs_scale")[-2]

    def product(lhs: Array, rhs: Array, acc: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
        scaled = lhs * np.repeat(lhs_scale, left, axis=-1)
        return np.matmul(scaled, rhs * np.repeat(rhs_scale, right, axis=-2)) + acc

    return through_f64(product, site.element("result"))


@pure("mmai", undefined=_mask, elementwise=False)
def mmai(site: Site) -> Run:
    elem = site.element("lhs")
    left, right = reader(site, elem, "signedness_lhs"), reader(site, elem, "signedness_rhs")

    def run(lhs: Array, rhs: Array, acc: Array) -> Array:
        # Sums of products of bytes are exact in f64 for any depth that a tile can have.
        total = np.matmul(np.float64(left(lhs)), np.float64(right(rhs)))
        return (total.astype(np.int64) + acc).astype(np.int32)

    return run
