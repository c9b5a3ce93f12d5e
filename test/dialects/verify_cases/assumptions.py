# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from dialects.building import TOKEN, tile, view
from dialects.verify_cases.case import Cases, Fill
from libtile.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr, SameElementsAttr

CASES = Cases()
DIV, SAME, BOUND = "'cuda_tile.div_by'", "'cuda_tile.same_elements'", "'cuda_tile.bounded'"
VIEW = view("f32", [64], [1])


def assume(predicate: Any, type_: Any) -> Fill:
    return lambda b: b.op("assume", {"value": b.constant(type_)}, [type_], attributes={"predicate": predicate})


def assume_view(predicate: Any) -> Fill:
    return lambda b: b.op(
        "assume",
        {"value": b.value("make_tensor_view", {"base": b.args[0]}, VIEW)},
        [VIEW],
        attributes={"predicate": predicate},
    )


I32, I32X4 = tile("i32"), tile("i32", 4)
WRONG = "is valid only for tile of integer/pointer or tensor_view values"
CASES.good("div_by", assume(DivByAttr(16), I32))
CASES.good("div_by-every", assume(DivByAttr(16, 2, 0), I32X4))
CASES.good("div_by-largest", assume(DivByAttr(1 << 62), I32))
CASES.good("div_by-view", assume_view(DivByAttr(16)), tile("ptr<f32>"))
CASES.good(
    "div_by-pointer",
    lambda b: b.op("assume", {"value": b.args[0]}, [b.args[0].type], attributes={"predicate": DivByAttr(16)}),
    tile("ptr<f32>"),
)
CASES.bad("div_by-3", f"assume: {DIV} divisor must be a power of 2", assume(DivByAttr(3), I32))
CASES.bad("div_by-0", f"assume: {DIV} divisor must be a power of 2", assume(DivByAttr(0), I32))
CASES.bad("div_by-large", f"assume: {DIV} divisor is too large", assume(DivByAttr(1 << 63), I32))
CASES.bad(
    "div_by-every-alone",
    f"assume: {DIV} 'every'/'along' must be used in combination",
    assume(DivByAttr(4, 2, None), I32X4),
    oracle="absent",
)
CASES.bad("div_by-float", f"assume: {DIV} {WRONG}", assume(DivByAttr(4), tile("f32")))
CASES.bad(
    "div_by-token",
    f"assume: {DIV} {WRONG}",
    lambda b: b.op("assume", {"value": b.token()}, [TOKEN], attributes={"predicate": DivByAttr(4)}),
)
CASES.bad(
    "div_by-scalar",
    f"assume: {DIV} 'every'/'along' cannot be used if the constrained value is a 0D tile",
    assume(DivByAttr(4, 2, 0), I32),
)
CASES.bad(
    "div_by-view-every",
    f"assume: {DIV} 'every'/'along' cannot be used if the constrained value is a tensor_view",
    assume_view(DivByAttr(4, 2, 0)),
    tile("ptr<f32>"),
)
for along in (-1, 1):
    CASES.bad(
        f"div_by-along-{along}",
        f"assume: {DIV} every_dim ({along}) must be >= 0 and < tile rank (1)",
        assume(DivByAttr(4, 2, along), I32X4),
    )
CASES.bad(
    "div_by-every-large",
    f"assume: expected {DIV} every_dim to be within 0 and the size of the respective dimension (4)",
    assume(DivByAttr(4, 8, 0), I32X4),
)

CASES.good("same_elements", assume(SameElementsAttr([2]), I32X4))
CASES.bad(
    "same_elements-float",
    f"assume: {SAME} is valid only for tile of integer/pointer values",
    assume(SameElementsAttr([2]), tile("f32", 4)),
)
CASES.bad(
    "same_elements-rank",
    f"assume: expected number of values in {SAME} (1) to match rank of constrained tile (0)",
    assume(SameElementsAttr([2]), I32),
)
CASES.bad(
    "same_elements-size",
    f"assume: expected {SAME} value 0 to be within 0 and the size of the respective dimension (4)",
    assume(SameElementsAttr([8]), I32X4),
)

CASES.good("bounded", assume(BoundedAttr(0, None), I32))
CASES.good("bounded-i1", assume(BoundedAttr(-1, 0), tile("i1")))
CASES.bad(
    "bounded-order",
    f"assume: {BOUND} expects lower bound to be less than or equal to upper bound",
    assume(BoundedAttr(5, 3), I32),
)
CASES.bad(
    "bounded-upper",
    f"assume: {BOUND} expects upper bound to be within [-128, 127]",
    assume(BoundedAttr(0, 128), tile("i8")),
)
CASES.bad(
    "bounded-lower",
    f"assume: {BOUND} expects lower bound to be within [-128, 127]",
    assume(BoundedAttr(-129, None), tile("i8")),
)
CASES.bad(
    "bounded-float", f"assume: {BOUND} is valid only for tile of integer values", assume(BoundedAttr(0, 1), tile("f32"))
)
