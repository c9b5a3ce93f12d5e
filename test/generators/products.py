# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements that multiply matrices: tiles at hand, and loops over the tiles of tensors in memory.

Elements are small whole numbers, or halves and quarters of them, so that sums are exact in any order.
"""

from __future__ import annotations

from generators.core import INDEX, INPUT_SIZE, Generator, Scope, statement
from generators.memory import input_array
from generators.shapes import positive_zeros
from generators.values import Type, Value, exact_integers
from generators.views import strides_for, tensor, tile_view

_FLOAT_PRODUCTS = {"f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"), "f16": ("f16", "f32"), "bf16": ("f32",),
                   "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",)}  # fmt: skip


def _dims(g: Generator, most: int) -> tuple[int, int, int]:
    m, n, k = (1 << g.random.choice([0, 1, 2, 3, 3, 4, 4, 5, 6]) for _ in range(3))
    while max(m * n, m * k, n * k) > most:
        m, n, k = (max(d // 2, 1) for d in (m, n, k))
    return m, n, k


def _types(g: Generator) -> tuple[str, str]:
    """The element types of operands and of the accumulator."""
    elements = [e for e in ("i8", *_FLOAT_PRODUCTS) if e in g.profile.elements]
    element = g.random.choice(elements)
    return element, "i32" if element == "i8" else g.random.choice(_FLOAT_PRODUCTS[element])


def _multiply(g: Generator, s: Scope, a: Value, b: Value, acc: Value) -> Value:
    types = f"{a.type}, {b.type}, {acc.type}"
    if a.type.element == "i8":
        signs = f"{g.random.choice(['signed', 'unsigned'])} {g.random.choice(['signed', 'unsigned'])}"
        return g.let(s, f"mmai {a}, {b}, {acc} {signs} : {types}", acc.type)
    fast = " fast_acc" if a.type.element.startswith("f8") and g.chance(0.2) else ""
    depth = a.type.shape[-1]
    bounds = None
    if acc.bounds:
        largest = max(map(abs, a.bounds or (4, 4))) * max(map(abs, b.bounds or (4, 4))) * depth
        bounds = acc.bounds[0] - largest, acc.bounds[1] + largest
    value = g.let(s, f"mmaf {a}, {b}, {acc}{fast} : {types}", acc.type, bounds)
    return value


@statement("products", 5)
def product(g: Generator, s: Scope) -> None:
    """One product, batched or not."""
    element, result = _types(g)
    m, n, k = _dims(g, 1 << g.profile.max_exponent)
    batch = (g.random.choice([1, 2, 4]),) if g.chance(0.25) and m * n * k <= 4096 else ()
    shapes = [(*batch, m, k), (*batch, k, n), (*batch, m, n)]
    if element == "i8":
        a, b = (g.get(s, Type("i8", shape)) for shape in shapes[:2])
        acc = g.get(s, Type(result, shapes[2]))
    else:
        # Each product at most 4, so that 2048 / 4 of them are exact in f16.
        a, b = (g.small(s, Type(element, shape), g.random.choice([0, -2]), 2) for shape in shapes[:2])
        acc = positive_zeros(g, s, g.small(s, Type(result, shapes[2]), -8, 8))
    _multiply(g, s, a, b, acc)


@statement("products", 2)
def product_loop(g: Generator, s: Scope) -> None:
    """A loop over the tiles of two tensors in memory, which adds up their products."""
    if s.nest > 1:
        return
    element, result = _types(g)
    m, n, k = _dims(g, 256)
    count = g.random.choice([1, 2, 3, 4, 5])
    rows, columns, depth = m * g.random.choice([1, 2]), n, k * count - g.random.randint(0, k - 1)
    if element == "i8":
        bounds = None
    else:
        bounds = (-1, 1) if exact_integers(result) <= 2048 else (-2, 2)
    views = []
    for tile_shape, sizes in (((m, k), (rows, depth)), ((k, n), (depth, columns))):
        base, _ = input_array(g, element, bounds)
        strides = strides_for(g, sizes, INPUT_SIZE)
        if strides is None:
            return
        view = tensor(g, s, base, element, sizes, strides)
        views.append(tile_view(g, s, view, Type(element, tile_shape), "partition", "zero", (0, 1)))
    type_ = Type(result, (m, n))
    acc = g.get(s, type_) if element == "i8" else positive_zeros(g, s, g.small(s, type_, -4, 4))
    zero, one, limit = (g.constant(s, number, INDEX) for number in (0, 1, count))
    if g.chance(0.4):
        from generators.views import hidden_zero

        limit = g.let(s, f"addi {limit}, {hidden_zero(g, s, INDEX)} : {INDEX}", INDEX, keep=False)
    row = g.small(s, INDEX, 0, rows // m - 1)
    total, carried, step = Value(g.name(), type_), Value(g.name(), type_), Value(g.name(), INDEX)
    g.emit(s, f"{total} = for {step} in ({zero} to {limit}, step {one}) : {INDEX} "
              f"iter_values({carried} = {acc}) -> ({type_}) {{")  # fmt: skip
    inner = s.inner()
    tiles = []
    for view, index in ((views[0], (row, step)), (views[1], (step, zero))):
        value = Value(g.name(), view.tile, bounds)
        names = ", ".join(map(str, index))
        text = f"load_view_tko weak {view.value}[{names}] : {view.type}, {INDEX} -> {view.tile}, token"
        g.emit(inner, f"{value}, {g.name()} = {text}")
        tiles.append(value)
    made = _multiply(g, inner, tiles[0], tiles[1], carried)
    g.emit(inner, f"continue {made} : {type_}")
    s.lines += inner.lines
    g.emit(s, "}")
    s.values.append(total)


@statement("products", 1)
def scaled_product(g: Generator, s: Scope) -> None:
    """A product of block-scaled operands, the scales being powers of two close to one."""
    element = g.random.choice(["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
    if element not in g.profile.elements or "f8E8M0FNU" not in g.profile.elements:
        return
    scale, block = "f8E8M0FNU", 32
    if element == "f4E2M1FN":
        scale, block = g.random.choice([("f8E8M0FNU", 32), ("f8E8M0FNU", 16), ("f8E4M3FN", 16)])
    m, n = (1 << g.random.randint(1, 5) for _ in range(2))
    k = block * g.random.choice([1, 2])
    if element == "f4E2M1FN":
        a, b = (g.get(s, Type(element, shape)) for shape in ((m, k), (k, n)))
    else:
        a, b = (g.small(s, Type(element, shape), -2, 2) for shape in ((m, k), (k, n)))
    scales = []
    for shape in ((m, k // block), (k // block, n)):
        bounds = (1, 2) if scale == "f8E8M0FNU" else (0, 4)
        scales.append(g.small(s, Type(scale, shape), *bounds))
    acc = positive_zeros(g, s, g.small(s, Type("f32", (m, n)), -4, 4))
    types = ", ".join(str(v.type) for v in (a, b, acc, *scales))
    g.let(s, f"mmaf_scaled {a}, {b}, {acc}, {scales[0]}, {scales[1]} : {types}", acc.type)
