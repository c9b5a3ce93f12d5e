# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic: correctly rounded in the mode asked for.

`approx` and `full` promise less than that (a few ulp); the correctly rounded result keeps the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from libtile.interpreter import rounding
from libtile.interpreter.formats import Array, Element
from libtile.interpreter.integer import COMPARE
from libtile.interpreter.rules import Run, Site, pure


def flush(value: Array, elem: Element) -> Array:
    """Subnormal elements replaced by a zero of the same sign."""
    if elem.float is None:
        raise TypeError(f"{elem.name} is not a floating-point type")
    small = np.abs(value) < elem.dtype.type(elem.float.smallest_normal)
    return np.where(small, np.copysign(elem.dtype.type(0), value), value)


class HasAttributes(Protocol):
    """The place of an op in a program of any dialect."""

    def attr(self, name: str) -> Any: ...


def flushing(site: HasAttributes, elem: Element, run: Run) -> Run:
    """`run`, with subnormal operands and results flushed if the op says so."""
    if not site.attr("flush_to_zero"):
        return run
    return lambda *operands: flush(run(*(flush(o, elem) for o in operands)), elem)


def exact_mode(mode: str) -> str:
    """The rounding mode that stands for an approximate one."""
    return mode if mode in rounding.MODES else "nearest_even"


def _rounded(operation: Callable[..., Array]) -> Callable[[Site], Run]:
    def make(site: Site) -> Run:
        elem, mode = site.element("result"), exact_mode(site.attr("rounding_mode"))
        return flushing(site, elem, lambda *operands: operation(*operands, elem, mode))

    return make


pure("addf")(_rounded(rounding.add))
pure("subf")(_rounded(rounding.sub))
pure("mulf")(_rounded(rounding.mul))
pure("fma")(_rounded(rounding.fma))
pure("sqrt")(_rounded(rounding.sqrt))


@pure("divf")
def divf(site: Site) -> Run:
    elem, mode = site.element("result"), site.attr("rounding_mode")
    if mode != "approx":
        return flushing(site, elem, lambda lhs, rhs: rounding.div(lhs, rhs, elem, exact_mode(mode)))
    huge = elem.dtype.type(2.0**126)

    def run(lhs: Array, rhs: Array) -> Array:
        # The reciprocal of a divisor beyond 2**126 is flushed: the quotient is 0, or NaN for an infinite dividend.
        beyond = (np.abs(rhs) > huge) & np.isfinite(rhs)
        zero = np.copysign(elem.dtype.type(0), np.copysign(elem.dtype.type(1), lhs) * rhs)
        small = np.where(np.isinf(lhs) | np.isnan(lhs), elem.dtype.type(np.nan), zero)
        return np.where(beyond, small, np.divide(lhs, rhs))

    return flushing(site, elem, run)


@pure("remf")
def remf(site: Site) -> Run:
    elem = site.element("result")
    if elem.name == "bf16":
        return lambda lhs, rhs: np.fmod(np.float64(lhs), np.float64(rhs)).astype(elem.dtype)
    return np.fmod  # exact: the remainder has no more bits than the operands


@pure("absf")
def absf(site: Site) -> Run:
    return np.abs


@pure("negf")
def negf(site: Site) -> Run:
    return np.negative


@pure("ceil")
def ceil(site: Site) -> Run:
    return np.ceil


@pure("floor")
def floor(site: Site) -> Run:
    return np.floor


@pure("cmpf")
def cmpf(site: Site) -> Run:
    compare = COMPARE[site.attr("comparison_predicate")]
    ordered = site.attr("comparison_ordering") == "ordered"

    def run(lhs: Array, rhs: Array) -> Array:
        nan = np.isnan(lhs) | np.isnan(rhs)
        result = compare(lhs, rhs)
        return result & ~nan if ordered else result | nan

    return run


def _extremum(greater: bool) -> Callable[[Site], Run]:
    def make(site: Site) -> Run:
        elem, propagate = site.element("result"), site.attr("propagate_nan")

        def run(lhs: Array, rhs: Array) -> Array:
            # +0 is greater than -0: equal values are told apart by their signs.
            sign = np.signbit(lhs)
            first = np.where(lhs == rhs, ~sign if greater else sign, lhs > rhs if greater else lhs < rhs)
            result: Array = np.where(first, lhs, rhs)
            left, right = np.isnan(lhs), np.isnan(rhs)
            if propagate:
                return np.where(left | right, elem.dtype.type(np.nan), result)
            result = np.where(left, rhs, np.where(right, lhs, result))
            return np.where(left & right, elem.dtype.type(np.nan), result)

        return flushing(site, elem, run)

    return make


pure("maxf")(_extremum(True))
pure("minf")(_extremum(False))
