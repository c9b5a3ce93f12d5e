# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of the ops that access memory: through tiles of pointers, through views, and atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from libtile.interpreter.formats import ELEMENTS
from matrix.kernel import BLOCKS, Input, Memory, Result, Row, Shape, Writer, pool, tile
from matrix.products import small

ADDRESSED = tuple(e for e in ELEMENTS if e not in ("i4", "f4E2M1FN"))
"""Elements that a pointer can lead to one by one."""
VIEWED = (*ADDRESSED, "f4E2M1FN")
SHAPES: tuple[Shape, ...] = ((), (1,), (8,), (512,), (16, 32), (2, 4, 8))
FLOATS = tuple(e for e in VIEWED if ELEMENTS[e].is_float)
Rows = Iterator[Row]


def spread(w: Writer, name: str, element: str, shape: Shape) -> str:
    """A scalar in all elements of a tile."""
    if not shape:
        return name
    ones = tuple(1 for _ in shape)
    one = w.let(f"reshape {name} : {tile(element, ())} -> {tile(element, ones)}")
    return w.let(f"broadcast {one} : {tile(element, ones)} -> {tile(element, shape)}")


def binary(w: Writer, op: str, x: str, y: str, element: str, shape: Shape) -> str:
    return w.let(f"{op} {x}, {y} : {tile(element, shape)}")


def places(w: Writer, shape: Shape, scatter: bool) -> str:
    """Where in an array each element of the tile block's tile is: scattered by an odd factor, or in order."""
    count = prod(shape)
    number = w.block
    if shape:
        flat = w.let(f"iota : {tile('i32', (count,))}")
        if scatter:
            odd = spread(w, w.constant(5), "i32", (count,))
            last = spread(w, w.constant(count - 1), "i32", (count,))
            flat = binary(w, "andi", binary(w, "muli", flat, odd, "i32", (count,)), last, "i32", (count,))
        index = w.let(f"reshape {flat} : {tile('i32', (count,))} -> {tile('i32', shape)}")
        start = binary(w, "muli", w.block, w.constant(count), "i32", ())
        number = binary(w, "addi", index, spread(w, start, "i32", shape), "i32", shape)
    return number


def pointers(w: Writer, base: str, element: str, shape: Shape, scatter: bool) -> str:
    pointer, index = f"ptr<{element}>", tile("i32", shape)
    where = places(w, shape, scatter)
    bases = spread(w, base, pointer, shape)
    return w.let(f"offset {bases}, {where} : {tile(pointer, shape)}, {index} -> {tile(pointer, shape)}")


def _mask(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 2, count).astype(np.uint8)


