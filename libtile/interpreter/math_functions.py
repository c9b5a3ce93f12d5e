# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementary functions.

f16, bf16 and f32 are computed in f64 and rounded once, which is within 0.51 ulp; f64 by the C library's functions,
which are within 1 ulp or nearly so. The specification promises less (2 ulp for most, none for the approximations), so
a comparison with hardware needs the specification's tolerance, not equality.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from libtile.interpreter.floating import flushing
from libtile.interpreter.formats import Array, Element
from libtile.interpreter.integer import signed
from libtile.interpreter.rounding import round_to, two_product
from libtile.interpreter.rules import Run, Site, pure


def through_f64(operation: Callable[..., Array], elem: Element) -> Run:
    """Compute in f64, and round once to the element's type."""
    fmt = elem.float
    if fmt is None:
        raise TypeError(f"{elem.name} is not a floating-point type")
    if elem.name == "f64":
        return operation
    if elem.name == "f32":
        # numpy's conversion is correctly rounded to nearest even.
        return lambda *operands: operation(*(np.float64(o) for o in operands)).astype(np.float32)
    return lambda *operands: round_to(operation(*(_widened(o) for o in operands)), fmt).astype(elem.dtype)[()]


def _widened(value: Array) -> Array:
    """Narrow floats in f64, NaNs as quiet ones: whether a conversion makes them so depends on numpy and the processor,
    and a signaling NaN to the power 0 is a NaN."""
    wide = np.float64(value)
    return np.where(np.isnan(wide), np.nan, wide)[()]


def _function(operation: Callable[..., Array], ftz: bool = False) -> Callable[[Site], Run]:
    def make(site: Site) -> Run:
        elem = site.element("result")
        run = through_f64(operation, elem)
        return flushing(site, elem, run) if ftz else run

    return make


def _by_libm(function: Callable[..., float]) -> Callable[..., Array]:
    """An f64 function of the C library, element by element: numpy's vector forms of these are less accurate."""
    vector = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(vector(np.asarray(x)), np.float64)[()]


def _guarded(function: Callable[[float], float], outside: Callable[[float], float]) -> Callable[[float], float]:
    """A `math` function that gives IEEE's value where Python raises."""

    def run(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return outside(x)

    return run


def _nan(x: float) -> float:
    return math.nan


SIN = _by_libm(_guarded(math.sin, _nan))
COS = _by_libm(_guarded(math.cos, _nan))
TAN = _by_libm(_guarded(math.tan, _nan))
SINH = _by_libm(_guarded(math.sinh, lambda x: math.copysign(math.inf, x)))
COSH = _by_libm(_guarded(math.cosh, lambda x: math.inf))


def _rsqrt(x: Array) -> Array:
    """1 / sqrt(x) in f64, within 0.51 ulp: a Newton step with an exact residual on the rounded quotient."""
    _, exponent = np.frexp(x)
    shift = np.where(np.isfinite(x), exponent & ~1, 0)
    scaled = np.ldexp(x, -shift)
    root = 1.0 / np.sqrt(scaled)
    square, rest = two_product(root, root)
    product, lost = two_product(scaled, square)
    residual = ((1.0 - product) - lost) - scaled * rest
    better = root + root * residual * 0.5
    return np.ldexp(np.where(np.isfinite(better), better, root), -(shift // 2))


pure("exp")(_function(np.exp))
pure("exp2")(_function(np.exp2, ftz=True))
pure("log")(_function(np.log))
pure("log2")(_function(np.log2))
pure("tanh")(_function(np.tanh))
pure("pow")(_function(np.power))
pure("atan2")(_function(np.arctan2))
pure("rsqrt")(_function(_rsqrt, ftz=True))


def _periodic(vector: Callable[..., Array], accurate: Callable[..., Array]) -> Callable[[Site], Run]:
    """numpy's vector function suffices where the result is rounded to less than f64."""

    def make(site: Site) -> Run:
        elem = site.element("result")
        return through_f64(accurate if elem.name == "f64" else vector, elem)

    return make


pure("sin")(_periodic(np.sin, SIN))
pure("cos")(_periodic(np.cos, COS))
pure("tan")(_periodic(np.tan, TAN))
pure("sinh")(_periodic(np.sinh, SINH))
pure("cosh")(_periodic(np.cosh, COSH))


@pure("fpowi")
def fpowi(site: Site) -> Run:
    exponents = site.element("exponent")
    power = through_f64(np.power, site.element("result"))
    return lambda source, exponent: power(source, np.float64(signed(exponent, exponents)))
