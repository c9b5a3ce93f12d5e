# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kinds of random kernels: each makes its tensors, and gives what writes the code for one tile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from generators.core import Comparison
from generators.tensor_operands import operand
from generators.tensor_results import results_of, store_to
from generators.tensor_writer import TILES, Kernel, Tile

Body = Callable[[Tile, Tile], None]
Make = Callable[[], Tile]


def gemm(k: Kernel) -> Body:
    """One product in a loop, its sums changed in the loop or not."""
    depth = k.ragged(k.turns, k.k)
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = operand(k, (depth, k.ragged(k.columns, k.n)), (k.k, k.n))
    results = results_of(k)
    between = k.random.choice(["", "", "", "", "negate", "condition", "row"])
    factors = k.tensor(k.sum, (k.turns, k.n), bounds=(-1, 1)) if between == "row" else None

    def body(row: Tile, column: Tile) -> None:
        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            total = carried[0]
            if between == "negate":
                total = k.binary("sub", k.constant(0, total.shape, total.element), total)
            if factors is not None:
                factor = k.load(k.view(factors, (1, k.n), "zero"), (iv, k.constant(0)), (1, k.n))
                total = k.binary("mul", total, k.spread(factor, total.shape))
            if between == "condition":
                return [_conditionally(k, iv, total, lambda: k.product(a.load(row, iv), b.load(iv, column), total))]
            return [k.product(a.load(row, iv), b.load(iv, column), total)]

        results.of(row, column, k.loop(k.turns, [k.sums()], turn)[0])

    return body


def _conditionally(k: Kernel, iv: Tile, otherwise: Tile, make: Make) -> Tile:
    limit = k.number(k.random.randint(0, k.turns))
    holds = k.let(f"cmpi less_than {iv}, {limit}, signed : tile<i32> -> tile<i1>", (), "i1")
    result = Tile(k.name(), otherwise.shape, otherwise.element)
    k.emit(f"{result} = if {holds} -> ({result.type}) {{")
    k.part.depth += 1
    made = make()
    k.emit(f"yield {made} : {made.type}")
    k.part.depth -= 1
    k.emit("} else {")
    k.emit(f"  yield {otherwise} : {otherwise.type}")
    k.emit("}")
    return result


def two_sums(k: Kernel) -> Body:
    """Two products in a loop: of one operand with two others, or of two pairs into one sum."""
    depth = k.ragged(k.turns, k.k)
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b, c = (operand(k, (depth, k.ragged(k.columns, k.n)), (k.k, k.n)) for _ in range(2))
    d = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k)) if k.chance(0.4) else a
    one = k.chance(0.4)
    results = results_of(k)

    def body(row: Tile, column: Tile) -> None:
        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            left = a.load(row, iv)
            first = k.product(left, b.load(iv, column), carried[0])
            right = left if d is a else d.load(row, iv)
            second = k.product(right, c.load(iv, column), first if one else carried[1])
            return [second] if one else [first, second]

        totals = k.loop(k.turns, [k.sums()] if one else [k.sums(), k.sums()], turn)
        total = totals[0] if one else k.binary("add", totals[0], totals[1])
        results.of(row, column, total)

    return body


