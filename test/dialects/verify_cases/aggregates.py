# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType

from dialects.building import TOKEN, Body, kernel, tile
from dialects.verify_cases.case import Case, Cases, Fill, expand
from dialects.verify_cases.control_flow import BREAK, YIELD, if_, loop
from libtile.dialects.cuda_tile.attributes import DivByAttr
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType

CASES = Cases()
F32, I32 = tile("f32"), tile("i32")
F8 = tile("f32", 8)


def zero(element: Any) -> Any:
    return IntegerAttr(0, element) if isinstance(element, IntegerType) else FloatAttr(0.0, element)


def aggregate(name: str, body: Fill, source: TileType = F8, result: Any = None, dim: int = 0, count: int = 1,
              identities: Sequence[Any] | None = None, arguments: Sequence[Any] | None = None,
              results: int | None = None) -> Fill:  # fmt: skip
    element = source.element_type
    scalar = TileType((), element)
    attributes: dict[str, Any] = {
        "dim": dim,
        "identities": [zero(element)] * count if identities is None else identities,
    }
    if name == "scan":
        attributes["reverse"] = False
    if result is None:
        result = source if name == "scan" else TileType(source.shape[1:], element)

    def fill(b: Body) -> None:
        region = b.region(list(arguments if arguments is not None else [scalar] * (2 * count)), body)
        operands = {"operands": [b.constant(source)] * count}
        b.op(
            name, operands, [result] * (count if results is None else results), attributes=attributes, regions=[region]
        )

    return fill


def first(b: Body) -> None:
    b.op("yield", {"operands": [b.args[0]]})


def then_first(fill: Fill) -> Fill:
    return lambda b: (fill(b), first(b))


SCALARS = [tile("f32"), tile("f32")]
for name in ("reduce", "scan"):
    CASES.good(name, aggregate(name, first))
    CASES.good(f"{name}-two", aggregate(name, lambda b: b.op("yield", {"operands": [b.args[0], b.args[2]]}), count=2))
    CASES.good(f"{name}-half", aggregate(name, first, tile("bf16", 8), identities=[zero(NUMBER_TYPES["f16"])]))
    CASES.bad(f"{name}-dim", f"{name}: dimension (1) is out of bound [0, 1)", aggregate(name, first, dim=1))
    CASES.bad(
        f"{name}-results",
        f"{name}: expect same number of operands and results",
        aggregate(name, first, results=2, identities=[zero(NUMBER_TYPES["f32"])] * 2),
    )
    CASES.bad(
        f"{name}-identities",
        f"{name}: expect identities to match the number of operands but got: 1 operands and 2 identities",
        aggregate(name, first, identities=[zero(NUMBER_TYPES["f32"])] * 2),
    )
    CASES.bad(
        f"{name}-identity-type",
        f"{name}: expect same type for operand at index: 0 and identity at index: 0 but got: 'f32' and 'i32'",
        aggregate(name, first, identities=[zero(NUMBER_TYPES["i32"])]),
    )
    CASES.bad(
        f"{name}-arguments",
        f"{name}: expect 2 block arguments but got: 1",
        aggregate(name, first, arguments=[F32]),
    )
    CASES.bad(
        f"{name}-argument-rank",
        f"{name}: expect 0-rank tile type at index: 0 but got: '!cuda_tile.tile<1xf32>'",
        aggregate(name, first, arguments=[tile("f32", 1), F32]),
    )
    CASES.bad(
        f"{name}-argument-pair",
        f"{name}: expect same element type for block argument at index: 0 and 1 but got: 'f32' and 'i32'",
        aggregate(name, first, arguments=[F32, I32]),
    )
    CASES.bad(
        f"{name}-argument-type",
        f"{name}: expect same type for operand at index: 0 and block argument at index: 0 but got: 'f32' and 'i32'",
        aggregate(name, first, arguments=[I32, I32]),
    )
    CASES.bad(
        f"{name}-yields-nothing",
        f"{name}: expect number of terminators operands (0) to match number of operands (1)",
        aggregate(name, YIELD),
    )
    CASES.bad(
        f"{name}-yield-type",
        f"{name}: expect same type for operand at index: 0 and terminator argument at index: 0 "
        "but got: 'f32' and 'i32'",
        aggregate(name, lambda b: b.op("yield", {"operands": [b.constant(I32)]})),
    )
    CASES.bad(f"{name}-nothing", f"{name}: expected 1 or more operands, but found 0", aggregate(name, YIELD, count=0))

    # What a body may hold: ops without memory effects, conditionals and reductions of such ops.
    CASES.good(f"{name}-reduce", aggregate(name, then_first(aggregate("reduce", first))))
    CASES.good(f"{name}-if", aggregate(name, then_first(if_(YIELD))))
    CASES.good(
        f"{name}-divi",
        aggregate(
            name,
            lambda b: b.op(
                "yield",
                {
                    "operands": [
                        b.value("divi", {"lhs": b.args[0], "rhs": b.args[1]}, I32, attributes={"signedness": "signed"})
                    ]
                },
            ),
            tile("i32", 8),
        ),
    )
    CASES.good(f"{name}-token", aggregate(name, then_first(lambda b: b.token())))
    for what, fill in (
        ("print_tko", lambda b: b.op("print_tko", {}, [TOKEN], attributes={"str": "x"})),
        ("assert", lambda b: b.op("assert", {"condition": b.constant(tile("i1"))}, attributes={"message": "x"})),
        ("assume", lambda b: b.op("assume", {"value": b.constant(I32)}, [I32], attributes={"predicate": DivByAttr(4)})),
        ("loop", loop(BREAK)),
        ("if", if_(lambda b: (b.op("print_tko", {}, [TOKEN], attributes={"str": "x"}), YIELD(b)))),
    ):
        CASES.bad(
            f"{name}-of-{what}",
            f"{what}: only pure operations are allowed inside 'cuda_tile.{name}'",
            aggregate(name, then_first(fill)),
            oracle="absent",
        )

CASES.bad(
    "scan-type",
    "scan: expect same type for operand at index: 0 and result at index: 0",
    aggregate("scan", first, result=F32),
)
CASES.append(
    Case(
        "reduce-type",
        lambda: kernel(aggregate("reduce", first, result=tile("f32", 1))),
        (
            expand(
                "reduce: inferred type(s) '!cuda_tile.tile<f32>' are incompatible with return type(s) of operation "
                "'!cuda_tile.tile<1xf32>'"
            ),
            expand("reduce: failed to infer returned types"),
        ),
    )
)


def two_shapes(b: Body) -> None:
    operands = {"operands": [b.constant(F8), b.constant(tile("f32", 4))]}
    attributes = {"dim": 0, "identities": [zero(NUMBER_TYPES["f32"])] * 2}
    region = b.region([F32] * 4, lambda c: c.op("yield", {"operands": list(c.args[:2])}))
    b.op("reduce", operands, [F32, F32], attributes=attributes, regions=[region])


CASES.bad("reduce-shapes", "reduce: requires the same shape for all operands", two_shapes)
CASES.bad(
    "reduce-negative",
    "reduce: attribute 'dim' failed to satisfy constraint: "
    "32-bit signless integer attribute whose value is non-negative",
    aggregate("reduce", first, dim=-1, result=F32),
    oracle="absent",
)
