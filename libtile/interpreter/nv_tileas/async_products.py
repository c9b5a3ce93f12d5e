# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products that are under way until a wait: done at once here, and a wait hands on what it is given. That nothing under
way is used before is the verifier's to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, effect, pure
from libtile.interpreter.nv_tileaa.collectives import dot, product_into
from libtile.interpreter.nv_tileas.buffers import Buffer


@pure("nv_tileas.async.dot")
def async_dot(site: Site) -> Run:
    product = dot(site)
    row, column, depth = (int(site.attr(name) or 0) for name in ("first_row", "first_column", "first_depth"))

    def run(a: Any, b: Any, c: Array, ahead: Sequence[Array]) -> Array:
        left, right = (_matrix(v).read() if isinstance(v, Buffer) else v for v in (a, b))
        left, rows = left[..., row : row + c.shape[-2], :], slice(depth, depth + left.shape[-1])
        return product(left, right[..., rows, column : column + c.shape[-1]], c)

    return run


def _matrix(buffer: Buffer) -> Buffer:
    """An operand without its dimensions of size 1."""
    return buffer.reshaped(tuple(n for n in buffer.data.shape if n != 1))


@pure("nv_tileas.wait_dot")
def wait_dot(site: Site) -> Run:
    return lambda accumulators, reads, pins: (*accumulators, *pins)


@effect("nv_tileas.async.dot_into")
def async_dot_into(site: Site) -> Run:
    product = product_into(site, site.element("d"))
    if site.shape("b")[-1] != site.shape("d")[-1]:
        raise Fault(FaultKind.UNSUPPORTED, "a product of a pair of CTAs")

    def run(block: Any, a: Buffer, b: Buffer, d: Buffer, accumulate: Any, sfa: Any, sfb: Any) -> tuple:
        if sfa is not None or sfb is not None:
            raise Fault(FaultKind.UNSUPPORTED, "a product with scale factors in tensor memory")
        before = d.read() if accumulate else np.zeros(d.data.shape, d.data.dtype)
        d.write(product(a.read(), b.read(), before))
        return ()

    return run


@effect("nv_tileas.dealloc_tensor")
def dealloc_tensor(site: Site) -> Run:
    """Nothing is left to use it."""
    return lambda block, storage: ()