def chain(k: Kernel) -> Body:
    """A product of a product: the first from a tile that stays, its results the operand of the second."""
    inner = k.random.choice([16, 32, 64, 64, 128])
    while k.m * inner > TILES or inner * max(k.k, k.n) > TILES:
        inner //= 2
    a = operand(k, (k.ragged(k.rows, k.m), k.ragged(1, k.k)), (k.m, k.k))
    b = operand(k, (k.ragged(1, k.k), k.ragged(k.turns, inner)), (k.k, inner))
    c = operand(k, (k.ragged(k.turns, inner), k.ragged(k.columns, k.n)), (inner, k.n))
    results = results_of(k)
    maxima = k.chance(0.5)
    between = k.random.choice(["clamp", "clamp", "mask", "relu"])
    outside = k.chance(0.8)

    def scores(iv: Tile, left: Tile) -> Tile:
        zero = k.constant(0, (k.m, inner), k.sum)
        made = k.product(left, b.load(k.constant(0), iv), zero)
        if between == "mask":
            made = _masked(k, iv, made)
        if between == "relu":
            made = k.binary("max", made, zero)
        return k.clamped(made)

    def body(row: Tile, column: Tile) -> None:
        kept = a.load(row, k.constant(0)) if outside else None

        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            left = kept if kept is not None else a.load(row, k.constant(0))
            p = scores(iv, left)
            total = carried[0]
            sums = []
            if maxima:
                made = k.row_sums(p)
                column_ = Tile("", (k.m, 1), p.element)
                tall = k.let(f"reshape {made} : {made.type} -> {column_.type}", (k.m, 1), p.element)
                sums.append(k.binary("max", carried[1], tall))
            return [k.product(k.cast(p, k.element), c.load(iv, column), total), *sums]

        start = [k.sums()]
        if maxima:
            start.append(k.constant(0, (k.m, 1), k.sum))
        totals = k.loop(k.turns, start, turn)
        total = totals[0]
        if maxima:
            total = k.binary("add", total, k.spread(totals[1], total.shape))
        results.of(row, column, total)

    return body


def _masked(k: Kernel, iv: Tile, tile: Tile) -> Tile:
    """The tile with zeros above a diagonal that moves with the loop."""
    rows, columns = tile.shape
    across = k.let(f"iota : tile<{columns}xi32>", (columns,))
    down = k.let(f"iota : tile<{rows}xi32>", (rows,))
    wide = k.let(f"reshape {across} : {across.type} -> tile<1x{columns}xi32>", (1, columns))
    tall = k.let(f"reshape {down} : {down.type} -> tile<{rows}x1xi32>", (rows, 1))
    first = k.let(f"muli {iv}, {k.constant(columns)} : tile<i32>")
    place = k.binary("add", k.spread(wide, tile.shape), k.spread(first, tile.shape))
    below = k.let(f"cmpi less_than_or_equal {place}, {k.spread(tall, tile.shape)}, signed : {place.type} -> "
                  f"tile<{rows}x{columns}xi1>", tile.shape, "i1")  # fmt: skip
    zero = k.constant(0, tile.shape, tile.element)
    return k.let(f"select {below}, {tile}, {zero} : {below.type}, {tile.type}", tile.shape, tile.element)


def straight(k: Kernel) -> Body:
    """Products in no loop, one after the other."""
    count = k.random.choice([1, 2, 3])
    a = operand(k, (k.ragged(k.rows, k.m), k.ragged(count, k.k)), (k.m, k.k))
    b = operand(k, (k.ragged(count, k.k), k.ragged(k.columns, k.n)), (k.k, k.n))
    results = results_of(k)

    def body(row: Tile, column: Tile) -> None:
        total = k.sums()
        for i in range(count):
            at = k.constant(i)
            total = k.product(a.load(row, at), b.load(at, column), total)
        results.of(row, column, total)

    return body


def reread(k: Kernel) -> Body:
    """A product whose result is stored, read again behind its token, and multiplied once more."""
    k.n = min(k.n, 128)
    depth = k.ragged(k.turns, k.k)
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = operand(k, (depth, k.ragged(k.columns, k.n)), (k.k, k.n))
    space = k.tensor(k.element, (k.rows * k.m, k.columns * k.n), written=True)
    c = operand(k, (k.n, k.n), (k.n, k.n))
    results = results_of(k)

    def body(row: Tile, column: Tile) -> None:
        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            return [k.product(a.load(row, iv), b.load(iv, column), carried[0])]

        total = k.clamped(k.loop(k.turns, [k.sums()], turn)[0])
        shape = (k.m, k.n)
        token = k.store(k.cast(total, k.element), k.view(space, shape), (row, column))
        again = k.load(k.view(space, shape, "zero"), (row, column), shape, token)
        zero = k.constant(0)
        results.of(row, column, k.product(again, c.load(zero, zero), k.sums()))

    return body


