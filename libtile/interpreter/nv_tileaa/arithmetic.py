# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise arithmetic of nv_tileaa: what Tile IR has under the same names, clamps and high halves of products."""

from __future__ import annotations

import numpy as np

from libtile.dialects.nv_tileaa.arithmetic import ROWS
from libtile.interpreter.floating import flushing
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, made_by, pure, same
from libtile.interpreter.integer import signed, wrap
from libtile.spec import default_spec

SAME = tuple(name for name in ROWS if name in default_spec().ops)
"""The ops that Tile IR has under the same name, with the same meaning."""
for _name in SAME:
    same(f"nv_tileaa.{_name}", _name)
same("nv_tileaa.mulhiui", "mulhii")


@pure("nv_tileaa.clampf", elementwise=True)
def clampf(site: Site) -> Run:
    """min(max(source, lower), upper)."""
    larger, smaller = (made_by(name)(site) for name in ("maxf", "minf"))
    return flushing(site, site.element("result"), lambda x, low, high: smaller(larger(x, low), high))


@pure("nv_tileaa.mulhisi", elementwise=True)
def mulhisi(site: Site) -> Run:
    """The high half of the signed product: the unsigned one less each operand where the other is negative."""
    elem = site.element("result")
    high = made_by("mulhii")(site)

    def run(lhs: Array, rhs: Array) -> Array:
        zero = np.zeros_like(lhs)
        left, right = np.asarray(signed(lhs, elem)) < 0, np.asarray(signed(rhs, elem)) < 0
        return wrap(high(lhs, rhs) - np.where(left, rhs, zero) - np.where(right, lhs, zero), elem)

    return run
