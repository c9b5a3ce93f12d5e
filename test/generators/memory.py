# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements that access memory through pointers: inputs, results, memory in order, atomics, globals, printing.

Each array has a purpose, which makes accesses well defined: inputs are only read; results are written once, each
element by one tile; of other memory each tile block has a region, whose accesses a token of the state puts in order;
atomics work on arrays of their own, and where tile blocks share an element only what does not depend on their order is
compared.
"""

from __future__ import annotations

from dataclasses import replace

from generators.core import INDEX, INPUT_SIZE, REGION, Comparison, Generator, Scope, statement
from generators.values import (
    FLOATS,
    WIDE_INTEGERS,
    Bounds,
    Type,
    Value,
    dense,
    exact_integers,
    random_bits,
    width,
)

LOADS = ("weak", "weak", "weak", "relaxed tl_blk", "relaxed device", "acquire device", "acquire sys")
STORES = ("weak", "weak", "weak", "relaxed tl_blk", "relaxed sys", "release device", "release tl_blk")
_NOT_BY_POINTER = ("i4", "f4E2M1FN")
"""Four-bit elements: through views only."""


def hints(g: Generator) -> str:
    if not g.has("hints") or g.chance(0.6):
        return ""
    target = g.random.choice(["sm_80", "sm_90", "sm_100", "sm_120"])
    return f" optimization_hints = <{target} = {{latency = {g.random.randint(1, 10)}}}>"


# -- places -----------------------------------------------------------------------------------------------------------


def linear(g: Generator, s: Scope, shape: tuple[int, ...], element: str = "i32") -> Value:
    """The place of each element of a tile in row-major order."""
    size = Type(element, shape).size
    if not shape:
        return g.constant(s, 0, Type(element))
    if len(shape) == 1 or g.chance(0.5):
        flat = Type(element, (size,))
        value = g.let(s, f"iota : {flat}", flat, (0, size - 1), keep=False)
        if len(shape) == 1:
            return value
        type_ = Type(element, shape)
        return g.let(s, f"reshape {value} : {flat} -> {type_}", type_, value.bounds, keep=False)
    total: Value | None = None
    stride = size
    for i, n in enumerate(shape):
        stride //= n
        if n == 1 and (total is not None or i < len(shape) - 1):
            continue
        row, ones = Type(element, (n,)), tuple(n if k == i else 1 for k in range(len(shape)))
        value = g.let(s, f"iota : {row}", row, (0, n - 1), keep=False)
        column = Type(element, ones)
        value = g.let(s, f"reshape {value} : {row} -> {column}", column, value.bounds, keep=False)
        step = g.constant(s, stride, column)
        value = g.let(s, f"muli {value}, {step} : {column}", column, (0, (n - 1) * stride), keep=False)
        value = g.spread(s, value, shape, keep=False)
        if total is None:
            total = value
        else:
            bounds = (0, (total.bounds or (0, 0))[1] + (n - 1) * stride)
            total = g.let(s, f"addi {total}, {value} : {value.type}", value.type, bounds, keep=False)
    return total if total is not None else g.constant(s, 0, Type(element, shape))


def plus(g: Generator, s: Scope, value: Value, number: Value) -> Value:
    """Each place moved by a scalar."""
    moved = g.spread(s, number, value.type.shape, keep=False)
    bounds = None
    if value.bounds and number.bounds:
        bounds = value.bounds[0] + number.bounds[0], value.bounds[1] + number.bounds[1]
    return g.let(s, f"addi {value}, {moved} : {value.type}", value.type, bounds, keep=False)


def shuffled(g: Generator, s: Scope, place: Value) -> Value:
    """The same places, perhaps in another order."""
    size = place.type.size
    if size == 1 or not g.chance(0.3):
        return place
    flip = g.constant(s, g.random.choice([size - 1, g.random.randrange(size)]), place.type)
    return g.let(s, f"xori {place}, {flip} : {place.type}", place.type, (0, size - 1), keep=False)


def pointers(g: Generator, s: Scope, base: Value, place: Value) -> Value:
    """The addresses of places in an array, computed in one of several ways."""
    type_ = base.type.shaped(place.type.shape)
    if g.chance(0.2):
        base = assumed_aligned(g, s, base)
    if not place.type.shape or g.chance(0.85):
        bases = g.spread(s, base, place.type.shape, keep=False)
        text = f"offset {bases}, {place} : {bases.type}, {place.type} -> {type_}"
        return g.let(s, text, type_, keep=False)
    # As numbers: the address, plus each place times the element's size.
    address = Type("i64")
    number = g.let(s, f"ptr_to_int {base} : {base.type} -> {address}", address, keep=False)
    wide = place if place.type.element == "i64" else g.to_width(s, place, "i64")
    size = max(width(base.type.element[4:-1]) // 8, 1) if base.type.element != "ptr<tf32>" else 4
    scale = g.constant(s, size, wide.type)
    steps = g.let(s, f"muli {wide}, {scale} : {wide.type}", wide.type, keep=False)
    total = plus(g, s, steps, number)
    return g.let(s, f"int_to_ptr {total} : {total.type} -> {type_}", type_, keep=False)


def assumed_aligned(g: Generator, s: Scope, base: Value) -> Value:
    """Arrays, and what a tile block has for itself in them, begin at multiples of 16 bytes; nothing else need to."""
    if not g.has("promises") or base.name.startswith("%v"):
        return base
    return g.let(s, f"assume div_by<{g.random.choice([4, 16])}>, {base} : {base.type}", base.type, keep=False)


def some_of(g: Generator, s: Scope, shape: tuple[int, ...]) -> Value:
    """A mask: any, or the first elements up to a number that is not known."""
    type_ = Type("i1", shape)
    if not shape or g.chance(0.5):
        return g.get(s, type_)
    place = linear(g, s, shape)
    count = g.spread(s, g.small(s, INDEX, 0, place.type.size), shape, keep=False)
    sign = g.random.choice(["signed", "unsigned"])
    return g.let(s, f"cmpi less_than {place}, {count}, {sign} : {place.type} -> {type_}", type_)


def anywhere(g: Generator, s: Scope, shape: tuple[int, ...], limit: int) -> Value:
    """Places below a limit, which is a power of two: in order, or any."""
    size = Type("i32", shape).size
    if size <= limit and g.chance(0.65):
        value = linear(g, s, shape, g.random.choice(["i32", "i32", "i64"]))
        room = limit - size
        if room and g.chance(0.7):
            first = g.small(s, INDEX, 0, room)
            if g.chance(0.3) and g.block().bounds and (g.blocks - 1) * size <= room:
                step = g.constant(s, size, INDEX)
                bounds = (0, (g.blocks - 1) * size)
                first = g.let(s, f"muli {g.block()}, {step} : {INDEX}", INDEX, bounds, keep=False)
            value = plus(g, s, value, g.to_width(s, first, value.type.element))
        return value
    return g.small(s, Type(g.random.choice(["i32", "i32", "i64", "i16"]), shape), 0, limit - 1)


# -- inputs and results -----------------------------------------------------------------------------------------------


def input_tile(g: Generator, s: Scope, type_: Type, bounds: Bounds | None = None) -> Value:
    """A tile of an input array."""
    from generators import views

    element = type_.element
    if element in _NOT_BY_POINTER or (type_.shape and g.has("views") and g.chance(0.3)):
        if element == "i4" or not type_.shape:
            return g.random_constant(s, type_, bounds)
        return views.input_tile(g, s, type_, bounds)
    base, known = input_array(g, element, bounds)
    place = anywhere(g, s, type_.shape, INPUT_SIZE)
    return load(g, s, base, place, type_, known)


def input_array(g: Generator, element: str, bounds: Bounds | None) -> tuple[Value, Bounds | None]:
    """An input array of the element type whose content keeps within the bounds, and what it keeps within."""
    if bounds is None:
        return g.parameter(f"in_{element}", element, INPUT_SIZE), None
    low = 0 if bounds[0] >= 0 else max(bounds[0], -4)
    kept = (low, min(bounds[1], 4)) if bounds[0] <= 0 <= bounds[1] else bounds
    name = f"small_{element}_{kept[0]}_{kept[1]}".replace("-", "m")
    return g.parameter(name, element, INPUT_SIZE, kept), kept


def load(g: Generator, s: Scope, base: Value, place: Value, type_: Type, bounds: Bounds | None = None,
         token: str = "") -> Value:  # fmt: skip
    """A load, of all elements or of some; the value has no undefined elements."""
    where = pointers(g, s, base, place)
    ordering, order = g.random.choice(LOADS if g.has("orderings") else LOADS[:1]), ""
    if token:
        order = f" token = {token}"
    elif g.chance(0.2):
        order = f" token = {g.random.choice(s.state[: len(g.TOKENS)])}"
    value, done = Value(g.name(), type_, bounds), g.name()
    mask, kind = "", "all"
    if g.has("masks") and bounds is None:
        kind = g.random.choice(["all", "all", "padded", "chosen"])
    types = str(where.type)
    if kind == "chosen" and type_.element in _NOT_BY_POINTER:
        kind = "all"
    if kind != "all":
        condition = some_of(g, s, type_.shape)
        mask, types = f", {condition}", f"{types}, {condition.type}"
        other = g.get(s, type_, bits=True)
    if kind == "padded":
        mask, types = f"{mask}, {other}", f"{types}, {type_}"
    g.emit(s, f"{value}, {done} = load_ptr_tko {ordering} {where}{mask}{order}{hints(g)} : {types} -> {type_}, token")
    if token:
        after(g, s, 0, done)
    if kind == "chosen":
        text = f"select {condition}, {value}, {other} : {condition.type}, {type_}"
        return g.let(s, text, type_)
    s.values.append(value)
    return value


def after(g: Generator, s: Scope, number: int, done: str) -> None:
    """What the state's token orders comes after `done` from here on."""
    token = s.state[number]
    if g.chance(0.2):
        joined = g.name()
        g.emit(s, f"{joined} = join_tokens {token}, {done} : token")
        done = joined
    s.state[number] = replace(token, name=done)


