# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements that access memory through views of all kinds: tensors that tiles do not divide, and padding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from generators.core import INDEX, INPUT_SIZE, REGION, Comparison, Generator, Scope, statement
from generators.memory import LOADS, STORES, after, assumed_aligned, input_array, region
from generators.values import FLOATS, WIDE_INTEGERS, Bounds, Type, Value


@dataclass(frozen=True)
class TensorView:
    """A view of an array: sizes and strides of its dimensions, and its name and type in the program."""

    value: str
    type: str
    sizes: tuple[int, ...]
    element: str


@dataclass(frozen=True)
class TileView:
    """A view in tiles: what tile dimension runs along what tensor dimension, and how far apart tiles begin."""

    value: str
    type: str
    tensor: TensorView
    tile: Type
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    sparse: int | None
    padding: str

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-self.tensor.sizes[d] // step) for d, step in zip(self.dims, self.steps))


def strides_for(g: Generator, sizes: tuple[int, ...], room: int, unit: int | None = None) -> tuple[int, ...] | None:
    """Strides of a tensor whose elements do not overlap, its dimensions in some order: None when it has no room."""
    order = list(range(len(sizes)))
    if g.chance(0.4):
        g.random.shuffle(order)
    if unit is not None:
        order.remove(unit)
        order.append(unit)
    strides, step = [0] * len(sizes), 1
    for i in reversed(order):
        strides[i] = step
        step *= sizes[i]
        if g.chance(0.2) and step + 8 < room:
            step += g.random.choice([1, 3, 8])
    last = sum((n - 1) * k for n, k in zip(sizes, strides))
    return tuple(strides) if last < room else None


def tensor(g: Generator, s: Scope, base: Value, element: str, sizes: tuple[int, ...], strides: tuple[int, ...],
           static_unit: bool = False) -> TensorView:  # fmt: skip
    """A tensor view; some sizes and strides are known when the program runs only."""
    dynamic_type = Type(g.random.choice(["i32", "i32", "i64", "i16"]))

    def some(numbers: tuple[int, ...], keep_units: bool) -> tuple[list[str], list[str]]:
        types, operands = [], []
        for number in numbers:
            if g.chance(0.35) and not (keep_units and number == 1):
                value = g.constant(s, number, dynamic_type)
                if g.has("promises") and g.chance(0.4) and number % 4 == 0:
                    text = f"assume div_by<{number & -number}>, {value} : {dynamic_type}"
                    value = g.let(s, text, dynamic_type, keep=False)
                if g.chance(0.3):
                    # A number that the compiler cannot know.
                    zero = g.small(s, dynamic_type, 0, 0) if not g.parameters else hidden_zero(g, s, dynamic_type)
                    value = g.let(s, f"addi {value}, {zero} : {dynamic_type}", dynamic_type, keep=False)
                operands.append(str(value))
                types.append("?")
            else:
                operands.append(str(number))
                types.append(str(number))
        return operands, types

    if g.chance(0.4):
        base = assumed_aligned(g, s, base)
    shape, shape_types = some(sizes, False)
    steps, step_types = some(strides, static_unit)
    listed = "x".join([*shape_types, element])
    type_ = f"tensor_view<{listed}" + (f", strides=[{','.join(step_types)}]>" if sizes else ">")
    dynamic = f"{dynamic_type} -> " if any(t == "?" for t in (*shape_types, *step_types)) else ""
    name = g.name()
    text = f"make_tensor_view {base}, shape = [{', '.join(shape)}], strides = [{', '.join(steps)}] : {dynamic}{type_}"
    g.emit(s, f"{name} = {text}")
    return TensorView(name, type_, sizes, element)


def hidden_zero(g: Generator, s: Scope, type_: Type) -> Value:
    """Zero, by an argument: the compiler has to take it for any number."""
    return g.parameter(f"zero_{type_.element}", type_.element, 0, (0, 0))


