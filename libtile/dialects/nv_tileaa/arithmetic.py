# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise arithmetic of nv_tileaa: one row of `ROWS` per op.

These are the ops whose rounding, flushing or NaN behaviour `arith` and `math` cannot say, and those that complete the
set for floats. Integer arithmetic, comparisons, selects and integer conversions are `arith`'s.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, UnitAttr
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.interfaces import Folds
from libtile.dialects.nv_tileaa.attributes import PropagateNanAttr, RoundingModeAttr
from libtile.dialects.nv_tileaa.element_types import is_float
from libtile.ir.tile_form import TileOp, element_of, shape_of, tile_op, type_text
from libtile.support.records import dataclass

IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")


@dataclass(frozen=True)
class Row:
    """An elementwise op: names of its operands, its summary, what it takes (`float` or `int`), and its attributes.

    `roundings` are the rounding modes that it may name, none when it has none; `integer_operand` is an operand of
    integers in an op of floats; `folds` is what it computes of constants.
    """

    operands: str
    summary: str
    kind: str = "float"
    roundings: tuple[str, ...] = ()
    flush: bool = False
    nan: bool = False
    integer_operand: str = ""
    folds: Folds | None = None


_HIGH, _HIGH_SIGNED = (Folds("multiply_high", (("signedness", sign),)) for sign in ("unsigned", "signed"))

ROWS: dict[str, Row] = {
    "addf": Row("lhs rhs", "lhs + rhs", roundings=IEEE, flush=True),
    "subf": Row("lhs rhs", "lhs - rhs", roundings=IEEE, flush=True),
    "mulf": Row("lhs rhs", "lhs * rhs", roundings=IEEE, flush=True),
    "divf": Row("lhs rhs", "lhs / rhs", roundings=(*IEEE, "approx", "full"), flush=True),
    "fma": Row("lhs rhs acc", "lhs * rhs + acc, rounded once", roundings=IEEE, flush=True),
    "sqrt": Row("source", "square root", roundings=(*IEEE, "approx"), flush=True),
    "rsqrt": Row("source", "reciprocal of the square root", flush=True),
    "exp2": Row("source", "2 to the power of the source", flush=True),
    "clampf": Row("source lower upper", "min(max(source, lower), upper)", flush=True, nan=True),
    "maxf": Row("lhs rhs", "the larger operand", flush=True, nan=True),
    "minf": Row("lhs rhs", "the smaller operand", flush=True, nan=True),
    "exp": Row("source", "e to the power of the source", roundings=("full", "approx")),
    "tanh": Row("source", "hyperbolic tangent", roundings=("full", "approx")),
    "log": Row("source", "natural logarithm"),
    "log2": Row("source", "binary logarithm"),
    "sin": Row("source", "sine"),
    "cos": Row("source", "cosine"),
    "tan": Row("source", "tangent"),
    "sinh": Row("source", "hyperbolic sine"),
    "cosh": Row("source", "hyperbolic cosine"),
    "ceil": Row("source", "rounded up to an integer"),
    "floor": Row("source", "rounded down to an integer"),
    "absf": Row("source", "absolute value"),
    "negf": Row("source", "the source with its sign changed"),
    "pow": Row("source exponent", "source to the power of exponent"),
    "fpowi": Row("source exponent", "source to an integer power", integer_operand="exponent"),
    "atan2": Row("x y", "angle of the point whose first coordinate is y and whose second is x"),
    "remf": Row("lhs rhs", "remainder of the division truncated to an integer"),
    "mulhiui": Row("lhs rhs", "high half of the unsigned product of double width", "int", folds=_HIGH),
    "mulhisi": Row("lhs rhs", "high half of the signed product of double width", "int", folds=_HIGH_SIGNED),
}
"""All elementwise ops of the dialect."""


class ElementwiseOp(TileOp):
    """Base: all operands and the result have one type (fpowi's exponent: one shape)."""

    ROW: ClassVar[Row]

    @property
    def rounding(self) -> str | None:
        """The rounding mode that the op names, or None."""
        mode = self.properties.get("rounding_mode")
        return mode.keyword if isinstance(mode, RoundingModeAttr) else None

    @property
    def flushes(self) -> bool:
        """Whether subnormal operands and results are zeros."""
        return "flush_to_zero" in self.properties

    @property
    def propagates_nan(self) -> bool:
        """Whether one NaN among the operands makes the result NaN."""
        nan = self.properties.get("propagate_nan")
        return isinstance(nan, PropagateNanAttr) and nan.keyword == "all"

    def check(self) -> None:
        row, result = self.ROW, self.results[0].type
        rounding = self.properties.get("rounding_mode")
        for (name, _), value in zip(self.get_irdl_definition().operands, self.operands):
            element = element_of(value.type)
            integer = row.kind == "int" or name == row.integer_operand
            if integer and not isinstance(element, IntegerType | IndexType):
                raise VerifyException(f"expects operand '{name}' to be of integers, but got {type_text(value.type)}")
            if not integer and not is_float(element):
                raise VerifyException(f"expects operand '{name}' to be of floats, but got {type_text(value.type)}")
            same = value.type == result if name != row.integer_operand else shape_of(value.type) == shape_of(result)
            if not same:
                raise VerifyException(
                    f"expects operand '{name}' and the result to have the same type, but got "
                    f"{type_text(value.type)} vs {type_text(result)}"
                )
        if isinstance(rounding, RoundingModeAttr) and rounding.keyword not in row.roundings:
            raise VerifyException(f"rounding mode '{rounding.keyword}' is not supported")


def _roundings(row: Row) -> str:
    return f" Rounding modes: {', '.join(row.roundings)}." if row.roundings else ""


def _class(name: str, row: Row) -> type[ElementwiseOp]:
    members: dict[str, Any] = {
        "name": f"nv_tileaa.{name}",
        "ROW": row,
        "__doc__": f"Elementwise: {row.summary}.{_roundings(row)}",
        "__module__": __name__,
        "__annotations__": {"ROW": ClassVar[Row]},
        "result": result_def(),
        "traits": traits_def(Pure(), *([row.folds] if row.folds else [])),
    }
    members |= {operand: operand_def() for operand in row.operands.split()}
    if row.roundings:
        members["rounding_mode"] = opt_prop_def(RoundingModeAttr)
    if row.flush:
        members["flush_to_zero"] = opt_prop_def(UnitAttr)
    if row.nan:
        members["propagate_nan"] = opt_prop_def(PropagateNanAttr)
    title = "".join(part.capitalize() for part in name.split("_"))
    return tile_op(type(f"{title}Op", (ElementwiseOp,), members))


OPS: dict[str, type[ElementwiseOp]] = {name: _class(name, row) for name, row in ROWS.items()}
"""The classes, by mnemonic."""