def parts_of_sums(k: Kernel) -> Body:
    """A product of which each block has a part of the depth, added to the result in memory."""
    k.persistent = False
    parts = k.random.choice([2, 3])
    k.blocks = k.rows * k.columns * parts
    k.columns *= parts  # places in the grid; `column` below is of both
    depth = k.turns * k.k * parts
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = operand(k, (depth, k.n * (k.columns // parts)), (k.k, k.n))
    element = k.sum
    result = k.tensor(element, (k.rows * k.m, k.n * (k.columns // parts)), written=True)
    columns, turns = k.columns // parts, k.turns
    mode = "add" if element == "i32" else "addf"

    def body(row: Tile, place: Tile) -> None:
        column = k.let(f"remi {place}, {k.constant(columns)} signed : tile<i32>")
        part = k.let(f"divi {place}, {k.constant(columns)} signed rounding<zero> : tile<i32>")
        first = k.binary("mul", part, k.number(turns))

        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            at = k.binary("add", iv, first)
            return [k.product(a.load(row, at), b.load(at, column), carried[0])]

        total = k.loop(turns, [k.sums()], turn)[0]
        view = k.view(result, (k.m, k.n))
        k.emit(f"{k.name()} = atomic_red_view_tko relaxed device {view.name}[{row}, {column}], {mode}, {total} : "
               f"{total.type}, {view.type}, tile<i32> -> token")  # fmt: skip

    return body


def gates(k: Kernel) -> Body:
    """One operand with two or three others, whose results are multiplied, added, or stored apart."""
    _by_tensor_cores(k)
    count = k.random.choice([2, 2, 3])
    depth = k.ragged(k.turns, k.k)
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    others = [operand(k, (depth, k.ragged(k.columns, k.n)), (k.k, k.n)) for _ in range(count)]
    apart = k.chance(0.4)
    results = [results_of(k) for _ in range(count if apart else 1)]
    joins = [k.random.choice(["add", "sub", "max"]) for _ in others[1:]]

    def body(row: Tile, column: Tile) -> None:
        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            left = a.load(row, iv)
            return [k.product(left, b.load(iv, column), c) for b, c in zip(others, carried)]

        totals = k.loop(k.turns, [k.sums() for _ in others], turn)
        if apart:
            for result, total in zip(results, totals):
                result.of(row, column, total)
            return
        total = totals[0]
        for how, other in zip(joins, totals[1:]):
            total = k.binary(how, total, other)
        results[0].of(row, column, total)

    return body


def _by_tensor_cores(k: Kernel) -> None:
    """Types and tiles that asynchronous products have, and most often operands that TMA copies."""
    k.plain = k.chance(0.8)
    k.element, k.sum = k.random.choice([("f16", "f32"), ("bf16", "f32"), ("f16", "f32"), ("f8E4M3FN", "f32")])
    k.bounds = (-2, 2)
    k.m, k.n = k.random.choice([64, 128, 128, 256]), k.random.choice([16, 32, 64, 128])
    k.k = k.random.choice([32, 64, 128])


def loops(k: Kernel) -> Body:
    """Products in loops one after the other: into one sum, or the first one's results are operands of the second."""
    _by_tensor_cores(k)
    feeds = k.chance(0.5)
    depth, more = k.ragged(k.turns, k.k), k.random.choice([1, 2, 3])
    inner = k.random.choice([32, 64]) if feeds else k.n
    a = operand(k, (k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = operand(k, (depth, inner if feeds else k.ragged(k.columns, k.n)), (k.k, inner))
    other = k.random.choice([k.k, k.k, 32])
    c = operand(k, (k.ragged(k.rows, k.m), k.ragged(more, other)), (k.m, other))
    d = operand(k, (k.ragged(more, other), k.ragged(k.columns, k.n)), (other, k.n))
    e = operand(k, (inner, k.ragged(k.columns, k.n)), (inner, k.n)) if feeds else None
    results = results_of(k)

    def body(row: Tile, column: Tile) -> None:
        zero = k.constant(0)

        def first(iv: Tile, carried: list[Tile]) -> list[Tile]:
            return [k.product(a.load(row, iv), b.load(iv, zero if feeds else column), carried[0])]

        def second(iv: Tile, carried: list[Tile]) -> list[Tile]:
            return [k.product(c.load(row, iv), d.load(iv, column), carried[0])]

        (total,) = k.loop(k.turns, [k.constant(0, (k.m, inner), k.sum)], first)
        if e is None:
            results.of(row, column, k.loop(more, [total], second)[0])
            return
        (sums,) = k.loop(more, [k.sums()], second)
        results.of(row, column, k.product(k.cast(k.clamped(total), k.element), e.load(zero, column), sums))

    return body


def layers(k: Kernel) -> Body:
    """Products in no loop, each of what the one before gave, with other things between."""
    _by_tensor_cores(k)
    widths = [k.random.choice([16, 32, 64]) for _ in range(k.random.choice([1, 2]))] + [k.n]
    a = operand(k, (k.ragged(k.rows, k.m), k.k), (k.m, k.k))
    depths = [k.k, *(max(n, 32) if k.element == "f8E4M3FN" else n for n in widths)]
    weights = [
        operand(k, (n, m if m is not depths[-1] else k.ragged(k.columns, m)), (n, m)) for n, m in pairwise(depths)
    ]
    k.n = depths[-1]
    between = [k.random.choice(["relu", "relu", "negate", "row"]) for _ in weights[1:]]
    results = results_of(k)

    def body(row: Tile, column: Tile) -> None:
        zero = k.constant(0)
        left = a.load(row, zero)
        total = left
        for number, weight in enumerate(weights):
            last = number == len(weights) - 1
            shape = (k.m, depths[number + 1])
            none = k.constant(0, shape, k.sum)
            total = k.product(left, weight.load(zero, column if last else zero), none)
            if last:
                break
            if between[number] == "row":
                total = k.binary("sub", total, k.spread(k.row_maxima(k.clamped(total)), shape))
            elif between[number] == "negate":
                total = k.binary("sub", none, total)
            else:
                total = k.binary("max", total, none)
            left = k.cast(k.clamped(total), k.element)
        results.of(row, column, total)

    return body


def softmax(k: Kernel) -> Body:
    """Attention: the maxima and sums of rows go along with the second product."""
    k.element, k.sum, k.bounds = k.random.choice(["f16", "bf16", "f16"]), "f32", (0, 2)
    k.m, k.n, k.k = k.random.choice([64, 128, 128]), k.random.choice([32, 64, 128]), k.random.choice([32, 64, 128])
    k.columns = 1
    k.persistent = False
    k.blocks = k.rows
    inner = k.random.choice([32, 64, 64, 128])
    causal, whole = k.chance(0.5), k.chance(0.5)
    length = k.turns * inner if whole or causal else k.ragged(k.turns, inner)
    a = operand(k, (k.rows * k.m, k.k), (k.m, k.k))
    b = operand(k, (k.k, length), (k.k, inner))
    c = operand(k, (length, k.n), (inner, k.n))
    final = k.random.choice(["f32", k.element])
    store = store_to(k, final, (k.ragged(k.rows, k.m), k.n), (k.m, k.n))
    k.parameters[-1].comparison = Comparison(relative=2e-2)
    for p in k.parameters:
        if p.written:
            p.comparison = Comparison(relative=2e-2)
    late = k.chance(0.5)

    def body(row: Tile, column: Tile) -> None:
        zero = k.constant(0)
        q = a.load(row, zero)
        scale = k.constant(0.125, (k.m, inner), "f32")

        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            top, total, weight = carried
            s = k.product(q, b.load(zero, iv), k.constant(0, (k.m, inner), "f32"))
            if not late:
                s = k.binary("mul", s, scale)
            if causal:
                s = _causal(k, iv, row, s)
            highest = k.row_maxima(s)
            above = k.binary("max", top, highest)
            if late:
                s = k.binary("mul", s, scale)
                lifted = k.binary("mul", above, k.constant(0.125, (k.m, 1), "f32"))
                before = k.binary("mul", top, k.constant(0.125, (k.m, 1), "f32"))
            else:
                lifted, before = above, top
            less = k.binary("sub", s, k.spread(lifted, s.shape))
            p = k.let(f"exp2 {less} : {less.type}", s.shape, "f32")
            change = k.binary("sub", before, lifted)
            factor = k.let(f"exp2 {change} : {change.type}", (k.m, 1), "f32")
            sums = k.row_sums(p)
            tall = k.let(f"reshape {sums} : {sums.type} -> tile<{k.m}x1xf32>", (k.m, 1), "f32")
            weight = k.binary("add", k.binary("mul", weight, factor), tall)
            total = k.binary("mul", total, k.spread(factor, total.shape))
            return [above, k.product(k.cast(p, k.element), c.load(iv, zero), total), weight]

        low = k.constant(-1e30, (k.m, 1), "f32")
        start = [low, k.constant(0, (k.m, k.n), "f32"), k.constant(0, (k.m, 1), "f32")]
        _, total, weight = k.loop(k.turns, start, turn)
        store(row, zero, k.binary("div", total, k.spread(weight, total.shape)))

    return body


def _causal(k: Kernel, iv: Tile, row: Tile, tile: Tile) -> Tile:
    """Scores that are very low where a column lies behind its row; the first column of each is left."""
    rows, columns = tile.shape
    down, across = (k.let(f"iota : tile<{n}xi32>", (n,)) for n in tile.shape)
    tall = k.let(f"reshape {down} : {down.type} -> tile<{rows}x1xi32>", (rows, 1))
    wide = k.let(f"reshape {across} : {across.type} -> tile<1x{columns}xi32>", (1, columns))
    tall = k.binary("add", tall, k.spread(k.binary("mul", row, k.constant(rows)), (rows, 1)))
    wide = k.binary("add", wide, k.spread(k.binary("mul", iv, k.constant(columns)), (1, columns)))
    a, b = k.spread(tall, tile.shape), k.spread(wide, tile.shape)
    seen = k.let(
        f"cmpi greater_than_or_equal {a}, {b}, signed : {a.type} -> tile<{rows}x{columns}xi1>", tile.shape, "i1"
    )
    low = k.constant(-1e30, tile.shape, tile.element)
    return k.let(f"select {seen}, {tile}, {low} : {seen.type}, {tile.type}", tile.shape, tile.element)


def batched(k: Kernel) -> Body:
    """Products of several matrices at once, in a loop."""
    count = k.random.choice([1, 2, 2, 4])
    while count * k.m * k.n > TILES or count * max(k.m, k.n) * k.k > TILES:
        k.m, k.n, k.k = max(k.m // 2, 16), max(k.n // 2, 8), max(k.k // 2, 16)
    shapes = (count, k.m, k.k), (count, k.k, k.n), (count, k.m, k.n)
    depth = k.ragged(k.turns, k.k)
    batch = k.random.choice([count, count, count + 1])
    a = k.tensor(k.element, (batch, k.ragged(k.rows, k.m), depth))
    turned = k.chance(0.4)
    sizes = (depth, k.ragged(k.columns, k.n))
    b = k.tensor(k.element, (batch, *(sizes[::-1] if turned else sizes)))
    result = k.tensor(k.sum, (batch, k.rows * k.m, k.columns * k.n), written=True)

    def body(row: Tile, column: Tile) -> None:
        zero = k.constant(0)

        def turn(iv: Tile, carried: list[Tile]) -> list[Tile]:
            left = k.load(k.view(a, shapes[0], "zero"), (zero, row, iv), shapes[0])
            right = k.load(k.view(b, shapes[1], "zero", (0, 2, 1) if turned else None), (zero, iv, column), shapes[1])
            return [k.product(left, right, carried[0])]

        start = k.constant(0, shapes[2], k.sum)
        k.store(k.loop(k.turns, [start], turn)[0], k.view(result, shapes[2]), (zero, row, column))

    return body


KINDS = {gemm: 6, chain: 3, straight: 1, reread: 1, two_sums: 2, parts_of_sums: 1, softmax: 2, batched: 1}
KINDS |= {gates: 2, loops: 2, layers: 2}
"""The kinds, by how often they are taken."""