def tile_view(
    g: Generator, s: Scope, view: TensorView, tile: Type, kind: str, padding: str, dims: tuple[int, ...],
    steps: tuple[int, ...] | None = None, sparse: int | None = None,
) -> TileView:  # fmt: skip
    shape = "x".join(map(str, tile.shape))
    members = [f"tile=({shape})"]
    if kind == "strided":
        members.append(f"traversal_strides=[{','.join(map(str, steps or ()))}]")
    if padding:
        members.append(f"padding_value = {padding}")
    members.append(view.type)
    if kind == "gather_scatter":
        members.append(f"sparse_dim={sparse}")
    elif dims != tuple(range(len(dims))):
        members.append(f"dim_map={list(dims)}")
    type_ = f"{kind}_view<{', '.join(members)}>"
    name = g.name()
    g.emit(s, f"{name} = make_{kind}_view {view.value} : {type_}")
    default = (1,) * len(tile.shape) if kind == "gather_scatter" else tile.shape
    return TileView(name, type_, view, tile, dims, steps or default, sparse, padding)


def _index(g: Generator, s: Scope, view: TileView, sparse_limit: int | None = None,
           first: Value | None = None) -> tuple[str, str, list[bool]]:  # fmt: skip
    """Indices into a view, their types, and where they are known to stay inside."""
    type_ = Type(g.random.choice(["i32", "i32", "i64", "i16"]))
    names, types, inside = [], [], []
    for t, (count, step, size) in enumerate(zip(view.counts, view.steps, view.tile.shape)):
        extent = view.tensor.sizes[view.dims[t]]
        if t == view.sparse:
            rows = g.small(s, Type("i32", (size,)), 0, sparse_limit or extent - 1)
            names.append(str(rows))
            types.append(str(rows.type))
            inside.append(bool(rows.bounds and rows.bounds[1] < extent))
            continue
        index = first if t == 0 and first is not None else g.small(s, type_, 0, count - 1)
        index = g.to_width(s, index, type_.element)
        names.append(str(index))
        inside.append(bool(index.bounds and index.bounds[1] * step + size <= extent))
        if view.sparse is not None:
            types.append(str(type_))
    if view.sparse is None:
        types = [str(type_)]
    return ", ".join(names), ", ".join(types), inside


def _flags(g: Generator, inside: list[bool]) -> str:
    if not g.has("promises") or not any(inside) or g.chance(0.4):
        return ""
    flags = ["true" if known and g.chance(0.8) else "false" for known in inside]
    return f" inbounds = [{', '.join(flags)}]"


def _hints(g: Generator) -> str:
    if not g.has("hints") or g.chance(0.6):
        return ""
    target = g.random.choice(["sm_80", "sm_90", "sm_100", "sm_120"])
    key = g.random.choice([f"latency = {g.random.randint(1, 10)}", f"allow_tma = {g.random.choice(['true', 'false'])}"])
    return f" optimization_hints = <{target} = {{{key}}}>"


