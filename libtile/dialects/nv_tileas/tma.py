# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous copies and TMA of nv_tileas."""

from __future__ import annotations

from libtile.dialects.tile_form import TileOp

__all__ = ["TileOp"]
