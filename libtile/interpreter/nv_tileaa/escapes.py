# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Foreign code on every element, where its meaning is known: LLVM's intrinsics, and functions of libdevice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.dialects.nv_tileaa.pointers import Elementwise
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, element
from libtile.interpreter.inner_rules import Run, Site, made_by, pure
from libtile.interpreter.integer import signed, unsigned, wrap
from libtile.ir.tile_form import element_of
from libtile.numerics.intrinsics import found
from libtile.support.records import replace

_NUMPY: dict[str, Callable[..., Array]] = {
    "llvm.fabs": np.abs, "llvm.floor": np.floor, "llvm.ceil": np.ceil, "llvm.trunc": np.trunc, "llvm.rint": np.rint,
    "llvm.copysign": np.copysign,
}  # fmt: skip
"""Intrinsics of floats that numpy has, exactly."""

_RULES = {
    "llvm.sqrt": ("sqrt", False), "llvm.fma": ("fma", False), "llvm.minnum": ("minf", False),
    "llvm.maxnum": ("maxf", False), "llvm.minimum": ("minf", True), "llvm.maximum": ("maxf", True),
}  # fmt: skip
"""Those that ops of Tile IR are, and whether a NaN wins."""

LIBDEVICE = {
    f"__nv_{name}{suffix}": name
    for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "rsqrt", "pow", "atan2")
    for suffix in ("", "f")
}
"""Functions of libdevice by the ops of Tile IR that they are."""


def _bits_reversed(value: Array, width: int) -> Array:
    result = np.zeros_like(value)
    for bit in range(width):
        result |= (value >> np.uint64(bit) & np.uint64(1)) << np.uint64(width - 1 - bit)
    return result


def _counted(value: Array, width: int) -> Array:
    total = np.zeros_like(value)
    for bit in range(width):
        total += value >> np.uint64(bit) & np.uint64(1)
    return total


def _saturated(name: str, elem: Element) -> Callable[[Array, Array], Array]:
    """Sums and differences of wide integers, cut off at the limits of the type."""
    low, high = (0, (1 << elem.width) - 1) if name[5] == "u" else (-(1 << elem.width - 1), (1 << elem.width - 1) - 1)
    sign = 1 if "add" in name else -1

    def run(a: Array, b: Array) -> Array:
        total = np.asarray(a).astype(object) + sign * np.asarray(b).astype(object)
        return np.asarray(np.clip(total, low, high) % (1 << elem.width), np.uint64)

    return run


def _of_integers(name: str, elem: Element) -> Run:
    read: Any = unsigned if name in ("llvm.ctpop", "llvm.bitreverse") or name[5] == "u" else signed
    match name:
        case "llvm.ctpop":
            compute: Callable[..., Any] = lambda v: _counted(np.asarray(v).astype(np.uint64), elem.width)  # noqa: E731
        case "llvm.bitreverse":
            compute = lambda v: _bits_reversed(np.asarray(v).astype(np.uint64), elem.width)  # noqa: E731
        case "llvm.smin" | "llvm.umin":
            compute = np.minimum
        case "llvm.smax" | "llvm.umax":
            compute = np.maximum
        case _:
            compute = _saturated(name, elem)
    return lambda *values: wrap(compute(*(read(v, elem) for v in values)), elem)


@pure("nv_tileaa.call_elementwise_intrinsic", elementwise=True)
def call_elementwise_intrinsic(site: Site) -> Run:
    assert isinstance(site.op, Elementwise)
    elem = element(element_of(site.op.results[0].type))
    name = site.attr("intrinsic").removesuffix(f".{elem.name}")
    known = found(name, elem.name)
    if known is None or elem.name not in known.elements:
        raise Fault(FaultKind.UNSUPPORTED, f"the intrinsic '{name}' of {elem.name}")
    if elem.is_integer:
        compute = _of_integers(name, elem)
    elif name in _NUMPY:
        exact = _NUMPY[name]
        compute = lambda *values: exact(*values)  # noqa: E731
    else:
        rule, nan = _RULES[name]
        compute = made_by(rule)(replace(site, given={"propagate_nan": nan}))
    return lambda values: (compute(*values),)


@pure("nv_tileaa.extern_elementwise", elementwise=True)
def extern_elementwise(site: Site) -> Run:
    """Of libdevice's functions those that Tile IR has ops for; what a user's library computes is not known here."""
    name = site.attr("symbol")
    if name not in LIBDEVICE:
        raise Fault(FaultKind.UNSUPPORTED, f"the function '{name}': no library is linked here")
    wanted = "f32" if name.endswith("f") else "f64"
    for value in (*site.op.operands, *site.op.results):
        if (given := element(element_of(value.type)).name) != wanted:
            raise Fault(FaultKind.UNSUPPORTED, f"the function '{name}' of {given}: it is one of {wanted}")
    compute = made_by(LIBDEVICE[name])(site)
    return lambda values: (compute(*values),)
