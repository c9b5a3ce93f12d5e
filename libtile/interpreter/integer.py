# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic. Values are two's complement of their width and wrap around; `signed` and `unsigned` read them.

An `overflow` attribute is a promise; a broken one is undefined behaviour, and a fault when checked (Tile IR
specification, Integer operations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.interpreter.address_space import first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element
from libtile.interpreter.rules import Run, Site, pure

_WIDER = {1: np.int8, 8: np.int16, 16: np.int32, 32: np.int64}


def signed(value: Array, elem: Element) -> Array:
    """The elements as signed numbers; a true i1 is -1."""
    return -np.asarray(value).astype(np.int8) if elem.width == 1 else value


def unsigned(value: Array, elem: Element) -> Array:
    """The elements as unsigned numbers, in the unsigned type of their storage size."""
    if elem.width == 1:
        return np.asarray(value).astype(np.uint8)
    if elem.width == 4:
        return np.asarray(value).view(np.uint8) & np.uint8(15)
    return value.view(elem.unsigned_dtype)


def reader(site: Site, elem: Element, attribute: str = "signedness") -> Callable[[Array], Array]:
    """`signed` or `unsigned`, as the op's signedness attribute says."""
    read = signed if site.attr(attribute) == "signed" else unsigned
    return lambda value: read(value, elem)


def wrap(value: Array, elem: Element) -> Array:
    """Numbers of any integer type reduced to the element's width, as a value."""
    if elem.width == 1:
        return (np.asarray(value) & 1).astype(np.bool_)
    if elem.width == 4:
        return ((np.asarray(value).astype(np.int8) << 4).astype(np.int8) >> 4).astype(np.int8)
    return np.asarray(value).astype(elem.dtype)[()]


def _exact(operation: Callable[[Array, Array], Array], signs: bool, elem: Element) -> Callable[[Array, Array], Array]:
    """The operation done without wrap-around, as integers wide enough (Python's for large ones of 64 bits)."""
    read = signed if signs else unsigned

    def run(lhs: Array, rhs: Array) -> Array:
        a, b = np.asarray(read(lhs, elem)), np.asarray(read(rhs, elem))
        wide: Any = _WIDER.get(elem.width)
        if wide is None:
            wide = np.int64 if _is_small(a) and _is_small(b) else object
        return operation(a.astype(wide), b.astype(wide))

    return run


def _is_small(value: np.ndarray) -> bool:
    """Whether sums and products of such numbers fit 64 bits."""
    return value.size == 0 or (int(value.max()) < 1 << 31 and int(value.min()) > -(1 << 31))


def _fits(number: Array, elem: Element, signs: bool) -> Array:
    low, high = (elem.smallest, elem.largest) if signs else (0, (1 << elem.width) - 1)
    return np.asarray((number >= low) & (number <= high), bool)


def promise(site: Site, elem: Element, operation: Callable[[Array, Array], Array], run: Run) -> Run:
    """`run`, with the op's overflow attribute checked against the exact result of `operation`."""
    overflow = site.attr("overflow")
    if not site.on("overflow") or overflow == "none":
        return run
    kinds = [k for k, names in ((True, ("no_signed_wrap", "no_wrap")), (False, ("no_unsigned_wrap", "no_wrap")))
             if overflow in names]  # fmt: skip
    exact = [(signs, _exact(operation, signs, elem)) for signs in kinds]

    def checked(lhs: Array, rhs: Array) -> Array:
        for signs, compute in exact:
            number = compute(lhs, rhs)
            bad = ~_fits(number, elem, signs)
            if np.any(bad):
                index = first_index(bad)
                what = "signed" if signs else "unsigned"
                value = np.asarray(number)[index]
                raise Fault(FaultKind.OVERFLOW, f"{value} does not fit {what} {elem.name} ({overflow})", index)
        return run(lhs, rhs)

    return checked


def _arithmetic(operation: Callable[[Array, Array], Array]) -> Callable[[Site], Run]:
    def make(site: Site) -> Run:
        elem = site.element("result")
        if elem.width == 1:

            def on_bits(lhs: Array, rhs: Array) -> Array:
                return wrap(operation(signed(lhs, elem), signed(rhs, elem)), elem)

            return promise(site, elem, operation, on_bits)
        return promise(site, elem, operation, operation)

    return make


pure("addi")(_arithmetic(np.add))
pure("subi")(_arithmetic(np.subtract))
pure("muli")(_arithmetic(np.multiply))


@pure("negi")
def negi(site: Site) -> Run:
    elem = site.element("result")
    run = promise(site, elem, np.subtract, lambda zero, source: wrap(-signed(source, elem), elem))
    return lambda source: run(np.zeros_like(source), source)


@pure("absi")
def absi(site: Site) -> Run:
    elem = site.element("result")
    return lambda source: wrap(np.abs(signed(source, elem)), elem)


@pure("mulhii")
def mulhii(site: Site) -> Run:
    elem = site.element("result")
    width = elem.width

    def high64(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        # Schoolbook on 32-bit halves; no partial sum exceeds 64 bits.
        mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
        middle = xh * yl + (xl * yl >> half)
        other = xl * yh + (middle & mask)
        return xh * yh + (middle >> half) + (other >> half)

    def run(x: Array, y: Array) -> Array:
        a = np.asarray(unsigned(x, elem)).astype(np.uint64)
        b = np.asarray(unsigned(y, elem)).astype(np.uint64)
        result = high64(a, b) if width == 64 else a * b >> np.uint64(width)
        return wrap(result, elem)

    return run


# -- division -------------------------------------------------------------------------------------------------------


def _check_division(lhs: Array, rhs: Array, elem: Element, signs: bool) -> None:
    zero = np.asarray(rhs == 0)
    if zero.any():
        raise Fault(FaultKind.DIVISION, "division by zero", first_index(zero))
    if signs:
        overflow = np.asarray((lhs == elem.smallest) & (rhs == -1))
        if overflow.any():
            raise Fault(FaultKind.DIVISION, f"{elem.smallest} / -1 does not fit {elem.name}", first_index(overflow))


def _guard(rhs: Array) -> Array:
    """Divisors with 1 in place of 0: what an unchecked division by zero gives is not specified."""
    return np.where(rhs == 0, np.ones_like(rhs), rhs)


def truncated(lhs: Array, rhs: Array) -> Array:
    """The quotient rounded to zero."""
    quotient, remainder = np.divmod(lhs, rhs)
    return quotient + ((remainder != 0) & ((lhs < 0) != (rhs < 0)))


@pure("divi")
def divi(site: Site) -> Run:
    elem, read, rounding = site.element("result"), reader(site, site.element("result")), site.attr("rounding")
    signs = site.attr("signedness") == "signed"

    def run(lhs: Array, rhs: Array) -> Array:
        a, b = read(lhs), read(rhs)
        if site.on("division"):
            _check_division(a, b, elem, signs)
        b = _guard(b)
        if rounding == "negative_inf":
            result = a // b
        elif rounding == "positive_inf":
            quotient, remainder = np.divmod(a, b)
            result = quotient + (remainder != 0)
        else:
            result = truncated(a, b) if signs else a // b
        return wrap(result, elem)

    return run


@pure("remi")
def remi(site: Site) -> Run:
    elem, read = site.element("result"), reader(site, site.element("result"))

    def run(lhs: Array, rhs: Array) -> Array:
        a, b = read(lhs), read(rhs)
        if site.on("division"):
            _check_division(a, b, elem, False)
        return wrap(np.fmod(a, _guard(b)), elem)

    return run


# -- order ----------------------------------------------------------------------------------------------------------

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


@pure("cmpi")
def cmpi(site: Site) -> Run:
    compare, read = COMPARE[site.attr("comparison_predicate")], reader(site, site.element("lhs"))
    return lambda lhs, rhs: compare(read(lhs), read(rhs))


@pure("maxi")
def maxi(site: Site) -> Run:
    elem, read = site.element("result"), reader(site, site.element("result"))
    return lambda lhs, rhs: wrap(np.maximum(read(lhs), read(rhs)), elem)


@pure("mini")
def mini(site: Site) -> Run:
    elem, read = site.element("result"), reader(site, site.element("result"))
    return lambda lhs, rhs: wrap(np.minimum(read(lhs), read(rhs)), elem)


# -- shifts ---------------------------------------------------------------------------------------------------------


def _check_amount(amount: Array, elem: Element) -> None:
    bad = np.asarray(amount >= elem.width)
    if bad.any():
        index = first_index(bad)
        value = int(np.asarray(amount)[index])
        raise Fault(FaultKind.OVERFLOW, f"a shift by {value} is not less than the width of {elem.name}", index)


@pure("shli")
def shli(site: Site) -> Run:
    elem = site.element("result")

    def run(lhs: Array, rhs: Array) -> Array:
        amount = unsigned(rhs, elem)
        wide = np.asarray(unsigned(lhs, elem)).astype(np.uint64)
        shifted = wide << np.minimum(amount, 63).astype(np.uint64)
        return wrap(np.where(amount >= elem.width, np.uint64(0), shifted), elem)

    overflow = site.attr("overflow")
    if not site.on("overflow") or overflow == "none":
        return run

    def checked(lhs: Array, rhs: Array) -> Array:
        _check_amount(unsigned(rhs, elem), elem)
        result = run(lhs, rhs)
        amount = unsigned(rhs, elem)
        for signs, name in ((True, "no_signed_wrap"), (False, "no_unsigned_wrap")):
            if overflow not in (name, "no_wrap"):
                continue
            read = signed if signs else unsigned
            back = np.asarray(read(result, elem)).astype(np.int64 if signs else np.uint64)
            bad = (back >> amount.astype(back.dtype)) != np.asarray(read(lhs, elem)).astype(back.dtype)
            if np.any(bad):
                raise Fault(FaultKind.OVERFLOW, f"the shift loses bits ({overflow})", first_index(bad))
        return result

    return checked


@pure("shri")
def shri(site: Site) -> Run:
    elem, read = site.element("result"), reader(site, site.element("result"))
    signs = site.attr("signedness") == "signed"

    def run(lhs: Array, rhs: Array) -> Array:
        amount = np.minimum(unsigned(rhs, elem), 63)
        wide = np.asarray(read(lhs)).astype(np.int64 if signs else np.uint64)
        shifted = wide >> amount.astype(wide.dtype)
        if not signs:
            shifted = np.where(unsigned(rhs, elem) >= elem.width, np.uint64(0), shifted)
        return wrap(shifted, elem)

    return run
