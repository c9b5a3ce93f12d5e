# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from dialects.building import Body, tile
from dialects.verify_cases.case import Cases, Fill

CASES = Cases()
I32 = tile("i32")


def f(*shape: int) -> Any:
    return tile("f32", *shape)


def unary(name: str, source: Any, result: Any, **attributes: Any) -> Fill:
    return lambda b: b.op(name, {"source": b.constant(source)}, [result], attributes=attributes)


CASES.good("broadcast", unary("broadcast", f(1, 4), f(8, 4)))
CASES.bad(
    "broadcast-shrink",
    "broadcast: expects the shape of source tile to be compatible with that of the result tile, but got: 4, 4 and 2, 4",
    unary("broadcast", f(4, 4), f(2, 4)),
)
CASES.bad(
    "broadcast-rank",
    "broadcast: failed to verify that all of {source, result} have same rank",
    unary("broadcast", f(4), f(2, 4)),
)
CASES.bad(
    "broadcast-element",
    "broadcast: requires the same element type for all operands and results",
    unary("broadcast", f(1), tile("f64", 4)),
)
CASES.good("reshape", unary("reshape", f(2, 4), f(8)))
CASES.good("reshape-scalar", unary("reshape", f(), f(1, 1)))
CASES.bad(
    "reshape-count",
    "reshape: expected source tile and result tile to have the same number of elements",
    unary("reshape", f(2, 4), f(4)),
)

CASES.good("permute", unary("permute", f(2, 4, 8), f(8, 2, 4), permutation=[2, 0, 1]))
CASES.bad("permute-rank", "permute: expects at least rank 2, but got: 1", unary("permute", f(2), f(2), permutation=[0]))
CASES.bad(
    "permute-size",
    "permute: expect permutation size (3) to equal the rank of the source (2)",
    unary("permute", f(2, 4), f(2, 4), permutation=[0, 1, 2]),
)
CASES.bad(
    "permute-twice",
    "permute: expect permutation elements to be unique",
    unary("permute", f(2, 4), f(2, 4), permutation=[0, 0]),
)
for value in (-1, 100):
    CASES.bad(
        f"permute-{value}",
        f"permute: permutation element at index 1 ({value}) is out of bound [0, 2)",
        unary("permute", f(2, 4), f(2, 4), permutation=[0, value]),
    )
CASES.bad(
    "permute-result",
    "permute: result shape invalid at index 0, expected: 4, but got: 2",
    unary("permute", f(2, 4), f(2, 4), permutation=[1, 0]),
)


def cat(lhs: Any, rhs: Any, result: Any, dim: int) -> Fill:
    return lambda b: b.op("cat", {"lhs": b.constant(lhs), "rhs": b.constant(rhs)}, [result], attributes={"dim": dim})


CASES.good("cat", cat(f(2, 2), f(2, 2), f(2, 4), 1))
for dim in (-1, 2):
    CASES.bad(f"cat-dim-{dim}", f"cat: expect dim to be [0, 2), but got: {dim}", cat(f(2, 2), f(2, 2), f(2, 4), dim))
CASES.bad("cat-size", "cat: invalid concat at position 1, expected: 4 but got: 16", cat(f(2, 2), f(2, 2), f(2, 16), 1))
CASES.bad(
    "cat-rhs",
    "cat: expect lhs and rhs shapes to match at non-concat position 0, expected: 2 but got: 4",
    cat(f(2, 2), f(4, 2), f(2, 4), 1),
)
CASES.bad(
    "cat-result",
    "cat: expect lhs and result shapes to match at non-concat position 0, expected: 2 but got: 4",
    cat(f(2, 2), f(2, 2), f(4, 4), 1),
)
CASES.bad(
    "cat-element",
    "cat: failed to verify that all of {lhs, rhs, result} have the same element type",
    cat(f(2, 2), tile("f64", 2, 2), f(2, 4), 1),
)
CASES.bad(
    "cat-rank",
    "cat: failed to verify that all of {lhs, rhs, result} have same rank",
    cat(f(2, 2), f(2, 2), f(2, 4, 1), 1),
)

