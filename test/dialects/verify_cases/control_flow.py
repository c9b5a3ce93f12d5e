# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops, conditionals, their terminators, and regions in general."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Region

from dialects.building import TOKEN, Body, tile, view
from dialects.verify_cases.case import Cases, Fill

CASES = Cases()
I1, I32, I64, F32 = tile("i1"), tile("i32"), tile("i64"), tile("f32")
VIEW = view("f32", [64], [1])


def leave(name: str, *types: Any) -> Fill:
    """A terminator with constants of these types."""
    return lambda b: b.op(name, {"operands": [b.token() if t == TOKEN else b.constant(t) for t in types]})


def loop(
    fill: Fill, inits: Sequence[Any] = (), results: Sequence[Any] = (), carried: Sequence[Any] | None = None
) -> Fill:
    def outer(b: Body) -> None:
        values = [b.token() if t == TOKEN else b.constant(t) for t in inits]
        body = b.region(list(inits if carried is None else carried), fill)
        b.op("loop", {"initValues": values}, list(results), regions=[body])

    return outer


def for_(fill: Fill, bound: Any = I32, inits: Sequence[Any] = (), arguments: Sequence[Any] | None = None,
         results: Sequence[Any] | None = None) -> Fill:  # fmt: skip
    def outer(b: Body) -> None:
        value = b.constant(bound)
        operands = {
            "lowerBound": value,
            "upperBound": value,
            "step": value,
            "initValues": [b.constant(t) for t in inits],
        }
        body = b.region(list((bound, *inits) if arguments is None else arguments), fill)
        b.op("for", operands, list(inits if results is None else results), regions=[body])

    return outer


def if_(then: Fill, otherwise: Fill | None = None, results: Sequence[Any] = ()) -> Fill:
    def outer(b: Body) -> None:
        regions = [b.region([], then), b.region([], otherwise) if otherwise else Region()]
        b.op("if", {"condition": b.constant(I1)}, list(results), regions=regions)

    return outer


def both(first: Fill, second: Fill) -> Fill:
    return lambda b: (first(b), second(b))


YIELD, CONTINUE, BREAK, RETURN = (leave(n) for n in ("yield", "continue", "break", "return"))

CASES.good("loop", loop(CONTINUE))
CASES.good("loop-break", loop(leave("break", I32), (), [I32]))
CASES.good("loop-carried", loop(leave("continue", I32, TOKEN), [I32, TOKEN], [F32]))
CASES.good("for", for_(CONTINUE))
CASES.good("for-carried", for_(leave("continue", F32), I64, [F32]))
CASES.good("if", if_(YIELD))
CASES.good("if-else", if_(leave("yield", I32), leave("yield", I32), [I32]))
CASES.good("if-leaves", loop(both(if_(CONTINUE, BREAK), CONTINUE)))
CASES.good("if-returns", if_(RETURN, YIELD))
CASES.good("loop-returns", loop(RETURN))
CASES.good("loop-if-returns", loop(both(if_(RETURN, YIELD), CONTINUE)))

ANCESTORS = "can only be nested within a ancestor chain of '{}' operations"
CASES.bad(
    "break-types",
    "break: operand types must correspond to the parent loop result types: ('!cuda_tile.tile<i32>') vs ()",
    loop(leave("break", I32)),
)
CASES.bad(
    "continue-loop-types",
    "`loop` is missing a valid terminator. `continue` op should have operand types that match the parent loop "
    "iter_values: ('!cuda_tile.tile<i32>'), but found: ()",
    loop(CONTINUE, [I32]),
)
CASES.bad(
    "continue-for-types",
    "`for` is missing a valid terminator. `continue` op should have operand types that match the parent loop "
    "return types: (), but found: ('!cuda_tile.tile<i32>')",
    for_(leave("continue", I32)),
)
CASES.bad(
    "continue-outside",
    "continue: " + ANCESTORS.format("cuda_tile.for', 'cuda_tile.loop', 'cuda_tile.if"),
    if_(CONTINUE),
)
CASES.bad(
    "break-in-for-if",
    "break: " + ANCESTORS.format("cuda_tile.loop', 'cuda_tile.if"),
    for_(both(if_(BREAK), CONTINUE)),
)
CASES.bad("break-in-for", "break: expects parent op to be one of 'cuda_tile.if, cuda_tile.loop'", for_(BREAK))
CASES.bad(
    "yield-in-loop",
    "yield: expects parent op to be one of 'cuda_tile.if, cuda_tile.reduce, cuda_tile.scan'",
    loop(YIELD),
)
CASES.bad(
    "return-in-for",
    "return: expects parent op to be one of 'cuda_tile.entry, cuda_tile.if, cuda_tile.loop, cuda_tile.testing$func'",
    for_(RETURN),
    oracle="refuses",
)
CASES.bad(
    "return-in-for-if",
    "return: must be used within a cuda_tile.entry, cuda_tile.if, or cuda_tile.loop operation",
    for_(both(if_(RETURN, YIELD), CONTINUE)),
)
CASES.bad("return-early", "return: must be the last operation in the parent block", RETURN)

