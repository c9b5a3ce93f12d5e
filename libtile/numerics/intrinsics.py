# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's intrinsics that compute one number of others, and are instructions on every target (LLVM Language Reference,
"Intrinsic Functions"): what `nv_tileaa.call_elementwise_intrinsic` may call."""

from __future__ import annotations

from libtile.support.records import dataclass

FLOAT_ELEMENTS = ("f32", "f64")
INTEGER_ELEMENTS = ("i8", "i16", "i32", "i64")


@dataclass(frozen=True)
class Intrinsic:
    """How many operands an intrinsic takes, all of the result's type, and the element types that this can be."""

    operands: int
    elements: tuple[str, ...]


INTRINSICS: dict[str, Intrinsic] = {
    **{f"llvm.{name}": Intrinsic(1, FLOAT_ELEMENTS) for name in ("fabs", "sqrt", "floor", "ceil", "trunc", "rint")},
    **{f"llvm.{name}": Intrinsic(2, FLOAT_ELEMENTS) for name in ("copysign", "minnum", "maxnum", "minimum", "maximum")},
    "llvm.fma": Intrinsic(3, FLOAT_ELEMENTS),
    **{f"llvm.{name}": Intrinsic(1, INTEGER_ELEMENTS) for name in ("ctpop", "bitreverse")},
    **{f"llvm.{name}": Intrinsic(2, INTEGER_ELEMENTS) for name in ("smin", "smax", "umin", "umax")},
    **{
        f"llvm.{name}": Intrinsic(2, ("i16", "i32", "i64")) for name in ("sadd.sat", "uadd.sat", "ssub.sat", "usub.sat")
    },
}
"""By name, without the suffix that says the type."""


def found(name: str, element: str) -> Intrinsic | None:
    """The intrinsic of a name, with or without the suffix of a type, which has to be this element's; None where there
    is none."""
    return INTRINSICS.get(name.removesuffix(f".{element}"))