@statement("memory", 3)
def read(g: Generator, s: Scope) -> None:
    """An input, by its own rank and element type, even those that cannot be computed with."""
    input_tile(g, s, g.pick_type())


@statement("results", 2)
def write_result(g: Generator, s: Scope) -> None:
    source = g.any(s, lambda v: True)
    if source is not None:
        store_result(g, s, source)


def store_result(g: Generator, s: Scope, value: Value, comparison: Comparison = Comparison()) -> None:  # noqa: B008
    """The tile to a new array; not in loops, where it would be written again and again."""
    from generators import views

    if s.loop:
        if not comparison.ulps and not comparison.relative:
            store_region(g, s, value)
        return
    if value.type.element == "i4":
        wide = value.type.of("i8")
        value = g.let(s, f"exti {value} signed : {value.type} -> {wide}", wide, keep=False)
    if value.type.shape and (value.type.element in _NOT_BY_POINTER or (g.has("views") and g.chance(0.35))):
        views.store_result(g, s, value, comparison)
        return
    type_ = value.type
    base = g.result(type_.element, g.blocks * type_.size, comparison)
    place = shuffled(g, s, linear(g, s, type_.shape))
    if g.blocks > 1:
        step = g.constant(s, type_.size, INDEX)
        first = g.let(s, f"muli {g.block()}, {step} : {INDEX}", INDEX, (0, (g.blocks - 1) * type_.size), keep=False)
        place = plus(g, s, place, first)
    store(g, s, base, place, value)


