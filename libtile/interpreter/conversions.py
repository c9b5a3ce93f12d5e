# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between element types."""

from __future__ import annotations

import numpy as np

from libtile.interpreter.address_space import first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, from_bits, to_bits
from libtile.interpreter.integer import reader, signed, unsigned, wrap
from libtile.interpreter.rounding import from_integer, round_to
from libtile.interpreter.rules import Run, Site, pure


@pure("bitcast")
def bitcast(site: Site) -> Run:
    source, result = site.element("source"), site.element("result")
    return lambda value: from_bits(_pattern(value, source), result)[()]


def _pattern(value: Array, elem: Element) -> np.ndarray:
    return to_bits(np.asarray(value), elem)


@pure("exti")
def exti(site: Site) -> Run:
    source, result = site.element("from"), site.element("to")
    read = reader(site, source)
    return lambda value: wrap(read(value), result)


@pure("trunci")
def trunci(site: Site) -> Run:
    source, result, overflow = site.element("from"), site.element("to"), site.attr("overflow")

    def run(value: Array) -> Array:
        return wrap(value, result)

    if not site.on("overflow") or overflow == "none":
        return run

    def checked(value: Array) -> Array:
        kept = run(value)
        for read, name in ((signed, "no_signed_wrap"), (unsigned, "no_unsigned_wrap")):
            if overflow in (name, "no_wrap"):
                bad = np.asarray(read(kept, result)) != np.asarray(read(value, source))
                if np.any(bad):
                    index = first_index(bad)
                    lost = np.asarray(read(value, source))[index]
                    raise Fault(FaultKind.OVERFLOW, f"{lost} does not fit {result.name} ({overflow})", index)
        return kept

    return checked


@pure("ftof")
def ftof(site: Site) -> Run:
    result, mode = site.element("to"), site.attr("rounding_mode")
    fmt = result.float
    if fmt is None:
        raise TypeError(f"{result.name} is not a floating-point type")
    if result.name == "f64":
        return np.float64
    # Formats of 8 bits and less saturate: the hardware has no other conversion to them.
    saturate = result.width <= 8
    return lambda value: round_to(np.float64(value), fmt, mode, saturate).astype(result.dtype)[()]


@pure("itof")
def itof(site: Site) -> Run:
    source, result, mode = site.element("from"), site.element("to"), site.attr("rounding_mode")
    read, is_unsigned = reader(site, source), site.attr("signedness") == "unsigned"
    return lambda value: from_integer(np.asarray(read(value)), result, mode, is_unsigned)[()]


@pure("ftoi")
def ftoi(site: Site) -> Run:
    """Truncation. Out of range it saturates, and NaN gives 0; without `saturating` that is undefined behaviour.

    A conversion to i1 is a test for non-zero, as compiled programs have it (frontends rely on it for bool).
    """
    if site.element("to").width == 1:
        return lambda value: value != 0
    result, is_signed = site.element("to"), site.attr("signedness") == "signed"
    saturating = site.attr("saturating")
    low, high = (result.smallest, result.largest) if is_signed else (0, (1 << result.width) - 1)
    # The first float beyond the range: 2**63 and the like are exact, unlike the largest integer.
    beyond = float(high + 1)
    wide = np.int64 if is_signed else np.uint64

    def run(value: Array) -> Array:
        whole = np.trunc(np.float64(value))
        small, large, nan = whole < low, whole >= beyond, np.isnan(whole)
        if site.on("conversion") and not saturating:
            bad = np.asarray(small | large | nan)
            if bad.any():
                index = first_index(bad)
                kind = "signed" if is_signed else "unsigned"
                shown = float(np.asarray(value, np.float64)[index])
                raise Fault(FaultKind.CONVERSION, f"{shown} is out of the range of {kind} {result.name}", index)
        inside = np.where(small | large | nan, 0.0, whole).astype(wide)
        number = np.where(small, wide(low), np.where(large, wide(high), inside))
        return wrap(number, result)

    return run


@pure("ptr_to_int", "int_to_ptr", "ptr_to_ptr")
def pointer_cast(site: Site) -> Run:
    return lambda source: source
