# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atoms of copies between registers and shared memory: those of vectors (`lds`, `sts`) and of matrices (`ldmatrix`,
`stmatrix`, transposed with the mode `trans`), with the bits that a thread's instruction moves."""

from __future__ import annotations

from libtile.codegen.conversion_plan import reduced
from libtile.codegen.shared_tiles import MATRIX, TRANSPOSED, VECTOR, SharedAccess, accesses
from libtile.dialects.nv_tileas.attributes import TRANS, CopyAtomAttr
from libtile.layouts import LinearLayout
from libtile.lowering.tileas.exchange_sizes import Kernel


def stored_by(layout: LinearLayout, shared: LinearLayout, element_bytes: int, kernel: Kernel) -> CopyAtomAttr:
    """The cheapest way to store a tile of elements of so many bytes in a layout to one in shared memory."""
    found = accesses(reduced(layout, kernel.warp_bits), shared, element_bytes, kernel.gpu.has("stmatrix"), storing=True)
    return _atom(found.instruction(element_bytes), "sts", "stmatrix")


def loaded_by(layout: LinearLayout, shared: LinearLayout, element_bytes: int, kernel: Kernel) -> CopyAtomAttr:
    """The cheapest way to load a tile of elements of so many bytes in a layout from one in shared memory."""
    found = accesses(
        reduced(layout, kernel.warp_bits), shared, element_bytes, kernel.gpu.has("ldmatrix"), storing=False
    )
    return _atom(found.instruction(element_bytes), "lds", "ldmatrix")


def _atom(access: SharedAccess, vector: str, matrix: str) -> CopyAtomAttr:
    kind, mode = vector if access.kind == VECTOR else matrix, TRANS if access.kind == TRANSPOSED else None
    return CopyAtomAttr(kind, 8 * access.bytes, mode=mode)


def access_of(atom: CopyAtomAttr) -> SharedAccess:
    """The instruction that an atom names."""
    kind = VECTOR if atom.kind in ("lds", "sts") else TRANSPOSED if atom.mode == TRANS else MATRIX
    return SharedAccess(kind, atom.bits // 8)