def store(g: Generator, s: Scope, base: Value, place: Value, value: Value, token: str = "") -> str:
    """A store, of all elements or of some; the token that it gives."""
    where = pointers(g, s, base, place)
    ordering = g.random.choice(STORES if g.has("orderings") else STORES[:1])
    mask, types = "", f"{where.type}, {value.type}"
    if g.has("masks") and g.chance(0.25):
        condition = some_of(g, s, value.type.shape)
        mask, types = f", {condition}", f"{types}, {condition.type}"
    order = f" token = {token}" if token else ""
    done = g.name()
    g.emit(s, f"{done} = store_ptr_tko {ordering} {where}, {value}{mask}{order}{hints(g)} : {types} -> token")
    return done


def final_stores(g: Generator, s: Scope) -> None:
    """What the program computed last, and its state."""
    for value in s.values[-g.random.randint(2, 5) :]:
        store_result(g, s, value)
    for value in s.state[len(g.TOKENS) :]:
        store_result(g, s, value)


# -- memory that tokens order -----------------------------------------------------------------------------------------


def region(g: Generator, kind: str, element: str, bounds: Bounds | None = None) -> Value:
    """The address of what the tile block has for itself in an array."""
    base = g.parameter(f"{kind}_{element}", element, REGION * g.blocks, bounds, written=True)
    if g.blocks == 1:
        return base
    name = f"%{kind}_{element}_here"
    made = Value(name, base.type)
    if not any(line.strip().startswith(f"{name} =") for line in g.prologue):
        step = g.at_start(f"constant <i32: {REGION}> : {INDEX}", INDEX)
        first = g.at_start(f"muli {g.block()}, {step} : {INDEX}", INDEX)
        g.prologue.append(f"    {name} = offset {base}, {first} : {base.type}, {INDEX} -> {base.type}")
    return made


