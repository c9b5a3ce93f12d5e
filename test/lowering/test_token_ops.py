# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The passes of nv_tileas know every op that tokens order."""

from libtile.dialects import nv_tileas  # noqa: F401  (its ops are in OP_CLASSES)
from libtile.dialects.nv_tileaa.memory import MemoryOp
from libtile.ir.tile_form import OP_CLASSES
from libtile.lowering.tileas.barriers import ACCESSES


def test_barriers_are_looked_for_between_all_accesses_of_nv_tileas():
    memory = {cls for name, cls in OP_CLASSES.items() if name.startswith("nv_tileas.") and issubclass(cls, MemoryOp)}
    assert len(memory) > 5 and not memory - ACCESSES