CASES.bad(
    "loop-arguments",
    "loop: mismatch in number of region iterator values and loop iterator inits: 0 vs 1",
    loop(leave("continue", I32), [I32], (), []),
)
CASES.bad(
    "loop-argument-type",
    "loop: init value 0 and region iter_value 0 have different type: '!cuda_tile.tile<i32>' != '!cuda_tile.tile<f32>'",
    loop(leave("continue", I32), [I32], (), [F32]),
)
CASES.bad(
    "for-no-argument",
    "for: expected at least one block argument for induction variable",
    for_(CONTINUE, arguments=[]),
)
CASES.bad(
    "for-argument",
    "for: expected induction variable to be same type as bounds and step: "
    "'!cuda_tile.tile<f32>' vs '!cuda_tile.tile<i32>'",
    for_(CONTINUE, arguments=[F32]),
)
CASES.bad(
    "for-float",
    "for: operand #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'",
    for_(CONTINUE, F32),
)
CASES.bad(
    "for-vector",
    "for: operand #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<2xi32>'",
    for_(CONTINUE, tile("i32", 2)),
)
CASES.bad(
    "for-results",
    "for: failed to verify that all of {initValues, resultValues} have same type",
    for_(CONTINUE, results=[I32]),
)


def mixed_bounds(b: Body) -> None:
    low, high = b.constant(I32), b.constant(I64)
    operands = {"lowerBound": low, "upperBound": high, "step": low}
    b.op("for", operands, [], regions=[b.region([I32], CONTINUE)])


CASES.bad("for-bounds", "for: failed to verify that all of {lowerBound, upperBound, step} have same type", mixed_bounds)


def with_view(use: Any) -> Fill:
    return lambda b: use(b, b.value("make_tensor_view", {"base": b.args[0]}, VIEW))


POINTER = tile("ptr<f32>")
CASES.bad(
    "if-view",
    "if: result type 0 is a tensor_view, which is not supported",
    with_view(
        lambda b, v: b.op(
            "if",
            {"condition": b.constant(I1)},
            [VIEW],
            regions=[b.region([], lambda c: c.op("yield", {"operands": [v]})) for _ in range(2)],
        )
    ),
    POINTER,
)
CASES.bad(
    "loop-carried-view",
    "loop: loop-carried value 0 is a tensor_view, which is not supported",
    with_view(
        lambda b, v: b.op(
            "loop",
            {"initValues": [v]},
            [],
            regions=[b.region([VIEW], lambda c: c.op("continue", {"operands": list(c.args)}))],
        )
    ),
    POINTER,
)
CASES.bad(
    "loop-result-view",
    "loop: result type 0 is a tensor_view, which is not supported",
    with_view(
        lambda b, v: b.op("loop", {}, [VIEW], regions=[b.region([], lambda c: c.op("break", {"operands": [v]}))])
    ),
    POINTER,
)

CASES.bad(
    "if-no-yield",
    "if: has return type of '!cuda_tile.tile<i32>' but then branch does not yield anything",
    if_(YIELD, YIELD, [I32]),
)
CASES.bad(
    "if-yields",
    "if: does not return a value, but else branch yields '!cuda_tile.tile<i32>'",
    if_(YIELD, leave("yield", I32)),
)
CASES.bad(
    "if-types",
    "if: type does not match yield type, then branch yields '!cuda_tile.tile<f32>' but op result type is "
    "'!cuda_tile.tile<i32>'",
    if_(leave("yield", F32), leave("yield", I32), [I32]),
)
CASES.bad(
    "if-no-else",
    "if: has non-empty return type, must define else branch",
    if_(leave("yield", I32), None, [I32]),
)
CASES.bad(
    "if-condition",
    "if: operand #0 must be 0D tile of i1 values, but got '!cuda_tile.tile<i32>'",
    lambda b: b.op("if", {"condition": b.constant(I32)}, [], regions=[b.region([], YIELD), Region()]),
)
CASES.bad(
    "if-arguments",
    "if: region #0 should have no arguments",
    lambda b: b.op("if", {"condition": b.constant(I1)}, [], regions=[b.region([I32], YIELD), Region()]),
    oracle="refuses",
)
CASES.bad(
    "if-no-then",
    "if: region #0 ('thenRegion') failed to verify constraint: region with 1 blocks",
    lambda b: b.op("if", {"condition": b.constant(I1)}, [], regions=[Region(), Region()]),
    oracle="refuses",
)
CASES.bad("loop-empty", "loop: expects a non-empty block", loop(lambda b: None), oracle="refuses")
CASES.bad(
    "loop-no-terminator",
    'block with no terminator, has %0 = "cuda_tile.constant"() <{value = dense<0> : !cuda_tile.tile<i32>}> : () -> '
    "!cuda_tile.tile<i32>",
    loop(lambda b: b.constant(I32)),
    oracle="refuses",
)
CASES.bad(
    "loop-regions",
    "loop: requires one region",
    lambda b: b.op("loop", {}, [], regions=[]),
    oracle="absent",
)