def _sizes(g: Generator, tile: tuple[int, ...], room: int) -> tuple[int, ...]:
    """Sizes of a tensor that has a tile or some, and seldom a whole number of them."""
    sizes = []
    for n in tile:
        most = max(room // math.prod([*sizes, *tile[len(sizes) + 1 :]]), 1)
        some = n * g.random.choice([1, 1, 2, 3])
        sizes.append(max(min(g.random.choice([some, some - g.random.randint(0, n - 1), 2 * n + 1]), most), 1))
    return tuple(sizes)


def random_padding(g: Generator, element: str) -> str:
    from libtile.interpreter.formats import ELEMENTS

    form = ELEMENTS[element].float
    if form is None or not form.signed:
        return "zero"
    choices = ["zero", "neg_zero"]
    if form.has_nan:
        choices.append("nan")
    if form.has_infinity:
        choices += ["pos_inf", "neg_inf"]
    return g.random.choice(choices)


def _view_over(g: Generator, s: Scope, base: Value, tile: Type, room: int, padding: str = "") -> TileView | None:
    """Any view of an array in tiles of this type, with padding; None when the array has no room for it."""
    element, rank = tile.element, len(tile.shape)
    kinds = ["partition"] * 3 + ["strided"] + (["gather_scatter"] if max(tile.shape) <= 512 else [])
    kind = g.random.choice(kinds)
    dims = (
        tuple(g.random.sample(range(rank), rank)) if kind != "gather_scatter" and g.chance(0.3) else tuple(range(rank))
    )
    along = [0] * rank
    for t, d in enumerate(dims):
        along[d] = tile.shape[t]
    sizes = _sizes(g, tuple(along), room)
    unit = None
    if element == "f4E2M1FN":
        # Two elements share a byte along the only dimension whose neighbours are next to each other.
        unit = g.random.randrange(rank)
        sizes = tuple(max(n, 2) + max(n, 2) % 2 for n in sizes)
        strides = strides_for(g, sizes, room, unit)
        if strides is None or list(strides).count(1) != 1 or any(k % 2 for i, k in enumerate(strides) if i != unit):
            return None
    else:
        strides = strides_for(g, sizes, room)
    if strides is None:
        return None
    sparse = None
    if kind == "gather_scatter":
        candidates = [i for i in range(rank) if i != unit]
        if not candidates:
            return None
        sparse = g.random.choice(candidates)
    view = tensor(g, s, base, element, sizes, strides, static_unit=element == "f4E2M1FN")
    steps = None
    if kind == "strided":
        steps = tuple(g.random.choice([n, max(n // 2, 1), n + 1, 1]) for n in tile.shape)
        if element == "f4E2M1FN":
            steps = tuple(n + n % 2 for n in steps)
    return tile_view(g, s, view, tile, kind, padding or random_padding(g, element), dims, steps, sparse)


def input_tile(g: Generator, s: Scope, type_: Type, bounds: Bounds | None = None) -> Value:
    """A tile of an input, padded where it lies outside."""
    from generators import memory

    base, known = input_array(g, type_.element, bounds)
    view = None
    if known is None or known[0] <= 0 <= known[1]:
        view = _view_over(g, s, base, type_, INPUT_SIZE, padding="zero" if known else "")
    if view is not None:
        return load(g, s, view, known)
    if type_.element == "f4E2M1FN":
        return g.random_constant(s, type_, bounds)
    return memory.load(g, s, base, memory.anywhere(g, s, type_.shape, INPUT_SIZE), type_, known)


def load(g: Generator, s: Scope, view: TileView, bounds: Bounds | None, token: str = "") -> Value:
    outside = None
    if view.sparse is not None:
        extent = view.tensor.sizes[view.sparse]
        outside = extent - 1 if g.chance(0.7) else extent + 2
    index, types, inside = _index(g, s, view, outside)
    order = f" token = {token}" if token else ""
    value, done = Value(g.name(), view.tile, bounds, bits=view.padding != "nan"), g.name()
    ordering = g.random.choice(LOADS if g.has("orderings") else LOADS[:1])
    text = f"load_view_tko {ordering} {view.value}[{index}]{order}{_hints(g)}{_flags(g, inside)}"
    g.emit(s, f"{value}, {done} = {text} : {view.type}, {types} -> {view.tile}, token")
    if token:
        after(g, s, 0, done)
    s.values.append(value)
    return value


@statement("views", 3)
def read_view(g: Generator, s: Scope) -> None:
    type_ = g.pick_type()
    if type_.shape and type_.element != "i4":
        input_tile(g, s, type_)


def store_result(g: Generator, s: Scope, value: Value, comparison: Comparison) -> None:
    """The tile to a new array: each tile block writes its own tile along the first dimension."""
    tile, blocks = value.type, g.blocks
    cut = [n - g.random.randint(0, n - 1) if g.chance(0.4) else n for n in tile.shape]
    first = blocks * tile.shape[0] - (tile.shape[0] - cut[0])
    sizes = (first, *cut[1:])
    unit = None
    if tile.element == "f4E2M1FN":
        unit = g.random.choice([i for i, n in enumerate(tile.shape) if n % 2 == 0])
        sizes = tuple(n + n % 2 for n in sizes)
        sizes = tuple(n + (n == 1) for n in sizes) if sizes.count(1) else sizes
    room = 2 * math.prod(sizes) + 64
    strides = strides_for(g, sizes, room, unit)
    if strides is None:
        return
    if unit is not None and (list(strides).count(1) != 1 or any(k % 2 for i, k in enumerate(strides) if i != unit)):
        return
    base = g.result(tile.element, room, comparison)
    view = tensor(g, s, base, tile.element, sizes, strides, static_unit=unit is not None)
    kind = g.random.choice(["partition", "partition", "strided"])
    steps = tile.shape if kind == "strided" else None
    made = tile_view(g, s, view, tile, kind, "", tuple(range(len(sizes))), steps)
    made = replace(made, tile=tile)
    index, types, inside = _index_of_block(g, s, made)
    ordering = g.random.choice(STORES if g.has("orderings") else STORES[:1])
    text = f"store_view_tko {ordering} {value}, {made.value}[{index}]{_hints(g)}{_flags(g, inside)}"
    g.emit(s, f"{g.name()} = {text} : {tile}, {made.type}, {types} -> token")


def _index_of_block(g: Generator, s: Scope, view: TileView) -> tuple[str, str, list[bool]]:
    """The tile of this tile block."""
    zero = g.constant(s, 0, INDEX)
    names, inside = [], []
    for t, size in enumerate(view.tile.shape):
        extent = view.tensor.sizes[t]
        index = g.block() if t == 0 and g.blocks > 1 else zero
        names.append(str(index))
        inside.append((index.bounds or (0, 0))[1] * view.steps[t] + size <= extent)
    return ", ".join(names), str(INDEX), inside


@statement("views", 2)
def copy(g: Generator, s: Scope) -> None:
    """A load whose elements outside of the tensor are undefined, stored through the same view, which cuts them off."""
    type_ = g.pick_type([e for e in g.profile.elements if e not in ("f4E2M1FN", "i4")])
    if not type_.shape or type_.size > REGION:
        return
    base = region(g, "memory", type_.element)
    sizes = tuple(n - g.random.randint(0, n - 1) for n in type_.shape)
    strides = strides_for(g, sizes, REGION)
    if strides is None:
        return
    made = tile_view(g, s, tensor(g, s, base, type_.element, sizes, strides), type_, "partition", "",
                     tuple(range(len(sizes))))  # fmt: skip
    zero = g.constant(s, 0, INDEX)
    index = ", ".join([str(zero)] * len(sizes))
    value, loaded, done = Value(g.name(), type_), g.name(), g.name()
    head = f"load_view_tko weak {made.value}[{index}] token = {s.state[0]}"
    g.emit(s, f"{value}, {loaded} = {head} : {made.type}, {INDEX} -> {type_}, token")
    if type_.is_integer:
        value = g.let(s, f"xori {value}, {g.get(s, type_)} : {type_}", type_, keep=False)
    elif type_.element in FLOATS:
        value = g.let(s, f"addf {value}, {g.get(s, type_)} : {type_}", type_, keep=False)
    head = f"store_view_tko weak {value}, {made.value}[{index}] token = {loaded}"
    g.emit(s, f"{done} = {head} : {type_}, {made.type}, {INDEX} -> token")
    after(g, s, 0, done)


@statement("views", 2)
def region_through_view(g: Generator, s: Scope) -> None:
    """Memory that tokens order, through a view: a load, or a store that scatters rows."""
    type_ = g.pick_type([e for e in g.profile.elements if e not in ("f4E2M1FN", "i4")])
    if not type_.shape or type_.size > REGION:
        return
    base = region(g, "memory", type_.element)
    view = _view_over(g, s, base, type_, REGION)
    if view is None:
        return
    if g.chance(0.5):
        value = load(g, s, view, None, token=str(s.state[0]))
        if type_.is_float:
            s.values[-1] = replace(value, bits=False)
        return
    if view.sparse is not None:
        return  # rows that are stored twice have no certain value
    value = g.get(s, type_)
    index, types, inside = _index(g, s, view)
    done = g.name()
    text = f"store_view_tko weak {value}, {view.value}[{index}] token = {s.state[0]}{_flags(g, inside)}"
    g.emit(s, f"{done} = {text} : {type_}, {view.type}, {types} -> token")
    after(g, s, 0, done)


@statement("views", 2)
def scattered_rows(g: Generator, s: Scope) -> None:
    """A store of rows to different places, in any order."""
    type_ = g.pick_type([e for e in g.profile.elements if e not in ("f4E2M1FN", "i4")])
    if len(type_.shape) < 2 or type_.size > REGION:
        return
    base = region(g, "memory", type_.element)
    strides = strides_for(g, type_.shape, REGION)
    if strides is None:
        return
    sparse = g.random.randrange(len(type_.shape))
    view = tensor(g, s, base, type_.element, type_.shape, strides)
    made = tile_view(g, s, view, type_, "gather_scatter", "", tuple(range(len(type_.shape))), None, sparse)
    rows = Type("i32", (type_.shape[sparse],))
    places = g.let(s, f"iota : {rows}", rows, (0, rows.size - 1), keep=False)
    flip = g.constant(s, g.random.randrange(rows.size), rows)
    places = g.let(s, f"xori {places}, {flip} : {rows}", rows, (0, rows.size - 1), keep=False)
    zero = g.constant(s, 0, INDEX)
    index = [str(places) if t == sparse else str(zero) for t in range(len(type_.shape))]
    types = [str(rows) if t == sparse else str(INDEX) for t in range(len(type_.shape))]
    value, done = g.get(s, type_), g.name()
    text = f"store_view_tko weak {value}, {made.value}[{', '.join(index)}] token = {s.state[0]}"
    g.emit(s, f"{done} = {text} : {type_}, {made.type}, {', '.join(types)} -> token")
    after(g, s, 0, done)


@statement("views", 2)
def tile_loop(g: Generator, s: Scope) -> None:
    """A loop over the tiles of a tensor, which reads, changes and writes one after the other."""
    type_ = g.pick_type((*WIDE_INTEGERS, *FLOATS))
    if not type_.shape or type_.size > INPUT_SIZE // 4 or s.loop:
        return
    count, rank = g.random.randint(1, 4), len(type_.shape)
    along = g.random.randrange(rank)
    sizes = tuple(n * count - g.random.randint(0, n - 1) if i == along else n for i, n in enumerate(type_.shape))
    stack = (g.blocks, *sizes)
    tiles = Type(type_.element, (1, *type_.shape))
    base, _ = input_array(g, type_.element, None)
    result = g.result(type_.element, g.blocks * type_.size * count + 16)
    strides = strides_for(g, sizes, INPUT_SIZE)
    if strides is None:
        return
    source = tile_view(g, s, tensor(g, s, base, type_.element, sizes, strides), type_, "partition",
                       random_padding(g, type_.element), tuple(range(rank)))  # fmt: skip
    rows = tuple(math.prod(stack[i + 1 :]) for i in range(rank + 1))
    target = tile_view(g, s, tensor(g, s, result, type_.element, stack, rows), tiles, "partition", "",
                       tuple(range(rank + 1)))  # fmt: skip
    zero, one, limit = (g.constant(s, number, INDEX) for number in (0, 1, count))
    limit = g.let(s, f"addi {limit}, {hidden_zero(g, s, INDEX)} : {INDEX}", INDEX, keep=False)
    carried, total, step = Value(g.name(), type_), Value(g.name(), type_), Value(g.name(), INDEX)
    start = g.get(s, type_)
    here = g.block() if g.blocks > 1 else zero
    g.emit(s, f"{total} = for {step} in ({zero} to {limit}, step {one}) : {INDEX} "
              f"iter_values({carried} = {start}) -> ({type_}) {{")  # fmt: skip
    inner = s.inner()
    index = [str(step) if i == along else str(zero) for i in range(rank)]
    value = Value(g.name(), type_)
    text = f"load_view_tko weak {source.value}[{', '.join(index)}]{_hints(g)}"
    g.emit(inner, f"{value}, {g.name()} = {text} : {source.type}, {INDEX} -> {type_}, token")
    op = g.random.choice(["addi", "xori"]) if type_.is_integer else g.random.choice(["addf", "maxf"])
    value = g.let(inner, f"{op} {value}, {carried} : {type_}", type_)
    shaped = g.let(inner, f"reshape {value} : {type_} -> {tiles}", tiles)
    text = f"store_view_tko weak {shaped}, {target.value}[{', '.join([str(here), *index])}]{_hints(g)}"
    g.emit(inner, f"{g.name()} = {text} : {tiles}, {target.type}, {INDEX} -> token")
    g.emit(inner, f"continue {value} : {type_}")
    s.lines += inner.lines
    g.emit(s, "}")
    s.values.append(Value(total.name, type_, None, type_.is_integer))


@statement("views", 2)
def measures(g: Generator, s: Scope) -> None:
    """The sizes of a tensor, or how many tiles it has."""
    type_ = Type(g.pick_element([e for e in g.profile.elements if e not in ("f4E2M1FN", "i4")]), g.pick_shape())
    if not type_.shape:
        return
    base, _ = input_array(g, type_.element, None)
    view = _view_over(g, s, base, type_, INPUT_SIZE)
    if view is None:
        return
    result = Type(g.random.choice(["i32", "i64", "i16"]))
    numbers = view.counts if g.chance(0.5) else view.tensor.sizes
    op, of, source = ("get_index_space_shape", view.type, view.value)
    if numbers == view.tensor.sizes:
        op, of, source = ("get_tensor_shape", view.tensor.type, view.tensor.value)
    values = [Value(g.name(), result, (n, n)) for n in numbers]
    g.emit(s, f"{', '.join(map(str, values))} = {op} {source} : {of} -> {result}")
    s.values += values


@statement("atomics", 3)
def reduction_through_view(g: Generator, s: Scope) -> None:
    """An atomic modification of a tile of a tensor that all tile blocks share."""
    if s.loop:
        return
    mode = g.random.choice(["and", "or", "xor", "add", "max", "min", "umax", "umin", "addf"])
    elements = FLOATS if mode == "addf" else ("i32", "i64")
    type_ = g.pick_type(tuple(e for e in elements if e in g.profile.elements) or elements[:1])
    if not type_.shape or type_.size > INPUT_SIZE:
        return
    bounds = (0, 3) if mode == "addf" else None
    number = sum(name.startswith("reduced") for name in g.parameters)
    base = g.parameter(f"reduced{number}", type_.element, INPUT_SIZE, bounds, written=True)
    sizes = _sizes(g, type_.shape, INPUT_SIZE)
    strides = strides_for(g, sizes, INPUT_SIZE)
    if strides is None:
        return
    view = tensor(g, s, base, type_.element, sizes, strides)
    made = tile_view(g, s, view, type_, "partition", "", tuple(range(len(sizes))))
    value = g.small(s, type_, 0, 3) if mode == "addf" else g.get(s, type_)
    index, types, inside = _index(g, s, made)
    done = g.name()
    scope = "device" if g.blocks > 1 else g.random.choice(["device", "tl_blk"])
    text = f"atomic_red_view_tko relaxed {scope} {made.value}[{index}], {mode}, {value} token = {s.state[1]}"
    g.emit(s, f"{done} = {text}{_flags(g, inside)} : {type_}, {made.type}, {types} -> token")
    s.state[1] = replace(s.state[1], name=done)