CASES.good("iota", lambda b: b.op("iota", None, [tile("i8", 256)]))
CASES.bad("iota-2d", "iota: expects result type to be 1-d tile", lambda b: b.op("iota", None, [tile("i8", 2, 2)]))
CASES.bad(
    "iota-range",
    "iota: the number of elements 512 exceeds the maximum value of element type 'i8'",
    lambda b: b.op("iota", None, [tile("i8", 512)]),
)


def select(type_: Any, condition: Any) -> Fill:
    def fill(b: Body) -> None:
        value = b.constant(type_)
        operands = {"cond": b.constant(condition), "val_if_true": value, "val_if_false": value}
        b.op("select", operands, [type_])

    return fill


CASES.good("select", select(f(4), tile("i1", 4)))
CASES.bad(
    "select-shape",
    "select: failed to verify that all of {cond, val_if_true, val_if_false, result} have same shape",
    select(f(4), tile("i1")),
)
CASES.bad("select-f4", "select: cannot operate on sub-byte type F4E2M1FN", select(tile("f4E2M1FN", 4), tile("i1", 4)))

CASES.good("pack", unary("pack", f(4), tile("i8", 16)))
CASES.good("unpack-f4", unary("unpack", tile("i8", 8), tile("f4E2M1FN", 16)))
CASES.good("pack-i1", unary("pack", tile("i1", 16), tile("i8", 2)))
CASES.bad("pack-2d", "pack: expects source and result to be rank-1 tiles", unary("pack", f(2, 2), tile("i8", 4, 4)))
CASES.bad(
    "pack-width",
    "pack: expects source and result to have different element type widths",
    unary("pack", tile("f8E5M2", 4), tile("i8", 4)),
)
CASES.bad("pack-align", "pack: expects source tile to be byte-aligned", unary("pack", tile("i1", 4), tile("i8", 1)))
CASES.bad(
    "pack-size",
    "pack: expects source and result to have the same size in bytes, but got source tile size 16 bytes "
    "and result tile size 8 bytes",
    unary("pack", f(4), tile("i8", 8)),
)
CASES.good("unpack-tf32", unary("unpack", tile("i8", 16), tile("tf32", 4)))

# -- slices ---------------------------------------------------------------------------------------------------------


def extract(source: Any, result: Any, *indices: int, index_type: Any = I32) -> Fill:
    return lambda b: b.op(
        "extract", {"source": b.constant(source), "indices": [b.constant(index_type, i) for i in indices]}, [result]
    )


def insert(source: Any, destination: Any, *indices: int) -> Fill:
    def fill(b: Body) -> None:
        operands = {"source": b.constant(source), "destination": b.constant(destination)}
        b.op("insert", operands | {"indices": [b.constant(I32, i) for i in indices]}, [destination])

    return fill


CASES.good("extract", extract(f(4, 8), f(2, 8), 1, 0))
CASES.bad("extract-element", "extract: source and result element type do not match", extract(f(8), tile("i32", 2), 0))
CASES.bad(
    "extract-rank",
    "extract: failed to verify that all of {source, result} have same rank",
    extract(f(8), f(2, 1), 0),
)
CASES.bad(
    "extract-divide",
    "extract: source dimension 1 size (4) must be evenly divisible by result dimension 1 size (8)",
    extract(f(8, 4), f(4, 8), 0, 0),
)
CASES.bad("extract-indices", "extract: expected 1 indices, but got 2", extract(f(8), f(2), 0, 0))
CASES.bad(
    "extract-i64",
    "extract: operand #1 must be variadic of 0D tile of i32 values, but got '!cuda_tile.tile<i64>'",
    extract(f(8), f(2), 0, index_type=tile("i64")),
)
CASES.good("insert", insert(f(2), f(8), 3))
CASES.bad("insert-element", "insert: source and result element type do not match", insert(tile("i32", 2), f(8), 0))
CASES.bad("insert-rank", "insert: source and result must have the same rank", insert(f(), f(8), 0))
CASES.bad(
    "insert-divide",
    "insert: result dimension 0 size (4) must be evenly divisible by source dimension 0 size (8)",
    insert(f(8), f(4), 0),
)
CASES.bad("insert-indices", "insert: expected 1 indices, but got 2", insert(f(2), f(8), 0, 0))