def _stored_type(g: Generator) -> Type:
    type_ = g.pick_type([e for e in g.profile.elements if e not in _NOT_BY_POINTER])
    return type_ if type_.size <= REGION else type_.shaped((g.random.choice([8, REGION]),))


@statement("memory", 3)
def write_region(g: Generator, s: Scope) -> None:
    store_region(g, s, g.get(s, _stored_type(g)))


def store_region(g: Generator, s: Scope, value: Value) -> None:
    if value.type.element in _NOT_BY_POINTER or value.type.size > REGION:
        return
    base = region(g, "memory", value.type.element)
    place = shuffled(g, s, linear(g, s, value.type.shape))
    room = REGION - value.type.size
    if room:
        place = plus(g, s, place, g.small(s, INDEX, 0, room))
    done = store(g, s, base, place, value, token=str(s.state[0]))
    after(g, s, 0, done)


@statement("memory", 3)
def read_region(g: Generator, s: Scope) -> None:
    """A load behind everything that was stored before, and in front of what is stored later.

    What a store put there may be a NaN whose bits are not certain.
    """
    type_ = _stored_type(g)
    base = region(g, "memory", type_.element)
    value = load(g, s, base, anywhere(g, s, type_.shape, REGION), type_, token=str(s.state[0]))
    if type_.is_float:
        s.values[-1] = replace(value, bits=False)


@statement("memory", 2)
def update_in_place(g: Generator, s: Scope) -> None:
    """A load, an operation and a store at the same places, or each element where another one was."""
    type_ = _stored_type(g)
    if not (type_.is_integer or type_.element in FLOATS):
        return
    where = pointers(g, s, region(g, "memory", type_.element), linear(g, s, type_.shape))
    value, loaded, done = Value(g.name(), type_, bits=type_.is_integer), g.name(), g.name()
    g.emit(s, f"{value}, {loaded} = load_ptr_tko weak {where} token = {s.state[0]} : {where.type} -> {type_}, token")
    s.values.append(value)
    op = g.random.choice(["addi", "xori", "muli"]) if type_.is_integer else g.random.choice(["addf", "mulf"])
    changed = g.let(s, f"{op} {value}, {g.get(s, type_)} : {type_}", type_, bits=type_.is_integer)
    if g.chance(0.4):
        where = pointers(g, s, region(g, "memory", type_.element), shuffled(g, s, linear(g, s, type_.shape)))
    text = f"store_ptr_tko weak {where}, {changed} token = {loaded} : {where.type}, {type_} -> token"
    g.emit(s, f"{done} = {text}")
    after(g, s, 0, done)


@statement("memory", 1)
def scratch(g: Generator, s: Scope) -> None:
    """A store to and a load from memory that the tile block allocates."""
    type_ = _stored_type(g)
    value = g.get(s, type_)
    base = Value(g.name(), Type(f"ptr<{type_.element}>"))
    g.emit(s, f"{base} = alloca num_elem = {type_.size}, alignment = {g.random.choice([8, 16, 128])} : {base.type}")
    where = pointers(g, s, base, linear(g, s, type_.shape))
    stored = g.name()
    g.emit(s, f"{stored} = store_ptr_tko weak {where}, {value} : {where.type}, {type_} -> token")
    where = pointers(g, s, base, shuffled(g, s, linear(g, s, type_.shape)))
    result, done = Value(g.name(), type_, value.bounds, value.bits), g.name()
    g.emit(s, f"{result}, {done} = load_ptr_tko weak {where} token = {stored} : {where.type} -> {type_}, token")
    s.values.append(result)


