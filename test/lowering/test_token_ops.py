# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every access of nv_tileas says what memory it is of: passes ask for nothing else to know what tokens order."""

from libtile.dialects import nv_tileas  # noqa: F401  (its ops are in OP_CLASSES)
from libtile.dialects.effect_traits import names_memory
from libtile.dialects.nv_tileaa.memory import MemoryOp
from libtile.ir.tile_form import OP_CLASSES


def test_barriers_are_looked_for_between_all_accesses_of_nv_tileas():
    memory = [cls for name, cls in OP_CLASSES.items() if name.startswith("nv_tileas.") and issubclass(cls, MemoryOp)]
    assert len(memory) > 5 and all(names_memory(cls) for cls in memory)
