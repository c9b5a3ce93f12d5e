# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What analysis would know of accesses to views that tests make without a module, and how it would cut them."""

from __future__ import annotations

from typing import Any

from libtile.codegen.tiled_views import Accesses, TiledView
from libtile.layouts import LinearLayout
from libtile.lowering.tileas.copies.view_accesses import ViewAccess


def known(tiled: TiledView, **facts: Any) -> ViewAccess:
    """An access to a view, of which these facts are known beside its constants."""
    view = tiled.view
    return ViewAccess(
        view.element, tiled.tile, tiled.steps, tiled.dims,
        tuple(v.constant for v in view.shape), tuple(v.constant for v in view.strides), tiled.sparse, **facts,
    )  # fmt: skip


def accesses(tiled: TiledView, layout: LinearLayout, *, narrow: bool = False, **facts: Any) -> Accesses:
    """How a load or store of the view's tile is cut into accesses."""
    view = known(tiled, **facts)
    return Accesses(view.contiguous or 0, view.moved_width(layout), view.masked, narrow)