@statement("tokens", 2)
def token_passing(g: Generator, s: Scope) -> None:
    """Ops that do nothing but order: both chains meet, fences, the waits of dependent launches."""
    kind = g.random.choice(["join", "fence", "wait", "launch", "fresh"])
    name, number = g.name(), g.random.randrange(len(g.TOKENS))
    token = s.state[number]
    text = {
        "join": f"join_tokens {', '.join(str(t) for t in s.state[: len(g.TOKENS)])} : token, token",
        "fence": f"memory_fence_alias_tko {token}",
        "wait": f"gdc_wait_tko token = {token} -> token",
        "launch": f"gdc_launch_dependents_tko token = {token} -> token",
        "fresh": "make_token : token",
    }[kind]
    if kind == "join":
        text = f"join_tokens {s.state[0]}, {s.state[1]} : token"
    g.emit(s, f"{name} = {text}")
    if kind != "fresh":
        s.state[number] = replace(token, name=name)


# -- atomics ----------------------------------------------------------------------------------------------------------

_RMW = ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg", "addf")
ORDERINGS = ("relaxed", "acquire", "release", "acq_rel")


def _atomic_type(g: Generator, elements: tuple[str, ...]) -> Type:
    type_ = g.pick_type(elements)
    return type_ if type_.size <= REGION else type_.shaped((g.random.choice([8, 32, REGION]),))


def _atomic_mode(g: Generator) -> tuple[str, tuple[str, ...]]:
    mode = g.random.choice(_RMW)
    elements = FLOATS if mode == "addf" else ("i32", "i64", "f32", "f64") if mode == "xchg" else ("i32", "i64")
    return mode, tuple(e for e in elements if e in g.profile.elements) or ("i32",)


def _masked(g: Generator, s: Scope, type_: Type) -> tuple[str, str, Value | None]:
    if not g.has("masks") or g.chance(0.6):
        return "", "", None
    condition = g.get(s, type_.of("i1"))
    return f", {condition}", f", {condition.type}", condition