def _runs(count: int) -> np.ndarray:
    """A mask of groups of eight: an access may stay wide."""
    return np.repeat(_mask(-(-count // 8)), 8)[:count]


_LOADS = ("weak", "relaxed device", "acquire sys")
_STORES = ("weak", "relaxed tl_blk", "release device")


def pointer_loads() -> Rows:
    for element in ADDRESSED:
        for shape in SHAPES:
            for scatter in (False, True) if prod(shape) > 1 else (False,):
                memory = Memory(element, BLOCKS * prod(shape))
                value, pointer, mask = (tile(e, shape) for e in (element, f"ptr<{element}>", "i1"))
                where = "scattered" if scatter else "in order"
                for order in _LOADS:

                    def plain(
                        w: Writer,
                        base: str,
                        e: str = element,
                        s: Shape = shape,
                        x: bool = scatter,
                        o: str = order,
                        t: tuple[str, str] = (pointer, value),
                    ) -> list[str]:
                        return [w.first(f"load_ptr_tko {o} {pointers(w, base, e, s, x)} : {t[0]} -> {t[1]}, token")]

                    yield Row(
                        "load_ptr_tko",
                        f"{element} {shape} {where} {order}",
                        (memory,),
                        (Result(element, shape),),
                        plain,
                        elements=frozenset({element, "ptr"}),
                    )
                for name, bits in (("mask", _mask), ("runs", _runs)):

                    def masked(
                        w: Writer,
                        base: str,
                        m: str,
                        p: str,
                        e: str = element,
                        s: Shape = shape,
                        x: bool = scatter,
                        t: tuple[str, ...] = (pointer, mask, value),
                    ) -> list[str]:
                        at = pointers(w, base, e, s, x)
                        return [w.first(f"load_ptr_tko weak {at}, {m}, {p} : {', '.join(t)} -> {t[2]}, token")]

                    yield Row(
                        "load_ptr_tko",
                        f"{element} {shape} {where} {name}",
                        (memory, Input("i1", shape, 2, bits), Input(element, shape, 3)),
                        (Result(element, shape),),
                        masked,
                        elements=frozenset({element, "ptr"}),
                    )


def pointer_stores() -> Rows:
    for element in ADDRESSED:
        for shape in SHAPES:
            for scatter in (False, True) if prod(shape) > 1 else (False,):
                memory = Memory(element, BLOCKS * prod(shape), 5)
                value, pointer, mask = (tile(e, shape) for e in (element, f"ptr<{element}>", "i1"))
                where = "scattered" if scatter else "in order"
                covered = frozenset({element, "ptr"})
                for order in _STORES:

                    def plain(
                        w: Writer,
                        base: str,
                        v: str,
                        e: str = element,
                        s: Shape = shape,
                        x: bool = scatter,
                        o: str = order,
                        t: tuple[str, str] = (pointer, value),
                    ) -> list[str]:
                        w.let(f"store_ptr_tko {o} {pointers(w, base, e, s, x)}, {v} : {t[0]}, {t[1]} -> token")
                        return []

                    yield Row(
                        "store_ptr_tko",
                        f"{element} {shape} {where} {order}",
                        (memory, Input(element, shape)),
                        (),
                        plain,
                        elements=covered,
                    )
                for name, bits in (("mask", _mask), ("runs", _runs)):

                    def masked(
                        w: Writer,
                        base: str,
                        v: str,
                        m: str,
                        e: str = element,
                        s: Shape = shape,
                        x: bool = scatter,
                        t: tuple[str, ...] = (pointer, value, mask),
                    ) -> list[str]:
                        at = pointers(w, base, e, s, x)
                        w.let(f"store_ptr_tko weak {at}, {v}, {m} : {', '.join(t)} -> token")
                        return []

                    yield Row(
                        "store_ptr_tko",
                        f"{element} {shape} {where} {name}",
                        (memory, Input(element, shape), Input("i1", shape, 2, bits)),
                        (),
                        masked,
                        elements=covered,
                    )


# -- views ----------------------------------------------------------------------------------------------------------


class View:
    """A view type, the size of the array behind it, and the indices of the tile that each tile block accesses."""

    def __init__(
        self,
        name: str,
        kind: str,
        tile_shape: Shape,
        sizes: Shape,
        strides: Shape,
        extra: str = "",
        padded: bool = True,
    ):
        self.name, self.kind, self.tile_shape = name, kind, tile_shape
        self.sizes, self.strides, self.extra, self.padded = sizes, strides, extra, padded
        self.count = sum((n - 1) * s for n, s in zip(sizes, strides)) + 1
        # Whole bytes of 4-bit elements; words where rows begin in the middle of a byte, as words are accessed there.
        unit = 8 if any(s % 2 for s in strides if s != 1) else 2
        self.count += -self.count % unit
        self.sparse = kind == "gather_scatter_view"

    def tensor(self, element: str, dynamic: bool) -> str:
        sizes = ["?" if dynamic else str(n) for n in self.sizes]
        strides = ["?" if dynamic and s != 1 else str(s) for s in self.strides]
        return f"tensor_view<{'x'.join([*sizes, element])}, strides=[{','.join(strides)}]>"

    def make(self, w: Writer, base: str, element: str, padding: str, dynamic: bool) -> tuple[str, str]:
        """Write the ops that make the view; its name and type."""
        tensor = self.tensor(element, dynamic)
        sizes, strides = (
            [w.constant(n) if dynamic and n != 1 - is_size else str(n) for n in numbers]
            for is_size, numbers in ((1, self.sizes), (0, self.strides))
        )
        given = "tile<i32> -> " if dynamic else ""
        source = w.let(
            f"make_tensor_view {base}, shape = [{', '.join(sizes)}], strides = [{', '.join(strides)}] : {given}{tensor}"
        )
        dims, step, tail = "x".join(map(str, self.tile_shape)), "", self.extra
        if self.kind == "strided_view":
            step, tail = f"{self.extra}, ", ""
        pad = f"padding_value = {padding}, " if padding else ""
        tail = f", {tail}" if tail else ""
        type_ = f"{self.kind}<tile=({dims}), {step}{pad}{tensor}{tail}>"
        return w.let(f"make_{self.kind} {source} : {type_}"), type_

    def index(self, w: Writer) -> tuple[str, str]:
        """The indices of the tile block's tile, and the types that an access lists for them."""
        low = binary(w, "andi", w.block, w.constant(3), "i32", ())
        high = w.let(f"shri {w.block}, {w.constant(2)} unsigned : tile<i32>")
        if not self.sparse:
            names = [low, high, w.zero] if len(self.tile_shape) == 3 else [low, high][: len(self.tile_shape)]
            return ", ".join(names), "tile<i32>"
        count = self.tile_shape[0]
        numbers = w.let(f"iota : {tile('i32', (count,))}")
        thrice = binary(w, "muli", numbers, spread(w, w.constant(3), "i32", (count,)), "i32", (count,))
        rows = binary(w, "addi", thrice, spread(w, w.block, "i32", (count,)), "i32", (count,))
        column = w.let(f"muli {high}, {w.constant(5)} : tile<i32>")
        return f"{rows}, {column}", f"{tile('i32', (count,))}, tile<i32>"


VIEWS = (
    View("rows that end early", "partition_view", (4, 8), (13, 21), (21, 1)),
    View("whole tiles", "partition_view", (16, 32), (64, 64), (64, 1)),
    View("columns", "partition_view", (8, 4), (29, 8), (1, 30)),
    View("exchanged dimensions", "partition_view", (8, 4), (7, 30), (30, 1), "dim_map=[1, 0]"),
    View("three dimensions", "partition_view", (2, 4, 8), (7, 7, 10), (77, 11, 1)),
    View("a line", "partition_view", (128,), (450,), (1,)),
    View("overlapping tiles", "strided_view", (4, 8), (13, 21), (21, 1), "traversal_strides=[3,6]"),
    View("chosen rows", "gather_scatter_view", (8, 4), (25, 14), (14, 1), "sparse_dim=0"),
)


def view_loads() -> Rows:
    for view in VIEWS:
        for element in VIEWED:
            if element == "f4E2M1FN" and not _packs(view):
                continue
            paddings = ["zero"] if not ELEMENTS[element].is_float else ["zero", "neg_zero", "nan", "pos_inf", "neg_inf"]
            for padding in paddings:
                for dynamic in (False, True):
                    yield _view_load(view, element, padding, dynamic)


def _packs(view: View) -> bool:
    """Whether a view's tiles can be read in halves of bytes: any can with an inner stride of 1."""
    return 1 in view.strides and view.strides.count(1) == 1


def _view_load(view: View, element: str, padding: str, dynamic: bool) -> Row:
    def body(w: Writer, base: str) -> list[str]:
        name, type_ = view.make(w, base, element, padding, dynamic)
        index, types = view.index(w)
        value = tile(element, view.tile_shape)
        return [w.first(f"load_view_tko weak {name}[{index}] : {type_}, {types} -> {value}, token")]

    return Row(
        "load_view_tko",
        f"{element} {view.name} {padding}{' dynamic' if dynamic else ''}",
        (Memory(element, view.count),),
        (Result(element, view.tile_shape),),
        body,
        elements=frozenset({element}),
    )


def view_stores() -> Rows:
    for view in VIEWS:
        if view.name == "overlapping tiles" or view.sparse:
            continue  # blocks would write to the same elements: see `chosen_rows`
        for element in VIEWED:
            if element == "f4E2M1FN" and not _packs(view):
                continue
            for dynamic in (False, True):
                yield _view_store(view, element, dynamic)
    yield from chosen_rows()


def _view_store(view: View, element: str, dynamic: bool) -> Row:
    def body(w: Writer, base: str, value: str) -> list[str]:
        name, type_ = view.make(w, base, element, "", dynamic)
        index, types = view.index(w)
        w.let(
            f"store_view_tko weak {value}, {name}[{index}] : {tile(element, view.tile_shape)}, {type_}, {types} "
            "-> token"
        )
        return []

    return Row(
        "store_view_tko",
        f"{element} {view.name}{' dynamic' if dynamic else ''}",
        (Memory(element, view.count, 5), Input(element, view.tile_shape)),
        (),
        body,
        elements=frozenset({element}),
    )


def chosen_rows() -> Rows:
    """Stores to rows that are chosen one by one: tile block b writes b, b + 8, ..., of which some are missing."""
    for element in VIEWED:
        tensor = f"tensor_view<30x16x{element}, strides=[16,1]>"
        type_ = f"gather_scatter_view<tile=(4x8), {tensor}, sparse_dim=0>"

        def body(
            w: Writer, base: str, value: str, e: str = element, tensor: str = tensor, type_: str = type_
        ) -> list[str]:
            source = w.let(f"make_tensor_view {base}, shape = [30, 16], strides = [16, 1] : {tensor}")
            view = w.let(f"make_gather_scatter_view {source} : {type_}")
            numbers = w.let("iota : tile<4xi32>")
            eights = binary(w, "muli", numbers, spread(w, w.constant(8), "i32", (4,)), "i32", (4,))
            rows = binary(w, "addi", eights, spread(w, w.block, "i32", (4,)), "i32", (4,))
            w.let(
                f"store_view_tko weak {value}, {view}[{rows}, {w.constant(8)}] : {tile(e, (4, 8))}, {type_}, "
                "tile<4xi32>, tile<i32> -> token"
            )
            return []

        yield Row(
            "store_view_tko",
            f"{element} chosen rows",
            (Memory(element, 480, 5), Input(element, (4, 8))),
            (),
            body,
            elements=frozenset({element}),
        )


# -- atomics --------------------------------------------------------------------------------------------------------

_INTEGER_MODES = ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg")
MODES = {
    "i32": _INTEGER_MODES,
    "i64": _INTEGER_MODES,
    "f16": ("addf",),
    "bf16": ("addf",),
    "f32": ("addf", "xchg"),
    "f64": ("addf", "xchg"),
}
_ORDERS = ("relaxed device", "acquire tl_blk", "release sys", "acq_rel device")


def modifications() -> Rows:
    """Every mode on locations that only one element touches, with and without a mask; then on shared ones."""
    for element, modes in MODES.items():
        for mode in modes:
            for shape in ((), (8,), (512,), (4, 16)):
                for number, order in enumerate(_ORDERS):
                    yield _modification(element, mode, shape, order, masked=number % 2 == 1)
            if mode != "xchg":
                yield _shared(element, mode)


def _modification(element: str, mode: str, shape: Shape, order: str, masked: bool) -> Row:
    count = BLOCKS * prod(shape)
    value, pointer, mask = tile(element, shape), tile(f"ptr<{element}>", shape), tile("i1", shape)

    def body(w: Writer, base: str, x: str, *given: str) -> list[str]:
        at = pointers(w, base, element, shape, prod(shape) > 1)
        chosen, types = (f", {given[0]}", f", {mask}") if masked else ("", "")
        old = w.first(f"atomic_rmw_tko {order} {at}, {mode}, {x}{chosen} : {pointer}, {value}{types} -> {value}, token")
        # What is yielded where the mask is 0 is not defined.
        return [w.let(f"select {given[0]}, {old}, {x} : {mask}, {value}") if masked else old]

    inputs: tuple[Input | Memory, ...] = (Memory(element, count, 2), Input(element, shape, 3))
    if masked:
        inputs = (*inputs, Input("i1", shape, 2, _mask))
    return Row(
        "atomic_rmw_tko",
        f"{element} {mode} {shape} {order}{' masked' if masked else ''}",
        inputs,
        (Result(element, shape),),
        body,
        elements=frozenset({element, "ptr"}),
    )


def _shared(element: str, mode: str) -> Row:
    """All elements of all tile blocks modify four locations: the result does not depend on the order."""
    shape = (64,)
    value, pointer = tile(element, shape), f"ptr<{element}>"

    def body(w: Writer, base: str, x: str) -> list[str]:
        numbers = w.let(f"iota : {tile('i32', shape)}")
        four = binary(w, "andi", numbers, spread(w, w.constant(3), "i32", shape), "i32", shape)
        bases = spread(w, base, pointer, shape)
        at = w.let(f"offset {bases}, {four} : {tile(pointer, shape)}, {tile('i32', shape)} -> {tile(pointer, shape)}")
        w.first(f"atomic_rmw_tko relaxed device {at}, {mode}, {x} : {tile(pointer, shape)}, {value} -> {value}, token")
        return []

    whole = small(element, 3) if ELEMENTS[element].is_float else None
    start = small(element, 4) if ELEMENTS[element].is_float else None
    return Row(
        "atomic_rmw_tko",
        f"{element} {mode} shared",
        (Memory(element, 4, 2, start), Input(element, shape, 3, whole)),
        (),
        body,
        elements=frozenset({element, "ptr"}),
    )


def swaps() -> Rows:
    for element in ("i32", "i64", "f32", "f64"):
        for shape in ((), (8,), (512,), (4, 16)):
            for number, order in enumerate(_ORDERS):
                yield _swap(element, shape, order, masked=number % 2 == 1)


def _swap(element: str, shape: Shape, order: str, masked: bool) -> Row:
    count = BLOCKS * prod(shape)
    value, pointer, mask = tile(element, shape), tile(f"ptr<{element}>", shape), tile("i1", shape)
    held = pool(element, count, 2)

    def compared(n: int) -> np.ndarray:
        """What the locations hold, in every other element."""
        return np.where(np.arange(n) % 2 == 0, held, pool(element, n, 3))

    def body(w: Writer, base: str, old: str, new: str, *given: str) -> list[str]:
        at = pointers(w, base, element, shape, False)
        chosen, types = (f", {given[0]}", f", {mask}") if masked else ("", "")
        return [
            w.first(f"atomic_cas_tko {order} {at}, {old}, {new}{chosen} : {pointer}, {value}{types} -> {value}, token")
        ]

    inputs: tuple[Input | Memory, ...] = (
        Memory(element, count, 2, lambda n: held.copy()),
        Input(element, shape, 3, compared),
        Input(element, shape, 5),
    )
    if masked:
        inputs = (*inputs, Input("i1", shape, 2, _mask))
    return Row(
        "atomic_cas_tko",
        f"{element} {shape} {order}{' masked' if masked else ''}",
        inputs,
        (Result(element, shape),),
        body,
        elements=frozenset({element, "ptr"}),
    )


def view_reductions() -> Rows:
    for element, modes in MODES.items():
        for mode in modes:
            if mode == "xchg":
                continue
            for view in VIEWS:
                if view.sparse:
                    continue
                for scope in ("tl_blk", "device"):
                    if scope == "tl_blk" and view.name == "overlapping tiles":
                        continue  # tile blocks share elements
                    yield _view_reduction(element, mode, view, scope)


def _view_reduction(element: str, mode: str, view: View, scope: str) -> Row:
    def body(w: Writer, base: str, value: str) -> list[str]:
        name, type_ = view.make(w, base, element, "", False)
        index, types = view.index(w)
        w.let(
            f"atomic_red_view_tko relaxed {scope} {name}[{index}], {mode}, {value} : "
            f"{tile(element, view.tile_shape)}, {type_}, {types} -> token"
        )
        return []

    # Sums of several tile blocks must not depend on the order.
    whole = (small(element, 3), small(element, 4)) if ELEMENTS[element].is_float else (None, None)
    return Row(
        "atomic_red_view_tko",
        f"{element} {mode} {view.name} {scope}",
        (Memory(element, view.count, 2, whole[0]), Input(element, view.tile_shape, 3, whole[1])),
        (),
        body,
        elements=frozenset({element}),
    )


# -- multicast objects ----------------------------------------------------------------------------------------------

_REDUCTIONS = ("add", "min", "max", "and", "or", "xor", "umin", "umax")
_LOAD_REDUCED = {
    "i32": _REDUCTIONS, "i64": _REDUCTIONS, "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"),
    "f32": ("add",), "f64": ("add",),
}  # fmt: skip
_MULTICAST_SIZES: Shape = (13, 64)
_MULTICAST_TILE: Shape = (4, 16)


def multicast(op: str) -> Rows:
    """Accesses to an object of one device, the tile at the lower edge cut off."""
    for element, reductions in _LOAD_REDUCED.items():
        if op == "multimem_store_view_tko":
            reductions = ("",)
        elif op == "multimem_reduce_view_tko":
            reductions = tuple(r for r in reductions if r == "add" or element.startswith("i"))
        for reduction in reductions:
            yield _multicast(op, element, reduction)


def _multicast(op: str, element: str, reduction: str) -> Row:
    shape, sizes = _MULTICAST_TILE, _MULTICAST_SIZES
    tensor = f"tensor_view<{sizes[0]}x{sizes[1]}x{element}, strides=[{sizes[1]},1], #cuda_tile.ptr_attr<multicast>>"
    padded = "padding_value = zero, " if op == "multimem_load_reduce_view_tko" else ""
    type_, value = f"partition_view<tile=(4x16), {padded}{tensor}>", tile(element, shape)
    kind = f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{reduction}>}} " if reduction else ""

    def body(w: Writer, base: str, *given: str) -> list[str]:
        source = w.let(
            f"make_tensor_view {base}, shape = {list(sizes)}, strides = [{sizes[1]}, 1] : "
            f"tile<ptr<{element}, <multicast>>> -> {tensor}"
        )
        view = w.let(f"make_partition_view {source} : {type_}")
        low = binary(w, "andi", w.block, w.constant(3), "i32", ())
        high = w.let(f"shri {w.block}, {w.constant(2)} unsigned : tile<i32>")
        if not given:
            return [w.first(f"{op} relaxed device {view}[{low}, {high}] {kind}: {type_}, tile<i32> -> {value}, token")]
        order = "relaxed device" if reduction else "weak"
        w.let(f"{op} {order} {view}, {given[0]}[{low}, {high}] {kind}: {type_}, {value}, tile<i32> -> token")
        return []

    whole = (small(element, 3), small(element, 4)) if ELEMENTS[element].is_float else (None, None)
    memory = Memory(element, prod(sizes), 2, whole[0], multicast=True)
    inputs = (memory,) if padded else (memory, Input(element, shape, 3, whole[1]))
    results = (Result(element, shape),) if padded else ()
    return Row(op, f"{element} {reduction}", inputs, results, body, elements=frozenset({element}), feature="multimem")


TABLE: dict[str, Callable[[], Rows]] = {
    "load_ptr_tko": pointer_loads,
    "store_ptr_tko": pointer_stores,
    "load_view_tko": view_loads,
    "store_view_tko": view_stores,
    "atomic_rmw_tko": modifications,
    "atomic_cas_tko": swaps,
    "atomic_red_view_tko": view_reductions,
    **{
        f"multimem_{name}_view_tko": (lambda name=name: multicast(f"multimem_{name}_view_tko"))  # type: ignore[misc]
        for name in ("load_reduce", "reduce", "store")
    },
}
