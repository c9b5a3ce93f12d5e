# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory ops of nv_tileas: those of nv_tileaa with layouts in their types and an atom that says how they are done."""

from __future__ import annotations

from xdsl.irdl import opt_prop_def

from libtile.dialects.nv_tileaa.attributes import PaddingValueAttr
from libtile.dialects.nv_tileaa.memory import AtomicRmw, Load, Store
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.tile_form import tile_op


@tile_op
class LoadOp(Load):
    """Reads memory through pointers, by an atom."""

    name = "nv_tileas.load"
    atom = opt_prop_def(CopyAtomAttr)


@tile_op
class StoreOp(Store):
    """Writes memory through pointers, by an atom."""

    name = "nv_tileas.store"
    atom = opt_prop_def(CopyAtomAttr)


@tile_op
class TiledLoadOp(Load):
    """Reads a tile of a view, by an atom."""

    name = "nv_tileas.tiled_load"
    atom = opt_prop_def(CopyAtomAttr)


@tile_op
class TiledStoreOp(Store):
    """Writes a tile of a view, by an atom."""

    name = "nv_tileas.tiled_store"
    atom = opt_prop_def(CopyAtomAttr)
    padding_value = opt_prop_def(PaddingValueAttr)


@tile_op
class TiledAtomicRmwOp(AtomicRmw):
    """Combines a tile of a view with a tile, by an atom."""

    name = "nv_tileas.tiled_atomic_rmw"
    atom = opt_prop_def(CopyAtomAttr)
