# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products, reductions, scans and histograms; those of nv_tileas mean the same.

A reduction combines neighbours pairwise, which any associative function may be: in the order that the interpreter of
Tile IR takes, so that the two give the same bits. The region's arguments are, for all tiles first, what has been
accumulated, and then what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from libtile.interpreter.formats import Array, Element, element
from libtile.interpreter.inner_rules import Run, Site, pure
from libtile.interpreter.integer import signed, unsigned, wrap
from libtile.interpreter.math_functions import through_f64
from libtile.interpreter.reduce_scan import along
from libtile.ir.operands import sources_of
from libtile.ir.tile_form import TileOp, element_of, shape_of


def _scaled(tile: Array, scales: Array | None, axis: int) -> Array:
    """A factor times its scales, each of which holds for a block along K."""
    if scales is None:
        return tile
    times = np.shape(tile)[axis] // np.shape(scales)[axis]
    return tile * np.repeat(np.float64(scales), times, axis=axis)


@pure("nv_tileaa.dot", "nv_tileas.dot", "nv_tileaa.scaled_dot", "nv_tileas.scaled_dot")
def dot(site: Site) -> Run:
    """A * B + C: sums of floats in f64, rounded once; sums of integers are exact and wrap around."""
    return product_into(site, site.element("result"))


def product_into(site: Site, result: Element) -> Run:
    """The product of an op, whose results are elements of this type."""
    if result.is_integer:
        return _integer_dot(site, result)

    packed = site.attr("packed") is not None

    def product(a: Array, b: Array, c: Array, sfa: Array | None = None, sfb: Array | None = None) -> Array:
        if packed:
            a, b = _unpacked(a, -1), _unpacked(b, -2)
        return np.matmul(_scaled(a, sfa, -1), _scaled(b, sfb, -2)) + c

    rounded = through_f64(product, result)

    def run(a: Array, b: Array, c: Array, sfa: Array | None = None, sfb: Array | None = None) -> Array:
        return rounded(a, b, c) if sfa is None else rounded(a, b, c, sfa, sfb)

    return run


def _unpacked(tile: Array, axis: int) -> Array:
    """The two numbers of 4 bits that each byte holds, side by side along an axis."""
    codes = np.asarray(tile).astype(np.uint8)
    halves = np.stack([codes & 15, codes >> 4], axis=-1).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    moved = np.moveaxis(halves, axis - 1, -2)
    return np.moveaxis(moved.reshape(*moved.shape[:-2], -1), -1, axis)


def _integer_dot(site: Site, result: Element) -> Run:
    def reading(name: str) -> Callable[[Array], Array]:
        elem, read = site.element(name), signed if site.attr(f"signedness_{name}") == "signed" else unsigned
        return lambda value: np.asarray(read(value, elem))

    left, right = reading("a"), reading("b")

    def run(a: Array, b: Array, c: Array, sfa: None = None, sfb: None = None) -> Array:
        wide: Any = np.float64 if site.element("a").width <= 8 else object  # products of bytes are exact in f64
        total = np.matmul(left(a).astype(wide), right(b).astype(wide))
        return wrap((total.astype(np.int64) if wide is np.float64 else total) + c, result)

    return run


def _on_arrays(site: Site, elements: list[Element]) -> Callable[[Run, tuple[Array, ...]], tuple[Array, ...]]:
    """Runs the region on arrays of one shape: at once, or element by element when its ops need scalars."""

    def at_once(body: Run, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(np.broadcast_to(r, arguments[0].shape) for r in body(*arguments))

    def one_by_one(body: Run, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
        results = tuple(np.empty(arguments[0].shape, e.dtype) for e in elements)
        for index in np.ndindex(arguments[0].shape):
            for result, value in zip(results, body(*(a[index] for a in arguments))):
                result[index] = value
        return results

    return at_once if site.body_is_elementwise else one_by_one


def _elements(site: Site) -> list[Element]:
    assert isinstance(site.op, TileOp)
    return [element(element_of(v.type)) for v in site.op.group("inputs")]


@pure("nv_tileaa.reduce", "nv_tileas.reduce")
def reduce(site: Site) -> Run:
    dim, apply = site.attr("dim"), _on_arrays(site, _elements(site))

    def run(body: Run, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        current = tuple(np.asarray(i) for i in inputs)
        while current[0].shape[dim] > 1:
            first, second = (along(current, dim, slice(start, None, 2)) for start in (0, 1))
            current = apply(body, first + second)
        return tuple(c.squeeze(dim)[()] for c in current)

    return run


@pure("nv_tileaa.scan", "nv_tileas.scan")
def scan(site: Site) -> Run:
    elements = _elements(site)
    dim, reverse, apply = site.attr("dim"), site.attr("reverse"), _on_arrays(site, elements)
    shape = shape_of(sources_of(site.op)[0].type)
    order = range(shape[dim] - 1, -1, -1) if reverse else range(shape[dim])

    def run(body: Run, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        results = tuple(np.empty(shape, e.dtype) for e in elements)
        accumulated: tuple[Array, ...] = ()
        for position in order:
            following = tuple(np.asarray(i) for i in along(inputs, dim, position))
            accumulated = apply(body, accumulated + following) if accumulated else following
            for target, value in zip(along(results, dim, slice(position, position + 1)), accumulated):
                target[...] = np.expand_dims(value, dim)
        return results

    return run


@pure("nv_tileaa.histogram")
def histogram(site: Site) -> Run:
    elem, result = site.element("source"), site.element("result")
    (size,) = site.shape("result")

    def run(source: Array) -> Array:
        numbers = np.asarray(signed(source, elem)).reshape(-1).astype(np.int64)
        counted = numbers[(numbers >= 0) & (numbers < size)]
        return wrap(np.bincount(counted, minlength=size), result)

    return run
