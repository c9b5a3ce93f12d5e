# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX's names of the element types that matrix instructions multiply and add to."""

from __future__ import annotations

from libtile.numerics.elements import ELEMENTS, STORAGE_BYTES

_ACCUMULATORS = {"f16": "f16", "f32": "f32", "f64": "f64", "i32": "s32"}


def packed_elements(ptx: str) -> int:
    """Elements of a type, by PTX's name, in one register of a fragment."""
    return max(4 // STORAGE_BYTES[_element_of(ptx)], 1)


def _element_of(ptx: str) -> str:
    """The element type with PTX's name; ValueError for a name of none."""
    if ptx in ("s8", "u8"):
        return "i8"
    found = next((name for name, element in ELEMENTS.items() if ptx and element.ptx == ptx), None)
    if found is None:
        raise ValueError(f"no element type is called {ptx!r} in PTX")
    return found


def ptx_type(element: str, signed: bool) -> str:
    """PTX's name of an operand's element type; empty for one that no instruction multiplies."""
    if element == "i8":
        return "s8" if signed else "u8"
    return ELEMENTS[element].ptx


def accumulator_type(element: str) -> str:
    """PTX's name of an accumulator's element type; empty for one that nothing is added to."""
    return _ACCUMULATORS.get(element, "")


def widens_to(element: str) -> str:
    """PTX's name of the type that all values of an element type are also of, and that every target multiplies; empty
    where there is none."""
    return "f16" if element == "f16" or ELEMENTS[element].widens_to_half else ""


def multiplied_element(element: str, ptx: str) -> str:
    """The element type that an operand is converted to for an atom whose operand has a PTX type: its own, or a wider
    one that has all its values."""
    return element if ptx in (ptx_type(element, True), ptx_type(element, False)) else _element_of(ptx)
