# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparisons and selections on single values (Tile IR specification, cmpi, cmpf, select)."""

from __future__ import annotations

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.integers import is_signed
from libtile.codegen.llvm_types import I1

_PREDICATES = {
    "equal": "eq",
    "not_equal": "ne",
    "less_than": "lt",
    "less_than_or_equal": "le",
    "greater_than": "gt",
    "greater_than_or_equal": "ge",
}


def _predicate(keyword: str) -> str:
    if keyword not in _PREDICATES:
        raise ValueError(f"unknown comparison predicate '{keyword}'")
    return _PREDICATES[keyword]


def compare_integers(b: KernelBuilder, lhs: Value, rhs: Value, predicate: str, signedness: str) -> Value:
    """An i1: whether the predicate (a Tile IR keyword such as `less_than`) holds between integers or pointers."""
    name, signed = _predicate(predicate), is_signed(signedness)
    if name in ("eq", "ne"):
        return b.compare(name, lhs, rhs)
    return b.compare(("s" if signed else "u") + name, lhs, rhs)


def compare_floats(b: KernelBuilder, lhs: Value, rhs: Value, predicate: str, ordering: str) -> Value:
    """An i1: whether the predicate holds between floats; with a NaN, false if `ordered` and true if `unordered`."""
    name = _predicate(predicate)
    if ordering not in ("ordered", "unordered"):
        raise ValueError(f"unknown comparison ordering '{ordering}'")
    return are_floats_so(b, lhs, rhs, f"{ordering[0]}{name}")


def are_floats_so(b: KernelBuilder, lhs: Value, rhs: Value, condition: str) -> Value:
    """An i1: whether a condition of LLVM's `fcmp` (`olt`, `uno`, ...) holds between floats."""
    return b.emit(I1, f"fcmp {condition} {lhs.typed}, {rhs.text}")


def is_nan(b: KernelBuilder, value: Value) -> Value:
    """An i1: whether a float is a NaN."""
    return are_floats_so(b, value, value, "uno")


def select(b: KernelBuilder, condition: Value, if_true: Value, if_false: Value) -> Value:
    """One of two values by an i1."""
    return b.select(condition, if_true, if_false)
