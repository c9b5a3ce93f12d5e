# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`reduce` and `scan`: the body is a function of scalars, run on whole tiles where its ops allow it.

Every dimension is a power of two, so a reduction combines neighbours pairwise until one is left: log2(n) runs of the
body, any associative function, and for floats the error of a balanced tree. The body's arguments come in pairs, one
pair for each operand: what was accumulated first, what follows it second (in a reverse scan, what stands before it).
The prose of the specification has them the other way round; this is what compiled programs do. Nor do these combine
an identity with the first element: a running sum that starts with -0.0 starts with -0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.dialects.cuda_tile.types import TileType
from libtile.interpreter.formats import Array, element
from libtile.interpreter.rules import Run, Site, combine_masks, flatten, pure


def _reduced_mask(site: Site) -> Any:
    dim = site.attr("dim")

    def mask(values: tuple, masks: tuple) -> Any:
        flat = [m.any(axis=dim) for m in flatten(masks) if m is not None]
        return combine_masks(tuple(flat), flat[0].shape)

    return mask


def _scanned_mask(site: Site) -> Any:
    dim, reverse = site.attr("dim"), site.attr("reverse")

    def mask(values: tuple, masks: tuple) -> Any:
        union = combine_masks(flatten(masks), flatten(values)[0].shape)
        if reverse:
            union = np.flip(union, dim)
        union = np.logical_or.accumulate(union, axis=dim)
        return np.flip(union, dim) if reverse else union

    return mask


def _on_arrays(site: Site) -> Callable[[Run, tuple[Array, ...]], tuple[Array, ...]]:
    """Runs the body on arrays of equal shape: at once, or element by element when its ops need scalars."""
    elements = [element(v.type) for v in site.op.operands]

    def at_once(body: Run, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
        shape = arguments[0].shape
        return tuple(np.broadcast_to(r, shape) for r in body(*arguments))

    def one_by_one(body: Run, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
        shape = arguments[0].shape
        results = tuple(np.empty(shape, e.dtype) for e in elements)
        for index in np.ndindex(shape):
            for result, value in zip(results, body(*(a[index] for a in arguments))):
                result[index] = value
        return results

    return at_once if site.body_is_elementwise else one_by_one


def _interleave(first: tuple[Array, ...], second: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(x for pair in zip(first, second) for x in pair)


def along(arrays: tuple[Array, ...], dim: int, part: Any) -> tuple[Array, ...]:
    """Parts of arrays along a dimension."""
    index = (slice(None),) * dim + (part,)
    return tuple(a[index] for a in arrays)


@pure("reduce", undefined=_reduced_mask, elementwise=False)
def reduce(site: Site) -> Run:
    dim, apply = site.attr("dim"), _on_arrays(site)

    def run(body: Run, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        current = tuple(np.asarray(o) for o in operands)
        while current[0].shape[dim] > 1:
            left = along(current, dim, slice(0, None, 2))
            right = along(current, dim, slice(1, None, 2))
            current = apply(body, _interleave(left, right))
        return tuple(c.squeeze(dim)[()] for c in current)

    return run


@pure("scan", undefined=_scanned_mask, elementwise=False)
def scan(site: Site) -> Run:
    dim, reverse, apply = site.attr("dim"), site.attr("reverse"), _on_arrays(site)
    types = [v.type for v in site.op.operands]
    elements = [element(t) for t in types]
    shape = types[0].shape if isinstance(types[0], TileType) else ()
    order = range(shape[dim] - 1, -1, -1) if reverse else range(shape[dim])

    def run(body: Run, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        results = tuple(np.empty(shape, e.dtype) for e in elements)
        accumulated: tuple[Array, ...] = ()
        for position in order:
            following = tuple(np.asarray(o) for o in along(operands, dim, position))
            accumulated = apply(body, _interleave(accumulated, following)) if accumulated else following
            for target, value in zip(along(results, dim, slice(position, position + 1)), accumulated):
                target[...] = np.expand_dims(value, dim)
        return results

    return run
