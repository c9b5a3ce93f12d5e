# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile views as `nv_tileaa.tiled_view`s: how tiles lie on the memory behind them."""

from __future__ import annotations

from libtile.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TileViewType,
)
from libtile.dialects.nv_tileaa.attributes import TilingAttr


def tiling_of(view: TileViewType) -> TilingAttr:
    """The tiling attribute of a cuda_tile view."""
    match view:
        case PartitionViewType():
            return TilingAttr(dim_map=view.dim_map, padding=view.padding_value)
        case StridedViewType():
            return TilingAttr(
                dim_map=view.dim_map, traversal_strides=view.traversal_strides, padding=view.padding_value
            )
        case GatherScatterViewType():
            return TilingAttr(sparse_dim=view.sparse_dim, padding=view.padding_value)
    raise TypeError(f"unknown kind of view: {type(view).__name__}")
