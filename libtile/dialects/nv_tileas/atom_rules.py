# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an atom, a shuffle and a delayed wait have to fit: layouts, warps, and the uses of a buffer."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.attributes import SHARED_LOAD_KINDS, SHARED_STORE_KINDS, TRANS, CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.tile_form import TileOp, element_of, layout_of, shape_of, type_text
from libtile.layouts import REGISTER, WARP
from libtile.numerics.elements import STORAGE_BYTES, memory_bits

BY_THREADS = ("ldg", "stg", "ldgsts", "lds", "sts")
"""Atoms whose bits are what one thread moves."""


MAX_BITS = 128
"""The most that one instruction of a thread moves."""


def element_bits(type_: Attribute) -> int:
    """Bits that an element of a tile takes in memory."""
    element = element_of(type_)
    return memory_bits("ptr" if isinstance(element, PtrType) else NUMBER_NAMES[element])


def check_atom_width(atom: CopyAtomAttr | None, type_: Attribute) -> None:
    """A thread moves by one instruction whole elements along a dimension of the tile, and no more of them than the
    layout gives it; VerifyException."""
    if atom is None or not atom.bits:
        return
    bits, layout = element_bits(type_), layout_of(type_)
    if atom.dim is not None:
        _check_dimension(atom, bits, shape_of(type_))
    if atom.kind not in BY_THREADS or not isinstance(layout, LayoutAttr):
        return
    held = bits * (layout.layout.in_size(REGISTER) if REGISTER in dict(layout.layout.bases) else 1)
    if atom.bits > held:
        raise VerifyException(
            f"expects an atom of at most {held} bits, which a thread has of {type_text(type_)}, but got {atom.bits}"
        )


def check_shared_atom(atom: CopyAtomAttr, type_: Attribute, *, loads: bool) -> None:
    """An atom that moves a tile in registers from or to shared memory: of that direction, and of whole elements, no
    more of them than a thread has; VerifyException."""
    kinds = SHARED_LOAD_KINDS if loads else SHARED_STORE_KINDS
    if atom.kind not in kinds:
        raise VerifyException(f"expects an atom that is one of {', '.join(kinds)}, but got {atom.kind}")
    if not atom.bits:
        return
    element, layout = element_of(type_), layout_of(type_)
    bits = 8 * STORAGE_BYTES["ptr" if isinstance(element, PtrType) else NUMBER_NAMES[element]]
    most = MAX_BITS
    if isinstance(layout, LayoutAttr):
        most = min(most, bits * layout.layout.in_size(REGISTER))
    if atom.bits % bits or atom.bits & (atom.bits - 1) or not bits <= atom.bits <= most:
        raise VerifyException(
            f"expects an atom of a power of two of elements of {bits} bits, at most {most} bits, but got {atom.bits}"
        )
    if atom.mode not in (None, TRANS) or (atom.mode and atom.kind not in ("ldmatrix", "stmatrix")):
        raise VerifyException(f"expects no mode, or {TRANS} of matrices, but got {atom.mode}")


def check_tensor_atom(atom: CopyAtomAttr, type_: Attribute, *, loads: bool) -> None:
    """An atom that moves a tile in registers from or to tensor memory: of that direction, and for fragments
    (16x256b) in their layout; VerifyException."""
    from libtile.atoms import tcgen05

    kind = "tcgen05_ld" if loads else "tcgen05_st"
    if atom.kind != kind:
        raise VerifyException(f"expects an atom that is {kind}, but got {atom.kind}")
    layout = layout_of(type_)
    if atom.bits != tcgen05.FRAGMENT_BITS or not isinstance(layout, LayoutAttr):
        return
    shape = shape_of(type_)
    try:
        wanted = tcgen05.register_layout(shape, 1 << len(layout.layout.basis(WARP)))
    except ValueError as problem:
        raise VerifyException(f"expects a tile that warps load as fragments: {problem}") from None
    if layout.layout != wanted:
        raise VerifyException(f"expects a tile in the layout {LayoutAttr(wanted).body()}, but got {layout}")


def _check_dimension(atom: CopyAtomAttr, bits: int, shape: tuple[int, ...]) -> None:
    assert atom.dim is not None
    if atom.dim >= len(shape):
        raise VerifyException(f"expects dim of the atom in range 0 to {len(shape) - 1}, but got {atom.dim}")
    count = atom.bits // bits
    if atom.bits % bits or count & (count - 1) or not 0 < count <= shape[atom.dim] or atom.bits > MAX_BITS:
        raise VerifyException(
            f"expects bits of the atom for a power of two of elements of {bits} bits, at most {MAX_BITS} bits and "
            f"{shape[atom.dim]} elements, but got {atom.bits}"
        )


def check_masked(masked: Attribute | None, type_: Attribute) -> None:
    """The dimensions that are compared with the tensor's size are some of the tile's, in order; VerifyException."""
    dims = list(integers_of(masked))
    if dims != sorted(set(dims)) or any(not 0 <= d < len(shape_of(type_)) for d in dims):
        raise VerifyException(f"expects dimensions of the tile as 'masked', in order, but got {dims}")


def check_same_warps(source: Attribute, result: Attribute) -> None:
    """Every element stays in its warp; VerifyException."""
    layouts = [layout_of(source), layout_of(result)]
    warps = [dict(lay.layout.bases).get(WARP, ()) for lay in layouts if isinstance(lay, LayoutAttr)]
    if len(warps) == 2 and warps[0] != warps[1]:
        raise VerifyException("expects layouts whose elements stay in their warps")


WRITES = ("nv_tileas.copy", "nv_tileas.async.load", "nv_tileas.async.tiled_load", "nv_tileas.async.tiled_tma_load",
          "nv_tileas.async.gather_tma_load", "nv_tileas.insert_slice")  # fmt: skip


def check_delayed_wait(op: TileOp, buffer: SSAValue, token: SSAValue) -> None:
    """Between a store out of a buffer and the wait for it, nothing writes the buffer; VerifyException."""
    ends = _waits(token)
    at = op.next_op
    while at is not None and at not in ends:
        if at.name in WRITES and _writes(at, buffer):
            raise VerifyException(f"expects a wait before '{at.name}' writes the buffer that is stored")
        at = at.next_op


def _waits(token: SSAValue) -> set[Operation]:
    """The waits for a copy, or for the groups that it is in."""
    found: set[Operation] = set()
    for use in token.uses:
        if use.operation.name == "nv_tileas.async.wait":
            found.add(use.operation)
        elif use.operation.name == "nv_tileas.async.commit_group":
            found |= _waits(use.operation.results[0])
    return found


def _writes(op: Operation, buffer: SSAValue) -> bool:
    source_first = op.name == "nv_tileas.copy"
    return any(v is buffer for v in (op.operands[1:] if source_first else op.operands))