@statement("atomics", 5)
def own_atomic(g: Generator, s: Scope) -> None:
    """A read-modify-write of elements that nobody else touches: what it finds there is compared."""
    swap = g.chance(0.3)
    mode, elements = ("", ("i32", "i64", "f32", "f64")) if swap else _atomic_mode(g)
    type_ = _atomic_type(g, elements)
    if type_.element not in elements:
        return
    bounds = None
    if mode == "addf":
        limit = max(exact_integers(type_.element) // 512, 1)
        bounds = (0, min(limit, 3))
        argument = g.small(s, type_, *bounds)
    else:
        argument = g.get(s, type_, bits=True)
    kind = "sums" if mode == "addf" else "words"
    base = region(g, kind, type_.element, bounds)
    if mode == "addf" and s.nest:
        return  # sums that grow in loops would be rounded
    where = pointers(g, s, base, shuffled(g, s, linear(g, s, type_.shape)))
    ordering = f"{g.random.choice(ORDERINGS)} {g.random.choice(['tl_blk', 'device', 'sys'])}"
    old, done = Value(g.name(), type_), g.name()
    mask, mask_type, condition = _masked(g, s, type_)
    order = f"token = {s.state[1]}"
    if swap:
        expected = g.get(s, type_, bits=True)
        text = f"atomic_cas_tko {ordering} {where}, {expected}, {argument}{mask} {order}"
    else:
        text = f"atomic_rmw_tko {ordering} {where}, {mode}, {argument}{mask} {order}"
    g.emit(s, f"{old}, {done} = {text} : {where.type}, {type_}{mask_type} -> {type_}, token")
    s.state[1] = replace(s.state[1], name=done)
    if condition is not None and not swap:
        other = g.get(s, type_, bits=True)
        old = g.let(s, f"select {condition}, {old}, {other} : {condition.type}, {type_}", type_, keep=False)
    s.values.append(old)


@statement("atomics", 3)
def shared_atomic(g: Generator, s: Scope) -> None:
    """Modifications of elements that all tile blocks share, and several elements of a tile: the sum is what counts.

    Where all add the same number, the values found are compared as a multiset.
    """
    if s.loop:
        return
    mode = g.random.choice(["add", "add", "and", "or", "xor", "max", "min", "umax", "umin"])
    type_ = _atomic_type(g, tuple(e for e in ("i32", "i64") if e in g.profile.elements) or ("i32",))
    number = sum(name.startswith("shared") for name in g.parameters)
    base = g.parameter(f"shared{number}", type_.element, 16, written=True)
    same = mode == "add" and g.chance(0.6)
    places = g.random.choice([1, 4, 16])
    place = g.small(s, type_.of("i32"), 0, places - 1)
    argument = g.constant(s, g.random.randint(1, 5), type_) if same else g.get(s, type_)
    where = pointers(g, s, base, place)
    ordering = f"{g.random.choice(ORDERINGS)} {g.random.choice(['device', 'sys'])}"
    old, done = Value(g.name(), type_), g.name()
    text = f"atomic_rmw_tko {ordering} {where}, {mode}, {argument} token = {s.state[1]}"
    g.emit(s, f"{old}, {done} = {text} : {where.type}, {type_} -> {type_}, token")
    s.state[1] = replace(s.state[1], name=done)
    if same and places == 1 and not s.nest:
        store_unordered(g, s, old)


def store_unordered(g: Generator, s: Scope, value: Value) -> None:
    """What the tile blocks found, in no certain order."""
    type_ = value.type
    base = g.result(type_.element, g.blocks * type_.size, Comparison(unordered=True))
    place = linear(g, s, type_.shape)
    if g.blocks > 1:
        step = g.constant(s, type_.size, INDEX)
        first = g.let(s, f"muli {g.block()}, {step} : {INDEX}", INDEX, keep=False)
        place = plus(g, s, place, first)
    where = pointers(g, s, base, place)
    g.emit(s, f"{g.name()} = store_ptr_tko weak {where}, {value} : {where.type}, {type_} -> token")


# -- globals, printing, addresses -------------------------------------------------------------------------------------


@statement("globals", 3)
def global_data(g: Generator, s: Scope) -> None:
    """A load from a global array of this module."""
    type_ = _stored_type(g)
    if not g.globals or g.chance(0.4):
        count = g.random.choice([1, 16, 64])
        bits = random_bits(g.numbers, type_.element, count)
        bits = bits & 1 if type_.element == "i1" else bits
        constant = g.random.choice(["", "constant "])
        visibility = g.random.choice(["", "private "])
        whole = Type(type_.element, (count,))
        text = f"<{type_.element}: {dense(bits, type_.element, (count,))}> : {whole}"
        name = f"global{len(g.globals)}"
        g.globals.append(f"  global {visibility}{constant}@{name} {text}")
    number = g.random.randrange(len(g.globals))
    text = g.globals[number]
    element = text.split("<", 1)[1].split(":", 1)[0]
    count = int(text.rsplit("<", 1)[1].split("x")[0])
    type_ = type_.of(element)
    base = Value(g.name(), Type(f"ptr<{element}>"))
    g.emit(s, f"{base} = get_global @global{number} : {base.type}")
    load(g, s, base, g.small(s, type_.of("i32"), 0, count - 1), type_)


@statement("checks", 2)
def output(g: Generator, s: Scope) -> None:
    """Numbers printed; blocks may print in any order, so the lines are compared as a set.

    What several blocks print may mix, but that of tiles (or of scalars) does not with its like.
    """
    shape = g.random.choice([(), (), (4,), (2, 2)]) if g.blocks == 1 else (4,) if g.seed % 2 else ()
    value = g.small(s, Type(g.pick_element(("i32", "i64", "i16")), shape), 0, 63)
    code = {"i64": "%lld"}.get(value.type.element, "%d")
    done = g.name()
    text = f'print_tko "line {g.count}: {code}\\0A", {value} token = {s.state[1]} : {value.type} -> token'
    g.emit(s, f"{done} = {text}")
    s.state[1] = replace(s.state[1], name=done)


@statement("memory", 1)
def other_pointee(g: Generator, s: Scope) -> None:
    """An input read as elements of another type of the same width, or of bytes."""
    element = g.pick_element([e for e in (*WIDE_INTEGERS, *FLOATS) if e != "i8"])
    target = {16: "i16", 32: "i32", 64: "i64"}[width(element)] if g.chance(0.7) else "i8"
    base = g.parameter(f"in_{element}", element, INPUT_SIZE)
    type_ = Type(target, g.pick_shape())
    pointer = Type(f"ptr<{target}>")
    cast = g.let(s, f"ptr_to_ptr {base} : {base.type} -> {pointer}", pointer, keep=False)
    load(g, s, cast, anywhere(g, s, type_.shape, INPUT_SIZE), type_)
